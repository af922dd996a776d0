"""What the verbs over a lake share: `--option`, exit codes, the end by Ctrl-C.

Imports nothing of ours, so that a verb starts as fast as what it needs itself.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from rich.console import Console

REFUSED, FAILED, INTERRUPTED = 2, 3, 130


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
