"""The difference of two states of a table with a primary key: rows that are new or changed, keys that are
gone (FORMAT.md 21.3).

Bucket by bucket, and only sections of keys that hold a file which is not in both states: the rows of each
side are merged on read, then both are walked in key order, window by window (memory: one batch a side plus
one window). A key with the same values on both sides is left out; of a changed one the new row is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.lsm.levels.sorted_run import key_sections
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge import merge_reader
from tablestore.lsm.merge.groups import joined
from tablestore.lsm.merge.keys import equal_rows
from tablestore.meta.deletion_files import deletion_files
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store
from tablestore.read.changes.incremental import change_schema
from tablestore.read.scan.data_split import ROWKIND, DataSplit
from tablestore.read.scan.plan import Plan, pruner_of
from tablestore.read.scan.pruning import Filters, selected_partitions
from tablestore.read.supported import readable_condition, require_readable_files

_SIDE = "_SIDE"
Place = tuple[bytes, int]
Deletions = Mapping[Place, Mapping[str, DeletionFile]]


@dataclass(frozen=True, slots=True)
class DiffSplit(DataSplit):
    """What differs in one bucket: `files` are those of the later state, `before` those of the earlier one."""

    before: DataSplit | None = None

    def read(
        self,
        store: Store,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        *,
        with_kinds: bool = False,
        keep_retracts: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that are new or changed, in key order; `with_kinds` also keys that are gone, as −D."""
        names = tuple(columns if columns is not None else store.schema.names)
        bound = None if where is None else predicate.bind(where, store.schema)
        schema = change_schema(store, names)
        place = self.partition, self.bucket, self.total_buckets, self.snapshot_id
        after = DataSplit(*place, self.files, False, self.deletion_files)
        assert self.before is not None
        readers = [partial(_side, store, half, i) for i, half in enumerate((self.before, after))]
        for parts in merge_reader.windows(readers, store.schema.key_fields):
            codes = key_columns.codes(key_columns.concatenated([components for _, components in parts]))
            changed = _differences(joined([batch for batch, _ in parts]), codes)
            if bound is not None:
                changed = changed.filter(evaluate.mask(bound, changed))
            if not with_kinds:
                changed = changed.filter(pc.not_equal(changed.column(ROWKIND), "-D"))
            if changed.num_rows:
                wanted = schema.names if with_kinds else schema.names[1:]
                fields = [schema.field(n) for n in wanted]
                yield pa.RecordBatch.from_arrays(
                    [changed.column(n) for n in wanted], schema=pa.schema(fields)
                )


@dataclass(frozen=True, slots=True)
class StateDiff:
    """The difference from the state of `start` to that of `end`."""

    start: Snapshot
    end: Snapshot
    whole: ClassVar[bool] = False  # not all rows of one snapshot

    @property
    def snapshot(self) -> Snapshot:
        """The later state."""
        return self.end

    def under(self, store: Store) -> Store:
        """The store whose columns are read: today's."""
        return store

    def plan(
        self,
        store: Store,
        where: Predicate | None = None,
        *,
        columns: Sequence[str] | None = None,
        complete: bool = False,
    ) -> Plan:
        """One split a bucket that differs; no verdicts, `complete` or not. Raises Unsupported for tables
        without a primary key."""
        if not store.schema.shown.primary_keys:
            raise Unsupported(
                "the difference of two states of a table without a primary key",
                "read the changes between their snapshots",
            )
        bound = readable_condition(store, where, columns)
        ends = self.start, self.end
        sides = [_visible(store, s, bound) for s in ends]
        vectors = [deletion_files(store, s) if store.options.deletion_vectors else {} for s in ends]
        _require_same_totals(store, [e for side in sides for half in side.values() for e in half])
        splits = []
        for place in dict.fromkeys([*sides[0], *sides[1]]):
            halves = [side.get(place, []) for side in sides]
            before, after = (
                _half(store, s, place, half, _touched(store, place, halves, vectors), v)
                for s, half, v in zip(ends, halves, vectors, strict=True)
            )
            if before.files or after.files:
                totals = after.total_buckets, self.end.id
                splits.append(DiffSplit(*place, *totals, after.files, False, after.deletion_files, before))
        return Plan(store, self.end, bound, tuple(splits))


def _visible(store: Store, snapshot: Snapshot, where: Predicate | None) -> dict[Place, list[ManifestEntry]]:
    """The live entries that a read sees, by bucket; of a filter only its part over partitions is used."""
    entries = store.manifests.live_entries(snapshot)
    pruner = pruner_of(store, Filters.of(None, store.schema))
    entries = entries.filter(pruner.keep(entries)) if len(entries) else entries
    distinct, codes = entries.partitions()
    chosen = selected_partitions(
        distinct, Filters.of(where, store.schema).partition, store.partition_values, store.schema
    )
    if len(entries):
        entries = entries.filter(np.array([chosen[p] for p in distinct], dtype=bool)[codes])
    require_readable_files(entries, store.schema_of)
    return _by_bucket(entries)


