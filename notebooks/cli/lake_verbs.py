"""What the verbs over a lake share: `--warehouse`, `--option`, exit codes, the end by an error or Ctrl-C.

Imports next to nothing of ours, so that a verb starts as fast as what it needs itself.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from rich.console import Console
from rich.text import Text

from notebooks.cli.places import ROOT
from tablestore.core.errors import TablestoreError

REFUSED, FAILED, INTERRUPTED = 2, 3, 130


def run(verb: str, work: Callable[[], int], screen: Console, *, interrupted: str) -> int:
    """The exit code of a verb: that of its `work`. Where Ctrl-C ends it `interrupted` is said, the text of
    an error where that does."""
    try:
        return work()
    except KeyboardInterrupt:
        screen.print(interrupted)
        return INTERRUPTED
    except (TablestoreError, OSError) as error:
        screen.print(f"[bold red]{verb}:[/]", Text(str(error)), soft_wrap=True)
        return REFUSED


def verb_parser(verb: str, text: str) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a verb's module: `verb`: what it does, then the rest."""
    first, _, rest = text.partition("\n\n")
    return argparse.ArgumentParser(
        prog=f"workbench {verb}",
        description=first.partition(": ")[2].replace("\n", " "),
        epilog=rest.rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_warehouse(p: argparse._ActionsContainer) -> None:
    """`--warehouse` and how to reach it."""
    p.add_argument(
        "--warehouse",
        default=str(ROOT / "lake"),
        metavar="DIR",
        help="where the lake is (default %(default)s)",
    )
    add_warehouse_options(p)


def add_warehouse_options(p: argparse._ActionsContainer) -> None:
    """`--option`, as often as one likes."""
    p.add_argument(
        "--option",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how to reach the warehouse: s3.endpoint=…, metastore=jdbc",
    )


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE of the command line."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"KEY=VALUE is expected, not {text!r}")
    return key, value


@contextmanager
def asked_to_stop(screen: Console, words: str) -> Iterator[Event]:
    """An event that the first Ctrl-C sets, or the first SIGTERM, with `words` of what comes; the second one
    interrupts."""
    asked = Event()

    def ask(*_: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        screen.print(words)

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, ask) for number in signals]
    try:
        yield asked
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
