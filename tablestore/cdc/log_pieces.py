"""Pieces of a table's log: what one task of a stream reads of a bucket, from offset to offset.

Rows come as they were written, or with what was before: then the keys that the piece touches are read as
they were in a snapshot, the log from there up to the piece is put on top of them, and the piece on top of
that, by the state that a normaliser keeps (`table/last_rows.py`). So a piece is a function of its offsets,
the same however often it is read, and keeps nothing. Memory: the keys of the log behind the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.format import rowkind
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.log.log import LogExpired
from tablestore.log.offsets import Offsets
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.groups import joined
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import with_level_0
from tablestore.read.changes.incremental import change_schema
from tablestore.read.points.point_read import PointReader
from tablestore.read.table_log import TableLog, offsets_at
from tablestore.table.lake import open_table
from tablestore.table.last_rows import LastRows
from tablestore.table.log_of import table_log
from tablestore.table.table import Table
from tablestore.write.routing import routing

Changes = Iterator[tuple[pa.RecordBatch, pa.Array]]
_AGAIN = "start the stream again with latest-full"


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Rows of one bucket of the log from `start` up to `stop`; with what was before, where `base` is the
    snapshot (0: the empty table) to look it up in. Picklable."""

    bucket: int
    start: int
    stop: int
    base: int | None = None

    splits: tuple[()] = field(default=(), init=False)  # no files

    def read(
        self,
        path: str,
        columns: Sequence[str],
        where: Predicate | None = None,
        *,
        roots: Sequence[str] = (),
    ) -> Changes:
        """Batches of `columns` with their row kinds (int8)."""
        yield from self.changes(open_table(path, roots=roots), columns, where)

    def changes(self, table: Table, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """The same, of a table that is open. Raises NotFound where the log has expired."""
        store = table.store
        log = table_log(store)
        if log is None:
            raise NotFound(f"{store.paths.root} has no log any more: {_AGAIN}")
        bound = None if where is None else predicate.bind(where, store.schema)
        asked = () if bound is None else bound.columns
        names = tuple(dict.fromkeys((*columns, *(n for n in store.schema.names if n in asked))))
        try:
            rows = self._written(log, names) if self.base is None else self._normalized(store, log, names)
            for batch, kinds in rows:
                shown = batch.select(list(columns))
                if bound is None:
                    yield shown, kinds
                    continue
                chosen = evaluate.mask(bound, batch)
                if (matching := shown.filter(chosen)).num_rows:
                    yield matching, kinds.filter(chosen)
        except LogExpired as e:
            raise NotFound(f"{e}: {_AGAIN}") from e

    def _written(self, log: TableLog, names: Sequence[str]) -> Changes:
        for some in log.log.read({self.bucket: self.start}, {self.bucket: self.stop}, names):
            yield some.rows, some.kinds

    def _normalized(self, store: Store, log: TableLog, names: tuple[str, ...]) -> Changes:
        """The changes with what was before them. (Which columns are asked for decides what is a change.)"""
        assert self.base is not None, "a piece with what was before"
        schema = store.schema
        needed = {*names, *schema.primary_keys, *schema.partition_keys, *store.options.sequence_fields}
        kept = tuple(n for n in schema.names if n in needed)
        base = store.snapshots.get(self.base) if self.base else None
        offsets = {self.bucket: offsets_at(store, base).get(self.bucket, 0)}
        here, there = {self.bucket: self.start}, {self.bucket: self.stop}
        last = LastRows(store, kept, names)
        if base is not None:
            reader = PointReader(with_level_0(store), base)
            last.fill(
                _as_changes(store, kept, batch, rowkind.INSERT)
                for partition, keys in _keys(store, log, offsets, there)
                for batch in reader.read(partition, self.bucket, keys, kept)
            )
        last.apply(_logged(store, log, offsets, here, kept))
        changed = last.apply(_logged(store, log, here, there, kept))
        for batch in changed() if changed.rows else ():
            yield batch.select(list(names)), rowkind.parse(batch.column(0))


def pieces_of(start: Offsets, stop: Offsets, base: int | None) -> list[LogPiece]:
    """A piece for each bucket that has offsets between."""
    begin = {bucket: start.get(bucket, 0) for bucket in stop}
    return [LogPiece(b, begin[b], end, base) for b, end in sorted(stop.items()) if begin[b] < end]


def _logged(
    store: Store, log: TableLog, start: Offsets, stop: Offsets, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    schema = change_schema(store, names)
    for some in log.log.read(start, stop, names):
        columns = [some.rows.column(n) for n in names]
        yield pa.RecordBatch.from_arrays([rowkind.texts(some.kinds), *columns], schema=schema)


def _as_changes(store: Store, names: Sequence[str], rows: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar(rowkind.TEXTS[kind]), rows.num_rows)
    columns = [rows.column(n) for n in names]
    return pa.RecordBatch.from_arrays([kinds, *columns], schema=change_schema(store, names))


def _keys(
    store: Store, log: TableLog, start: Offsets, stop: Offsets
) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """The distinct keys of each partition in a part of the log, in key order."""
    schema = store.schema
    names = tuple(dict.fromkeys((*schema.trimmed_primary_keys, *schema.partition_keys)))
    parts = [some.rows for some in log.log.read(start, stop, names)]
    if not parts:
        return
    rows = joined(parts)
    partitions, places = routing.partitions_of(rows, schema)
    for number, partition in enumerate(partitions):
        some = rows.filter(pa.array(places == number))
        codes = key_columns.codes(key_columns.of_batch(some, schema.key_fields))
        yield partition, some.take(pa.array(np.unique(codes, return_index=True)[1]))
