"""What `./workbench` has beside the commands of `tablestore.cli`: one module a verb, each with
`main(arguments) -> exit code`.
"""
