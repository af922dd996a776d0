"""Deletes and updates of append tables: rows are marked, files stay; races, containers, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import CommitConflict, InvalidRequest
from tablestore.write.commit.committer import Committer
from tests.tables import KEEP_ALL, TableSpec, keys

VECTORS = {"deletion-vectors.enabled": True}


ROWS = TableSpec({"k": ts.INT, "v": ts.BIGINT, "p": ts.STRING}, options=KEEP_ALL)
PARTITIONED_ROWS = replace(ROWS, partition_by=("p",))


def rows(*keys: int, v: int = 0, p: str = "x") -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [v] * len(keys), "p": [p] * len(keys)})


def containers(t: ts.Table) -> list[tuple[str, int]]:
    """(name, vectors) of each live index file."""
    index_entries = t.store.manifests.index_entries(t.store.snapshots.latest())
    return [(e.file.file_name, e.file.row_count) for e in index_entries]


def on_disk(t: ts.Table) -> set[str]:
    return {p.name for p in Path(t.location).rglob("*") if p.is_file() and p.parent.name != "manifest"}


def test_rows_are_marked_and_no_data_file_is_touched(tmp_path: Path) -> None:
    t = ROWS.create(tmp_path, VECTORS)
    t.write(rows(*range(10)))
    t.write(rows(*range(5, 15)))
    before = {e.identity for e in t.store.manifests.live_entries(t.store.snapshots.latest())}
    done = t.delete((col("k") >= 8) & (col("k") < 12))
    assert done.rows == 6
    assert keys(t) == sorted([*range(8), *range(5, 8), *range(12, 15)])
    snapshot = t.store.snapshots.latest()
    assert (snapshot.commit_kind, snapshot.delta_record_count) == ("OVERWRITE", 0)
    assert {e.identity for e in t.store.manifests.live_entries(snapshot)} == before
    assert t.check() == []


def test_a_second_delete_adds_to_what_is_marked(tmp_path: Path) -> None:
    t = ROWS.create(tmp_path, VECTORS)
    t.write(rows(*range(10)))
    assert [t.delete(col("k") < 3).rows, t.delete(col("k") < 5).rows] == [3, 2]
    assert keys(t) == [5, 6, 7, 8, 9]
    assert t.delete(col("k") < 5).snapshots == ()
    assert len(containers(t)) == 1
    assert t.at(snapshot=2).scan().to_arrow().num_rows == 7


def test_without_deletion_vectors_the_remedy_is_named_and_nothing_happens(tmp_path: Path) -> None:
    t = ROWS.create(tmp_path)
    t.write(rows(1, 2))
    before = on_disk(t)
    with pytest.raises(InvalidRequest, match=r"deletion-vectors\.enabled"):
        t.delete(col("k") == 1)
    with pytest.raises(InvalidRequest, match=r"deletion-vectors\.enabled"):
        t.update({"v": 1}, where=col("k") == 1)
    with pytest.raises(InvalidRequest, match="delete by a condition"):
        t.delete(pa.table({"k": [1]}))
    assert on_disk(t) == before
    t = t.alter(ts.set_options({"deletion-vectors.modifiable": True, "deletion-vectors.enabled": True}))
    assert t.delete(col("k") == 1).rows == 1
    assert keys(t) == [2]


def test_whole_partitions_go_without_vectors_and_without_reading(tmp_path: Path) -> None:
    t = PARTITIONED_ROWS.create(tmp_path)
    t.write(pa.concat_tables([rows(1, 2, p="x"), rows(3, p="y")]))
    for path in Path(t.location).rglob("*.parquet"):
        path.unlink()
    t.delete(col("p") == "x")
    live = t.store.manifests.live_entries(t.store.snapshots.latest())
    assert [t.store.partition_text(e.partition) for e in live] == ["p=y"]
    assert t.store.snapshots.latest().commit_kind == "OVERWRITE"
    assert containers(t) == []


def test_an_update_marks_rows_and_writes_them_anew_in_one_snapshot(tmp_path: Path) -> None:
    t = PARTITIONED_ROWS.create(tmp_path, VECTORS)
    t.write(pa.concat_tables([rows(1, 2, p="x"), rows(3, p="y")]))
    done = t.update({"v": 9, "p": "z"}, where=col("k") >= 2)
    assert (len(done.snapshots), done.rows) == (1, 2)
    actual = sorted(tuple(r.values()) for r in t.scan().to_arrow().to_pylist())
    assert actual == [(1, 0, "x"), (2, 9, "z"), (3, 9, "z")]
    assert t.check() == []


def test_containers_roll_and_only_those_concerned_are_replaced(tmp_path: Path) -> None:
    t = ROWS.create(tmp_path, VECTORS | {"deletion-vector.index-file.target-size": "50 b"})
    for i in range(6):
        t.write(rows(*range(10 * i, 10 * i + 10)))
    t.delete(col("k").is_in(range(0, 60, 10)))
    first = containers(t)
    assert len(first) > 1
    assert sum(n for _, n in first) == 6
    t.delete(col("k") == 31)
    second = containers(t)
    assert len(set(first) & set(second)) == len(first) - 1
    assert sum(n for _, n in second) == 6
    assert len(keys(t)) == 53
    assert t.check() == []


def test_a_bucket_has_one_container(tmp_path: Path) -> None:
    t = ROWS.create(tmp_path, VECTORS | {"bucket": 2, "bucket-key": "k"})
    for i in range(4):
        t.write(rows(*range(10 * i, 10 * i + 10)))
        t.delete(col("k") == 10 * i + 1)
        t.delete(col("k") == 10 * i + 7)
    index_entries = t.store.manifests.index_entries(t.store.snapshots.latest())
    assert sorted(e.bucket for e in index_entries) == [0, 1]
    assert len(keys(t)) == 32
    assert t.check() == []


def race(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` happens just before the next commit."""
    commit, raced = Committer.commit, list[bool]()

    def first(self: Committer, *arguments: object) -> object:
        if not raced:
            raced.append(True)
            act()
        return commit(self, *arguments)

    monkeypatch.setattr(Committer, "commit", first)


