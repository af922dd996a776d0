"""Where a stream begins: by its caller, its consumer, the options of its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.meta import consumers
from tablestore.read.changes.stream_start import Cursor, Start, place_of_consumer, stream_start
from tests.faults import SimEnv
from tests.tables import KEEP_ALL, KEYED

NOW = 1_700_000_000_000
NEXT = {
    "latest": 4,
    "earliest": 1,
    2: 2,
    1: 1,
    Cursor(3).text: 3,
    f"  {Cursor(2, 'mark').text}": 2,
}


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    """A table with the snapshots 1, 2 and 3, a second apart."""
    env = SimEnv()
    table = KEYED.create(tmp_path, KEEP_ALL, env=env)
    for key in range(3):
        table.write({"k": [key]})
        env.sleep(1)
    return table


def begin(table: ts.Table, start: Start | None = None, **options: Any) -> tuple[int | None, int | None]:
    """The snapshot whose changes come next, and the one whose state comes first."""
    actual = stream_start(table.store, start, **{"consumer": None, "until": None} | options)
    return actual.next_snapshot, actual.full and actual.full.id


@pytest.mark.parametrize("start", NEXT)
def test_a_start_with_changes(table: ts.Table, start: Start) -> None:
    assert begin(table, start) == (NEXT[start], None)
    assert begin(table, start, until=1) == (NEXT[start], None)


@pytest.mark.parametrize("start", [None, "latest-full"])
def test_a_start_with_the_state(table: ts.Table, start: Start | None) -> None:
    assert begin(table, start) == (None, 3)
    assert begin(table, start, until=2) == (None, 2)
    assert begin(table, start, until=9) == (None, 3)


def test_a_start_that_is_a_mapping(table: ts.Table) -> None:
    assert begin(table, {"snapshot": 2}) == (2, None)
    assert begin(table, {"snapshot": 2, "full": False}) == (2, None)
    assert begin(table, {"snapshot": 2, "full": True}) == (None, 2)
    assert begin(table, {"timestamp": NOW + 500}) == (2, None)
    assert begin(table, {"timestamp": NOW + 9_000}) == (4, None)
    assert begin(table, {"v": 1, "snapshot": 3}) == (3, None)
    actual = stream_start(table.store, {"v": 1, "snapshot": 3, "after": "m"}, consumer=None, until=None)
    assert (actual.next_snapshot, actual.after) == (3, "m")


def test_the_mark_of_a_cursor_is_kept(table: ts.Table) -> None:
    actual = stream_start(table.store, Cursor(3, "mark").text, consumer=None, until=None)
    assert (actual.next_snapshot, actual.after, actual.full) == (3, "mark", None)


@pytest.mark.parametrize("start", [0, -1])
def test_snapshots_are_numbered_from_1(table: ts.Table, start: int) -> None:
    with pytest.raises(InvalidRequest, match=f"stream start {start}: snapshots are numbered from 1"):
        begin(table, start)


@pytest.mark.parametrize(
    "start",
    [
        {},
        {"full": True},
        {"snapshot": "2"},
        {"timestamp": 1, "full": True},
        {"snapshot": 2, "after": "m"},
        {"v": 1},
        {"v": 1, "snapshot": 3, "log": {}},
    ],
)
def test_a_mapping_that_is_no_start_is_shown(table: ts.Table, start: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        begin(table, start)
    assert str(refused.value).startswith(f"stream start {start!r}: give timestamp, or snapshot")


def test_a_word_that_is_no_start_is_shown(table: ts.Table) -> None:
    with pytest.raises(InvalidRequest, match="stream start 'newest' is none of latest-full, latest"):
        begin(table, "newest")


def test_the_state_of_a_snapshot_that_is_not_there(table: ts.Table) -> None:
    with pytest.raises(NotFound):
        begin(table, {"snapshot": 9, "full": True})


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path)
    assert begin(table) == (None, None)
    assert begin(table, "latest") == (1, None)
    assert begin(table, "earliest") == (1, None)


def test_earliest_is_the_oldest_that_is_there(table: ts.Table) -> None:
    table.expire_snapshots(keep=2)
    assert begin(table, "earliest") == (2, None)


def test_a_consumer_with_a_place_goes_on_there(table: ts.Table) -> None:
    consumers.record(table.store, "known", 2)
    assert begin(table, "latest-full", consumer="known") == (2, None)
    assert begin(table, "latest", consumer="new") == (4, None)
    place = place_of_consumer(table.store, "known")
    assert place is not None
    assert place.next_snapshot == 2
    assert place_of_consumer(table.store, "new") is None
    assert place_of_consumer(table.store, None) is None
    ignoring = table.with_options({"consumer.ignore-progress": True})
    assert place_of_consumer(ignoring.store, "known") is None
    assert begin(ignoring, "latest", consumer="known") == (4, None)


def test_options_say_where_a_stream_begins_that_says_nothing(table: ts.Table) -> None:
    chosen = table.with_options({"scan.snapshot-id": 2})
    assert begin(chosen) == (2, None)
    assert begin(chosen, "latest") == (4, None)
    assert begin(chosen, "latest-full") == (None, 3)
