"""Splits of live files: which files one reader takes (FORMAT.md 10.3, 12.3). Pure.

A group is raw-convertible when the rows of its files are rows of the table: no other file overlaps it and it
holds no retraction, or deletion vectors say which of its rows are superseded. Everything else must be merged,
a whole section at a time. Sections are those of `sorted_run.key_sections`, for all buckets of a plan in one
sort; objects of files are made only for sections of more than one. Neighbouring groups are packed up to
`source.split.target-size`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.options.table_options import MergeEngine, TableOptions
from tablestore.format import binary_row
from tablestore.format.binary_row import comparable_keys
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType
from tablestore.lsm.levels.sorted_run import key_sections
from tablestore.lsm.merge import keys
from tablestore.meta.entries import Entries
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.split_files import SplitFiles


def bucket_numbers(entries: Entries) -> np.ndarray:
    """A number for each entry's (partition, bucket), rising in order of first appearance."""
    _, codes = entries.partitions()
    pairs = codes.astype(np.int64) << 32 | entries.numbers("bucket") & 0xFFFFFFFF
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def section_starts(
    entries: Entries, group: np.ndarray, types: tuple[DataType, ...], key: Callable[[bytes], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """(positions of entries by group and key, start of each section in them). `key` makes keys comparable."""
    low, high = _ranks(entries, types, key)
    span = np.int64(2 * len(entries))  # more than any rank
    low, high = low + group * span, high + group * span
    order = np.lexsort((high, low))
    ends = np.maximum.accumulate(high[order])
    starts = np.flatnonzero(np.r_[True, low[order][1:] > ends[:-1]])
    return order, starts


def _ranks(
    entries: Entries, types: tuple[DataType, ...], key: Callable[[bytes], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Dense ranks of all minimum and maximum keys together."""
    columns = [entries.table.column(n).combine_chunks() for n in ("min_key", "max_key")]
    both = pa.concat_arrays(columns)
    parts = binary_row.integers(both, types)
    if parts is not None:
        ranks = np.unique(keys.codes(parts), return_inverse=True)[1]
    else:
        encoded = both.dictionary_encode()
        values = [key(k) for k in encoded.dictionary.to_pylist()]
        order = sorted(range(len(values)), key=values.__getitem__)
        dense = np.empty(len(values), dtype=np.int64)
        dense[order] = np.cumsum([0, *(values[low] != values[high] for low, high in pairwise(order))])
        ranks = dense[encoded.indices.to_numpy()]
    return ranks[: len(entries)].astype(np.int64), ranks[len(entries) :].astype(np.int64)


def splits(
    entries: Entries,
    *,
    snapshot_id: int,
    schema: TableSchema,
    options: TableOptions,
    deletions: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]] | None = None,
    by_kind: bool = False,
) -> tuple[DataSplit, ...]:
    """Splits of these live files, bucket by bucket in manifest order (in order of their partitions with
    `scan.plan-sort-partition`); `deletions` by bucket and file name.

    In a bucket come sections in key order with a primary key, else files in the order of writing. Neighbours
    are packed up to the target size; merged ones take raw neighbours in, unless `by_kind`. Whole columns at a
    time: the sections of all buckets in one sort, then a walk over them.
    """
    if not len(entries):
        return ()
    group = bucket_numbers(entries)
    lifted = _lifted_groups(entries, group, schema, options)
    placed = _sections(entries, group, lifted, schema)
    partitions, codes = entries.partitions()
    buckets, totals = entries.numbers("bucket"), entries.numbers("total_buckets")
    packs = _packed(placed, lifted, options=options, by_kind=by_kind)
    begins, order = [start for start, _, _ in packs], placed.order
    first = order[begins]
    places = zip(codes[first].tolist(), buckets[first].tolist(), totals[first].tolist(), strict=True)
    sums = (np.add.reduceat(entries.numbers(n)[order], begins).tolist() for n in ("file_size", "row_count"))
    whole = np.logical_and.reduceat(_whole(entries, schema)[order], begins).tolist()
    data_splits: list[DataSplit] = []
    for (start, stop, raw), (code, bucket, total), size, rows, exact in zip(
        packs, places, *sums, whole, strict=True
    ):
        files = SplitFiles(entries, order, start, stop, size=size, rows=rows, whole=exact)
        gone = deletions.get((partitions[code], bucket), {}) if deletions else {}
        vectors = tuple(gone.get(f.file_name) for f in files) if gone else ()
        data_splits.append(DataSplit(partitions[code], bucket, total, snapshot_id, files, raw, vectors))
    if options.scan_partitions_sorted:
        types = tuple(f.type for f in schema.partition_fields)
        data_splits.sort(key=lambda s: binary_row.key_order(s.partition, types))
    return tuple(data_splits)


def _whole(entries: Entries, schema: TableSchema) -> np.ndarray:
    """Whether each row of a file is one of the table, as far as the file alone says it: none takes away, none
    is a part of a row."""
    table = entries.table
    kept = np.ones(len(entries), dtype=bool)
    if schema.primary_keys:
        kept = entries.numbers("delete_count", null=-1) == 0
    parts = pc.or_(pc.is_valid(table.column("write_cols")), pc.is_valid(table.column("first_row_id")))
    return kept & ~parts.to_numpy()


@dataclass(frozen=True, slots=True)
class _Sections:
    """The sections of all buckets, buckets in order of appearance. `order`: positions of entries; by section
    where it starts in them (`bounds` has their end, too), its bucket, bytes, and whether its file is read as
    it lies."""

    order: np.ndarray
    bounds: np.ndarray
    group: np.ndarray
    size: np.ndarray
    raw: np.ndarray


def _sections(entries: Entries, group: np.ndarray, lifted: np.ndarray, schema: TableSchema) -> _Sections:
    """The sections, those of more than one file run after run."""
    order, starts = _cut(entries, group, lifted, schema)
    bounds = np.r_[starts, len(order)]
    count, first = np.diff(bounds), order[starts]
    whole = entries.numbers("delete_count", null=-1)[first] == 0
    size = np.add.reduceat(entries.numbers("file_size")[order], starts)
    raw = (count == 1) & (lifted[group[first]] | whole)
    for i in np.flatnonzero(count > 1).tolist():
        span = slice(bounds[i], bounds[i + 1])
        order[span] = _in_runs(entries, order[span], schema)
    return _Sections(order, bounds, group[first], size, raw)


def _cut(
    entries: Entries, group: np.ndarray, lifted: np.ndarray, schema: TableSchema
) -> tuple[np.ndarray, np.ndarray]:
    """(positions by bucket and key, starts of sections); files of a lifted bucket are sections of their own,
    in the order of writing without a primary key, else as the manifests name them."""
    if not lifted.all():
        types = tuple(f.type for f in schema.key_fields)
        order, starts = section_starts(entries, group, types, comparable_keys(types))
        if not lifted.any():
            return order, starts
    else:
        order, starts = np.argsort(group, kind="stable"), np.array([], dtype=np.int64)
    plain = np.lexsort((entries.numbers("min_sequence"), group)) if not schema.primary_keys else None
    alone = np.argsort(group, kind="stable") if plain is None else plain
    raised = lifted[group[alone]]
    order = np.where(raised, alone, order)
    first = np.zeros(len(order), dtype=bool)
    first[starts] = True
    return order, np.flatnonzero(first | raised)


def _in_runs(entries: Entries, rows: np.ndarray, schema: TableSchema) -> np.ndarray:
    """Positions of one section's files, run after run."""
    some = entries.take(rows).objects
    position = {id(e.file): int(r) for e, r in zip(some, rows, strict=True)}
    key = comparable_keys([f.type for f in schema.key_fields])
    in_runs = [
        position[id(f)]
        for section in key_sections([e.file for e in some], key)
        for run in section
        for f in run.files
    ]
    return np.array(in_runs)


def _lifted_groups(
    entries: Entries, group: np.ndarray, schema: TableSchema, options: TableOptions
) -> np.ndarray:
    """By bucket, whether all its files can be read raw, however they are packed: no key is in two of them, or
    only one row of a key is not deleted."""
    count = int(group.max()) + 1
    if not schema.primary_keys:
        return np.ones(count, dtype=bool)
    levels = entries.numbers("level")
    whole = (levels > 0) & (entries.numbers("delete_count", null=-1) == 0)
    lifted = np.ones(count, dtype=bool)
    np.logical_and.at(lifted, group, whole)
    if not (options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW):
        low, high = np.full(count, 1 << 30), np.full(count, -1)
        np.minimum.at(low, group, levels)
        np.maximum.at(high, group, levels)
        lifted &= low == high
    return lifted


def _packed(
    lying: _Sections, lifted: np.ndarray, *, options: TableOptions, by_kind: bool
) -> list[tuple[int, int, bool]]:
    """Neighbours of one bucket joined until the target size, as (start, stop, whether it is read raw) in the
    order of the sections. A section weighs at least what it costs to open a file. Unless `by_kind`, or the
    bucket is lifted, a pack is raw only if it is a single file, as in Paimon."""
    target, weights = options.split_target_bytes, np.maximum(lying.size, options.split_open_bytes)
    alike = (lifted[lying.group] | by_kind).tolist()
    sections = zip(
        *(a.tolist() for a in (lying.bounds[:-1], lying.bounds[1:], lying.group, weights, lying.raw)),
        alike,
        strict=True,
    )
    packs = list[tuple[int, int, bool]]()
    begun, end, number, total, raw = 0, 0, -1, 0, False
    for start, stop, bucket, weight, own, kinds in sections:
        same = bucket == number and (not kinds or raw == own)
        if same and total + weight <= target:
            end, total, raw = stop, total + weight, kinds and own
            continue
        if end:
            packs.append((begun, end, raw))
        begun, end, number, total, raw = start, stop, bucket, weight, own
    packs.append((begun, end, raw))
    return packs


def split_raw_and_merged(split: DataSplit, schema: TableSchema, options: TableOptions) -> list[DataSplit]:
    """The splits with those files that need no merge in splits of their own: for engines that read them
    natively."""
    if split.raw:
        return [split]
    place = split.partition, split.bucket
    gone = dict(zip((f.file_name for f in split.files), split.deletion_files, strict=False))
    apart = splits(
        Entries.of(ManifestEntry(ADD, *place, split.total_buckets, f) for f in split.files),
        snapshot_id=split.snapshot_id,
        schema=schema,
        options=options,
        deletions={place: {name: vector for name, vector in gone.items() if vector is not None}},
        by_kind=True,
    )
    return list(apart)
