"""Postponed buckets: what waits, in which order it is placed, and where."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, Unsupported
from tablestore.table import postpone
from tests.faults import SimEnv
from tests.tables import KEYED

POSTPONED = KEYED.with_options({"bucket": -2})


def state(t: ts.Table) -> dict[int, object]:
    rows = ts.open(t.location).scan().to_arrow().to_pylist()
    return {r["k"]: r["v"] for r in rows}


def test_rows_are_merged_in_the_order_of_their_commits(tmp_path: Path) -> None:
    t = POSTPONED.create(tmp_path, {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"})
    for n in range(4):
        t.write([{"k": 1, "v": f"{n}a"}, {"k": n, "v": "x"}, {"k": 1, "v": f"{n}b"}])
    assert state(t) == {}
    plan = t.compact(dry_run=True)
    assert "12 rows wait" in plan.text
    assert state(t) == {}
    t.compact()
    assert state(t)[1] == "0a,0b,1a,x,1b,2a,2b,3a,3b"
    t.write([{"k": 1, "v": "last"}])
    t.compact()
    assert state(t)[1].endswith("3b,last")
    assert t.check() == []
    assert "bucket-postpone" not in {f["file_path"].split("/")[-2] for f in t.inspect.files().to_pylist()}


def test_rows_that_wait_are_not_passed_over_by_deletes(tmp_path: Path) -> None:
    t = POSTPONED.create(tmp_path)
    t.write([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    for act in (
        lambda: t.delete(ts.col("k") == 1),
        lambda: t.delete([{"k": 1}]),
        lambda: t.update({"v": "c"}, where=ts.col("k") == 2),
    ):
        with pytest.raises(InvalidRequest, match=r"2 rows wait .* compact\(\) the table first"):
            act()
    t.compact()
    t.delete(ts.col("k") == 1)
    with pytest.raises(InvalidRequest, match="1 rows wait"):
        t.update({"v": "c"}, where=ts.col("k") == 2)
    t.compact()
    assert state(t) == {2: "b"}
    assert t.check() == []


def test_a_partition_gets_its_buckets_from_its_rows_and_keeps_them(tmp_path: Path) -> None:
    t = POSTPONED.create(tmp_path, {"postpone.target-row-num-per-bucket": 10})
    t.write([{"k": k, "v": "a"} for k in range(25)])
    t.compact()
    totals = {e.total_buckets for e in t.store.manifests.live_entries(t.store.snapshots.latest())}
    assert totals == {3}
    t.write([{"k": k, "v": "b"} for k in range(500)])
    t.compact()
    totals = {e.total_buckets for e in t.store.manifests.live_entries(t.store.snapshots.latest())}
    assert totals == {3}
    assert state(t) == dict.fromkeys(range(500), "b")
    assert t.check() == []


def test_types_that_avro_does_not_take_wait_in_another_format(tmp_path: Path) -> None:
    schema = {"k": ts.INT, "v": ts.STRING, "at": ts.TIMESTAMP(9)}
    t = POSTPONED.create(tmp_path, columns=schema)
    at = pa.array([datetime(2026, 1, 2, 3, 4, 5)] * 3, pa.timestamp("ns"))
    t.write(pa.table({"k": pa.array([1, 2, 1], pa.int32()), "v": ["a", "b", "c"], "at": at}))
    live = t.store.manifests.live_entries(t.store.snapshots.latest())
    assert [e.file.file_name.rsplit(".", 1)[1] for e in live] == ["parquet"]
    t.compact()
    assert state(t) == {1: "c", 2: "b"}
    assert t.check() == []


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_changelogs_come_with_the_compaction(tmp_path: Path, producer: str) -> None:
    t = POSTPONED.create(tmp_path, {"changelog-producer": producer})
    t.write([{"k": 1, "v": "a"}])
    t.write([{"k": 1, "v": "b"}, {"k": 2, "v": "c"}])
    assert t.changes(since=0).num_rows == 0
    t.compact()
    t.compact(full=True)
    changes = t.changes(since=2).to_pylist()
    if producer == "input":
        assert sorted((r["k"], r["v"]) for r in changes) == [(1, "a"), (1, "b"), (2, "c")]
    else:
        assert sorted((r["rowkind"], r["k"], r["v"]) for r in changes) == [("+I", 1, "b"), ("+I", 2, "c")]
    assert t.check() == []


@pytest.mark.parametrize("options", [{"merge-engine": "first-row"}, {"deletion-vectors.enabled": True}])
def test_placed_rows_are_seen_at_once_though_level_0_is_not(
    tmp_path: Path, options: dict[str, object]
) -> None:
    t = POSTPONED.create(tmp_path, options)
    t.write([{"k": 1, "v": "a"}])
    t.compact()
    t.write([{"k": 1, "v": "b"}, {"k": 2, "v": "c"}])
    t.compact()
    assert state(t) == {1: "a" if "merge-engine" in options else "b", 2: "c"}
    assert t.check() == []


def test_an_overwrite_takes_placed_and_waiting_rows_away(tmp_path: Path) -> None:
    t = POSTPONED.create(tmp_path)
    t.write([{"k": 1, "v": "a"}])
    t.compact()
    t.write([{"k": 2, "v": "b"}])
    t.overwrite([{"k": 3, "v": "c"}])
    assert state(t) == {}
    t.compact()
    assert state(t) == {3: "c"}
    assert t.check() == []


def test_a_small_pool_places_many_rows(tmp_path: Path) -> None:
    t = POSTPONED.create(tmp_path, {"postpone.default-bucket-num": 3, "write-buffer-size": "64 kb"})
    for start in range(0, 20_000, 5_000):
        t.write([{"k": k % 7_000, "v": f"{k}"} for k in range(start, start + 5_000)])
    t.compact()
    assert state(t) == {k % 7_000: f"{k}" for k in range(20_000)}
    assert t.check() == []


def test_what_postponed_buckets_are_not_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="only tables with a primary key"):
        ts.connect(str(tmp_path)).create_table("d.a", schema={"k": ts.INT}, options={"bucket": -2})
    with pytest.raises(Unsupported, match=r"use Table\.compact"):
        POSTPONED.create(tmp_path).buckets_to_compact()


def test_waiting_files_are_in_order_whatever_order_the_manifests_name_them_in(tmp_path: Path) -> None:
    t = POSTPONED.create(tmp_path)
    for n in range(3):
        t.write([{"k": 1, "v": str(n)}])
    live = t.store.manifests.live_entries(t.store.snapshots.latest())
    created = [replace(e, file=replace(e.file, creation_time_ms=1000 + n)) for n, e in enumerate(live)]
    (actual,) = postpone.waiting([created[2], created[0], created[1]]).values()
    assert actual == [e.file for e in created]


def test_waiting_rows_keep_their_order_when_manifests_are_merged(tmp_path: Path) -> None:
    env = SimEnv()
    t = ts.connect(str(tmp_path), env=env).create_table(
        "d.t",
        schema={"p": ts.STRING, "k": ts.INT, "v": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={
            "bucket": -2,
            "manifest.target-file-size": "2500 b",
            "manifest.full-compaction-threshold-size": "1 b",
        },
    )
    t.write([{"p": "b", "k": 1, "v": 1}])
    env.sleep(1)
    t.write([{"p": "b", "k": 1, "v": 2}, *({"p": f"p{n}", "k": 1, "v": 1} for n in range(60))])
    for n in range(2):
        t.write([{"p": "a", "k": 1, "v": n}])
    live = t.store.manifests.live_entries(t.store.snapshots.latest())
    times = [e.file.creation_time_ms for e in live if b"b" in e.partition]
    assert times != sorted(times), "the manifest of the newer row was kept, the older one's made anew"
    t.compact()
    assert [r["v"] for r in t.scan(where=ts.col("p") == "b").to_arrow().to_pylist()] == [2]
    assert t.check() == []
