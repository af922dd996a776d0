"""The code behind `./workbench`: one module a verb, each with `main(arguments) -> exit code`."""
