"""Tables without a primary key in the lake: rows are appended, each once, and no other change is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.cdc.capture.source import ALTERED, EMPTIED
from tests.cdc.capture.fakes import FakeStep, captured, event, piece, rows, shape
from tests.cdc.capture.sink_world import World

EVENTS = shape(("id", "BIGINT"), ("v", "INT"), key=())
NEW = piece(rows("item", [("+I", 1, 10), ("+I", 1, 10), ("+I", None, 20)], EVENTS, seconds=5), item=EVENTS)
CHANGED = piece(
    rows("item", [("+I", 3, 3), ("-U", 1, 10), ("+U", 1, 11), ("-D", 1, 10)], EVENTS, seconds=6), item=EVENTS
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, rules={"keyless": "append"})


def test_rows_are_appended_once_also_when_a_batch_comes_again(world: World):
    world.rules |= {"options": {"bucket": 4}, "partition_by": ["v"], "metadata": ["table_name"]}
    world.run(FakeStep([captured("item", EVENTS)]), FakeStep((), [NEW]))
    world.sink().write(world.batch(1), 1)
    table = world.lake.table("ods.item")
    assert table.primary_key == ()
    assert list(table.partition_by) == ["v"]
    assert table.scan().count() == 3
    world.run(FakeStep((), [piece(rows("item", [("+I", 1, 10)], EVENTS, seconds=7), item=EVENTS)]))
    assert table.refresh().scan().count() == 4
    assert table.check() == []


def test_an_update_or_a_deletion_does_not_fit(world: World):
    world.run(FakeStep([captured("item", EVENTS)]), FakeStep((), [NEW]))
    with pytest.raises(ts.SchemaMismatch, match=r"no primary key, and only insertions.*primary_keys"):
        world.run(FakeStep((), [CHANGED]))
    world.rules["bad_rows"] = "dead-letter"
    world.sink().write(world.batch(2), 2)
    assert sorted(world.lake.table("ods.item").scan(columns=["v"]).to_arrow().column(0).to_pylist()) == [
        3,
        10,
        10,
        20,
    ]
    letters = world.lake.table("ods.cdc_dead_letters").scan().to_arrow()
    assert letters.column("row_kind").to_pylist() == ["-U", "+U", "-D"]
    assert letters.column("row").to_pylist()[1] == '{"id": 1, "v": 11}'


def test_it_is_emptied_and_its_columns_follow(world: World):
    wider = shape(("id", "BIGINT"), ("v", "BIGINT"), ("more", "STRING"), key=())
    again = piece(rows("item", [("+I", 1, 10, "x")], wider, seconds=7), item=wider)
    world.run(
        FakeStep([captured("item", EVENTS)]),
        FakeStep((), [NEW]),
        FakeStep([event(EMPTIED, "item"), event(ALTERED, "item", wider, read_again=True)]),
        FakeStep((), [again]),
    )
    world.sink().write(world.batch(2), 2)
    assert world.rows() == [(1, 10, "x")]


def test_rows_never_come_to_those_of_somebody_else(world: World):
    world.lake.create_table("ods.item", schema=EVENTS.schema).write([{"id": 5, "v": 5}])
    with pytest.raises(ts.SchemaMismatch, match="has rows, and those of a table without a primary key"):
        world.run(FakeStep([captured("item", EVENTS)]))


def test_a_batch_that_comes_again_under_another_number_is_refused(world: World):
    world.run(FakeStep([captured("item", EVENTS)]), FakeStep((), [NEW]))
    with pytest.raises(ts.InvalidRequest, match="would be there twice"):
        world.sink().write(world.batch(1), 7)
    assert world.lake.table("ods.item").scan().count() == 3


def test_without_being_asked_for_it_is_refused_by_name(world: World):
    world.rules["keyless"] = "refuse"
    with pytest.raises(ts.InvalidRequest, match=r"shop.item.*primary key.*keyless='append'"):
        world.run(FakeStep([captured("item", EVENTS)]))
