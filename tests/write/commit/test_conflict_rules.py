"""What a commit refuses, and that nothing of it stays behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict
from tablestore.format.snapshot import Snapshot
from tablestore.meta.snapshots import SnapshotStore
from tablestore.write.commit.committer import Committer
from tests.tables import TableSpec

NUMBERS = TableSpec({"k": ts.BIGINT, "v": ts.INT}, primary_key=("k",))


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": pa.array([1] * len(keys), pa.int32())})


def files(t: ts.Table) -> set[str]:
    return {p.name for p in Path(t.location).rglob("data-*")}


def named(t: ts.Table) -> set[str]:
    ids = t.store.snapshots.ids()
    return {f["file_name"] for i in ids for f in t.inspect.levels(i).to_pylist()}


def test_the_loser_of_two_compactions_leaves_nothing(tmp_path: Path) -> None:
    t = NUMBERS.create(tmp_path, {"write-only": True})
    for k in range(3):
        t.write(rows(k, k + 1))
    stale = t.buckets_to_compact(full=True)
    t.compact(full=True)
    before = files(t)
    message = ts.compact_bucket(t.location, stale[0])
    with pytest.raises(CommitConflict, match="was to be replaced, but it is not live any more") as raised:
        t.commit([message], user="late")
    assert raised.value.snapshot == 4
    assert t.scan().count() == 4
    assert t.check() == []
    assert files(t) - before, "an engine's files are the engine's to delete or to commit again"


def test_rows_are_published_when_only_their_compaction_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = NUMBERS.create(tmp_path, {"num-sorted-run.compaction-trigger": 3})
    for k in range(2):
        t.write(rows(k, k + 1))
    late = t.writer()
    late.write(rows(7, 8))
    t.compact(full=True)
    late.__exit__(None, None, None)
    done = late.committed
    assert done is not None
    assert (done.snapshots, done.rows) == ((4,), 2)
    assert "not live any more" in str(done.lost_compaction)
    assert "lost_compaction='deleted twice: " in repr(done)
    assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [0, 1, 2, 7, 8]
    assert files(t) == named(t), "the files of the lost compaction are gone"
    assert t.check() == []


def test_a_replay_leaves_no_files(tmp_path: Path) -> None:
    t = NUMBERS.create(tmp_path)
    t.write(rows(1), user="u", identifier=1)
    before = files(t)
    assert t.write(rows(2), user="u", identifier=1).replayed
    assert files(t) == before


def test_a_partition_of_another_bucket_count_is_refused_before_a_rescale(tmp_path: Path) -> None:
    t = NUMBERS.create(tmp_path, {"bucket": 2})
    t.write(rows(*range(20)))
    rescaled = t.store.schema.with_options({"bucket": "4"})
    assert t.store.schemas.commit(type(rescaled)(**{**vars_of(rescaled), "id": 1}))
    t = ts.open(t.location)
    before = files(t)
    with pytest.raises(CommitConflict, match="new bucket num 4, but the previous bucket num is 2"):
        t.write(rows(100))
    assert files(t) == before
    t.overwrite(t.scan().to_arrow())
    t.write(rows(100))
    assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [*range(20), 100]
    assert {e.total_buckets for e in t.store.manifests.live_entries(t.store.snapshots.latest())} == {4}
    assert t.check() == []


def vars_of(schema: object) -> dict[str, object]:
    return {name: getattr(schema, name) for name in schema.__dataclass_fields__}


def test_a_compaction_of_ours_that_is_refused_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = NUMBERS.create(tmp_path, {"write-only": True})
    for k in range(3):
        t.write(rows(k, k + 1))
    commit = Committer.commit
    raced = []

    def race(self: Committer, *arguments: object) -> object:
        if not raced:
            raced.append(True)
            ts.open(t.location).compact(full=True)
        return commit(self, *arguments)

    monkeypatch.setattr(Committer, "commit", race)
    with pytest.raises(CommitConflict, match="not live any more"):
        t.compact(full=True)
    assert files(t) == named(t)
    assert t.check() == []


@pytest.mark.parametrize("options", [{"deletion-vectors.enabled": True}, {"merge-engine": "first-row"}])
def test_compactions_that_did_not_see_each_other_leave_no_key_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1, **options}
    )
    t.write([{"k": k, "v": k * 7919 % 1_000_003} for k in range(9000)])
    t.compact(full=True)
    writer = t.writer()
    writer.write([{"k": 9001, "v": 1}])
    t.with_options({"write-only": True}).write([{"k": 9001, "v": 2}])
    publish, done = SnapshotStore.publish, []

    def after_the_writer(self: SnapshotStore, snapshot: Snapshot) -> bool:
        if not done:
            done.append(snapshot.id)
            writer.__exit__(None, None, None)
        return publish(self, snapshot)

    monkeypatch.setattr(SnapshotStore, "publish", after_the_writer)
    with pytest.raises(CommitConflict):
        t.compact(full=True)
    monkeypatch.undo()
    t = t.refresh()
    t.compact(full=True)
    assert t.scan(where=ts.col("k") > 9000).to_arrow().num_rows == 1
    assert t.check() == []


def test_an_engine_s_compaction_that_did_not_see_another_is_refused(tmp_path: Path) -> None:
    options = {"bucket": 1, "deletion-vectors.enabled": True}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options=options
    )
    t.write([{"k": k, "v": k * 7919 % 1_000_003} for k in range(9000)])
    t.compact(full=True)
    writer = t.writer()  # sees no file of level 0
    writer.write([{"k": 9001, "v": 1}])
    t.with_options({"write-only": True}).write([{"k": 9001, "v": 2}])
    done = [ts.compact_bucket(t.location, task) for task in t.buckets_to_compact(full=True)]
    writer.__exit__(None, None, None)
    with pytest.raises(CommitConflict, match="compacted meanwhile"):
        t.commit([m for m in done if m is not None], user="job")
    t = t.refresh()
    again = [ts.compact_bucket(t.location, task) for task in t.buckets_to_compact(full=True)]
    t.commit([m for m in again if m is not None], user="job")
    assert t.scan(where=ts.col("k") > 9000).to_arrow().num_rows == 1
    assert t.check() == []
