"""Dispatch: a verb to its module, a command of the package to `tablestore.cli`, anything else to a program of
the environment.

A verb's module is imported only when it is asked for, so `clean` runs without the environment and a
slow import delays nobody else. Of a verb with a module of options these come first: its help needs no
more. Called by `workbench`.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from notebooks.cli.lab import lab_environment
from notebooks.cli.places import CHECKOUT
from notebooks.demo import sql_connectors
from tablestore.cli.commands import run

OWN = ("demo", "cluster", "soak", "lab", "docs", "test", "bench", "doctor", "clean")
"""The verbs with a module here; `doctor` looks at the checkout, too."""
PASSING_ON = ("test",)
"""The verbs whose other options are those of another program."""
VERBS = (
    "demo",
    "cluster",
    "soak",
    "lab",
    "open",
    "sql",
    "cdc",
    "tier",
    "maintain",
    "docs",
    "test",
    "bench",
    "doctor",
    "clean",
)


def main(arguments: list[str]) -> int:
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        return run_program(verb, rest)
    if verb not in OWN:
        return run_command(verb, rest)
    module = f"notebooks.cli.{verb}"
    if importlib.util.find_spec(module) is None:
        print(f"workbench: `{verb}` is not part of this checkout", file=sys.stderr)
        return 2
    if importlib.util.find_spec(f"{module}_options") is not None:  # ends here after --help and for wrong ones
        parser = importlib.import_module(f"{module}_options").parser()
        parser.parse_known_args(rest) if verb in PASSING_ON else parser.parse_args(rest)
    return int(importlib.import_module(module).main(rest))


def run_command(name: str, arguments: list[str]) -> int:
    """Carry out a command of the package, with what the checkout adds: connectors of its data sets to SQL,
    its extension and its packages to JupyterLab."""
    if name == "sql":
        sql_connectors.provide()
    if name == "open":
        os.environ.update(lab_environment(os.environ.get("PYTHONPATH", "")))
    return run(name, arguments, CHECKOUT)


def run_program(name: str, arguments: list[str]) -> int:
    """Become the environment's program `name`; 127 and the nearest verb if there is none."""
    programs = Path(sys.prefix) / "bin"
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.environ["VIRTUAL_ENV"] = sys.prefix
    program = shutil.which(name, path=str(programs))
    if program is None:
        near = difflib.get_close_matches(name, (*VERBS, "python"), n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        print(
            f"workbench: no verb and no program of the environment is called `{name}`{hint}", file=sys.stderr
        )
        return 127
    os.execv(program, [name, *arguments])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
