"""A batch on its way into tables, one or many, by tasks that write level 0 and commits of this process.

Of two pieces the later one has the higher sequence numbers. Each table is committed by itself, under the
identifier of the batch: one that has it already is passed over, so a kill between two commits loses and
repeats nothing. A table that takes one writer is written by this process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.flow.batch import Batch, WorkOf
from tablestore.format import commit_message
from tablestore.table.place import TablePlace
from tablestore.table.row_changes import KIND
from tablestore.table.table import Table
from tablestore.table.writer import EngineWriter, Writer
from tablestore.write.commit.commit_or_discard import discard, discarded_if_refused
from tablestore.write.commit.committer import Committed
from tablestore.write.routing.routing import BucketMode

SEQUENCE_SPAN = 1 << 32  # sequence numbers of one piece


@dataclass(frozen=True, slots=True)
class RowsWritten:
    """What a piece of work holds for a table: messages to commit, changes, rows of a snapshot of the source,
    rows that do not fit, and when the newest change was committed in the source (seconds after 1970)."""

    messages: tuple[bytes, ...] = ()
    changes: int = 0
    snapshot_rows: int = 0
    bad_rows: int = 0
    newest: int | None = None

    @property
    def rows(self) -> int:
        """Rows of snapshots and changes."""
        return self.snapshot_rows + self.changes

    @classmethod
    def sum(cls, parts: Iterable[RowsWritten]) -> RowsWritten:
        """All parts as one."""
        parts = tuple(parts)
        return cls(
            tuple(message for part in parts for message in part.messages),
            sum(part.changes for part in parts),
            sum(part.snapshot_rows for part in parts),
            sum(part.bad_rows for part in parts),
            max((part.newest for part in parts if part.newest is not None), default=None),
        )


@dataclass(frozen=True, slots=True)
class PieceWritten:
    """What is written of a piece, by table, from `started` to `ended` in seconds after 1970. Of the tables of
    the source that are `refused`, for this reason, nothing may be committed."""

    tables: Mapping[str, RowsWritten]
    started: float
    ended: float
    refused: Mapping[Any, str] = field(default_factory=dict)


def rows_written(written: PieceWritten) -> int:
    """Rows of snapshots and changes of a piece."""
    return sum(of.rows for of in written.tables.values())


@dataclass(frozen=True, slots=True)
class TableTarget:
    """A table that a batch goes into. Tasks write it, numbering rows from `sequence_base` on (None: above
    what is there), unless it has the batch already (`committed`) or takes one writer only, which the driver
    is (`one_writer`). `buffer_bytes` is its `write-buffer-size`, None where it says none; `options` replace
    those of the table.
    """

    place: TablePlace
    sequence_base: int | None = None
    buffer_bytes: int | None = None
    one_writer: bool = False
    committed: bool = False
    options: tuple[tuple[str, str], ...] = ()

    @property
    def by_tasks(self) -> bool:
        return not self.one_writer and not self.committed

    def opened(self) -> Table:
        """The table."""
        table = self.place.opened()
        return table.with_options(dict(self.options)) if self.options else table


class TableChanges(NamedTuple):
    """Changes of one table and what they count as: rows and their kinds (None: all are inserts)."""

    table: str
    counted: RowsWritten
    rows: pa.RecordBatch | None = None
    kinds: pa.Array | None = None


class TableRefused(NamedTuple):
    """A table of the source of which a row does not fit, so that nothing of it may be committed."""

    table: Any
    reason: str


Takes = Callable[[str], bool]  # whether changes of a table are asked for
Write = Callable[[str, pa.RecordBatch, pa.Array | None], None]
Properties = Callable[[RowsWritten], Mapping[str, str]]  # of a commit, once all of it is counted


class PieceChanges(Protocol):
    """What pieces of work change in tables. Picklable."""

    def of(self, work: Any, takes: Takes) -> Iterator[TableChanges | TableRefused]:
        """The changes of a piece in the tables that are asked for, in order."""

    def are_logged(self, work: Any, table: Table) -> bool:
        """Whether those of a piece go into the changelog of a table."""


@dataclass(frozen=True)
class WriteTask:
    """The task that writes the changes of one piece to level 0 of tables; all its writers share
    `buffer_bytes` of memory (None: as the tables say). A writer is opened when it is first needed."""

    changes: PieceChanges
    targets: Mapping[str, TableTarget]
    user: str
    buffer_bytes: int | None = None

    def __call__(self, work: WorkOf[Any]) -> PieceWritten:
        writers: dict[str, EngineWriter] = {}

        def write(name: str, rows: pa.RecordBatch, kinds: pa.Array | None) -> None:
            if name not in writers:
                writers[name] = self._writer(self.targets[name], work)
            writers[name].write(rows, kinds=kinds)

        try:
            done = self.carry_out(work, lambda name: self.targets[name].by_tasks, write)
            messages = {name: tuple(writer.prepare()) for name, writer in writers.items()}
        finally:
            for writer in writers.values():
                with contextlib.suppress(OSError):
                    writer.close()
        tables = {name: replace(of, messages=messages.get(name, ())) for name, of in done.tables.items()}
        return replace(done, tables=tables)

    def carry_out(self, work: WorkOf[Any], takes: Takes, write: Write) -> PieceWritten:
        """Write the changes of the tables that `takes` names, and count them."""
        started = SYSTEM.now_ms() / 1000
        tables: dict[str, RowsWritten] = {}
        refused: dict[Any, str] = {}
        for part in self.changes.of(work, takes):
            if isinstance(part, TableRefused):
                refused[part.table] = part.reason
                continue
            if part.rows is not None:
                write(part.table, part.rows, part.kinds)
            tables[part.table] = RowsWritten.sum([tables.get(part.table, RowsWritten()), part.counted])
        return PieceWritten(tables, started, SYSTEM.now_ms() / 1000, refused)

    def _writer(self, target: TableTarget, work: WorkOf[Any]) -> EngineWriter:
        table, base = target.opened(), target.sequence_base
        return table.open_writer(
            user=self.user,
            sequence_base=None if base is None else base + work.ordinal * SEQUENCE_SPAN,
            compact=False,
            changelog=self.changes.are_logged(work, table),
            buffer_bytes=self.buffer_bytes,
        )


class PieceRefused(Exception):
    """Ends the writing of a table of which a row does not fit; nothing of it is committed."""

    def __init__(self, tables: Mapping[Any, str]) -> None:
        super().__init__()
        self.tables = tables


class BatchWriting:
    """The writing of one batch: first `by_tasks`, then table by table `commit`, `write_here` or `discard`.
    Commits have the `identifier` of the batch and the `position` of its sources. One thread."""

    def __init__(
        self, batch: Batch, works: Sequence[WorkOf[Any]], task: WriteTask, *, identifier: int, position: str
    ) -> None:
        self._batch, self._task, self.works = batch, task, works
        self._commit: dict[str, Any] = {"user": task.user, "identifier": identifier, "position": position}
        self.done: list[PieceWritten] = []

    def by_tasks(self) -> None:
        """Write level 0 of all tables that tasks write."""
        if any(target.by_tasks for target in self._task.targets.values()):
            self.done = self._batch.over(self._task, self.works, count=rows_written)

    def started(self, before: float) -> float:
        """When its first task has begun, in seconds after 1970; `before`, where none has."""
        return min((done.started for done in self.done), default=before)

    def written(self, name: str) -> RowsWritten:
        """What tasks have written of a table."""
        return RowsWritten.sum(done.tables.get(name, RowsWritten()) for done in self.done)

    def commit(self, name: str, table: Table, properties: Properties) -> tuple[RowsWritten, Committed]:
        """Commit what tasks have written of a table."""
        written = self.written(name)
        how = {**self._commit, "properties": properties(written)}
        return written, commit_messages(table, written.messages, **how)

    def write_here(self, name: str, table: Table, properties: Properties) -> tuple[RowsWritten, Committed]:
        """Write and commit a table that takes one writer. Raises PieceRefused where a row does not fit:
        nothing is committed then."""
        late: dict[str, str] = {}
        parts: list[RowsWritten] = []
        with table.writer(**self._commit, properties=late) as writer:
            for work in self.works:
                done = self._task.carry_out(
                    work, name.__eq__, lambda _, rows, kinds: write_kinds(writer, rows, kinds)
                )
                if done.refused:
                    raise PieceRefused(done.refused)
                parts.append(done.tables.get(name, RowsWritten()))
            written = RowsWritten.sum(parts)
            late |= properties(written)
        return written, writer.committed or Committed()

    def discard(self, name: str, table: Table) -> None:
        """Delete what tasks have written of a table."""
        discard(table.store, [commit_message.decode(m) for m in self.written(name).messages])


def write_kinds(writer: Writer, rows: pa.RecordBatch, kinds: pa.Array) -> None:
    """Write rows of these row kinds."""
    writer.write(rows.append_column(KIND, kinds), row_kind_column=KIND)


def commit_messages(table: Table, messages: Sequence[bytes], **how: Any) -> Committed:
    """Commit messages that nobody commits again, with what `Table.commit` takes."""
    with discarded_if_refused(table.store, [commit_message.decode(m) for m in messages]):
        return table.commit(messages, **how)


def has_batch(table: Table, *, user: str, identifier: int) -> bool:
    """Whether the rows of a batch are in a table; compacts what a kill between the two left."""
    position = table.position(user)
    if position is None or position[0] < identifier:
        return False
    table.commit([], user=user, identifier=identifier)
    return True


def takes_one_writer(table: Table) -> bool:
    """Whether only one writer may be at work: one that assigns buckets must know all keys."""
    mode = BucketMode.of(table.store.schema, table.store.options)
    return mode in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
