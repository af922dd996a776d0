"""Where the changes of a stream go: a batch of them at once, and exactly once where the sink can.

A sink gets a batch, a function that computes changes of each of its pieces, and the identifier of the batch:
the same one again adds nothing. Sinks are picklable, since tasks write parts of a batch.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from tablestore.core.errors import CommitConflict
from tablestore.flow.batch import Batch, Work
from tablestore.flow.source import Changes
from tablestore.format import commit_message, rowkind
from tablestore.table.engine import compact_bucket
from tablestore.table.place import TablePlace
from tablestore.table.table import Table
from tablestore.table.writer import EngineWriter, Writer
from tablestore.write import full_compaction
from tablestore.write.commit.commit_or_discard import discarded_if_refused
from tablestore.write.commit.committer import Committed
from tablestore.write.routing.bucket_mode import BucketMode

SEQUENCE_SPAN = 1 << 32  # sequence numbers of one piece
_KIND = "__kind"
Computation = Callable[[Work], Changes]


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """A batch as a sink gets it: `identifier` rises from batch to batch of `user`, and `position` is where
    the sources are once it is committed. `changes` is picklable.
    `job_id` differs for another job of that user's name."""

    batch: Batch
    changes: Computation
    user: str
    identifier: int
    position: str
    job_id: str = ""


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


class Writers:
    """The writers of one task, which write level 0: those of a later `ordinal` win. Each is opened when it is
    first asked for, with `buffer_bytes` for all of them; leaving the block closes them."""

    def __init__(self, user: str, ordinal: int, *, buffer_bytes: int | None = None) -> None:
        self._user, self._ordinal, self._buffer_bytes = user, ordinal, buffer_bytes
        self._writers: dict[str, EngineWriter] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            with contextlib.suppress(OSError):
                writer.close()

    def of(
        self, name: str, target: TableTarget, *, changelog: Callable[[Table], bool] = lambda _: True
    ) -> EngineWriter:
        """The writer of a table; whether it writes a changelog is asked where it is opened."""
        if name not in self._writers:
            table = target.opened()
            base = target.sequence_base
            base = None if base is None else base + self._ordinal * SEQUENCE_SPAN
            self._writers[name] = table.open_writer(
                user=self._user,
                sequence_base=base,
                compact=False,
                changelog=changelog(table),
                buffer_bytes=self._buffer_bytes,
            )
        return self._writers[name]

    def prepared(self) -> dict[str, tuple[bytes, ...]]:
        """The messages of each table."""
        return {name: tuple(writer.prepare()) for name, writer in self._writers.items()}


class StreamSink(Protocol):
    """What takes the changes of a stream."""

    def write(self, batch: SinkBatch) -> int:
        """Take the changes of a batch; gives how many there were, 0 for a batch that was there before."""


@dataclass(frozen=True)
class TableSink:
    """A table, one commit a batch. Tasks write level 0, numbered so that the later of two pieces wins; a
    table with dynamic buckets takes one writer, so its batches are written in this process.

    `before`: rows as they were before an update are written, too. `compact_every` n: buckets whose
    compaction is due are compacted after every n batches.
    """

    place: TablePlace
    options: tuple[tuple[str, str], ...] = ()
    before: bool = True
    compact_every: int = 5

    def opened(self) -> Table:
        """The table."""
        return TableTarget(self.place, options=self.options).opened()

    def write(self, batch: SinkBatch) -> int:
        """Commit a batch with its position, and compact what is due."""
        table = self.opened()
        asked: dict[str, Any] = {"user": batch.user, "identifier": batch.identifier}
        if has_batch(table, **asked):
            rows = 0
        elif takes_one_writer(table):
            rows = self._write_here(table, batch)
        else:
            target = TableTarget(self.place, table.max_sequence() + 1, options=self.options)
            task = TableTask(self, target, batch.changes, batch.user)
            written = RowsWritten.sum(batch.batch.over(task, batch.batch.works()))
            commit_messages(table, written.messages, **asked, position=batch.position)
            rows = written.rows
        compact_tables(batch.batch, [(table, batch.batch.number)], every=self.compact_every)
        return rows

    def _write_here(self, table: Table, batch: SinkBatch) -> int:
        rows = 0
        with table.writer(user=batch.user, identifier=batch.identifier, position=batch.position) as w:
            for work in batch.batch.works():
                for values, kinds in self.wanted(batch.changes(work)):
                    rows += values.num_rows
                    write_kinds(w, values, kinds)
        return rows

    def wanted(self, changes: Changes) -> Changes:
        """The changes that the table takes."""
        for values, kinds in changes:
            if not self.before:
                keep = kinds.to_numpy(zero_copy_only=False) != rowkind.UPDATE_BEFORE
                if not keep.all():
                    mask = pa.array(keep)
                    values, kinds = values.filter(mask), kinds.filter(mask)
            yield values, kinds


def compactions(table: Table, number: int, *, every: int) -> tuple[bool, bool]:
    """(whether to compact after batch `number`, whether fully): after every so many batches (0: never), and
    as often as the table's changelog or deletion vectors need it."""
    options = table.store.options
    due = bool(every) and (number + 1) % every == 0
    if options.write_only or not table.primary_key:
        return due, False
    often = full_compaction.interval(options)
    full = often is not None and (number + 1) % often == 0
    return due or full or (options.needs_lookup and options.lookup_wait), full


def compact_tables(batch: Batch, tables: Sequence[tuple[Table, int]], *, every: int) -> None:
    """Compact what is due of the tables after a batch, each of which has had batches up to this number. Also
    after a repeated batch: a kill may have come before its compaction."""
    items: list[tuple[TablePlace, bytes]] = []
    of_items: list[Table] = []
    for table, number in tables:
        due, full = compactions(table, number, every=every)
        tasks = table.buckets_to_compact(full=full) if due else []
        items += [(TablePlace.of(table), task) for task in tasks]
        of_items += [table] * len(tasks)
    messages: dict[str, list[bytes]] = defaultdict(list)
    for table, message in zip(of_items, batch.over(compact_one, items) if items else [], strict=True):
        messages[table.location] += [] if message is None else [message]
    for table in {table.location: table for table in of_items}.values():
        with contextlib.suppress(CommitConflict):  # somebody else compacted one of its buckets meanwhile
            commit_messages(table, messages[table.location], user=table.store.fresh_user())


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


def write_kinds(writer: Writer, values: pa.RecordBatch, kinds: pa.Array) -> None:
    """Write rows of these row kinds."""
    writer.write(values.append_column(_KIND, kinds), row_kind_column=_KIND)


@dataclass(frozen=True)
class TableTask:
    """The task that writes the changes of one piece to level 0 of a table."""

    sink: TableSink
    target: TableTarget
    changes: Computation
    user: str

    def __call__(self, work: Work) -> RowsWritten:
        with Writers(self.user, work.ordinal) as writers:
            writer = writers.of("", self.target)
            for values, kinds in self.sink.wanted(self.changes(work)):
                writer.write(values, kinds=kinds)
            rows = writer.rows
            return RowsWritten(writers.prepared()[""], rows)


def compact_one(item: tuple[TablePlace, bytes]) -> bytes | None:
    """The task that compacts a bucket of a table: of (table, what to compact)."""
    place, task = item
    return compact_bucket(place.path, task, roots=place.roots, options=dict(place.store))
