"""Tables whose compaction looks rows up, against a model: rows, changes, levels and deletion vectors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.write.commit.committer import Committer
from tests.tables import KEEP_ALL, TableSpec

Row = tuple[int, int, str]
LOOKUP = {"changelog-producer": "lookup"}
VECTORS = {"deletion-vectors.enabled": True}
FULL = {"changelog-producer": "full-compaction"}
TABLES: dict[str, dict[str, object]] = {
    "lookup": LOOKUP,
    "equal rows are silent": LOOKUP | {"changelog-producer.row-deduplicate": True},
    "vectors": VECTORS,
    "wide vectors with a changelog": VECTORS | LOOKUP | {"deletion-vectors.bitmap64": True},
    "vectors of thin files": VECTORS | {"data-file.thin-mode": True},
    "vectors merged on read": VECTORS | {"deletion-vectors.merge-on-read": True, "write-only": True},
    "gentle": LOOKUP | {"lookup-compact": "gentle"},
    "full compaction": FULL,
    "full compaction of every third commit": FULL | {"full-compaction.delta-commits": 3},
    "first row": LOOKUP | {"merge-engine": "first-row"},
}


FOUR_LEVELS = TableSpec(
    {"k": ts.INT, "a": ts.BIGINT, "b": ts.STRING}, primary_key=("k",), options=KEEP_ALL | {"num-levels": 4}
)


def write(t: ts.Table, rows: list[Row], kinds: list[str] | None = None) -> None:
    k, a, b = (list(c) for c in zip(*rows, strict=True))
    data = pa.table({"k": pa.array(k, pa.int32()), "a": a, "b": b, "kind": kinds or ["+I"] * len(rows)})
    t.write(data, row_kind_column="kind")


def rows_of(t: ts.Table) -> dict[int, Row]:
    rows = t.scan().to_arrow().to_pylist()
    actual = {r["k"]: tuple(r.values()) for r in rows}
    assert len(actual) == len(rows), "a key came twice"
    return actual


def changes(t: ts.Table, since: int) -> Iterator[tuple[str, Row]]:
    for r in t.changes(since=since).to_pylist():
        yield r.pop("rowkind"), tuple(r.values())


class ChangeListener:
    """What someone who only listens to the changes has: each must fit what came before."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.at = 0

    def listen(self, t: ts.Table) -> None:
        pending: dict[int, Row] = {}
        for kind, row in changes(t, self.at):
            if kind in ("-D", "-U"):
                assert self.rows.pop(row[0]) == row, (kind, row)
                if kind == "-U":
                    pending[row[0]] = row
                continue
            assert row[0] not in self.rows, (kind, row)
            assert (kind == "+U") == (pending.pop(row[0], None) is not None), (kind, row)
            self.rows[row[0]] = row
        assert not pending
        self.at = t.store.snapshots.latest_id() or 0


def some(rng: random.Random, name: str, count: int, keys: int) -> tuple[list[Row], list[str]]:
    rows = [(rng.randrange(keys), rng.randrange(3), rng.choice("xy")) for _ in range(count)]
    return rows, ["-D" if name != "first row" and rng.random() < 0.3 else "+I" for _ in rows]


def apply(model: dict[int, Row], rows: list[Row], kinds: list[str], *, first: bool) -> None:
    for row, kind in zip(rows, kinds, strict=True):
        if kind == "-D":
            model.pop(row[0], None)
        elif not first or row[0] not in model:
            model[row[0]] = row


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(1, all=5)
def test_rows_and_changes_agree_with_a_model(tmp_path: Path, seeds: tuple[int, ...], name: str) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = FOUR_LEVELS.create(tmp_path / str(seed), TABLES[name])
        listener, model = ChangeListener(), dict[int, Row]()
        for commit in range(14):
            keys = rng.choice([50, 3000])
            rows, kinds = some(rng, name, 3000 if commit == 0 else rng.choice([3, 60]), keys)
            write(t, rows, kinds)
            apply(model, rows, kinds, first=name == "first row")
            if rng.random() < 0.1:
                t.compact(full=True)
            if name != "gentle" or all(f.level for s in t.scan().plan().splits for f in s.files):
                assert rows_of(t) == model, (seed, commit)
            assert t.check() == [], (seed, commit)
            if "changelog-producer" in TABLES[name]:
                listener.listen(t)
                complete = "full" not in name or {
                    f.level for s in t.scan().plan().splits for f in s.files
                } == {3}
                complete &= name != "gentle" or not any(
                    f.level == 0 for s in t.scan().plan().splits for f in s.files
                )
                assert not complete or listener.rows == model, (seed, commit)
        t.compact(full=True)
        assert rows_of(t) == model, seed


def levels(t: ts.Table) -> list[tuple[int, int]]:
    live = t.store.manifests.live_entries(t.store.snapshots.latest())
    return sorted((e.file.level, e.file.row_count) for e in live)


def test_full_compaction_comes_with_every_commit_unless_the_option_says_otherwise(tmp_path: Path) -> None:
    for every, kinds in (
        (None, ["APPEND", "COMPACT"] * 4),
        (3, ["APPEND", "APPEND", "APPEND", "COMPACT"] * 2),
    ):
        options = FULL if every is None else FULL | {"full-compaction.delta-commits": every}
        t = FOUR_LEVELS.create(tmp_path / str(every), options)
        for commit in range(len([k for k in kinds if k == "APPEND"])):
            write(t, [(k, commit, "x") for k in range(20)])
        assert [s.commit_kind for s in t.store.snapshots.all()] == kinds


