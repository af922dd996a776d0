"""Where the changes of a stream go: a batch of them at once, and exactly once where the sink can.

A sink gets a batch, a function that computes changes of each of its pieces, and the identifier of the batch:
the same one again adds nothing. Sinks are picklable, since tasks write parts of a batch.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow.compute as pc

from tablestore.core.errors import CommitConflict
from tablestore.flow.batch import Batch, Work
from tablestore.flow.source import Changes
from tablestore.flow.writing import (
    BatchWriting,
    RowsWritten,
    TableChanges,
    TableTarget,
    Takes,
    WriteTask,
    commit_messages,
    has_batch,
    takes_one_writer,
)
from tablestore.format import rowkind
from tablestore.table.engine import compact_bucket
from tablestore.table.place import TablePlace
from tablestore.table.table import Table
from tablestore.write import full_compaction

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
        table, rows = self.opened(), 0
        if not has_batch(table, user=batch.user, identifier=batch.identifier):
            target = TableTarget(self.place, one_writer=takes_one_writer(table), options=self.options)
            if target.by_tasks:
                target = replace(target, sequence_base=table.max_sequence() + 1)
            task = WriteTask(_OfOneTable(batch.changes, self.before), {_ONLY: target}, batch.user)
            writing = BatchWriting(
                *(batch.batch, batch.batch.works(), task),
                identifier=batch.identifier,
                position=batch.position,
            )
            writing.by_tasks()
            commit = writing.commit if target.by_tasks else writing.write_here
            rows = commit(_ONLY, table, lambda _: {})[0].rows
        compact_tables(batch.batch, [(table, batch.batch.number)], every=self.compact_every)
        return rows


_ONLY = ""  # what the one table is called in its task


@dataclass(frozen=True)
class _OfOneTable:
    """The changes of the only table of a stream: `PieceChanges`. `before` as in `TableSink`."""

    changes: Computation
    before: bool

    def of(self, work: Work, takes: Takes) -> Iterator[TableChanges]:
        for rows, kinds in self.changes(work):
            if not self.before:
                keep = pc.not_equal(kinds, rowkind.UPDATE_BEFORE)
                rows, kinds = rows.filter(keep), kinds.filter(keep)
            yield TableChanges(_ONLY, RowsWritten(changes=rows.num_rows), rows, kinds)

    def are_logged(self, work: Work, table: Table) -> bool:
        return True


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


def compact_one(item: tuple[TablePlace, bytes]) -> bytes | None:
    """The task that compacts a bucket of a table: of (table, what to compact)."""
    place, task = item
    return compact_bucket(place.path, task, roots=place.roots, options=dict(place.store))
