"""The sink of a capture: many tables, exactly once, whatever is killed or comes again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.source import (
    ALTERED,
    DROPPED,
    EMPTIED,
    RENAMED,
    SKIPPED,
    BadRow,
    ChunkFacts,
)
from tablestore.lsm.writing import memory
from tests.cdc.capture.fakes import (
    ITEM,
    FakeStep,
    captured,
    event,
    name,
    piece,
    rows,
    shape,
)
from tests.cdc.capture.sink_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


START = FakeStep([captured("item", rows=2)], [piece(rows("item", [("+I", 1, 10), ("+I", 2, 20)]))])


def test_tables_are_made_and_their_rows_are_those_of_the_source(world: World):
    chunk = ChunkFacts(name("item"), None, "2", True)
    read = piece(rows("item", [("+I", 1, 10), ("+I", 2, 20)]), chunk=chunk)
    changes = piece(
        rows("item", [("-U", 1, 10), ("+U", 1, 11), ("-D", 2, 20)], seconds=50),
        rows("other", [("+I", 7, 7)], seconds=60),
    )
    first, second = world.run(
        FakeStep([captured("item"), captured("other")], [read]), FakeStep((), [changes])
    )
    assert world.rows() == [(1, 11)]
    assert world.rows("ods.other") == [(7, 7)]
    assert [(e.kind, e.table, e.done) for e in first.events] == [
        ("captured", "ods.item", "created"),
        ("captured", "ods.other", "created"),
    ]
    assert [(t.table, t.snapshot_rows, t.changes) for t in first.tables] == [("ods.item", 2, 0)]
    assert [(c.source, c.high, c.last, c.rows) for c in first.chunks] == [("shop.item", "2", True, 2)]
    assert {t.table: t.changes for t in second.tables} == {"ods.item": 3, "ods.other": 1}
    assert world.journal.reports() == [first, second]
    properties = world.lake.table("ods.other").store.snapshots.latest().properties
    assert properties["tablestore.source-time"] == "60000"
    identifier, position = world.lake.table("ods.other").position("job")
    assert (identifier, json.loads(position)["start"]) == (1, {"v": 1, "at": 1})


def test_the_batch_under_way_says_which_pieces_are_done(world: World):
    chunk = ChunkFacts(name("item"), None, None, True)
    pieces = [piece(rows("item", [("+I", 1, 10), ("+I", 2, 20)]), chunk=chunk)]
    pieces.append(piece(rows("item", [("+U", 2, 21)], seconds=50)))
    world.run(FakeStep([captured("item")]))
    sink, seen = world.sink(), []
    world.source.steps.append(FakeStep((), pieces))
    batch = world.batch(1)
    batch.fails = lambda _: seen.append(sink.progress())
    sink.write(batch, 1)
    seen.append(sink.progress())
    assert [None if p is None else [piece.rows for piece in p.pieces] for p in seen] == [
        [None, None],
        [2, None],
        None,
    ]
    assert (seen[1].number, seen[1].rows, seen[1].end) == (1, 2, batch.end)
    assert [piece.chunk for piece in seen[0].pieces] == [chunk, None]


@pytest.mark.parametrize(
    ("sizes", "pool"), [(["1 mb", None], 1 << 20), ([None, None], 128 << 20), (["1 mb", "2 mb"], 2 << 20)]
)
def test_writers_share_the_largest_buffer_that_a_table_says(
    world: World, monkeypatch: pytest.MonkeyPatch, sizes: list[str | None], pool: int
):
    for table, size in zip(("item", "other"), sizes, strict=True):
        options = {} if size is None else {"write-buffer-size": size}
        schema = {"id": "BIGINT NOT NULL", "v": "INT"}
        world.lake.create_table(f"ods.{table}", schema=schema, primary_key=["id"], options=options)
    asked, open_writer = [], ts.Table.open_writer

    def noted(self: ts.Table, **how: Any) -> Any:
        asked.append(how["buffer_bytes"])
        return open_writer(self, **how)

    monkeypatch.setattr(ts.Table, "open_writer", noted)
    both = piece(rows("item", [("+I", 1, 1)]), rows("other", [("+I", 1, 1)]))
    world.run(FakeStep([captured("item"), captured("other")], [both]))
    assert asked == [pool, pool]


@pytest.mark.parametrize(("wanted", "written"), [("true", True), ("false", False)])
def test_rows_of_a_snapshot_make_no_changelog_where_a_table_does_without(
    world: World, wanted: str, written: bool
):
    world.rules["options"] = {"changelog-producer": "input", "tablestore.full-phase-changelog": wanted}
    chunk = ChunkFacts(name("item"), None, "2", True)
    read = piece(rows("item", [("+I", 1, 10), ("+I", 2, 20)]), chunk=chunk)
    world.run(
        FakeStep([captured("item")], [read]), FakeStep((), [piece(rows("item", [("+I", 3, 3)], seconds=5))])
    )
    table = world.lake.table("ods.item")
    first, second = (table.store.snapshots.get(n).changelog_record_count for n in (1, 2))
    assert (bool(first), bool(second)) == (written, True)
    assert world.rows() == [(1, 10), (2, 20), (3, 3)]


def test_of_two_pieces_the_later_one_wins_and_later_batches_win_over_both(world: World):
    early, late = piece(rows("item", [("+I", 1, 1)])), piece(rows("item", [("+I", 1, 2)]))
    world.run(FakeStep([captured("item")], [early, late]))
    assert world.rows() == [(1, 2)]
    world.run(FakeStep((), [piece(rows("item", [("+I", 1, 3)]))]))
    assert world.rows() == [(1, 3)]


def test_rows_of_later_batches_win_whenever_the_table_is_compacted(world: World, seeds: tuple[int, ...]):
    sizes = [(1, 1, 5, 1), *([random.Random(seed).randrange(1, 9) for _ in range(12)] for seed in seeds)]
    world.run(FakeStep([captured("item")], [piece(rows("item", [("+I", 0, -1)]))]))
    sink, value = world.sink(), 0
    for seed, of_seed in zip((0, *seeds), sizes, strict=True):
        draw = random.Random(seed)
        for place, size in enumerate(of_seed):
            value += 1
            changes = rows("item", [("+U", key, value) for key in range(9 - size, 9)], seconds=50)
            world.source.steps.append(FakeStep((), [piece(changes)]))
            batch = world.batch(len(world.source.steps) - 1)
            if place == 2 if seed == 0 else draw.random() < 0.4:  # between its start and its commit
                batch.fails = lambda _: world.lake.table("ods.item").compact(full=True)
            sink.write(batch, batch.number)
            written = [v for key, v in world.rows() if key >= 9 - size]
            assert written == [value] * size


def test_a_batch_that_comes_again_changes_nothing(world: World):
    world.run(START, FakeStep((), [piece(rows("item", [("+U", 1, 11)], seconds=5))]))
    before = world.lake.table("ods.item").store.snapshots.latest().id
    again = world.sink().write(world.batch(1), 1)
    assert world.lake.table("ods.item").store.snapshots.latest().id == before
    assert [(t.table, t.changes, t.snapshot) for t in again.tables] == [("ods.item", 0, None)]


def test_a_kill_between_the_commits_of_two_tables_loses_and_repeats_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    world.run(FakeStep([captured("a"), captured("b")]))
    world.source.steps.append(
        FakeStep((), [piece(rows("a", [("+I", 1, 1)], seconds=1), rows("b", [("+I", 1, 1)], seconds=1))])
    )
    commit, count = ts.Table.commit, [0]

    def killed(self: ts.Table, *args: Any, **more: Any) -> Any:
        count[0] += 1
        if count[0] == 2:
            raise KeyboardInterrupt
        return commit(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(ts.Table, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            world.sink().write(world.batch(1), 1)
    assert sorted([len(world.rows("ods.a")), len(world.rows("ods.b"))]) == [0, 1]
    world.sink().write(world.batch(1), 1)
    for table in ("ods.a", "ods.b"):
        assert world.rows(table) == [(1, 1)]
        assert [s.commit_identifier for s in snapshots(world, table)] == [1]
        assert world.lake.table(table).check() == []


def snapshots(world: World, table: str) -> list[Any]:
    store = world.lake.table(table).store
    return [store.snapshots.get(i) for i in store.snapshots.ids()]


def test_rows_after_a_truncate_stay_when_the_batch_comes_again(world: World):
    world.run(START)
    emptied = event(EMPTIED, "item", statement="TRUNCATE item")
    world.run(FakeStep([emptied], [piece(rows("item", [("+I", 5, 5)], seconds=1))]))
    assert world.rows() == [(5, 5)]
    world.journal.note_events(-1, [])  # as if the journal was lost
    world.sink().write(world.batch(1), 1)
    assert world.rows() == [(5, 5)]


WIDE = shape(("id", "BIGINT NOT NULL"), ("note", "STRING"), ("v", "BIGINT"))


def test_columns_are_added_in_their_place_and_widened_and_the_timeline_says_why(world: World):
    world.run(START)
    ddl = "ALTER TABLE item ADD note TEXT AFTER id, MODIFY v BIGINT"
    changed = event(ALTERED, "item", WIDE, statement=ddl, read_again=True)
    (report,) = world.run(FakeStep([changed]))
    assert world.lake.table("ods.item").schema.names == ["id", "note", "v"]
    assert report.events[0].done == "added note STRING; v is BIGINT; its rows are read again"
    latest = world.lake.table("ods.item").store.snapshots.latest()
    assert latest.properties["tablestore.statement"] == ddl
    world.run(FakeStep((), [piece(rows("item", [("+U", 1, "x", 1 << 40)], WIDE, seconds=9), item=WIDE)]))
    assert world.rows() == [(1, "x", 1 << 40), (2, None, 20)]


def test_renamed_and_dropped_columns_follow_and_come_again_without_harm(world: World):
    world.run(START)
    swapped = shape(("id", "BIGINT NOT NULL"), ("w", "INT"))
    renamed = event(ALTERED, "item", swapped, statement="RENAME", renamed_columns={"v": "w"})
    world.run(FakeStep([renamed]))
    assert world.rows() == [(1, 10), (2, 20)]
    (Path(world.journal.checkpoint) / "tablestore-events.json").unlink()
    again = world.sink().write(world.batch(1), 1)
    assert (again.events[0].done, world.lake.table("ods.item").schema.names) == (
        "its columns fit",
        ["id", "w"],
    )
    world.run(FakeStep([event(ALTERED, "item", shape(("id", "BIGINT NOT NULL")), statement="DROP w")]))
    assert world.rows() == [(1,), (2,)]


def test_two_columns_swap_their_names_once_though_the_event_comes_twice(world: World):
    pair = shape(("id", "BIGINT NOT NULL"), ("a", "INT"), ("b", "INT"))
    swapped = shape(("id", "BIGINT NOT NULL"), ("b", "INT"), ("a", "INT"))
    world.run(FakeStep([captured("item", pair)], [piece(rows("item", [("+I", 1, 5, 6)], pair), item=pair)]))
    world.run(FakeStep([event(ALTERED, "item", swapped, renamed_columns={"a": "b", "b": "a"})]))
    world.journal.note_events(-1, [])
    world.sink().write(world.batch(1), 1)
    actual = world.lake.table("ods.item").scan(["a", "b"]).to_arrow().to_pylist()
    assert actual == [{"a": 6, "b": 5}]


def test_a_column_that_somebody_else_added_is_not_dropped(world: World):
    world.run(START)
    world.lake.table("ods.item").alter(ts.add("mine", ts.STRING))
    world.run(FakeStep([event(ALTERED, "item", shape(("id", "BIGINT NOT NULL")), statement="DROP v")]))
    assert world.lake.table("ods.item").schema.names == ["id", "mine"]


def test_a_table_that_is_renamed_is_renamed_in_the_lake(world: World):
    world.run(START)
    renamed = event(RENAMED, "item", ITEM, new_name=name("thing"), statement="RENAME TABLE")
    (report,) = world.run(FakeStep([renamed]))
    assert report.events[0].table == "ods.thing"
    assert world.rows("ods.thing") == [(1, 10), (2, 20)]
    world.journal.note_events(-1, [])
    world.sink().write(world.batch(1), 1)
    world.run(FakeStep((), [piece(rows("thing", [("+I", 3, 30)], seconds=1))]))
    assert world.lake.tables("ods") == ["thing"]
    assert world.rows("ods.thing") == [(1, 10), (2, 20), (3, 30)]


def test_a_pinned_table_keeps_its_name(world: World):
    world.rules["into"] = "ods.pinned"
    world.run(START)
    world.run(FakeStep([event(RENAMED, "item", ITEM, new_name=name("thing"), statement="RENAME TABLE")]))
    world.run(FakeStep((), [piece(rows("thing", [("-D", 1, 10)], seconds=1))]))
    assert world.rows("ods.pinned") == [(2, 20)]


def test_policies_ignore_and_fail(world: World):
    world.run(START)
    changed = event(ALTERED, "item", WIDE, statement="ALTER TABLE item ADD note TEXT")
    world.rules["schema_change"] = "fail"
    with pytest.raises(ts.SchemaMismatch, match=r"added note STRING.*'fail' asks to stop here"):
        world.run(FakeStep([changed]))
    world.rules["schema_change"] = "ignore"
    report = world.sink().write(world.batch(1), 1)
    assert report.events[0].done.startswith("ignored: added note")
    assert world.lake.table("ods.item").schema.names == ["id", "v"]


def test_a_type_that_cannot_follow_is_refused_with_the_remedy(world: World):
    world.run(START)
    text = event(ALTERED, "item", shape(("id", "BIGINT NOT NULL"), ("v", "DATE")), statement="MODIFY v DATE")
    with pytest.raises(
        ts.SchemaMismatch, match=r"shop.item at log 1 after 'MODIFY v DATE': column 'v' is INT"
    ):
        world.run(FakeStep([text]))


def test_dropped_and_skipped_tables_are_reported_and_their_rows_stay(world: World):
    world.run(START)
    (report,) = world.run(
        FakeStep(
            [
                event(DROPPED, "item", statement="DROP TABLE item"),
                event(SKIPPED, "log", reason="it has no primary key"),
            ]
        )
    )
    assert [(e.table, e.done) for e in report.events] == [
        ("ods.item", "its rows stay"),
        ("", "it has no primary key"),
    ]
    assert world.rows() == [(1, 10), (2, 20)]
    assert snapshots(world, "ods.item")[-1].properties["tablestore.statement"] == "DROP TABLE item"


BAD = BadRow(name("item"), "log 9", 0, "'x' is no number", '{"id": 3, "v": "x"}', 77)


def test_a_row_that_does_not_fit_fails_or_is_kept_beside(world: World):
    steps = FakeStep((), [piece(rows("item", [("+I", 3, 30)], seconds=1), BAD)])
    with pytest.raises(
        ts.SchemaMismatch, match=r"a row of shop.item at log 9 does not fit: 'x' is no number"
    ):
        world.run(START, steps)
    assert world.rows() == [(1, 10), (2, 20)]
    world.rules["bad_rows"] = "dead-letter"
    for n in (0, 1, 1):
        report = world.sink().write(world.batch(n), n)
    assert world.rows() == [(1, 10), (2, 20), (3, 30)]
    letters = world.lake.table("ods.cdc_dead_letters").scan().to_arrow().to_pylist()
    assert [(x["source_table"], x["position"], x["row_kind"], x["reason"]) for x in letters] == [
        ("shop.item", "log 9", "+I", "'x' is no number")
    ]
    assert {t.table for t in report.tables} == {"ods.item", "ods.cdc_dead_letters"}


@pytest.mark.parametrize(
    "table", ["../up", "a/b", "x$branch_y", "a.b.c", "snap$snapshots", ".", "`", "cdc_dead_letters"]
)
def test_names_of_the_source_never_become_paths(world: World, table: str):
    with pytest.raises(ts.InvalidRequest):
        world.run(FakeStep([captured(table)]))
    assert [p for p in world.path.rglob("*") if "up" in p.name or p.name == "a"] == []


def test_a_table_with_dynamic_buckets_takes_one_writer(world: World):
    world.rules["options"] = {"bucket": "-1"}
    world.rules["bad_rows"] = "dead-letter"
    late = piece(rows("item", [("+U", 1, 11), ("-D", 2, 20)], seconds=1), BAD)
    world.run(START, FakeStep((), [late]))
    report = world.sink().write(world.batch(1), 1)
    assert world.rows() == [(1, 11)]
    assert world.lake.table("ods.cdc_dead_letters").scan().count() == 1
    assert [s.commit_identifier for s in snapshots(world, "ods.item")] == [0, 1]
    assert report.tables


def test_the_target_that_is_there_must_fit(world: World):
    world.lake.create_table("ods.item", schema={"id": ts.BIGINT, "v": ts.INT})
    with pytest.raises(ts.SchemaMismatch, match="primary key"):
        world.run(START)
    world.lake.drop_table("ods.item")
    world.lake.create_table("ods.item", schema={"id": ts.BIGINT}, primary_key=["id"])
    world.run(START) if not world.source.steps else world.sink().write(world.batch(0), 0)
    assert world.rows() == [(1, 10), (2, 20)]


def test_a_table_that_is_gone_is_not_made_again_in_silence(world: World):
    world.run(START)
    world.lake.drop_table("ods.item")
    with pytest.raises(ts.NotFound, match=r"ods.item is gone, and rows for it were captured before"):
        world.run(FakeStep((), [piece(rows("item", [("+I", 3, 3)], seconds=1))]))


def test_the_advice_to_drop_a_table_that_cannot_follow_works_on_the_same_checkpoint(world: World):
    world.run(START)
    text = shape(("id", "BIGINT NOT NULL"), ("v", "STRING"))
    altered = event(ALTERED, "item", text, statement="ALTER TABLE item MODIFY v TEXT", read_again=True)
    again = FakeStep([altered])
    with pytest.raises(ts.SchemaMismatch, match="drop the table and capture it anew"):
        world.run(again)
    world.lake.drop_table("ods.item")
    report = world.sink().write(world.batch(1), 1)
    assert report.events[0].done == "created anew; its rows are read again"
    world.run(FakeStep((), [piece(rows("item", [("+I", 7, "x")], text), item=text)]))
    assert world.rows() == [(7, "x")]


def test_a_table_that_somebody_made_anew_is_not_taken_for_the_one_with_the_rows(world: World):
    world.run(START)
    world.run(FakeStep([event(RENAMED, "item", new_name=name("article"))]))
    world.lake.drop_table("ods.article")
    world.lake.create_table("ods.article", schema={"id": ts.BIGINT, "v": ts.INT}, primary_key=["id"])
    later = FakeStep((), [piece(rows("article", [("+I", 3, 3)], seconds=1))])
    with pytest.raises(ts.NotFound, match=r"ods.article is gone, and rows for it were captured before"):
        world.run(later)
    assert world.rows("ods.article") == []
    world.source.steps[-1] = FakeStep(
        [captured("article", statement="CREATE TABLE article (…)")], later.pieces
    )
    world.sink().write(world.batch(2), 2)  # another table of the source: its rows come from the start
    assert world.rows("ods.article") == [(3, 3)]


@pytest.mark.large
def test_two_hundred_tables_share_the_memory_of_a_task(world: World, monkeypatch: pytest.MonkeyPatch):
    tables = [f"t{n}" for n in range(200)]
    pool = 1 << 20
    world.settings["pool_bytes"] = pool
    most = [0]
    report = memory.MemoryPool.report

    def watched(self: memory.MemoryPool, owner: Any, buffered: int) -> None:
        report(self, owner, buffered)
        if self.limit_bytes == pool:
            most[0] = max(most[0], self.used_bytes)

    monkeypatch.setattr(memory.MemoryPool, "report", watched)
    values = [("+I", n, n) for n in range(1000)]
    parts = [rows(t, values, seconds=1) for t in tables]
    sink = world.sink()
    world.run(FakeStep([captured(t) for t in tables]), FakeStep((), [piece(*parts, *parts)]), sink=sink)
    assert 0 < most[0] <= pool
    assert all(world.lake.table(f"ods.{t}").scan().count() == 1000 for t in tables[::20])


def test_compactions_come_with_the_commits_of_a_table(world: World):
    world.settings["compact_every"] = 2
    sink = world.sink()
    world.run(
        START, *(FakeStep((), [piece(rows("item", [("+U", 1, n)], seconds=n))]) for n in range(12)), sink=sink
    )
    assert world.rows() == [(1, 11), (2, 20)]
    assert world.lake.table("ods.item").inspect.files().num_rows < 10
    assert world.lake.table("ods.item").check() == []


def test_two_tables_that_would_go_into_one_are_refused_before_it_is_made(world: World):
    world.rules = {"into": "ods.item"}
    with pytest.raises(ts.InvalidRequest, match=r"shop.a and shop.b both go into ods.item.*merge_shards"):
        world.run(FakeStep([captured("a"), captured("b")]))
    assert world.lake.databases() == []


def test_a_table_that_comes_later_does_not_mix_its_rows_with_those_of_another(world: World):
    world.rules = {"into": "ods.item"}
    world.run(FakeStep([captured("a")]), FakeStep((), [piece(rows("a", [("+I", 1, 1)]))]))
    with pytest.raises(ts.InvalidRequest, match=r"shop.a and shop.b both go into ods.item"):
        world.run(FakeStep((), [piece(rows("a", [("+I", 2, 1)]), rows("b", [("+I", 3, 1)]))]))
    assert world.rows() == [(1, 1)]


SHARDS = {"into": "ods.item", "merge_shards": True, "metadata": ["table_name"]}


TWO = FakeStep(
    [captured("a"), captured("b")],
    [piece(rows("a", [("+I", 1, 1), ("+I", 2, 2)])), piece(rows("b", [("+I", 1, 3)]))],
)


def test_one_shard_is_emptied_and_renamed_where_the_key_says_whose_rows_are_whose(world: World):
    world.rules = SHARDS | {"primary_keys": "table_name, *"}
    world.run(TWO, FakeStep([event(EMPTIED, "a")]))
    assert world.rows() == [(1, 3, "b")]
    moved = event(RENAMED, "b", ITEM, new_name=name("c"))
    (report,) = world.run(FakeStep([moved]))
    assert report.events[0].done.startswith("it stays ods.item; its rows have its new name")
    world.sink().write(world.batch(2), 2)  # as after a kill
    assert world.rows() == [(1, 3, "c")]
    world.run(FakeStep((), [piece(rows("c", [("+U", 1, 4)], seconds=5))]))
    assert world.rows() == [(1, 4, "c")]
    assert world.lake.table("ods.item").check() == []


def test_of_shards_that_share_their_keys_none_is_emptied_alone(world: World):
    world.rules = SHARDS
    with pytest.raises(ts.SchemaMismatch, match=r"other tables, too.*primary_keys="):
        world.run(TWO, FakeStep([event(EMPTIED, "a")]))
    world.rules = SHARDS | {"schema_change": "ignore"}
    assert world.sink().write(world.batch(1), 1).events[0].done.startswith("its rows stay")
    assert world.rows() == [(1, 3, "b"), (2, 2, "a")]


def test_a_key_that_becomes_wider_stops_it_before_the_table_is_emptied(world: World):
    wider = shape(("id", "DECIMAL(20, 0) NOT NULL"), ("v", "INT"))
    steps = [event(ALTERED, "item", wider, read_again=True), event(EMPTIED, "item")]
    with pytest.raises(ts.SchemaMismatch, match=r"'id' of the key is BIGINT here and DEC.*or go on"):
        world.run(START, FakeStep(steps))
    assert world.rows() == [(1, 10), (2, 20)]
