"""Amplification: each view sums to the others, to manifests and to the disk; estimates say that they are."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.format.manifests.manifest import ADD, DataFileMeta
from tablestore.format.snapshot import COMPACT
from tablestore.insight.explain import learned_sizes
from tablestore.insight.explain.table_history import changed_places, events
from tablestore.insight.inspect.amplification import views
from tablestore.insight.inspect.inspect import Inspect
from tests.read import golden
from tests.write.lives import born, lived

FLOWS = ["bytes_ingested", "bytes_compacted", "bytes_read", "bytes_moved", "bytes_changelog", "compactions"]
STATE = ["live_bytes", "live_files", "live_rows", "runs"]
VIEWS = ["table", "snapshot", "bucket", "level"]


def sums(view: pa.Table, names: list[str]) -> dict[str, int]:
    return {name: sum(v or 0 for v in view[name].to_pylist()) for name in names}


def one(t: ts.Table, **chosen: Any) -> dict[str, Any]:
    (row,) = t.inspect.amplification(**chosen).to_pylist()
    return row


def names(*some: Sequence[DataFileMeta]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(f.file_name for f in files) for files in some)


def key_is(key: dict[str, Any]) -> Any:
    return functools.reduce(lambda a, b: a & b, (ts.col(name) == value for name, value in key.items()))


def added(t: ts.Table, snapshot_id: int) -> int:
    """Bytes of the files that a snapshot added and did not move."""
    entries = list(t.store.manifests.delta_entries(t.store.snapshots.get(snapshot_id)))
    gone = {e.file.file_name for e in entries if e.kind != ADD}
    return sum(e.file.file_size for e in entries if e.kind == ADD and e.file.file_name not in gone)


def test_every_view_adds_up_to_the_table_and_to_the_disk(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        life, flushed, compacted, changelog_bytes = born(tmp_path / str(seed), seed), 0, 0, 0
        for _ in range(20):
            before = life.table.store.snapshots.latest_id() or 0
            life.step()
            t = life.table
            for snapshot_id in range(before + 1, (t.store.snapshots.latest_id() or 0) + 1):
                if t.store.snapshots.exists(snapshot_id):  # else expired by the step that made it
                    kind = t.store.snapshots.get(snapshot_id).commit_kind
                    flushed += 0 if kind == COMPACT else added(t, snapshot_id)
                    compacted += added(t, snapshot_id) if kind == COMPACT else 0
                    changes = t.store.manifests.changelog_entries(t.store.snapshots.get(snapshot_id))
                    changelog_bytes += sum(e.file.file_size for e in changes)
        if t.store.snapshots.latest_id() is None:
            continue
        whole = one(t)
        views = {per: t.inspect.amplification(per) for per in VIEWS}
        for per, view in views.items():
            assert sums(view, FLOWS) == {n: whole[n] for n in FLOWS}, (seed, per)
        for per in ("bucket", "level"):
            assert sums(views[per], STATE) == {n: whole[n] for n in STATE}, (seed, per)
        newest = views["snapshot"].to_pylist()[-1]
        assert {n: newest[n] for n in STATE} == {n: whole[n] for n in STATE}
        assert newest["write_amplification"] == whole["write_amplification"]
        assert newest["compacted_bytes"] == whole["compacted_bytes"], seed
        live = t.store.manifests.live_entries(t.store.snapshots.latest())
        paths = [t.store.file_path(e.partition, e.bucket, e.file) for e in live]
        assert whole["live_bytes"] == sum(os.stat(p).st_size for p in paths)
        assert (whole["since_snapshot"], whole["bytes_ingested"]) == (1, flushed), seed
        assert whole["bytes_changelog"] == changelog_bytes, seed
        # what was written and replaced again in one commit counts, too
        assert whole["bytes_compacted"] >= compacted
        shares = sum(v or 0 for v in views["level"]["write_amplification"].to_pylist())
        assert shares == pytest.approx(whole["write_amplification"] or 0)
        reads = sums(views["level"], ["point_files", "range_files"])
        assert reads == {n: pytest.approx(whole[n]) for n in reads}


def test_a_copy_is_known_after_a_full_compaction_and_estimated_before(tmp_path: Path) -> None:
    life = born(tmp_path, 0)
    t = life.table.alter(ts.set_options({"write-only": True, "bucket": 1}))
    for _ in range(6):
        life.table = t
        life._write()
    before = one(t)
    assert not before["space_exact"]
    assert "buckets estimated" in before["why"] or "as if" in before["why"]
    assert before["space_amplification"] > 1
    t.compact(full=True)
    after = one(t)
    assert (after["space_exact"], after["space_amplification"]) == (True, 1.0)
    assert after["runs"] == t.inspect.amplification("bucket").num_rows
    assert before["compacted_bytes"] == pytest.approx(after["compacted_bytes"], rel=0.35)


def test_reads_open_no_more_files_than_is_said(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds[:3]:
        t = lived(tmp_path / str(seed), seed, steps=10).table
        if t.options.get("deletion-vectors.enabled") or not t.scan().count():
            continue
        keys = t.scan(columns=t.primary_key).to_arrow().to_pylist()
        opened = [sum(len(s.files) for s in t.scan(where=key_is(key)).plan().splits) for key in keys]
        largest = max(r["point_files"] for r in t.inspect.amplification("bucket").to_pylist())
        assert max(opened) <= largest, seed


def test_far_back_copies_are_not_estimated_but_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = lived(tmp_path, 0, steps=12).table
    whole = t.inspect.amplification("snapshot").to_pylist()
    monkeypatch.setattr(views, "_MOST_COPIES", 3)
    cut = Inspect(t.store).amplification("snapshot").to_pylist()
    assert cut[-1] == whole[-1]
    assert [r["live_bytes"] for r in cut] == [r["live_bytes"] for r in whole]
    early = [r for r in cut if r["compacted_bytes"] is None and r["live_bytes"] is not None]
    assert early
    assert {r["why"] for r in early} == {"not estimated for more than 3 changes of buckets"}
    for short, long in zip(cut, whole, strict=True):
        assert short["compacted_bytes"] in (None, long["compacted_bytes"])


def test_marked_rows_make_a_single_run_larger_than_its_copy(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.a", schema={"k": ts.BIGINT}, options={"deletion-vectors.enabled": True, "bucket": -1}
    )
    t.write(pa.table({"k": pa.array(range(1000), pa.int64())}))
    assert one(t)["space_exact"]
    t.delete(ts.col("k") < 500)
    actual = one(t)
    assert not actual["space_exact"]
    assert actual["why"].endswith("; 500 rows are marked as deleted")
    assert actual["space_min"] < 2 < actual["space_max"]
    assert actual["compacted_bytes"] == pytest.approx(actual["live_bytes"] / 2, rel=0.01)


def test_what_expired_snapshots_wrote_still_counts(tmp_path: Path) -> None:
    t = lived(tmp_path, 1, steps=12).table
    before = one(t)
    t.consumers.reset("c0", 10_000)
    t.expire_snapshots(keep=1)
    after = one(t)
    assert {n: after[n] for n in FLOWS + STATE} == {n: before[n] for n in FLOWS + STATE}
    shown = t.inspect.amplification("snapshot").to_pylist()
    assert shown[0]["snapshot_id"] == 1
    assert [r["live_bytes"] is None for r in shown[:-1]] == [True] * (len(shown) - 1)
    shutil.rmtree(Path(t.location, "tablestore"))
    assert one(t)["since_snapshot"] == t.store.snapshots.earliest_id()


def test_buckets_and_partitions_can_be_looked_at_alone(tmp_path: Path) -> None:
    t = next(
        life.table
        for seed in range(20)
        if (life := lived(tmp_path / str(seed), seed, steps=8)).table.partition_by
    )
    for row in t.inspect.amplification("bucket").to_pylist():
        alone = one(t, partition=row["partition"], bucket=row["bucket"])
        assert alone == {n: v for n, v in row.items() if n in alone}


@pytest.mark.parametrize("name", ["pk_levels", "pk_changelog_full"])
def test_tables_of_others_are_accounted_for_by_their_manifests(name: str) -> None:
    store = golden.java(name)
    (row,) = Inspect(store).amplification().to_pylist()
    live = store.manifests.live_entries(store.snapshots.latest())
    assert row["live_bytes"] == sum(e.file.file_size for e in live)
    assert row["bytes_ingested"] > 0
    assert row["compactions_exact"] == (row["compactions"] == 0)


def test_a_table_without_snapshots_has_no_rows(tmp_path: Path) -> None:
    t = born(tmp_path, 0).table
    for per in VIEWS:
        assert t.inspect.amplification(per).num_rows == 0


@pytest.mark.large
def test_the_last_merges_are_found_without_going_through_all(
    tmp_path: Path, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned_sizes, "_MERGES_LEARNED", 3)
    for seed in seeds:
        life = born(tmp_path / str(seed), seed)
        for _ in range(30):
            life.step()
        store = life.table.store
        snapshots = views._last_run(store.snapshots.all())
        learned = [names(*m) for m in learned_sizes.newest_merges(store, snapshots[-1])]
        every: list[tuple[frozenset[str], ...]] = []
        collected: dict[int, list[tuple[str, int]]] = {}
        for event in events(store, first=snapshots[0].id, last=snapshots[-1].id):
            if event.kind == COMPACT and event.rewritten and event.written:
                every.append(names(event.rewritten, event.written))
            collected.setdefault(event.snapshot, []).append(event.place)
        assert set(learned) <= set(every), seed
        assert len(learned) >= min(3, len(every)), seed
        event_bytes: dict[int, list[tuple[str, int]]] = {}
        for snapshot_id, some in changed_places(store, snapshots):
            event_bytes.setdefault(snapshot_id, []).extend(some)
        assert {i: sorted(p) for i, p in event_bytes.items() if p} == {
            i: sorted(p) for i, p in collected.items()
        }, seed


def test_a_view_is_made_anew_once_snapshots_change(tmp_path: Path) -> None:
    t = lived(tmp_path, 1, steps=12).table
    first = t.inspect.amplification("snapshot")
    assert t.inspect.amplification("snapshot") is first
    assert t.inspect.amplification("snapshot", bucket=0) is not first
    t.tags.create("here")
    assert t.compact(full=True).committed is not None
    assert t.inspect.amplification("snapshot") == ts.open(t.location).inspect.amplification("snapshot")
    t.rollback(tag="here")
    assert t.inspect.amplification("snapshot") == first


def test_an_unknown_view_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="table, snapshot, bucket, level"):
        born(tmp_path, 0).table.inspect.amplification("file")


def test_a_table_that_went_back_behind_its_snapshots_starts_anew(tmp_path: Path) -> None:
    t = born(tmp_path, 0).table.alter(ts.set_options({"write-only": True}))
    rows = pa.table({"k": pa.array([1], pa.int64()), "p": pa.array([0], pa.int32()), "v": ["x"]})
    for _ in range(4):
        t.write(rows)
    t.tags.create("early", 1)
    t.expire_snapshots(keep=1)
    t.rollback(tag="early")
    t.write(rows)
    whole = one(t)
    assert whole["live_files"] == 2
    assert whole["since_snapshot"] == 1