def test_a_delete_that_meets_a_compaction_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = ROWS.create(tmp_path, VECTORS)
    for i in range(5):
        t.write(rows(*range(10 * i, 10 * i + 10)))
    race(monkeypatch, lambda: ts.open(t.location).compact(full=True))
    assert t.delete(col("k") < 25).rows == 25
    assert keys(t) == list(range(25, 50))
    assert t.check() == []
    index = {p.name for p in (Path(t.location) / "index").glob("*")}
    assert index == {name for name, _ in containers(t)}, "what the first try wrote is gone"


def test_two_deletes_at_once_both_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = ROWS.create(tmp_path, VECTORS)
    t.write(rows(*range(10)))
    race(monkeypatch, lambda: ts.open(t.location).delete(col("k") > 6))
    t.delete(col("k") < 3)
    assert keys(t) == [3, 4, 5, 6]


def test_a_compaction_must_not_bring_rows_back_that_were_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = ROWS.create(tmp_path, VECTORS)
    for i in range(5):
        t.write(rows(*range(10 * i, 10 * i + 10)))
    race(monkeypatch, lambda: ts.open(t.location).delete(col("k") == 3))
    before = on_disk(t)
    with pytest.raises(CommitConflict, match="were deleted meanwhile"):
        t.compact(full=True)
    assert 3 not in keys(t)
    assert {n for n in on_disk(t) - before if n.startswith("data-")} == set()
    t.compact(full=True)
    assert (len(keys(t)), containers(t)) == (49, [])
    assert t.check() == []


def test_a_delete_that_fails_leaves_no_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = ROWS.create(tmp_path, VECTORS | {"deletion-vector.index-file.target-size": "20 b"})
    for i in range(2):
        t.write(rows(*range(10 * i, 10 * i + 10)))
    before = on_disk(t)
    t.write(rows(*range(20, 30)))
    (last,) = (p for p in Path(t.location).rglob("*.parquet") if p.name not in before)
    last.write_bytes(b"damaged")
    with pytest.raises(ts.TablestoreError):
        t.delete(col("k") >= 0)
    assert list((Path(t.location) / "index").glob("*")) == []
