"""Splits of live files: which files one reader takes (FORMAT.md 10.3). Pure.

A group is raw-convertible when the rows of its files are rows of the table: no other file overlaps it and it
holds no retraction, or deletion vectors say which of its rows are superseded. Everything else must be merged,
a whole section at a time. Neighbouring groups are packed up to `source.split.target-size`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tablestore.core.options.table_options import MergeEngine, TableOptions
from tablestore.format import binary_row
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.manifest import ADD, DataFileMeta, ManifestEntry
from tablestore.format.schema import TableSchema
from tablestore.lsm.levels import interval
from tablestore.meta.entries import Entries
from tablestore.read.scan import sections
from tablestore.read.scan.data_split import DataSplit

_FEW = 4_096  # files of a plan up to which the objects of all are made when one is asked for


class SplitFiles(Sequence[DataFileMeta]):
    """The files of a split as a sequence that makes its objects on first use: a plan of 10,000 files takes a
    tenth of the time that all their objects would take."""

    __slots__ = ("_entries", "_made", "_rows")

    def __init__(self, entries: Entries, rows: np.ndarray) -> None:
        self._entries, self._rows = entries, rows
        self._made: tuple[DataFileMeta, ...] | None = None

    @property
    def made(self) -> tuple[DataFileMeta, ...]:
        """The objects, made once."""
        if self._made is None:
            if len(self._entries) <= _FEW:  # others of this plan will be asked for too: all are made at once
                self._made = tuple(self._entries.objects[i].file for i in self._rows.tolist())
            else:
                self._made = tuple(e.file for e in self._entries.take(self._rows).objects)
        return self._made

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return self.made[at]

    def __iter__(self) -> Iterator[DataFileMeta]:
        return iter(self.made)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.made == tuple(other)

    def __hash__(self) -> int:
        return hash(self.made)

    def __repr__(self) -> str:
        return repr(self.made)

    def __reduce__(self) -> Any:
        return tuple, (list(self.made),)


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
    group = sections.buckets(entries)
    lifted = _lifted_groups(entries, group, schema, options)
    walk = _walk(entries, group, lifted, schema)
    partitions, codes = entries.partitions()
    buckets, totals = entries.numbers("bucket").tolist(), entries.numbers("total_buckets").tolist()
    target, cost = options.split_target_bytes, options.split_open_bytes
    data_splits: list[DataSplit] = []
    for number, spans in walk:
        for rows, raw in _packed(
            spans, target=target, open_cost=cost, by_kind=by_kind or bool(lifted[number])
        ):
            at = int(rows[0])
            place = partitions[codes[at]], buckets[at]
            files = SplitFiles(entries, rows)
            gone = (deletions or {}).get(place, {})
            vectors = tuple(gone.get(f.file_name) for f in files) if gone else ()
            data_splits.append(DataSplit(*place, totals[at], snapshot_id, files, raw, vectors))
    if options.scan_partitions_sorted:
        types = tuple(f.type for f in schema.partition_fields)
        data_splits.sort(key=lambda s: binary_row.key_order(s.partition, types))
    return tuple(data_splits)


@dataclass(frozen=True, slots=True)
class _Span:
    """A section of one bucket: positions of its entries, bytes, whether its file is read as it lies."""

    rows: np.ndarray
    size: int
    raw: bool


def _walk(
    entries: Entries, group: np.ndarray, lifted: np.ndarray, schema: TableSchema
) -> Iterator[tuple[int, list[_Span]]]:
    """The sections of each bucket, buckets in order of appearance."""
    order, starts = _cut(entries, group, lifted, schema)
    whole = entries.numbers("delete_count", null=-1) == 0
    sizes = entries.numbers("file_size")[order].tolist()
    groups = group[order].tolist()
    bounds = [*starts.tolist(), len(order)]
    number, spans = groups[0], list[_Span]()
    for start, stop in pairwise(bounds):
        if groups[start] != number:
            yield number, spans
            number, spans = groups[start], []
        rows = order[start:stop]
        if stop - start > 1:
            rows = _in_runs(entries, rows, schema)
        raw = stop - start == 1 and bool(lifted[number] or whole[rows[0]])
        spans.append(_Span(rows, sum(sizes[start:stop]), raw))
    yield number, spans


def _cut(
    entries: Entries, group: np.ndarray, lifted: np.ndarray, schema: TableSchema
) -> tuple[np.ndarray, np.ndarray]:
    """(positions by bucket and key, starts of sections); files of a lifted bucket are sections of their own,
    in the order of writing without a primary key, else as the manifests name them."""
    if not lifted.all():
        types = tuple(f.type for f in schema.key_fields)
        order, starts = sections.sections(entries, group, types, interval.key_order(types))
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
    key = interval.key_order([f.type for f in schema.key_fields])
    in_runs = [
        position[id(f)]
        for section in interval.partition([e.file for e in some], key)
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
    spans: Iterable[_Span], *, target: int, open_cost: int, by_kind: bool
) -> Iterator[tuple[np.ndarray, bool]]:
    """Neighbours joined until `target` bytes, as positions and whether they are read raw; a file weighs at
    least `open_cost`. Unless `by_kind`, a pack is raw only if it is a single file, as in Paimon."""
    rows: list[np.ndarray] = []
    weight, raw = 0, False
    for span in spans:
        more = max(span.size, open_cost)
        alike = rows and (not by_kind or raw == span.raw)
        if alike and weight + more <= target:
            rows.append(span.rows)
            weight, raw = weight + more, by_kind and span.raw
            continue
        if rows:
            yield np.concatenate(rows), raw
        rows, weight, raw = [span.rows], more, span.raw
    if rows:
        yield np.concatenate(rows), raw


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
