"""`--log json` of commands that run for long: a line of JSON for each event on standard output, nothing else.

A line has `time` (UTC), `level`, `command`, `event` and `message`, and where there are such `table`,
`snapshot`, `rows` and `error`. Warnings of the engine come the same way. Events hold names, counts and texts
of errors, never options, secrets or rows. It is one handler of the logger `tablestore` of Python's `logging`.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, TextIO, cast

from rich.console import Console
from rich.text import Text

JSON = "json"
EVENTS = "tablestore.cli.events"
_ROOT = "tablestore"
_FIELDS = "event_fields"
_WIDE = 1_000_000  # characters, so that no line of a message is broken


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": at, "level": record.levelname.lower(), "command": self._command}
        line |= getattr(record, _FIELDS, {"event": "log", "logger": record.name})
        if record.exc_info and record.exc_info[1] is not None:
            line.setdefault("error", str(record.exc_info[1]) or record.exc_info[0].__name__)
        return json.dumps(line | {"message": record.getMessage()}, ensure_ascii=False, default=str)


def emit(event: str, message: str, **fields: Any) -> None:
    """Write an event; fields that are None or empty are left out. One with an `error` is of that level."""
    given = {name: value for name, value in fields.items() if value is not None and value != ""}
    level = logging.ERROR if "error" in given else logging.INFO
    logging.getLogger(EVENTS).log(level, "%s", message, extra={_FIELDS: {"event": event, **given}})


@contextmanager
def screen_for(command: str, form: str | None, out: TextIO | None = None) -> Iterator[Console]:
    """The console for what a command says to people: standard error. In `form` "json" that becomes events,
    too; all go to `out` (default: standard output) while the block runs."""
    if form != JSON:
        yield Console(stderr=True, highlight=False)
        return
    handler = logging.StreamHandler(out or sys.stdout)
    handler.setFormatter(JsonFormatter(command))
    root, events = logging.getLogger(_ROOT), logging.getLogger(EVENTS)
    before = root.propagate, events.level
    root.addHandler(handler)
    root.propagate = False  # whoever listens above would write each line again
    events.setLevel(logging.INFO)
    try:
        yield Console(file=cast(IO[str], _Said()), highlight=False, force_terminal=False, width=_WIDE)
    finally:
        root.removeHandler(handler)
        root.propagate = before[0]
        events.setLevel(before[1])


def is_json(screen: Console) -> bool:
    """Whether what is said becomes events."""
    return isinstance(screen.file, _Said)


def say_error(screen: Console, command: str, error: str, *, failed: bool = False) -> None:
    """Say what ended a command; `failed` where it had begun."""
    if is_json(screen):
        emit("failed" if failed else "refused", error, error=error)
    else:
        screen.print(f"[bold red]{command}:{' failed:' if failed else ''}[/]", Text(error), soft_wrap=True)


class _Said(io.TextIOBase):
    """A file each line of which is an event."""

    def write(self, text: str) -> int:
        for line in text.splitlines():
            if line.strip():
                emit("message", line.strip())
        return len(text)
