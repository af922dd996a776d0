"""Merging of manifests at each commit (format facts section 18): what to merge is decided purely, `merged`
acts.

Only the manifests of the snapshot before are merged, never the new delta. Order is kept, so a DELETE never
moves before its ADD.
Memory: the entries of the manifests that are merged, about 1 kB each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tablestore.format.manifest import DELETE, ManifestEntry, ManifestFileMeta
from tablestore.meta.manifests import ManifestStore, ManifestWriter, compacted_entries
from tablestore.options import TableOptions


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Groups in order; a group of one manifest stays as it is. `full` drops entries that DELETEs anywhere
    cancel."""

    groups: tuple[tuple[ManifestFileMeta, ...], ...]
    full: bool
    reason: str


def plan(manifests: Sequence[ManifestFileMeta], options: TableOptions) -> MergePlan:
    """What to merge: everything small or with deletes once that is 16 MB, else runs of 8 MB and a tail of 30
    manifests."""
    changing = sum(m.file_size for m in manifests if _must_change(m, options))
    if changing >= options.manifest_full_bytes:
        reason = f"{changing} bytes of small or deleting manifests ≥ {options.manifest_full_bytes}"
        return MergePlan((tuple(manifests),), True, f"full: {reason}")
    groups: list[tuple[ManifestFileMeta, ...]] = []
    pending: list[ManifestFileMeta] = []
    for m in manifests:
        pending.append(m)
        if sum(p.file_size for p in pending) >= options.manifest_target_bytes:
            groups.append(tuple(pending))
            pending = []
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
    manifests: Sequence[ManifestFileMeta], store: ManifestStore, writer: ManifestWriter, options: TableOptions
) -> list[ManifestFileMeta]:
    """The base manifests of the next snapshot."""
    chosen = plan(manifests, options)
    if chosen.full:
        return _full(manifests, store, writer, options)
    result: list[ManifestFileMeta] = []
    for group in chosen.groups:
        if len(group) == 1:
            result.append(group[0])
            continue
        entries = compacted_entries(e for m in group for e in store.read_manifest(m.file_name))
        result += writer.manifest(entries, max(m.schema_id for m in group))
    return result


def _full(
    manifests: Sequence[ManifestFileMeta], store: ManifestStore, writer: ManifestWriter, options: TableOptions
) -> list[ManifestFileMeta]:
    """Drop every cancelled ADD and every DELETE; big manifests that hold none of either are kept."""
    read = {m.file_name: store.read_manifest(m.file_name) for m in manifests}
    gone = {e.identity for entries in read.values() for e in entries if e.kind == DELETE}
    kept, rest, schema_id = [], list[ManifestEntry](), 0
    for m in manifests:
        entries = read[m.file_name]
        if not _must_change(m, options) and not any(e.identity in gone for e in entries):
            kept.append(m)
            continue
        schema_id = max(schema_id, m.schema_id)
        rest += [e for e in entries if e.kind != DELETE and e.identity not in gone]
    return kept + writer.manifest(rest, schema_id)
