"""A source in memory whose batches a test writes down, and batches without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tablestore as ts
from tablestore.cdc.capture.job import CaptureJob, CaptureSettings, default_checkpoint
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.sink import CapturePlan
from tablestore.cdc.capture.source import (
    CAPTURED,
    BadRow,
    BatchFacts,
    CaptureSource,
    ChunkFacts,
    ShapeColumn,
    TableEvent,
    TableRows,
    TableShape,
)
from tablestore.core.errors import Unavailable
from tablestore.flow.batch import WorkOf
from tablestore.flow.runner import Runner
from tablestore.flow.source import Offset
from tablestore.format import rowkind
from tablestore.format.types.arrow_types import as_type


def name(table: str, database: str = "shop") -> SourceName:
    return SourceName(database, table)


def shape(*columns: tuple[str, str], key: Sequence[str] = ("id",)) -> TableShape:
    """The shape of (name, type) pairs."""
    return TableShape(tuple(ShapeColumn(n, as_type(t, n)) for n, t in columns), tuple(key))


ITEM = shape(("id", "BIGINT NOT NULL"), ("v", "INT"))


def event(kind: str, table: str, of: TableShape | None = None, **more: Any) -> TableEvent:
    return TableEvent(kind, name(table), "log 1", of, **more)


def captured(table: str, of: TableShape = ITEM, **more: Any) -> TableEvent:
    return event(CAPTURED, table, of, **more)


def rows(
    table: str, values: Sequence[tuple[Any, ...]], of: TableShape = ITEM, *, seconds: int | None = None
) -> TableRows:
    """Changes of a table: a row kind and then the values of each; `seconds` None: a snapshot."""
    kinds = pa.array([rowkind.TEXTS.index(v[0]) for v in values], pa.int8())
    columns = [pa.array([v[i + 1] for v in values], f.type) for i, f in enumerate(of.schema)]
    batch = pa.RecordBatch.from_arrays(columns, schema=of.schema)
    when = None if seconds is None else pa.array(np.full(len(values), seconds))
    return TableRows(name(table), batch, kinds, when, "log 2")


@dataclass(frozen=True)
class FakePiece:
    """Parts that were written down."""

    parts: tuple[TableRows | BadRow, ...]
    tables: Mapping[SourceName, TableShape]
    chunk: ChunkFacts | None = None

    def read(self) -> Iterator[TableRows | BadRow]:
        yield from self.parts


class Away(FakePiece):
    """A piece whose server is away once."""

    def read(self) -> Any:
        mark = Path(self.parts[0].position)
        if not mark.exists():
            mark.touch()
            raise Unavailable(0, "the server is away")
        yield from self.parts


def piece(*parts: TableRows | BadRow, chunk: ChunkFacts | None = None, **shapes: TableShape) -> FakePiece:
    """A piece; tables that are not named in `shapes` are as `ITEM`."""
    tables = {part.table: shapes.get(part.table.table, ITEM) for part in parts}
    return FakePiece(parts, tables, chunk)


@dataclass
class FakeStep:
    """What happens in one batch."""

    events: Sequence[TableEvent] = ()
    pieces: Sequence[FakePiece] = ()


@dataclass
class FakeSource:
    """Batch n is step n."""

    steps: list[FakeStep] = field(default_factory=list)

    def initial(self) -> Offset:
        return {"v": 1, "at": 0}

    def next(self, start: Offset) -> Offset:
        return {"v": 1, "at": min(len(self.steps), start["at"] + 1)}

    def ended(self, offset: Offset) -> bool:
        return bool(offset["at"] >= len(self.steps))

    def _between(self, start: Offset, end: Offset) -> list[FakeStep]:
        return self.steps[start["at"] : end["at"]]

    def events(self, start: Offset, end: Offset) -> list[TableEvent]:
        return [event for step in self._between(start, end) for event in step.events]

    def pieces(self, start: Offset, end: Offset) -> list[FakePiece]:
        return [piece for step in self._between(start, end) for piece in step.pieces]

    def facts(self, start: Offset, end: Offset) -> BatchFacts:
        return BatchFacts(1.0, f"step {end['at']}", commits=((100, 2),))

    def done(self, end: Offset) -> None:
        """Nothing to let go of."""


@dataclass
class FakeBatch:
    """A batch whose tasks run here, one after another, after a pickled trip."""

    source: CaptureSource
    number: int
    start: Offset
    end: Offset
    fails: Callable[[Any], None] = lambda _: None  # before the task over a piece
    done: dict[int, int] = field(default_factory=dict)

    def works(self) -> Sequence[Any]:
        return CapturePlan(self.source).works(self.start, self.end)

    def counted(self) -> Mapping[int, int]:
        return dict(self.done)

    def over(
        self,
        task: Callable[[Any], Any],
        items: Sequence[Any],
        *,
        count: Callable[[Any], int] | None = None,
    ) -> list[Any]:
        sent = pickle.loads(pickle.dumps(task))
        collected = []
        for place, item in enumerate(items):
            if isinstance(item, WorkOf):
                self.fails(item)
            collected.append(pickle.loads(pickle.dumps(sent(pickle.loads(pickle.dumps(item))))))
            if count is not None:
                self.done[place] = count(collected[-1])
        return collected


def job_of(lake: ts.Lake, source: FakeSource, runner: Runner, **more: Any) -> CaptureJob:
    """A capture of the source into `ods`."""
    settings = CaptureSettings(
        "cdc-shop", default_checkpoint(lake, "cdc-shop"), "shop", interval_seconds=0.05
    )
    return CaptureJob(lake, source, CaptureRules.of("shop.*", into="ods"), settings, runner, **more)


def steps() -> list[FakeStep]:
    changes = piece(
        rows("a", [("+U", 1, 2), ("+I", 2, 2)], seconds=99), rows("b", [("-D", 1, 1)], seconds=99)
    )
    return [
        FakeStep([captured("a"), captured("b")]),
        FakeStep((), [piece(rows("a", [("+I", 1, 1)])), piece(rows("b", [("+I", 1, 1), ("+I", 5, 5)]))]),
        FakeStep((), [changes]),
    ]


def content(lake: ts.Lake, table: str) -> list[tuple[Any, ...]]:
    rows = lake.table(table).scan().to_arrow()
    return sorted(zip(*(c.to_pylist() for c in rows.columns), strict=True))
