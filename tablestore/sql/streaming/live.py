"""The result of a SELECT in streaming mode: its changes as they happen, the row kind as column `op`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from tablestore.flow.source import StreamSource
from tablestore.format import rowkind
from tablestore.sql.query.result_types import free_names
from tablestore.sql.streaming.follow import follow
from tablestore.sql.streaming.plan import planned

if TYPE_CHECKING:
    from tablestore.sql.session import Session

OP = "op"


class LiveRows:
    """Changes of a query, batch by batch, until `stop` or all its sources have ended; read once. `endless`:
    a source has no end. `stop` may be called from any thread."""

    def __init__(self, session: Session, tree: exp.Expression, text: str) -> None:
        plan = planned(session, tree, text)
        self._stopped = threading.Event()
        memory = session.settings["execution.memory-limit"]
        self._changes = follow(plan, memory=memory, stopped=self._stopped.is_set)
        self.endless = not all(_ends(i.source) for i in plan.inputs)
        names = free_names([OP, *plan.schema.names])
        fields = [pa.field(OP, pa.string()), *plan.schema]
        self.schema = pa.schema([f.with_name(name) for f, name in zip(fields, names, strict=True)])

    def stop(self) -> None:
        """End it at its next look."""
        self._stopped.set()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for rows, kinds in self._changes:
            yield pa.RecordBatch.from_arrays([rowkind.texts(kinds), *rows.columns], schema=self.schema)


def _ends(source: StreamSource) -> bool:
    """Whether nothing comes after what there is now."""
    latest = source.latest()
    return latest is not None and source.ended(latest)
