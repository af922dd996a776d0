"""What commands that run for long share: exit codes, the end by an error or by Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from rich.console import Console
from rich.text import Text

from tablestore.core.errors import TablestoreError

REFUSED, FAILED, INTERRUPTED = 2, 3, 130


def run(command: str, work: Callable[[], int], screen: Console, *, interrupted: str) -> int:
    """The exit code of a command: that of its `work`. Where Ctrl-C ends it `interrupted` is said, the text of
    an error where that does."""
    try:
        return work()
    except KeyboardInterrupt:
        screen.print(interrupted)
        return INTERRUPTED
    except (TablestoreError, OSError) as error:
        screen.print(f"[bold red]{command}:[/]", Text(str(error)), soft_wrap=True)
        return REFUSED


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
