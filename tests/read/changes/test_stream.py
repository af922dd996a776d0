"""Changes between snapshots, streams that follow a table, cursors and consumers, time travel."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.meta import consumers
from tablestore.read.changes.change import Change
from tablestore.read.changes.incremental import changes
from tablestore.read.changes.stream import StreamRequest, stream
from tablestore.read.changes.stream_start import Cursor
from tablestore.read.changes.streamable import last_streamable
from tablestore.read.scan import time_travel
from tablestore.table.table import Table
from tests.faults import SimEnv
from tests.read import golden
from tests.tables import WRITE_ONLY, TableSpec

KINDS = pa.schema([("k", pa.int32()), ("v", pa.string()), ("rowkind", pa.string())])


STREAMED = TableSpec({"k": ts.INT, "v": ts.STRING}, primary_key=("k",), options=WRITE_ONLY, new_env=SimEnv)


def put(table: Table, *rows: tuple[int, str | None, str]) -> None:
    columns = [list(c) for c in zip(*rows, strict=True)]
    table.write(
        pa.table(dict(zip(KINDS.names, columns, strict=True)), schema=KINDS), row_kind_column="rowkind"
    )


def with_commits(path: Path, count: int, **more: Any) -> Table:
    """A table after so many commits of a row."""
    table = STREAMED.create(path, **more)
    for i in range(count):
        put(table, (i, "a", "+I"))
    return table


def sorted_rows(change: Change) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in change.to_arrow().to_pylist())


def test_changes_without_producer_are_the_rows_as_written(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path)
    put(table, (1, "a", "+I"), (2, "b", "+I"))
    put(table, (1, None, "-D"), (3, "c", "+I"))
    actual = changes(table.store, since=1)
    assert actual.column_names == ["rowkind", "k", "v"]
    assert sorted(map(str, actual.to_pylist())) == sorted(
        map(str, [{"rowkind": "-D", "k": 1, "v": None}, {"rowkind": "+I", "k": 3, "v": "c"}])
    )


def test_changes_of_an_input_producer_keep_every_step(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path, {"changelog-producer": "input"})
    put(table, (1, "a", "+I"))
    put(table, (1, "a", "-U"), (1, "b", "+U"), (1, "b", "-U"), (1, "c", "+U"))
    rows = changes(table.store, since=1).to_pylist()
    assert [tuple(r.values()) for r in rows] == [
        ("-U", 1, "a"),
        ("+U", 1, "b"),
        ("-U", 1, "b"),
        ("+U", 1, "c"),
    ]


def test_changes_can_be_projected_and_filtered(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path)
    put(table, (1, "a", "+I"), (2, "b", "+I"))
    actual = changes(table.store, since=0, columns=["v"], where=col("k") == 2)
    assert actual.to_pylist() == [{"rowkind": "+I", "v": "b"}]


def test_compaction_changes_nothing(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path)
    put(table, (1, "a", "+I"))
    put(table, (2, "b", "+I"))
    before = table.store.snapshots.latest_id()
    table.compact(full=True)
    assert table.store.snapshots.latest_id() == before + 1
    assert changes(table.store, since=before).num_rows == 0


@pytest.mark.parametrize("producer", ["none", "input"])
def test_changes_added_up_are_the_state_at_every_snapshot(
    tmp_path: Path, seeds: tuple[int, ...], producer: str
) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        table = STREAMED.create(
            tmp_path / str(seed), {"changelog-producer": producer, "write-only": False, "bucket": 2}
        )
        for _ in range(12):
            keys = [rng.randrange(12) for _ in range(rng.randrange(1, 8))]
            put(table, *((k, rng.choice("abc"), rng.choice(["+I", "+U", "-D"])) for k in keys))
        state: dict[int, str] = {}
        for change in stream(table.store, StreamRequest(start=1, follow=False)):
            for row in change.to_arrow().to_pylist():
                if row["rowkind"] in ("+I", "+U"):
                    state[row["k"]] = row["v"]
                else:
                    state.pop(row["k"], None)
            columns = table.at(snapshot=change.snapshot).scan().to_arrow().to_pydict()
            assert dict(zip(columns["k"], columns["v"], strict=True)) == state, (seed, change.snapshot)
        assert table.check() == []


def test_a_range_must_go_forward_and_exist(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path)
    put(table, (1, "a", "+I"))
    put(table, (2, "b", "+I"))
    with pytest.raises(InvalidRequest, match="changes go forward"):
        changes(table.store, since=2, until=1)
    with pytest.raises(NotFound, match="no snapshot 9 yet; the newest is 2"):
        changes(table.store, since=1, until=9)
    assert changes(table.store, since=2).num_rows == 0


def test_a_stream_begins_with_the_state_and_goes_on_with_changes(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path)
    put(table, (1, "a", "+I"), (2, "b", "+I"))
    put(table, (1, "x", "+U"))
    steps = stream(table.store, StreamRequest())
    first = next(steps)
    assert (first.snapshot, first.full) == (2, True)
    assert sorted_rows(first) == [("+I", 1, "x"), ("+I", 2, "b")]
    put(table, (2, "b", "-D"))
    second = next(steps)
    assert (second.snapshot, second.full, sorted_rows(second)) == (3, False, [("-D", 2, "b")])


@pytest.mark.parametrize(
    ("start", "snapshots"),
    [
        ("latest-full", [(3, True)]),
        ("latest", []),
        ("earliest", [(1, False), (2, False), (3, False)]),
        (2, [(2, False), (3, False)]),
        (Cursor(3).text, [(3, False)]),
        ({"snapshot": 2}, [(2, False), (3, False)]),
        ({"snapshot": 2, "full": True}, [(2, True), (3, False)]),
        ({"timestamp": 1_700_000_001_500}, [(3, False)]),
    ],
)
def test_where_a_stream_may_start(tmp_path: Path, start: Any, snapshots: list[tuple[int, bool]]) -> None:
    env = SimEnv()
    table = STREAMED.create(tmp_path, env=env)
    for i in range(3):
        put(table, (i, "a", "+I"))
        env.sleep(1)
    actual = [(c.snapshot, c.full) for c in stream(table.store, StreamRequest(start=start, follow=False))]
    assert actual == snapshots


def test_a_stream_ends_at_until_or_after_a_quiet_time(tmp_path: Path) -> None:
    env = SimEnv()
    table = with_commits(tmp_path, 3, env=env)
    assert [c.snapshot for c in stream(table.store, StreamRequest(start=1, until=2))] == [1, 2]
    before = env.monotonic()
    assert [c.snapshot for c in stream(table.store, StreamRequest(start=2, timeout=25))] == [2, 3]
    assert 25 <= env.monotonic() - before <= 26


def test_a_stream_of_a_table_without_snapshots_waits_for_the_first(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path)
    assert list(stream(table.store, StreamRequest(follow=False))) == []
    assert list(stream(table.store, StreamRequest(timeout=5))) == []
    put(table, (1, "a", "+I"))
    assert [c.full for c in stream(table.store, StreamRequest(follow=False))] == [True]


def test_a_cursor_goes_on_where_it_was_taken(tmp_path: Path) -> None:
    table = with_commits(tmp_path, 4)
    first, second = islice(stream(table.store, StreamRequest(start="earliest")), 2)
    assert Cursor.parse(first.cursor).snapshot == 2
    assert [c.snapshot for c in stream(table.store, StreamRequest(start=second.cursor, follow=False))] == [
        3,
        4,
    ]
    with pytest.raises(InvalidRequest, match="is no cursor"):
        list(stream(table.store, StreamRequest(start='{"snapshot": 1}', follow=False)))
    with pytest.raises(InvalidRequest, match="none of latest-full"):
        list(stream(table.store, StreamRequest(start="beginning", follow=False)))


def test_snapshots_without_changes_are_passed_over(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path)
    put(table, (1, "a", "+I"))
    put(table, (2, "a", "+I"))
    table.compact(full=True)
    put(table, (3, "a", "+I"))
    assert [c.snapshot for c in stream(table.store, StreamRequest(start=1, follow=False))] == [1, 2, 4]


def test_a_consumer_comes_back_to_the_step_it_had_not_done(tmp_path: Path) -> None:
    table = with_commits(tmp_path, 3)
    reader = stream(table.store, StreamRequest(start="earliest", consumer="dashboard"))
    assert next(reader).snapshot == 1
    assert consumers.next_snapshot(table.store, "dashboard") == 1
    assert next(reader).snapshot == 2  # asking for the next says that the first is done
    assert consumers.next_snapshot(table.store, "dashboard") == 2
    again = list(islice(stream(table.store, StreamRequest(consumer="dashboard")), 1))
    assert [c.snapshot for c in again] == [2]
    again[0].done()
    assert [c.snapshot for c in stream(table.store, StreamRequest(consumer="dashboard", follow=False))] == [3]
    assert table.inspect.consumers().to_pylist() == [{"consumer_id": "dashboard", "next_snapshot_id": 4}]


def test_a_consumer_keeps_its_snapshots_from_expiring(tmp_path: Path) -> None:
    table = with_commits(tmp_path, 5)
    next(stream(table.store, StreamRequest(start=3, consumer="slow")))
    table.expire_snapshots(keep=1)
    assert table.store.snapshots.ids() == [3, 4, 5]
    assert [c.snapshot for c in stream(table.store, StreamRequest(consumer="slow", follow=False))] == [
        3,
        4,
        5,
    ]


def test_a_consumer_name_cannot_leave_its_directory(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path)
    put(table, (1, "a", "+I"))
    with pytest.raises(InvalidRequest, match="consumer name"):
        list(stream(table.store, StreamRequest(consumer="../x", follow=False)))


def test_a_stream_says_when_its_next_snapshot_has_expired(tmp_path: Path) -> None:
    table = with_commits(tmp_path, 5)
    reader = stream(table.store, StreamRequest(start=1))
    assert next(reader).snapshot == 1
    table.expire_snapshots(keep=2)
    with pytest.raises(NotFound, match=r"snapshot 2, the next of this stream, has expired; there are 4\.\.5"):
        next(reader)
    with pytest.raises(NotFound, match="have expired"):
        changes(table.store, since=1)


@pytest.mark.parametrize("by_cursor", [False, True])
def test_a_stream_notices_a_rollback_though_the_ids_are_used_again(tmp_path: Path, by_cursor: bool) -> None:
    table = with_commits(tmp_path, 4)
    reader = stream(table.store, StreamRequest(start="earliest", follow=False))
    second, fourth = list(islice(reader, 4))[1::2]
    table.rollback(snapshot=2)
    if by_cursor:
        reader = stream(table.store, StreamRequest(start=fourth.cursor, follow=False))
    else:
        reader = stream(table.store, StreamRequest(start=second.cursor, follow=False))
        assert list(reader) == []
        reader = stream(table.store, StreamRequest(start=json.loads(fourth.cursor), follow=False))
    for i in range(3):
        put(table, (10 + i, "a", "+I"))
    with pytest.raises(
        NotFound, match="snapshot 4, which this stream had delivered, was rolled back and its id"
    ):
        next(reader)
    assert [c.snapshot for c in stream(table.store, StreamRequest(start=second.cursor, follow=False))] == [
        3,
        4,
        5,
    ]
    assert Cursor.parse(fourth.cursor).snapshot == 5


def test_a_consumer_that_comes_back_notices_a_rollback(tmp_path: Path) -> None:
    table = with_commits(tmp_path, 4)
    asked: dict[str, Any] = {"consumer": "c", "follow": False, "normalize": False}
    assert [step.snapshot for step in table.stream(start="earliest", **asked)] == [1, 2, 3, 4]
    assert list(table.stream(**asked)) == []
    table.rollback(snapshot=2)
    for i in range(3):
        put(table, (10 + i, "a", "+I"))
    with pytest.raises(NotFound, match="snapshot 4, which this stream had delivered, was rolled back"):
        list(table.stream(**asked))
    table.consumers.reset("c", 3)
    assert [step.snapshot for step in table.stream(**asked)] == [3, 4, 5]


def test_a_stream_under_way_notices_a_rollback(tmp_path: Path) -> None:
    table = with_commits(tmp_path, 3)
    reader = table.stream(start="earliest", follow=False, normalize=False)
    assert [next(reader).snapshot for _ in range(3)] == [1, 2, 3]
    table.rollback(snapshot=1)
    for i in range(4):
        put(table, (10 + i, "a", "+I"))
    with pytest.raises(NotFound, match="snapshot 3, which this stream had delivered"):
        next(reader)


def test_a_cursor_outlives_the_snapshot_it_came_after(tmp_path: Path) -> None:
    table = with_commits(tmp_path, 4)
    first = next(stream(table.store, StreamRequest(start="earliest", follow=False)))
    table.expire_snapshots(keep=3)
    assert [c.snapshot for c in stream(table.store, StreamRequest(start=first.cursor, follow=False))] == [
        2,
        3,
        4,
    ]


def test_time_travel_by_watermark() -> None:
    store = golden.java("analyzed")
    marks = [(s.id, s.watermark) for s in store.snapshots.all() if s.watermark is not None]
    assert marks
    for mark in {m for _, m in marks}:
        resolved = time_travel.resolve(store, watermark=mark)
        assert resolved is not None
        assert resolved.id == min(i for i, m in marks if m >= mark)
    with pytest.raises(NotFound, match="no snapshot has reached watermark"):
        time_travel.resolve(store, watermark=1 + max(m for _, m in marks))


def test_time_travel_by_id_and_time(tmp_path: Path) -> None:
    env = SimEnv()
    table = STREAMED.create(tmp_path, env=env)
    for i in range(3):
        put(table, (i, "a", "+I"))
        env.sleep(10)
    start = 1_700_000_000_000
    assert table.at(snapshot=2).scan().to_arrow().num_rows == 2
    assert table.at(timestamp=start + 12_000).scan().to_arrow().num_rows == 2
    assert table.at(timestamp="2023-11-14T22:13:20.000+00:00").scan().to_arrow().num_rows == 1
    assert table.at(timestamp=start * 2).scan().to_arrow().num_rows == 3
    with pytest.raises(NotFound, match="no snapshot at or before"):
        table.at(timestamp=start - 1)
    with pytest.raises(NotFound, match=r"no snapshot 90; have 1\.\.3"):
        table.at(snapshot=90)
    with pytest.raises(NotFound, match="no tag 'v1'"):
        table.at(tag="v1")
    with pytest.raises(InvalidRequest, match="give one of"):
        table.at(snapshot=1, tag="v1")
    with pytest.raises(InvalidRequest, match="no ISO text"):
        table.at(timestamp="yesterday")


def test_a_stream_stays_behind_by_the_delay_of_its_options(tmp_path: Path) -> None:
    env = SimEnv()
    table = STREAMED.create(tmp_path, {"streaming.read.snapshot.delay": "10 s"}, env=env)
    put(table, (1, "a", "+I"))
    (state,) = table.stream(follow=False, normalize=False)
    assert sorted_rows(state) == [("+I", 1, "a")], "the first state is not delayed"
    put(table, (2, "b", "+I"))
    assert last_streamable(table.store) == 0
    assert list(table.stream(start=2, follow=False, normalize=False)) == []
    assert list(table.stream(start=2, timeout=5, normalize=False)) == []
    (change,) = table.stream(start=2, until=2, normalize=False)
    assert env.now_ms() >= table.store.snapshots.get(2).time_millis + 10_000
    assert sorted_rows(change) == [("+I", 2, "b")]
    assert last_streamable(table.store) == 2


def test_what_streams_read_ends_before_the_bound_of_watermarks(tmp_path: Path) -> None:
    table = STREAMED.create(tmp_path, {"scan.bounded.watermark": 5})
    for mark in (3, 5, 6, 7):
        table.write([{"k": mark, "v": "x"}], watermark=mark)
    assert last_streamable(table.store) == 2


@pytest.mark.parametrize("producer", ["lookup", "input"])
def test_changes_of_several_compactions_in_one_commit_come_in_their_order(
    tmp_path: Path, seeds: tuple[int, ...], producer: str
) -> None:
    options = {"bucket": 1, "changelog-producer": producer, "write-buffer-size": "4 kb"}
    options |= {"num-sorted-run.compaction-trigger": 2, "num-sorted-run.stop-trigger": 2}
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = ts.connect(str(tmp_path / str(seed))).create_table(
            "d.t", schema={"k": ts.INT, "v": ts.STRING}, primary_key=["k"], options=options
        )
        t.write([{"k": k, "v": f"old {k}"} for k in range(40)])
        with t.writer() as w:  # a small buffer: several flushes, and compactions between them
            for n in range(120):
                w.write([{"k": rng.randrange(40), "v": f"{n} {i}" + "x" * 40} for i in range(20)])
        files = t.store.manifests.changelog_entries(t.store.snapshots.get(t.store.snapshots.latest_id()))
        last: dict[int, str] = {}
        for row in t.changes(since=0).to_pylist():
            if producer == "lookup" and row["rowkind"] in ("-U", "-D"):
                assert last.pop(row["k"]) == row["v"], (seed, len(files))
            else:
                last[row["k"]] = row["v"]
        assert last == {r["k"]: r["v"] for r in t.scan().to_arrow().to_pylist()}, (seed, len(files))


@pytest.mark.parametrize("producer", ["lookup", "full-compaction", "input", "none"])
def test_a_key_that_moves_is_deleted_in_one_partition_before_it_is_inserted_in_the_other(
    tmp_path: Path, seeds: tuple[int, ...], producer: str
) -> None:
    options = {"bucket": -1, "changelog-producer": producer, "dynamic-bucket.target-row-num": 10}
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = ts.connect(str(tmp_path / str(seed))).create_table(
            "d.t",
            schema={"k": ts.INT, "p": ts.INT, "v": ts.INT},
            primary_key=["k"],
            partition_by=["p"],
            options=options | {"write-buffer-size": "600 b", "num-sorted-run.compaction-trigger": 2},
        )
        for _ in range(6):
            kinds = ("+I", "+I", "+I", "-D")
            changes = [
                {"kind": rng.choice(kinds), "k": rng.randrange(20), "p": rng.randrange(3), "v": n}
                for n in range(30)
            ]
            t.write(changes, row_kind_column="kind")
        t.compact(full=True)
        last: dict[int, tuple[int, int]] = {}
        for step in t.stream(start="earliest", follow=False, normalize=False):
            for row in step.to_arrow().to_pylist():
                last.pop(row["k"], None)
                if row["rowkind"] in ("+I", "+U"):
                    last[row["k"]] = row["p"], row["v"]
        assert last == {r["k"]: (r["p"], r["v"]) for r in t.scan().to_arrow().to_pylist()}, seed
        kinds = t.changes(since=0).column("rowkind").to_pylist()
        assert sorted(kinds) == sorted(
            kind
            for step in t.stream(start="earliest", follow=False, normalize=False, columns=["v"])
            for kind in step.to_arrow().column("rowkind").to_pylist()
        )
