"""How a command is called: through which door, with options of which forms, and what it answers. Standard
library only: the help of a command waits for nothing.

A test compares the exit codes with the table in `notebooks/guide/supervision.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Door:
    """The name of the program, as helps and remedies write it, and where its lake is by default."""

    program: str = "tablestore"
    warehouse: str = "lake"


class ExitCode(IntEnum):
    """What a command answers to who started it. `remedy` says what a supervisor does then: it starts again
    what ended by `FAILED`, and nothing else."""

    remedy: str

    def __new__(cls, value: int, remedy: str) -> ExitCode:
        code = int.__new__(cls, value)
        code._value_ = value
        code.remedy = remedy
        return code

    DONE = 0, "nothing"
    WRONG = 1, "look: something differs, is broken, or a statement failed"
    REFUSED = 2, "mend the call, or what the message names: another start ends the same"
    FAILED = 3, "start it again: it goes on from the last commit"
    PAUSED = 4, "decide: a capture has left tables behind that it could not follow"
    GROWS = 5, "look: a soak is right, but a figure grows"
    UNKNOWN = 127, "there is no such command or program"
    INTERRUPTED = 130, "nothing: it was stopped by Ctrl-C or SIGTERM"


def command_parser(name: str, text: str, door: Door) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of the options of a command: `name`: what it does, then the rest,
    in which `PROGRAM` stands for that of the door."""
    first, _, rest = text.partition("\n\n")
    p = argparse.ArgumentParser(
        prog=f"{door.program} {name}",
        description=" ".join(first.partition(": ")[2].split()),
        epilog=rest.rstrip().replace("PROGRAM", door.program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.set_defaults(door=door)
    return p


def add_warehouse(p: argparse._ActionsContainer, door: Door) -> None:
    """`--warehouse` and how to reach it."""
    p.add_argument(
        "--warehouse",
        default=door.warehouse,
        metavar="DIR",
        help="where the lake is (default %(default)s)",
    )
    add_store_options(p, "how to reach the warehouse: s3.endpoint=…, metastore=jdbc")


def add_master(p: argparse._ActionsContainer) -> None:
    """`--master`: the cluster that runs the tasks."""
    p.add_argument(
        "--master",
        metavar="URL",
        help="the Spark cluster that runs them: spark://host:port (default: this machine)",
    )


def add_store_options(p: argparse._ActionsContainer, text: str) -> None:
    """`--option`, as often as one likes."""
    add_many(p, "--option", "KEY=VALUE", text, kind=pair)


def add_many(
    p: argparse._ActionsContainer, flag: str, metavar: str, text: str, *, kind: Callable[[str], Any] = str
) -> None:
    """An option that may come as often as one likes; `kind` reads a value."""
    p.add_argument(flag, type=kind, action="append", default=[], metavar=metavar, help=text)


def add_metrics(p: argparse._ActionsContainer) -> None:
    """`--metrics` and `--opentelemetry`."""
    p.add_argument(
        "--metrics",
        metavar="ADDRESS",
        help="answer Prometheus at http://ADDRESS/metrics, and /healthz: 127.0.0.1:9200 (default: nobody)",
    )
    p.add_argument(
        "--opentelemetry",
        metavar="EXPORTER",
        help="give the same to an exporter of OpenTelemetry: console, otlp_proto_http (default: none)",
    )


def add_log(p: argparse._ActionsContainer) -> None:
    """`--log`."""
    p.add_argument(
        "--log",
        choices=("json",),
        help="write a line of JSON for each event to standard output, and nothing else (default: for people)",
    )


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE of the command line."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"KEY=VALUE is expected, not {text!r}")
    return key, value
