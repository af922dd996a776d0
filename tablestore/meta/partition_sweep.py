"""The live entries of some manifests in parts of whole partitions, in the order of partitions: so a plan of a
million files holds few of their entries at once.

Manifests are read in the order of their least partitions, which their statistics say. A partition is whole
once the next manifest begins after it. Merges keep manifests in this order (`manifest_rewrite.py`), so few
of them overlap. Memory: the entries of the manifests that overlap, of at least one, and one part. Where all
manifests hold all partitions, or there is one partition only, that is everything. Used by plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tablestore.core.errors import Corrupt
from tablestore.format import binary_row
from tablestore.format.manifests.manifest import ManifestFileMeta
from tablestore.format.types.arrow_types import DataType
from tablestore.meta.entries import Entries, concatenated
from tablestore.meta.manifests import ManifestStore

PART_ENTRIES = 20_000
"""Entries of a part, unless one partition has more."""

_FIRST = ()  # before the key of every partition


def live_parts(
    store: ManifestStore, manifests: Sequence[ManifestFileMeta], types: Sequence[DataType]
) -> Iterator[Entries]:
    """The live entries of these manifests; no partition is in two parts, and in a partition they are in the
    order of manifests. `types`: of the partition columns. Raises Corrupt as reads of manifests do."""
    nullable = tuple(t.as_nullable() for t in types)
    begins = [_least(m, nullable) for m in manifests]
    order = sorted(range(len(manifests)), key=begins.__getitem__)
    waiting: dict[int, Entries] = {}
    read = 0
    for group in store.in_groups([manifests[i] for i in order]):
        waiting |= zip(order[read : read + len(group)], group, strict=True)
        read += len(group)
        del group  # else it would stay until the next one is decoded
        bound = begins[order[read]] if read < len(order) else None
        if bound is None or any(begins[i] < bound for i in waiting):
            yield from (part.live() for part in _whole(waiting, bound, nullable))


def _least(m: ManifestFileMeta, types: Sequence[DataType]) -> tuple[Any, ...]:
    """What the order of no partition of a manifest is below, NULL being least."""
    nulls = m.partition_stats.null_counts
    try:
        values = binary_row.decode(m.partition_stats.min_values, types)
    except Corrupt:  # written without partition statistics
        return _FIRST
    if nulls is None or len(nulls) != len(types):
        return _FIRST
    return binary_row.sort_key([None if n != 0 else v for v, n in zip(values, nulls, strict=True)], types)


def _whole(
    waiting: dict[int, Entries], bound: tuple[Any, ...] | None, types: Sequence[DataType]
) -> Iterator[Entries]:
    """Take the partitions below `bound` (None: all) out of the entries that wait, by manifest."""
    numbers = sorted(n for n in waiting if len(waiting[n]))
    by_manifest = [waiting[n].partitions() for n in numbers]
    keys = {p: binary_row.key_order(p, types) for distinct, _ in by_manifest for p in distinct}
    ordered = sorted(keys, key=keys.__getitem__)
    place = {p: i for i, p in enumerate(ordered)}
    ranks = [np.array([place[p] for p in distinct])[codes] for distinct, codes in by_manifest]
    end = len(ordered) if bound is None else sum(keys[p] < bound for p in ordered)
    counts = sum((np.bincount(r, minlength=len(ordered)) for r in ranks), np.zeros(len(ordered), np.int64))
    for start, stop in _spans(counts[:end]):
        inside = [(rank >= start) & (rank < stop) for rank in ranks]
        some = (waiting[n].filter(chosen).table for n, chosen in zip(numbers, inside, strict=True))
        part = concatenated(some)
        yield part.take(np.argsort(np.concatenate(_chosen(ranks, inside)), kind="stable"))
    for n, rank in zip(numbers, ranks, strict=True):
        waiting[n] = waiting[n].filter(rank >= end)
    for n in [n for n, entries in waiting.items() if not len(entries)]:
        del waiting[n]


def _chosen(ranks: Sequence[np.ndarray], inside: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [rank[chosen] for rank, chosen in zip(ranks, inside, strict=True)]


def _spans(counts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Neighbouring partitions, of these numbers of entries, with at most `PART_ENTRIES` or alone."""
    start, rows = 0, 0
    for at, count in enumerate(counts.tolist()):
        if rows and rows + count > PART_ENTRIES:
            yield start, at
            start, rows = at, 0
        rows += count
    if rows:
        yield start, len(counts)