def _by_bucket(entries: Entries) -> dict[Place, list[ManifestEntry]]:
    by_bucket: dict[Place, list[ManifestEntry]] = {}
    for e in entries:
        by_bucket.setdefault((e.partition, e.bucket), []).append(e)
    return by_bucket


def _require_same_totals(store: Store, entries: Sequence[ManifestEntry]) -> None:
    """Raise InvalidRequest for a partition whose number of buckets changed: its keys are in other buckets."""
    totals: dict[bytes, int] = {}
    for e in entries:
        if e.total_buckets >= 0 and totals.setdefault(e.partition, e.total_buckets) != e.total_buckets:
            where = store.partition_text(e.partition) or "the table"
            both = sorted({e.total_buckets, totals[e.partition]})
            raise InvalidRequest(f"{where} had {both} buckets in these states: a difference needs one number")


def _touched(
    store: Store, place: Place, halves: Sequence[list[ManifestEntry]], vectors: Sequence[Deletions]
) -> set[str]:
    """The names of the files in sections of keys where the two states differ."""
    names = [
        {e.file.file_name: gone.get(e.file.file_name) for e in half}
        for half, gone in zip(halves, (v.get(place, {}) for v in vectors), strict=True)
    ]
    same = {n for n, vector in names[0].items() if n in names[1] and names[1][n] == vector}
    files = {e.file.file_name: e.file for half in halves for e in half}
    touched: set[str] = set()
    for section in key_sections(list(files.values()), store.key_order):
        in_section = {f.file_name for run in section for f in run.files}
        if not in_section <= same:
            touched |= in_section
    return touched


def _half(
    store: Store,
    snapshot: Snapshot,
    place: Place,
    entries: list[ManifestEntry],
    touched: set[str],
    vectors: Deletions,
) -> DataSplit:
    """The split of one side of a bucket, to be merged."""
    some = [e for e in entries if e.file.file_name in touched]
    gone = vectors.get(place, {})
    deleted = tuple(gone.get(e.file.file_name) for e in some) if gone else ()
    total = some[0].total_buckets if some else store.options.bucket
    return DataSplit(*place, total, snapshot.id, tuple(e.file for e in some), False, deleted)


def by_key(store: Store, changed: pa.Table) -> pa.Table:
    """The differences of all splits as those of the table: a key that moved to another bucket or partition is
    not gone, and its row is given only if it changed."""
    fixed = store.options.bucket > 0 and set(store.schema.partition_keys) <= set(store.schema.primary_keys)
    if fixed or not changed.num_rows:
        return changed
    rows = joined(changed.to_batches())
    later = pc.not_equal(rows.column(ROWKIND), "-D").cast(pa.int8())
    codes = key_columns.codes(key_columns.of_batch(rows, store.schema.columns(store.schema.primary_keys)))
    differences = _differences(rows.append_column(_SIDE, later), codes)
    return pa.table([differences.column(n) for n in changed.schema.names], schema=changed.schema)


def _side(store: Store, split: DataSplit, side: int) -> Iterator[pa.RecordBatch]:
    """Merged rows of one state in key order, with their kinds and the side they are of."""
    if not split.files:
        return
    for batch in split.read(store, with_kinds=True):
        yield batch.append_column(_SIDE, pa.array(np.full(batch.num_rows, side, dtype=np.int8)))


def _differences(rows: pa.RecordBatch, codes: np.ndarray) -> pa.RecordBatch:
    """The rows of a window that differ; lone rows of the earlier state become −D."""
    side = rows.column(_SIDE).to_numpy(zero_copy_only=False)
    order = np.lexsort((side, codes))
    pair = np.flatnonzero(codes[order][1:] == codes[order][:-1])  # the earlier row, then the later one
    keep = np.ones(len(order), dtype=bool)
    keep[pair] = False
    values = rows.select([n for n in rows.schema.names if n not in (_SIDE, ROWKIND)])
    if len(pair):
        earlier, later = (values.take(pa.array(order[p])) for p in (pair, pair + 1))
        keep[pair + 1] = ~equal_rows(earlier, later)
    chosen = order[keep]
    kept = rows.take(pa.array(chosen))
    kinds = pc.if_else(pa.array(side[chosen] == 0), "-D", kept.column(ROWKIND))
    return kept.set_column(kept.schema.get_field_index(ROWKIND), ROWKIND, kinds)
