"""The commands of a shell: `tablestore sql`, `cdc`, `tier`, `doctor` and `open`, one folder each.

`options.py` of a folder says how its command is called and imports next to nothing, so that `--help` is fast.
`command.py` carries it out: `main(options) -> exit code`. `commands.py` knows them all; `tablestore` and a
checkout's `./workbench` call it.
"""