def test_buckets_that_wait_are_compacted_along(tmp_path: Path) -> None:
    t = FOUR_LEVELS.create(tmp_path, FULL | {"full-compaction.delta-commits": 2, "bucket": 4})
    write(t, [(k, 0, "x") for k in range(40)])
    write(t, [(1, 1, "y")])
    assert {level for level, _ in levels(t)} == {3}
    follower = ChangeListener()
    follower.listen(t)
    assert follower.rows == rows_of(t)


def test_deletion_vector_tables_show_level_0_only_once_compacted(tmp_path: Path) -> None:
    t = FOUR_LEVELS.create(tmp_path, VECTORS | {"write-only": True})
    write(t, [(1, 1, "x")])
    assert rows_of(t) == {}
    assert rows_of(t.with_options({"deletion-vectors.merge-on-read": True})) == {1: (1, 1, "x")}
    t.compact()
    assert rows_of(t) == {1: (1, 1, "x")}
    assert "level 0 once compacted" not in repr(t.scan().explain())


def test_superseded_rows_are_marked_and_go_with_the_file(tmp_path: Path) -> None:
    t = FOUR_LEVELS.create(tmp_path, VECTORS)
    write(t, [(k, k * 7919 % 1000, f"row {k}") for k in range(3000)])
    write(t, [(5, 0, "new"), (9, 0, "gone")], ["+I", "-D"])
    assert levels(t) == [(2, 1), (3, 3000)]
    (entry,) = t.store.manifests.index_entries(t.store.snapshots.latest())
    assert [r.cardinality for r in entry.file.dv_ranges] == [2]
    assert rows_of(t)[5] == (5, 0, "new")
    assert 9 not in rows_of(t)
    t.compact(full=True)
    assert levels(t) == [(3, 2999)]
    assert list(t.store.manifests.index_entries(t.store.snapshots.latest())) == []


def test_a_full_compaction_rewrites_files_with_deleted_rows_only(tmp_path: Path) -> None:
    t = FOUR_LEVELS.create(tmp_path, VECTORS | {"target-file-size": "1 kb"})
    for start in (0, 1000, 2000):
        write(t, [(k, k * 7919 % 1000, f"row {k * 104729}") for k in range(start, start + 1000)])
    t.compact(full=True)
    before = {f.file_name for s in t.scan().plan().splits for f in s.files}
    assert levels(t) == [(3, 1000)] * 3
    write(t, [(3, 0, "x")], ["-D"])
    t.compact(full=True)
    after = {f.file_name for s in t.scan().plan().splits for f in s.files}
    assert (len(before - after), levels(t)) == (1, [(3, 999), (3, 1000), (3, 1000)])


def test_filters_skip_files_alone_though_keys_overlap(tmp_path: Path) -> None:
    t = FOUR_LEVELS.create(tmp_path, VECTORS)
    write(t, [(k, k % 10, f"row {k * 7919}") for k in range(3000)])
    write(t, [(5, 77, "new"), (2000, 78, "new")])
    scan = t.scan(where=col("a") > 70)
    assert sorted(r["k"] for r in scan.to_arrow().to_pylist()) == [5, 2000]
    assert [len(s.files) for s in scan.plan().splits] == [1]


def test_an_overwrite_is_seen_at_once(tmp_path: Path) -> None:
    for name in ("vectors", "first row"):
        t = FOUR_LEVELS.create(tmp_path / name, TABLES[name])
        write(t, [(k, 0, "x") for k in range(9)])
        t.overwrite(pa.table({"k": pa.array([1, 2], pa.int32()), "a": [5, 5], "b": ["y", "y"]}))
        assert rows_of(t) == {1: (1, 5, "y"), 2: (2, 5, "y")}, name
        assert t.check() == []


def test_of_two_compactions_of_one_bucket_the_loser_is_done_again(tmp_path: Path, monkeypatch: Any) -> None:
    t = FOUR_LEVELS.create(tmp_path, VECTORS)
    write(t, [(k, k * 7919 % 1000, f"row {k}") for k in range(3000)])
    commit, raced = Committer.commit, list[bool]()

    def race(self: Committer, *arguments: object) -> object:
        if not raced:
            raced.append(True)
            write(ts.open(t.location), [(1, 1, "first")])
        return commit(self, *arguments)

    monkeypatch.setattr(Committer, "commit", race)
    write(t, [(2, 2, "second")])
    assert raced
    assert (rows_of(t)[1], rows_of(t)[2]) == ((1, 1, "first"), (2, 2, "second"))
    assert t.check() == []


def test_full_compactions_rewrite_every_file_if_asked_to(tmp_path: Path) -> None:
    t = FOUR_LEVELS.create(tmp_path)
    write(t, [(k, 0, "x") for k in range(9)])
    t.compact(full=True)
    before = {f.file_name for s in t.scan().plan().splits for f in s.files}
    t.compact(full=True)
    assert {f.file_name for s in t.scan().plan().splits for f in s.files} == before
    t.with_options({"compaction.force-rewrite-all-files": True}).compact(full=True)
    assert {f.file_name for s in t.scan().plan().splits for f in s.files}.isdisjoint(before)
    assert len(rows_of(t)) == 9


def test_partitions_of_another_bucket_count_do_not_hold_full_compactions_up(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "p": ts.INT, "v": ts.INT},
        primary_key=["k", "p"],
        partition_by=["p"],
        options={"bucket": 1, **FULL, "write-only": True},
    )

    def rows(p: int) -> pa.Table:
        return pa.table({n: pa.array([p, p + 1], pa.int32()) for n in "kv"}).append_column(
            "p", pa.array([p, p], pa.int32())
        )

    t.write(rows(1))
    t = t.alter(ts.set_options({"bucket": 2, "write-only": False}))
    t.write(rows(2))
    assert t.scan().to_arrow().num_rows == 4
    assert t.check() == []
