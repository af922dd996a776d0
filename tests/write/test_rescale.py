"""Rescaling, overwriting and partitions of different bucket counts."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict, InvalidOption, SchemaMismatch, Unsupported
from tablestore.read.scan.data_split import DataSplit
from tests.faults import SimEnv
from tests.tables import PARTITIONED

TWO_BUCKETS = PARTITIONED.with_options({"bucket": 2})


def rows(p: str, *keys: int, v: str = "x") -> list[dict[str, object]]:
    return [{"p": p, "k": k, "v": v} for k in keys]


def state(t: ts.Table) -> list[tuple[object, ...]]:
    rows = ts.open(t.location).scan().to_arrow().to_pylist()
    return sorted((r["p"], r["k"], r["v"]) for r in rows)


def totals(t: ts.Table) -> dict[str, set[int]]:
    store = ts.open(t.location).store
    collected: dict[str, set[int]] = {}
    for e in store.manifests.live_entries(store.snapshots.latest()):
        collected.setdefault(store.partition_text(e.partition), set()).add(e.total_buckets)
    return collected


def test_a_table_is_rescaled_by_its_own_rows(tmp_path: Path) -> None:
    t = TWO_BUCKETS.create(tmp_path)
    t.write(rows("a", *range(20)))
    t.write(rows("b", *range(20)))
    before = state(t)
    done = t.rescale(5)
    assert len(done.snapshots) == 1
    assert state(t) == before
    assert totals(t) == {"p=a": {5}, "p=b": {5}}
    ts.open(t.location).write(rows("a", 3, 99, v="y"))
    assert ("a", 99, "y") in state(t)
    assert ts.open(t.location).check() == []


def test_partitions_of_different_bucket_counts_lie_side_by_side(tmp_path: Path) -> None:
    t = TWO_BUCKETS.create(tmp_path)
    t.write(rows("a", *range(30)))
    t.write(rows("b", *range(30)))
    t.rescale(7, partition={"p": "b"})
    t = ts.open(t.location)
    assert totals(t) == {"p=a": {2}, "p=b": {7}}
    for k in range(30):
        assert t.get({"p": "a", "k": k})["v"] == t.get({"p": "b", "k": k})["v"] == "x"
    with pytest.raises(
        CommitConflict, match=r"partition 'p=a' with a new bucket num 7, .*previous bucket num is 2"
    ):
        t.write(rows("a", 100))
    t.write(rows("b", 100))
    t.write(rows("c", 1))
    t.compact(full=True)
    assert totals(t) == {"p=a": {2}, "p=b": {7}, "p=c": {7}}
    t.overwrite(rows("a", 1, 2, 3))
    assert totals(t)["p=a"] == {7}
    assert t.check() == []


def test_rows_written_while_a_rescale_reads_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = TWO_BUCKETS.create(tmp_path)
    t.write(rows("a", *range(5)))
    reading = DataSplit.read

    def read_and_meet(*arguments: object) -> object:
        yield from reading(*arguments)
        other = ts.open(t.location)
        if other.store.snapshots.latest_id() == 1:
            other.overwrite(rows("a", 7))

    monkeypatch.setattr(DataSplit, "read", read_and_meet)
    with pytest.raises(CommitConflict, match="snapshot 2 changed rows"):
        t.rescale(3)
    assert state(t) == [("a", 7, "x")]
    ts.open(t.location).rescale(3)
    assert state(t) == [("a", 7, "x")]
    assert ts.open(t.location).check() == []


def test_a_commit_made_from_an_older_state_is_refused(tmp_path: Path) -> None:
    t = TWO_BUCKETS.create(tmp_path, {"bucket": -1}, primary_key=("k",))
    t.write(rows("a", 1, 2))
    with pytest.raises(CommitConflict, match="changed rows"):
        write_and_meet(t, rows("b", 1), rows("c", 1))
    assert state(t) == [("a", 2, "x"), ("c", 1, "x")]
    assert ts.open(t.location).check() == []


@pytest.mark.parametrize("first", [[], rows("a", 1)])
def test_two_writers_cannot_both_give_buckets(tmp_path: Path, first: list[dict[str, object]]) -> None:
    t = TWO_BUCKETS.create(tmp_path, {"bucket": -1})
    t.write(first)
    with pytest.raises(CommitConflict):
        write_and_meet(t, rows("a", 2), rows("a", 3))
    assert state(t) == [(r["p"], r["k"], "x") for r in (*first, *rows("a", 3))]
    store = ts.open(t.location).store
    live = {e.file.file_name for e in store.manifests.index_entries(store.snapshots.latest())}
    there = {s.name for s in store.io.list(f"{t.location}/index")}
    assert live <= there
    assert len(there - live) == bool(first), "an index that readers of snapshot 1 need stays; no other does"


def write_and_meet(t: ts.Table, ours: list[dict[str, object]], theirs: list[dict[str, object]]) -> None:
    """Write `ours`, while another writer commits `theirs`."""
    with t.writer() as w:
        w.write(ours)
        ts.open(t.location).write(theirs)


def test_keys_of_old_files_are_not_looked_for(tmp_path: Path) -> None:
    env = SimEnv()
    t = ts.connect(str(tmp_path), env=env).create_table(
        "d.t",
        schema={"p": ts.STRING, "k": ts.INT, "v": ts.STRING},
        primary_key=["k"],
        partition_by=["p"],
        options={"bucket": -1, "cross-partition-upsert.index-ttl": "1 h"},
    )
    t.write(rows("a", 1))
    env.sleep(1800)
    t.write(rows("b", 1, 2))
    assert state(t) == [("b", 1, "x"), ("b", 2, "x")]
    env.sleep(2 * 3600)
    t.write(rows("c", 2))
    assert state(t) == [("b", 1, "x"), ("b", 2, "x"), ("c", 2, "x")]


def test_only_fixed_buckets_are_rescaled(tmp_path: Path) -> None:
    with pytest.raises(ts.InvalidRequest, match="dynamic"):
        TWO_BUCKETS.create(tmp_path, {"bucket": -1}).rescale(3)
    with pytest.raises(ts.InvalidRequest, match="number of buckets"):
        TWO_BUCKETS.create(tmp_path / "b").rescale(0)


def test_overwriting_static_and_dynamic(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"p": ts.STRING, "h": ts.INT, "v": ts.STRING}, partition_by=["p", "h"]
    )

    def some(*pairs: tuple[str, int], v: str) -> list[dict[str, object]]:
        return [{"p": p, "h": h, "v": v} for p, h in pairs]

    t.write(some(("a", 1), ("a", 2), ("b", 1), v="old"))
    t.overwrite(some(("a", 1), v="new"), partition={"p": "a"}, dynamic=True)
    assert [r[2] for r in _all(t)] == ["new", "old", "old"]
    t.overwrite(some(("a", 2), v="only"), partition={"p": "a"})
    assert _all(t) == [("a", 2, "only"), ("b", 1, "old")]
    with pytest.raises(SchemaMismatch, match="not the one that is overwritten"):
        t.overwrite(some(("b", 1), v="z"), partition={"p": "a"})
    for named in (None, {"p": "b"}):
        done = t.overwrite([], partition=named)
        assert (done.snapshots, done.replaced_partitions) == ((), 0), "without rows nothing is replaced"
    assert _all(t) == [("a", 2, "only"), ("b", 1, "old")]
    t.overwrite([], partition={"p": "b"}, dynamic=False)
    assert _all(t) == [("a", 2, "only")]
    t.with_options({"dynamic-partition-overwrite": False}).overwrite(some(("c", 9), v="all"))
    assert _all(t) == [("c", 9, "all")]
    assert t.check() == []


def _all(t: ts.Table) -> list[tuple[object, ...]]:
    return sorted((r["p"], r["h"], r["v"]) for r in t.scan().to_arrow().to_pylist())


def test_overwriting_files_go_to_the_top_level(tmp_path: Path) -> None:
    t = TWO_BUCKETS.create(tmp_path)
    t.write(rows("a", *range(9)))
    t.overwrite(rows("a", *range(5)))
    assert set(t.inspect.files().column("level").to_pylist()) == {t.store.options.num_levels - 1}
    t.with_options({"overwrite-upgrade": False}).overwrite(rows("a", *range(5)))
    assert set(t.inspect.files().column("level").to_pylist()) == {0}
    assert t.check() == []


@pytest.mark.parametrize("engine", [{"merge-engine": "first-row"}, {"deletion-vectors.enabled": True}])
def test_overwritten_rows_are_seen_where_level_0_is_not(tmp_path: Path, engine: dict[str, object]) -> None:
    t = TWO_BUCKETS.create(tmp_path, engine | {"write-buffer-size": "16 kb"})
    t.write(rows("a", *range(50)))
    data = [r for k in range(0, 4_000, 400) for r in rows("a", *range(k, k + 500), v="a longer text here")]
    t.overwrite(data)
    assert len(state(t)) == 4_100
    assert len({s["commit_kind"] for s in t.inspect.snapshots().to_pylist()[-1:]} & {"OVERWRITE"}) == 1
    assert t.check() == []


def test_a_part_of_a_cross_partition_table_is_not_overwritten(tmp_path: Path) -> None:
    t = TWO_BUCKETS.create(tmp_path, {"bucket": -1}, primary_key=("k",))
    t.write(rows("a", 1))
    with pytest.raises(Unsupported, match="some partitions"):
        t.overwrite(rows("b", 1))
    t.overwrite(rows("b", 1), dynamic=False)
    assert state(t) == [("b", 1, "x")]


def test_a_key_without_partition_columns_is_said_to_be_unique_per_partition(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        TWO_BUCKETS.create(tmp_path, primary_key=("k",))
    assert "unique in each partition only" in caplog.text
    with pytest.raises(InvalidOption, match=r"sequence\.field"):
        TWO_BUCKETS.create(tmp_path / "b", {"sequence.field": "v"}, primary_key=("k",))


def test_the_partition_of_null_has_a_name_of_its_own(tmp_path: Path) -> None:
    """`None` in `partition` is NULL wherever a partition is named."""
    options = {"bucket": 1, "bucket-key": "k", "compaction.min.file-num": 2}
    t = PARTITIONED.create(tmp_path, options, primary_key=())
    for k in (1, 2):
        t.write([{"p": None, "k": k, "v": "x"}, {"p": "a", "k": k, "v": "x"}])
    t.compact(partition={"p": None})
    assert [f["partition"] for f in t.inspect.files().to_pylist()].count("{null}") == 1
    t.rescale(2, partition={"p": None})
    assert totals(t) == {"p=a": {1}, "p=__DEFAULT_PARTITION__": {2}}
    t = ts.open(t.location)
    t.overwrite([{"k": 9, "v": "y"}], partition={"p": None})
    assert t.scan(where="p is null").to_arrow().to_pylist() == [{"p": None, "k": 9, "v": "y"}]
    t.truncate(partition={"p": None})
    assert state(t) == [("a", 1, "x"), ("a", 2, "x")]
