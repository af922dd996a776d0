"""The part of `check` for what snapshots say: live files after each delta, counts, layout, identifiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from tablestore.core.options.names import UUID
from tablestore.format.manifests.manifest import ADD, DELETE, DataFileMeta, ManifestEntry
from tablestore.format.snapshot import ANALYZE, APPEND, BATCH_IDENTIFIER, COMPACT, Snapshot
from tablestore.insight.check.findings import Findings
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.meta.deletion_files import Place
from tablestore.meta.store import Store

_OURS = UUID  # an option of every table made here


def check_counts(
    store: Store, findings: Findings, where: str, s: Snapshot, before: int, changed: list[ManifestEntry]
) -> None:
    """I8: record counts are sums over entries."""
    delta = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in changed)
    if s.delta_record_count is not None and s.delta_record_count != delta:
        text = f"deltaRecordCount is {s.delta_record_count}, its entries sum to {delta}"
        findings.violate("I8", where, text)
    if s.total_record_count is not None and s.total_record_count != before + delta:
        text = f"totalRecordCount is {s.total_record_count}, the live files hold {before + delta}"
        if _OURS in store.schema.options:
            findings.violate("I8", where, text)
        else:
            findings.note(f"{where}: {text}: its writer may count merged rows")


def check_kind(
    store: Store, findings: Findings, where: str, s: Snapshot, changed: list[ManifestEntry]
) -> None:
    """What each kind of commit may do."""
    deletes = sum(e.kind == DELETE for e in changed)
    if s.commit_kind == APPEND and deletes:
        findings.violate("I6", where, f"an APPEND deletes {deletes} files")
    if s.commit_kind == ANALYZE and changed:
        findings.violate("I6", where, f"an ANALYZE changes {len(changed)} files")
    if (
        s.commit_kind == COMPACT
        and any(e.kind == ADD and e.file.level == 0 for e in changed)
        and store.schema.primary_keys
        and not any(e.bucket == POSTPONE_BUCKET for e in changed)  # rows that waited come as if written
    ):
        findings.violate("I7", where, "a COMPACT writes into level 0")


def check_layout(store: Store, findings: Findings, where: str, live: Iterable[ManifestEntry]) -> None:
    """I4: files of a level do not overlap in keys; `live` are all files of some partitions.

    One file is at one level only; a partition has one number of buckets.
    """
    buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
    totals: dict[bytes, set[int]] = {}
    for e in live:
        buckets.setdefault((e.partition, e.bucket), []).append(e.file)
        if e.bucket != POSTPONE_BUCKET:
            totals.setdefault(e.partition, set()).add(e.total_buckets)
        if e.total_buckets > 0 and not 0 <= e.bucket < e.total_buckets:
            findings.violate("I10", where, f"{e.file.file_name} is in bucket {e.bucket} of {e.total_buckets}")
    for partition, some in totals.items():
        if len(some) > 1:
            text = f"partition {store.partition_text(partition)!r} mixes bucket counts {sorted(some)}"
            findings.violate("I10", where, text)
    for (partition, bucket), files in buckets.items():
        place = f"{where} {store.partition_text(partition)}/bucket-{bucket}".replace(" /", " ")
        for name, count in Counter(f.file_name for f in files).items():
            if count > 1:
                findings.violate("I6", place, f"{name} is live at {count} levels")
        if store.schema.primary_keys and bucket != POSTPONE_BUCKET:  # postponed rows wait unsorted
            _check_runs(store, findings, place, files)


def _check_runs(store: Store, findings: Findings, where: str, files: list[DataFileMeta]) -> None:
    levels: dict[int, list[tuple[Any, Any, str]]] = {}
    for f in files:
        low, high = store.key_order(f.min_key), store.key_order(f.max_key)
        if high < low:
            findings.violate("I4", f"{where}/{f.file_name}", "its greatest key is below its least")
        levels.setdefault(f.level, []).append((low, high, f.file_name))
    for level, spans in levels.items():
        spans.sort()
        for (_, end, a), (begin, _, b) in pairwise(spans) if level > 0 else ():
            if begin <= end:
                findings.violate("I4", where, f"{a} and {b} overlap in keys at level {level}")


def check_identifiers(findings: Findings, snapshots: list[Snapshot]) -> None:
    """I11: a user's streaming identifiers increase.

    Only the snapshots of one commit share one: first the rows, then the COMPACT.
    """
    last: dict[str, Snapshot] = {}
    for s in snapshots:
        if s.commit_identifier == BATCH_IDENTIFIER:
            continue
        before = last.get(s.commit_user)
        last[s.commit_user] = s
        if before is None or s.commit_identifier > before.commit_identifier:
            continue
        same = s.commit_identifier == before.commit_identifier
        if same and s.commit_kind == COMPACT and before.commit_kind != COMPACT:
            continue
        if s.commit_kind in (ANALYZE, COMPACT) or before.commit_kind == ANALYZE:
            continue  # maintenance under the same user: not a replay of rows
        after = f"{before.commit_identifier} in snapshot {before.id}"
        text = f"identifier {s.commit_identifier} of user {s.commit_user!r} follows {after}"
        findings.violate("I11", f"snapshot-{s.id}", text)


def numbered_at_once(before: Iterable[ManifestEntry], changed: Iterable[ManifestEntry]) -> set[Place]:
    """Buckets whose new rows are not numbered above all that were there: their writer began before those
    came, so that lower numbers lie above higher ones for good."""
    lowest: dict[Place, int] = {}
    for e in changed:
        if e.kind == ADD:
            place = e.partition, e.bucket
            lowest[place] = min(lowest.get(place, e.file.min_sequence), e.file.min_sequence)
    return {
        (e.partition, e.bucket)
        for e in before
        if e.file.max_sequence >= lowest.get((e.partition, e.bucket), e.file.max_sequence + 1)
    }


def rows_of(entries: Iterable[ManifestEntry]) -> int:
    """Rows of the files of entries, deletes and replaced ones included."""
    return sum(e.file.row_count for e in entries)
