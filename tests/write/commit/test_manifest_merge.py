"""When manifests merge, and that nothing is lost by it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import tablestore as ts
from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.manifest import EMPTY_STATS, ManifestFileMeta
from tablestore.write.commit import manifest_merge

MB = 1 << 20


def metas(*sizes: int, deleted: int = 0) -> list[ManifestFileMeta]:
    return [ManifestFileMeta(f"m{i}", s, 10, deleted, EMPTY_STATS, 0) for i, s in enumerate(sizes)]


def shape(sizes: list[int], **options: str) -> tuple[list[int], bool]:
    plan = manifest_merge.plan(metas(*sizes), TableOptions.parse(options))
    return [len(g) for g in plan.groups], plan.full


def test_a_tail_merges_at_thirty_manifests() -> None:
    assert shape([1000] * 29) == ([1] * 29, False)
    assert shape([1000] * 30) == ([30], False)
    assert shape([9 * MB, *[1000] * 29]) == ([1] * 30, False)


def test_a_batch_merges_when_it_reaches_the_target_size() -> None:
    assert shape([3 * MB, 3 * MB, 3 * MB, 1000]) == ([3, 1], False)
    assert shape([9 * MB, 3 * MB]) == ([1, 1], False)


def test_everything_small_is_rewritten_at_sixteen_megabytes() -> None:
    assert shape([7 * MB, 7 * MB, 3 * MB]) == ([3], True)
    assert shape([9 * MB, 9 * MB]) == ([1, 1], False)
    plan = manifest_merge.plan(metas(9 * MB, 9 * MB, deleted=1), TableOptions())
    assert plan.full


def test_the_thirty_first_commit_holds_one_merged_manifest(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "t", schema={"k": ts.INT}, primary_key=["k"], options={"write-only": True}
    )
    for k in range(35):
        t.write(pa.table({"k": pa.array([k], pa.int32())}))
    snapshots = t.store.snapshots
    sizes = [len(t.store.manifests.read_list(snapshots.get(i).base_manifest_list)) for i in range(1, 36)]
    assert sizes == [*range(30), 1, 2, 3, 4, 5]
    assert t.scan().count() == 35
    assert t.check() == []


def test_cancelled_pairs_vanish_in_a_merge(tmp_path: Path) -> None:
    options = {"write-only": True, "manifest.merge-min-count": 4, "snapshot.num-retained.min": 100}
    t = ts.connect(str(tmp_path)).create_table("t", schema={"k": ts.INT}, primary_key=["k"], options=options)
    for k in range(12):
        t.write(pa.table({"k": pa.array([k], pa.int32())}))
        t.compact(full=True)
    latest = t.store.snapshots.latest()
    manifests = t.store.manifests.manifests(latest)
    assert sum(m.num_added + m.num_deleted for m in manifests) < 12
    assert t.scan().count() == 12
    assert t.check() == []


def test_a_full_merge_keeps_the_rows(tmp_path: Path) -> None:
    options = {
        "write-only": True,
        "manifest.full-compaction-threshold-size": "4 kb",
        "snapshot.num-retained.min": 100,
    }
    t = ts.connect(str(tmp_path)).create_table("t", schema={"k": ts.INT}, primary_key=["k"], options=options)
    for k in range(20):
        t.write(pa.table({"k": pa.array([k], pa.int32())}))
        if k % 3 == 0:
            t.compact(full=True)
    base = t.store.manifests.read_list(t.store.snapshots.latest().base_manifest_list)
    assert len(base) < 6
    assert not any(m.num_deleted for m in base)
    assert t.scan().count() == 20
    assert t.check() == []
