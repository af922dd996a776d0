"""Where reads start by option: what is meant, what contradicts itself, differences of every merge engine."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound, Unsupported
from tablestore.read.scan import scan_mode, time_travel
from tests.faults import SimEnv
from tests.tables import KEEP_ALL, WRITE_ONLY, TableSpec

TABLE = TableSpec(
    {"k": ts.INT, "v": ts.STRING},
    primary_key=("k",),
    options=WRITE_ONLY | KEEP_ALL,
    new_env=SimEnv,
)


def put(table: ts.Table, *rows: tuple[str, int, str | None], **options: Any) -> None:
    kinds, keys, values = (list(c) for c in zip(*rows, strict=True))
    data = {"rowkind": kinds, "k": pa.array(keys, pa.int32()), "v": pa.array(values, pa.string())}
    table.write(pa.table(data), row_kind_column="rowkind", **options)


def three(path: Path, env: SimEnv | None = None, **options: Any) -> ts.Table:
    """Three snapshots a second apart: 1 and 2 put, 1 changed and 2 gone, 3 put."""
    env = env or SimEnv()
    t = TABLE.create(path, options, env=env)
    put(t, ("+I", 1, "a"), ("+I", 2, "b"), watermark=10)
    env.sleep(1)
    put(t, ("+U", 1, "c"), ("-D", 2, "b"), watermark=20)
    env.sleep(1)
    put(t, ("+I", 3, "d"), watermark=30)
    return t


def keys(t: ts.Table, **options: Any) -> list[int]:
    chosen = {k.replace("_", "-"): v for k, v in options.items()}
    return sorted(t.with_options(chosen).scan().to_arrow()["k"].to_pylist())


NOW = 1_700_000_000_000
STARTS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [1, 3]),
    ({"scan.snapshot-id": 1}, [1, 2]),
    ({"scan.version": "2"}, [1]),
    ({"scan.version": "watermark-15"}, [1]),
    ({"scan.watermark": 11}, [1]),
    ({"scan.timestamp-millis": NOW + 500}, [1, 2]),
    ({"log.scan.timestamp-millis": NOW + 1500}, [1]),
    ({"scan.mode": "from-timestamp", "scan.timestamp-millis": NOW + 1500}, [1]),
    ({"log.scan": "full"}, [1, 3]),
    ({"log.scan": "latest"}, [1, 3]),
    ({"log.scan": "from-timestamp", "log.scan.timestamp-millis": NOW + 1500}, [1]),
    ({"scan.file-creation-time-millis": NOW + 1900}, [3]),
    ({"scan.creation-time-millis": NOW + 900}, [1]),
    ({"scan.creation-time-millis": NOW - 5}, [1, 3]),
    ({"incremental-between": "1,3"}, [1, 3]),
    ({"incremental-between": "2,3"}, [3]),
    ({"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}, [1, 3]),
    ({"incremental-between-timestamp": f"{NOW},{NOW + 1000}"}, [1]),
]


@pytest.mark.parametrize(("options", "wanted"), STARTS, ids=[str(o) for o, _ in STARTS])
def test_options_say_where_a_scan_starts(tmp_path: Path, options: dict[str, Any], wanted: list[int]) -> None:
    assert keys(three(tmp_path), **options) == wanted


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"scan.mode": "fulll"}, InvalidOption, "must be one of default"),
    ({"scan.mode": "from-snapshot"}, InvalidOption, "wants exactly one of scan.snapshot-id"),
    ({"scan.mode": "latest", "scan.tag-name": "x"}, InvalidOption, "'scan.tag-name' has no place"),
    ({"scan.snapshot-id": 1, "scan.watermark": 2}, InvalidOption, "exactly one of"),
    ({"scan.snapshot-id": 9}, NotFound, r"no snapshot 9; have 1\.\.3"),
    ({"scan.tag-name": "tagg"}, NotFound, "did you mean tag"),
    ({"scan.version": "tagg"}, NotFound, "did you mean tag"),
    ({"scan.timestamp-millis": 5}, NotFound, "the oldest is of 2023-11-14"),
    ({"scan.timestamp": "soon"}, InvalidRequest, "no ISO text"),
    ({"scan.watermark": 99}, NotFound, "the highest is 30"),
    ({"incremental-between": "1"}, InvalidOption, "must be 'start,end'"),
    ({"incremental-between": "3,1"}, InvalidRequest, "forward"),
    ({"incremental-between": "0,9"}, NotFound, "the newest is 3"),
    ({"incremental-between": "1,tagg"}, NotFound, "did you mean tag"),
    ({"incremental-between": "1,2", "incremental-between-scan-mode": "x"}, InvalidOption, "one of"),
]


@pytest.mark.parametrize(("options", "error", "text"), WRONG, ids=[str(w[0]) for w in WRONG])
def test_what_cannot_be_meant_is_said(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    t = three(tmp_path)
    t.tags.create("tag", 1)
    with pytest.raises(error, match=text):
        t.with_options(options).scan().to_arrow()


def test_deletes_are_left_out_of_a_scan_and_shown_by_the_audit_log(tmp_path: Path) -> None:
    t = three(tmp_path)
    between = t.with_options({"incremental-between": "1,2"})
    assert between.scan().to_arrow().to_pylist() == [{"k": 1, "v": "c"}]
    assert between.scan(["v"], ts.col("k") == 1).to_arrow().to_pylist() == [{"v": "c"}]
    assert between.scan(where=ts.col("k") == 3).count() == 0
    assert between.scan().plan().splits[0].raw is False
    audit = between.system("audit_log").scan().to_arrow().to_pylist()
    assert sorted((r["rowkind"], r["k"]) for r in audit) == [("+U", 1), ("-D", 2)]
    with pytest.raises(Unsupported, match="in Spark"):
        between.to_spark(SimpleNamespace(createDataFrame=None))


def test_writing_is_based_on_the_newest_state_whatever_is_scanned(tmp_path: Path) -> None:
    t = three(tmp_path).with_options({"scan.snapshot-id": 1})
    assert t.get({"k": 3}) == {"k": 3, "v": "d"}
    t.update({"v": "new"}, where=ts.col("k") == 3)
    assert keys(t) == [1, 2]
    assert ts.open(t.location).scan().to_arrow().to_pylist() == [{"k": 1, "v": "c"}, {"k": 3, "v": "new"}]


def test_tags_give_differences(tmp_path: Path) -> None:
    t = three(tmp_path)
    t.tags.create("a", 1)
    t.tags.create("b", 3)
    rows = [tuple(r.values()) for r in t.changes(since="a", until="b").to_pylist()]
    assert sorted(rows) == [("+I", 3, "d"), ("+U", 1, "c"), ("-D", 2, "b")]
    assert t.changes(since="a", until=1, mode="diff").num_rows == 0
    assert keys(t, **{"incremental-between": "a,b"}) == [1, 3]
    with pytest.raises(InvalidRequest, match="forward"):
        t.changes(since="b", until="a")
    with pytest.raises(InvalidRequest, match="must be one of"):
        t.changes(since=1, mode="other")
    filtered = t.with_options({"incremental-between": "a,b"}).scan(where=ts.col("v") == "d")
    assert filtered.to_arrow().to_pylist() == [{"k": 3, "v": "d"}]


ENGINES: list[dict[str, Any]] = [
    {},
    {"merge-engine": "partial-update"},
    {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    {"merge-engine": "first-row", "changelog-producer": "lookup"},
    {"deletion-vectors.enabled": True},
    {"changelog-producer": "input"},
]


@pytest.mark.parametrize("options", ENGINES, ids=str)
@pytest.mark.sample(2)
def test_a_difference_is_that_of_the_two_states(
    tmp_path: Path, seeds: tuple[int, ...], options: dict[str, Any]
) -> None:
    for seed in seeds[::2]:
        rng = random.Random(seed)
        t = ts.connect(str(tmp_path / str(seed)), env=SimEnv()).create_table(
            "d.t",
            schema={"p": ts.INT, "k": ts.INT, "n": ts.BIGINT},
            primary_key=["p", "k"],
            partition_by=["p"],
            options={"bucket": 2, "num-sorted-run.compaction-trigger": rng.choice([2, 4])} | options,
        )
        for _ in range(6):
            n = rng.randrange(1, 12)
            parts = pa.array([rng.randrange(2) for _ in range(n)], pa.int32())
            numbers = pa.array([rng.randrange(20) for _ in range(n)], pa.int32())
            t.write(pa.table({"p": parts, "k": numbers, "n": [rng.randrange(3) for _ in range(n)]}))
        ids = t.store.snapshots.ids()
        for _ in range(4):
            start, end = sorted(rng.sample(ids, 2))
            before, after = (_state(t, s) for s in (start, end))
            changes = t.changes(since=start, until=end, mode="diff").to_pylist()
            gone = {(r["p"], r["k"]): r["n"] for r in changes if r["rowkind"] == "-D"}
            there = {(r["p"], r["k"]): r["n"] for r in changes if r["rowkind"] != "-D"}
            place = f"seed {seed}: {start} to {end}"
            assert len(gone) + len(there) == len(changes), place
            assert there == {k: n for k, n in after.items() if k not in before or before[k] != n}, place
            assert gone == {k: n for k, n in before.items() if k not in after}, place


def _state(t: ts.Table, snapshot: int) -> dict[tuple[int, int], int]:
    rows = t.at(snapshot=snapshot).scan().to_arrow().to_pylist()
    return {(r["p"], r["k"]): r["n"] for r in rows}


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_a_difference_goes_by_key_where_keys_may_lie_elsewhere(
    tmp_path: Path, seeds: Sequence[int], partition_by: list[str]
) -> None:
    for seed in seeds[:3]:
        rng = random.Random(seed)
        t = ts.connect(str(tmp_path / str(seed))).create_table(
            "d.t",
            schema={"p": ts.INT, "k": ts.INT, "v": ts.INT},
            primary_key=["k"],
            partition_by=partition_by,
            options={"bucket": -1, "dynamic-bucket.target-row-num": 2, "snapshot.num-retained.min": 100},
        )

        def some(count: int, rng: random.Random = rng) -> list[dict[str, int]]:
            return [
                {"p": rng.randrange(2), "k": k, "v": rng.randrange(3)} for k in rng.sample(range(8), count)
            ]

        t.write(some(6))
        for _ in range(2):
            t.write(some(3)) if partition_by or rng.random() < 0.5 else t.overwrite(some(5))
            t = t.refresh()
        state = {r["k"]: r for r in t.at(snapshot=1).scan().to_arrow().to_pylist()}
        for row in t.changes(since=1, mode="diff").to_pylist():
            if row.pop("rowkind") == "-D":
                assert state.pop(row["k"]) == row, seed
            else:
                assert state.get(row["k"]) != row, seed
                state[row["k"]] = row
        assert state == {r["k"]: r for r in t.scan().to_arrow().to_pylist()}, seed


def test_differences_across_a_rescale_are_refused_though_no_bucket_holds_rows_of_both(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    put(t, ("+I", 1, "a"))
    t.rescale(7)
    t = t.refresh()
    assert t.inspect.files()["bucket"].to_pylist() != [0]
    with pytest.raises(InvalidRequest, match=r"had \[1, 7\] buckets in these states"):
        t.changes(since=1, mode="diff")


def test_tables_without_a_key_have_changes_but_no_differences(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.a", schema={"v": ts.INT})
    for i in range(3):
        t.write(pa.table({"v": pa.array([i], pa.int32())}))
    assert t.with_options({"incremental-between": "1,3"}).scan().to_arrow()["v"].to_pylist() == [1, 2]
    assert t.changes(since=2).to_pylist() == [{"rowkind": "+I", "v": 2}]
    with pytest.raises(Unsupported, match="without a primary key"):
        t.changes(since=1, mode="diff")


def test_a_stream_ends_past_its_watermark(tmp_path: Path) -> None:
    t = three(tmp_path).with_options({"scan.bounded.watermark": 20, "scan.snapshot-id": 1})
    assert [c.snapshot for c in t.stream(follow=False)] == [1, 2]


def test_a_stream_that_starts_before_the_oldest_begins_there(tmp_path: Path) -> None:
    t = three(tmp_path)
    t.expire_snapshots(keep=2)
    chosen = t.with_options({"scan.mode": "from-snapshot", "scan.snapshot-id": 1})
    assert [c.snapshot for c in chosen.stream(follow=False)] == [2, 3]
    with pytest.raises(NotFound):
        list(t.stream(start=1, follow=False))
    with pytest.raises(InvalidRequest, match="not for streams"):
        list(t.with_options({"incremental-between": "1,2"}).stream(follow=False))


def test_a_consumer_s_progress_can_be_ignored(tmp_path: Path) -> None:
    t = three(tmp_path).with_options({"consumer-id": "c", "scan.snapshot-id": 1})
    assert [c.snapshot for c in t.stream(follow=False)] == [1, 2, 3]
    assert list(t.stream(follow=False)) == []
    again = t.with_options({"consumer.ignore-progress": True})
    assert [c.snapshot for c in again.stream(follow=False)] == [1, 2, 3]


def test_a_moment_shows_what_was_known_then_though_a_clock_went_back(tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.BIGINT})
    times = [1000, 2000, 5000, 3000, 3000, 6000]
    for snapshot_id, millis in enumerate(times, 1):
        table.write([{"k": snapshot_id}])
        file = Path(table.store.paths.snapshot(snapshot_id))
        document = json.loads(file.read_text())
        file.write_text(json.dumps({**document, "timeMillis": millis}))
    asked = (1000, 1999, 2000, 2999, 3000, 4999, 5000, 5999, 6000, 9000)
    s = [time_travel.at_or_before(table.store, at).id for at in asked]
    assert s == [1, 1, 2, 2, 2, 2, 5, 5, 6, 6]
    with pytest.raises(NotFound, match=r"the oldest is of 1970-01-01 00:00:01"):
        time_travel.at_or_before(table.store, 999)


def test_full_compactions_of_a_table_that_stores_nonsense_for_their_distance(tmp_path: Path) -> None:
    """As another engine may have stored it: 0 counts as 1."""
    t = three(tmp_path)
    t.compact(full=True)
    stored = {**t._handle.store.schema.options, "full-compaction.delta-commits": "0"}
    store = t._handle.store.with_schema(replace(t._handle.store.schema, options=stored))
    actual = scan_mode.compacted(store)
    assert actual is not None
    assert actual.commit_kind == "COMPACT"
