"""Where the changes of a stream go: a batch of them at once, and exactly once where the sink can.

A sink gets a batch, a function that computes changes of each of its pieces, and the identifier of the batch:
the same one again adds nothing. Sinks are picklable, since tasks write parts of a batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tablestore.core.errors import CommitConflict
from tablestore.flow.batch import Batch, Work
from tablestore.flow.source import Changes
from tablestore.format import commit_message, rowkind
from tablestore.table.engine import compact_bucket
from tablestore.table.place import TablePlace
from tablestore.table.table import Table
from tablestore.table.writer import Writer
from tablestore.write import full_compaction
from tablestore.write.commit.commit_or_discard import discarded_if_refused
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
class Written:
    """The result of a piece of work: messages to commit, and how many rows they hold."""

    messages: tuple[bytes, ...]
    rows: int


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
        table = self.place.opened()
        return table.with_options(dict(self.options)) if self.options else table

    def write(self, batch: SinkBatch) -> int:
        """Commit a batch with its position, and compact what is due."""
        table = self.opened()
        known = table.position(batch.user)
        if known is not None and known[0] >= batch.identifier:
            table.commit([], user=batch.user, identifier=batch.identifier)  # compacts what a kill left
            rows = 0
        elif takes_one_writer(table):
            rows = self._write_here(table, batch)
        else:
            task = TableTask(self, batch.changes, batch.user, table.max_sequence() + 1)
            done = batch.batch.over(task, batch.batch.works())
            rows = sum(one.rows for one in done)
            messages = [m for one in done for m in one.messages]
            table.commit(messages, user=batch.user, identifier=batch.identifier, position=batch.position)
        self._compact(table, batch.batch)
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

    def _compact(self, table: Table, batch: Batch) -> None:
        """Compact what is due after a batch, also after a repeated one: a kill may have come before its
        compaction."""
        due, full = compactions(table, batch.number, every=self.compact_every)
        tasks = table.buckets_to_compact(full=full) if due else []
        if tasks:
            commit_compaction(table, batch.over(CompactTask(self.place), tasks))


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


def commit_compaction(table: Table, found: Sequence[bytes | None]) -> None:
    """Commit what compactions of buckets gave, unless somebody else compacted one of them meanwhile."""
    messages = [m for m in found if m is not None]
    with (
        contextlib.suppress(CommitConflict),
        discarded_if_refused(table.store, [commit_message.decode(m) for m in messages]),
    ):
        table.commit(messages, user=table.store.fresh_user())


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
    changes: Computation
    user: str
    sequence_base: int

    def __call__(self, work: Work) -> Written:
        base = self.sequence_base + work.ordinal * SEQUENCE_SPAN
        writer = self.sink.opened().open_writer(user=self.user, sequence_base=base, compact=False)
        try:
            for values, kinds in self.sink.wanted(self.changes(work)):
                writer.write(values, kinds=kinds)
            rows = writer.rows
            return Written(tuple(writer.prepare()), rows)
        finally:
            writer.close()


@dataclass(frozen=True)
class CompactTask:
    """The task that compacts one bucket."""

    place: TablePlace

    def __call__(self, task: bytes) -> bytes | None:
        place = self.place
        return compact_bucket(place.path, task, roots=place.roots, options=dict(place.store))
