"""A reader of a table's stream that keeps what it has read as the state that the changes describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tablestore.core.errors import NotFound
from tablestore.read.changes.change import Change
from tablestore.read.changes.stream import StreamRequest
from tablestore.read.table_log import TableLog
from tablestore.table.normalize import follow
from tablestore.table.table import Table


@dataclass
class LogReader:
    """Reads what is there; goes on from its cursor. `keys`: how many first columns are the key, 0 for none;
    then rows are counted. With a key each change must fit the state before it."""

    table: Table
    log: TableLog
    keys: int
    start: Any = None
    normalize: bool | None = None
    rows: dict[Any, Any] = field(default_factory=dict)
    counts: Counter[Any] = field(default_factory=Counter)
    sources: list[str] = field(default_factory=list)
    cursor: str | None = None
    stopped: bool = False
    _steps: Iterator[Change] | None = None

    def restart(self) -> None:
        """Forget everything but the cursor and what was read."""
        self._steps = None

    def read(self) -> None:
        """Read all steps that there are."""
        if self._steps is None:
            start = self.start if self.cursor is None else self.cursor
            request = StreamRequest(start=start, timeout=0.0, consumer=None)
            self._steps = iter(follow(self.table.store, request, normalize=self.normalize, log=self.log))
        try:
            for step in self._steps:
                self.take(step)
        except NotFound as e:
            self.stopped = "latest-full" in str(e)
            raise
        self._steps = None

    def take(self, step: Change) -> None:
        """Apply a step."""
        self.sources.append("full" if step.full else step.source)
        for row in step.to_arrow().to_pylist():
            kind, *values = row.values()
            if self.keys:
                self._change(kind, tuple(values[: self.keys]), tuple(values[self.keys :]))
            else:
                assert kind == "+I"
                self.counts[tuple(values)] += 1
        self.cursor = step.cursor

    def _change(self, kind: str, key: Any, values: Any) -> None:
        if kind in ("-U", "-D"):
            assert self.rows.pop(key) == values, (kind, key)
        else:
            assert key not in self.rows, (kind, key)
            self.rows[key] = values
