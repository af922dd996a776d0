"""What commands that run for long share: exit codes, the end by an error or by Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from rich.console import Console

from tablestore.cli.event_log import say_error, screen_for
from tablestore.cli.exit_codes import ExitCode
from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.flow.restarts import is_transient

REFUSED, FAILED, INTERRUPTED = ExitCode.REFUSED, ExitCode.FAILED, ExitCode.INTERRUPTED


def run(command: str, work: Callable[[Console], int], log: str | None, *, interrupted: str) -> int:
    """The exit code of a command: that of its `work`, which gets what it speaks to people by; `log` is the
    form of its log. Where Ctrl-C ends it `interrupted` is said, the text of an error where that does; a fault
    of ours has its traceback, and the command may be started again."""
    with screen_for(command, log) as screen:
        try:
            return work(screen)
        except KeyboardInterrupt:
            screen.print(interrupted)
            return INTERRUPTED
        except (TablestoreError, OSError) as error:
            code = code_of(error)
            say_error(screen, command, str(error), failed=code == FAILED)
            return code
        except Exception as error:
            say_error(screen, command, traceback.format_exc().rstrip(), failed=True)
            return code_of(error)


def code_of(error: BaseException) -> ExitCode:
    """What a command that an error has ended answers: `FAILED` where another start may help."""
    lasting = isinstance(error, (TablestoreError, OSError)) and not is_transient(error)
    return REFUSED if lasting else FAILED


def require_port(port: int) -> None:
    """Raise InvalidRequest where nobody can listen on a port of this machine (0: any that is free)."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as e:
        why = os.strerror(e.errno) if isinstance(e, OSError) and e.errno else str(e)
        raise InvalidRequest(f"--port {port}: {why}: name another, or none for any that is free") from None


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
