"""The task that reads one piece of a capture and writes level 0 of all tables in it. Picklable and small.

Memory: the rows that the piece gives at a time, and one pool for the buffers of all writers, as large as the
largest `write-buffer-size` that one of the tables says, 128 MB where none does; when it is full the largest
buffer flushes, so a piece with hundreds of tables needs no more than one with one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture import dead_letters
from tablestore.cdc.capture.conversion import Conversion
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.report import ChunkReport
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import BadRow, CapturePiece, TableRows
from tablestore.cdc.phase import PHASE_OPTION
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest
from tablestore.flow.batch import WorkOf
from tablestore.flow.sink import RowsWritten, TableTarget, Writers
from tablestore.table.table import Table

POOL_BYTES = 128 << 20
_LETTERS = 1_000  # rows that do not fit and are written together
Write = Callable[[pa.RecordBatch, pa.Array | None], None]  # rows and their kinds; None: all are inserts


@dataclass(frozen=True, slots=True)
class PieceWritten:
    """What a task has written, by table of the lake, from `started` to `ended` in seconds after 1970. Of the
    tables of the source that are `refused`, for this reason, nothing may be committed."""

    tables: Mapping[str, RowsWritten]
    started: float
    ended: float
    chunk: ChunkReport | None = None
    refused: Mapping[SourceName, str] = field(default_factory=dict)


def rows_written(done: PieceWritten) -> int:
    """Rows of snapshots and changes of a piece."""
    return sum(written.rows for written in done.tables.values())


@dataclass(frozen=True)
class CaptureTask:
    """Writes the rows of a piece; `routes` says to which of the `targets` each table of the source goes.
    `letters`: rows that do not fit are written beside it; else they are errors, or have their table refused,
    where the source goes on without it (`pausing`). Tables without a route are passed over. `pool_bytes`
    replaces what the tables say."""

    rules: CaptureRules
    routes: Mapping[SourceName, str]
    targets: Mapping[str, TableTarget]
    user: str
    pool_bytes: int | None = None
    letters: bool = False
    pausing: bool = False

    def __call__(self, work: WorkOf[CapturePiece]) -> PieceWritten:
        with Writers(self.user, work.ordinal, buffer_bytes=self._pool_bytes) as writers:

            def changelog(table: Table) -> bool:
                return work.piece.chunk is None or table.options.get(PHASE_OPTION, "true") == "true"

            def write(target: str) -> Write | None:
                place = self.targets[target]
                return writers.of(target, place, changelog=changelog).write if place.by_tasks else None

            done, messages = self.carry_out(work, write), writers.prepared()
        tables = {t: replace(written, messages=messages.get(t, ())) for t, written in done.tables.items()}
        return replace(done, tables=tables)

    def carry_out(self, work: WorkOf[CapturePiece], write: Callable[[str], Write | None]) -> PieceWritten:
        """Write the rows of tables for which there is a `write` function, and count them."""
        started = SYSTEM.now_ms() / 1000
        rows = _PieceRows(self, work.piece, write)
        rows.write_all()
        ended = SYSTEM.now_ms() / 1000
        chunk = _chunk(work.piece, rows.found, started, ended)
        return PieceWritten(rows.found, started, ended, chunk, rows.refused)

    @property
    def _pool_bytes(self) -> int:
        said = [t.buffer_bytes for t in self.targets.values() if t.buffer_bytes is not None]
        return self.pool_bytes or max(said, default=POOL_BYTES)


class _PieceRows:
    """The rows of one piece, on their way to writers."""

    def __init__(self, task: CaptureTask, piece: CapturePiece, write: Callable[[str], Write | None]) -> None:
        self._task, self._piece, self._write = task, piece, write
        self._conversions: dict[SourceName, Conversion] = {}
        self._bad: dict[str, list[BadRow]] = {}  # by table that takes them
        self.found: dict[str, RowsWritten] = {}
        self.refused: dict[SourceName, str] = {}

    def write_all(self) -> None:
        for part in self._piece.read():
            if part.table not in self._task.routes or part.table in self.refused:
                continue
            target = self._task.routes[part.table]
            write = self._write(target)
            letters = dead_letters.beside(target) if self._task.letters else None
            if write is None and (letters is None or self._write(letters) is None):
                continue
            if isinstance(part, BadRow):
                bad: Sequence[BadRow] = [part]
                counted = RowsWritten(bad_rows=1)
            else:
                done = self._conversion(part.table, target).convert(part)
                rows, kinds, bad = done.rows, done.kinds, done.bad
                counted = _counted(part, rows.num_rows, len(bad))
                if write is not None and rows.num_rows:
                    write(rows, kinds)
            if write is not None:
                self._count(target, counted)
            self._keep(letters, bad)
        for letters in list(self._bad):
            self._flush(letters)

    def _conversion(self, name: SourceName, target: str) -> Conversion:
        if name not in self._conversions:
            shape = self._piece.tables.get(name)
            if shape is None:
                raise InvalidRequest(f"a piece gives rows of {name}, and does not say what they look like")
            table = self._task.targets[target].opened()
            self._conversions[name] = self._task.rules.conversion(
                name,
                shape,
                table.store.schema.fields,
                primary_key=table.primary_key,
                partition_by=table.partition_by,
            )
        return self._conversions[name]

    def _keep(self, letters: str | None, bad: Sequence[BadRow]) -> None:
        if not bad:
            return
        if letters is None:
            if bad[0].unheld:
                return
            error = dead_letters.failed(bad[0])
            if not self._task.pausing:
                raise error
            self.refused[bad[0].table] = str(error)
            return
        waiting = self._bad.setdefault(letters, [])
        waiting.extend(bad)
        if len(waiting) >= _LETTERS:
            self._flush(letters)

    def _flush(self, letters: str) -> None:
        bad, write = self._bad.pop(letters), self._write(letters)
        if write is not None:
            write(dead_letters.as_rows(bad), None)
            self._count(letters, RowsWritten(changes=len(bad)))

    def _count(self, target: str, counted: RowsWritten) -> None:
        self.found[target] = RowsWritten.sum([self.found.get(target, RowsWritten()), counted])


def _counted(part: TableRows, rows: int, bad: int) -> RowsWritten:
    """The count of a part of a piece that has this many good and bad rows."""
    if part.seconds is None:
        return RowsWritten(snapshot_rows=rows, bad_rows=bad)
    return RowsWritten(changes=rows, bad_rows=bad, newest=pc.max(part.seconds).as_py())


def _chunk(
    piece: CapturePiece, found: Mapping[str, RowsWritten], started: float, ended: float
) -> ChunkReport | None:
    facts = piece.chunk
    if facts is None:
        return None
    rows = sum(written.snapshot_rows for written in found.values())
    return ChunkReport(str(facts.table), facts.low, facts.high, facts.last, rows, started, ended)
