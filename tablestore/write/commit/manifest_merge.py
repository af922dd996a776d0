"""Merging of manifests at each commit (FORMAT.md 18): `plan` decides purely, `merged` acts.

Only the manifests of the snapshot before are merged, never the new delta. Neighbours are merged in place, so
a DELETE never moves before its ADD. Among those merged no two entries match, so tables with a primary key,
whose files have their order from sequence numbers, put them in order of their partitions.
Memory: the entries of the manifests that are merged, about 1 kB each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestFileMeta, PartitionBounds
from tablestore.meta.manifest_rewrite import rewritten
from tablestore.meta.manifests import ManifestStore, ManifestWriter


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Groups in order; a group of one manifest stays as it is. `full` drops entries that DELETEs anywhere
    cancel."""

    groups: tuple[tuple[ManifestFileMeta, ...], ...]
    full: bool
    reason: str


def plan(manifests: Sequence[ManifestFileMeta], options: TableOptions) -> MergePlan:
    """Which manifests are merged: all small or deleting ones once they have 16 MB, else runs of 8 MB and a
    tail of 30 manifests."""
    changing = sum(m.file_size for m in manifests if _must_change(m, options))
    if changing >= options.manifest_full_bytes:
        reason = f"{changing} bytes of small or deleting manifests ≥ {options.manifest_full_bytes}"
        return MergePlan((tuple(manifests),), True, f"full: {reason}")
    groups: list[tuple[ManifestFileMeta, ...]] = []
    pending, pending_bytes = list[ManifestFileMeta](), 0
    for m in manifests:
        pending.append(m)
        pending_bytes += m.file_size
        if pending_bytes >= options.manifest_target_bytes:
            groups.append(tuple(pending))
            pending, pending_bytes = [], 0
    if len(pending) >= options.manifest_merge_min_count:
        groups.append(tuple(pending))
        reason = f"{len(pending)} manifests ≥ {options.manifest_merge_min_count}"
    else:
        groups.extend((m,) for m in pending)
        reason = f"{len(pending)} small manifests < {options.manifest_merge_min_count}: left"
    return MergePlan(tuple(groups), False, reason)


def _must_change(m: ManifestFileMeta, options: TableOptions) -> bool:
    return m.num_deleted > 0 or m.file_size < options.manifest_target_bytes


def merged(
    manifests: Sequence[ManifestFileMeta],
    store: ManifestStore,
    writer: ManifestWriter,
    options: TableOptions,
    *,
    by_partition: bool = False,
) -> list[ManifestFileMeta]:
    """The base manifests of the next snapshot; merged ones are ordered `by_partition` where readers do not
    depend on the order of manifests."""
    chosen = plan(manifests, options)
    sorts = by_partition and len(writer.partition_types) > 0
    if chosen.full:
        return _full(manifests, store, writer, options, by_partition=sorts)
    result: list[ManifestFileMeta] = []
    for group in chosen.groups:
        if len(group) == 1:
            result.append(group[0])
            continue
        entries = store.read_manifests(group)
        result += rewritten(group, entries, ~entries.cancelled(), store, writer, by_partition=sorts)
    return result


def _full(
    manifests: Sequence[ManifestFileMeta],
    store: ManifestStore,
    writer: ManifestWriter,
    options: TableOptions,
    *,
    by_partition: bool,
) -> list[ManifestFileMeta]:
    """The base manifests without any cancelled ADD and any DELETE. Large manifests that hold neither stay;
    they are not read where no partition of a DELETE can be among theirs."""
    changing = [m for m in manifests if _must_change(m, options)]
    names = {m.file_name for m in changing}
    entries = store.read_manifests(changing)
    unpaired = entries.filter((entries.numbers("kind") == DELETE) & ~entries.cancelled())
    bounds = PartitionBounds.of(unpaired.partitions()[0], writer.partition_types)
    deletes = len(unpaired) > 0
    reached = [m for m in manifests if m.file_name in names or (deletes and bounds.meets(m.partition_stats))]
    if len(reached) > len(changing):
        entries = store.read_manifests(reached)
    keep = (entries.numbers("kind") == ADD) & ~entries.cancelled()
    ends = np.cumsum([m.num_added + m.num_deleted for m in reached]).tolist()
    rest, rows = list[ManifestFileMeta](), list[np.ndarray]()
    for m, start, stop in zip(reached, [0, *ends], ends, strict=False):
        if _must_change(m, options) or not keep[start:stop].all():
            rest.append(m)
            rows.append(np.arange(start, stop))
    changed = {m.file_name for m in rest}
    kept = [m for m in manifests if m.file_name not in changed]
    if not rest:
        return kept
    at = np.concatenate(rows)
    return kept + rewritten(rest, entries.take(at), keep[at], store, writer, by_partition=by_partition)
