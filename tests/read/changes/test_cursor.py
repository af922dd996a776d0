"""Cursors: their text, what is none, and what marks a snapshot that was rolled back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.read.changes.stream_start import Cursor, mark_of, offsets_of, was_rolled_back
from tests.tables import KEYED

CURSORS = {
    '{"v": 1, "snapshot": 8}': Cursor(8),
    '{"v": 1, "snapshot": 8, "after": "u"}': Cursor(8, "u"),
    '{"v": 1, "snapshot": 8, "log": {"0": 20, "3": 0}}': Cursor(8, None, {3: 0, 0: 20}),
    '{"v": 1, "snapshot": 8, "after": "u", "log": {}}': Cursor(8, "u", {}),
    '{"v": 1, "snapshot": 8, "log": {"1": 2}, "inside": true}': Cursor(8, None, {1: 2}, inside=True),
}


@pytest.mark.parametrize("text", CURSORS)
def test_a_cursor_is_its_text(text: str) -> None:
    assert CURSORS[text].text == text
    assert Cursor.parse(text) == CURSORS[text]


@pytest.mark.parametrize("text", ["", "8", "[]", "null", "{}", '{"v": 1}', '{"snapshot": 8}', '{"v": 1, '])
def test_a_text_that_is_no_cursor_is_shown(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Cursor.parse(text)
    assert str(refused.value) == f"{text!r} is no cursor of a stream"


@pytest.mark.parametrize("text", ['{"v": 2, "snapshot": 8}', '{"v": 1, "snapshot": "8"}'])
def test_a_cursor_of_another_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="version 1 is known"):
        Cursor.parse(text)


@pytest.mark.parametrize("value", [5, [1], {0: -1}, {0: "a"}, {"a": 1}, {0: None}])
def test_what_is_no_place_in_a_log_is_shown(value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        offsets_of(value)
    assert str(refused.value).startswith(f"{value!r} is no place in a log: offsets are a mapping")


def test_offsets_may_be_named_by_texts_and_numbers() -> None:
    assert offsets_of({0: 20, "1": 3}) == {0: 20, 1: 3}


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    """A table with the snapshots 2 and 3; 1 has expired."""
    table = KEYED.create(tmp_path)
    for key in range(3):
        table.write({"k": [key]})
    table.expire_snapshots(keep=2)
    return table


def test_a_snapshot_that_is_another_one_now_was_rolled_back(table: ts.Table) -> None:
    snapshots = table.store.snapshots
    for number in (2, 3):
        mark = mark_of(snapshots.get(number))
        assert not was_rolled_back(snapshots, number, mark)
        assert was_rolled_back(snapshots, number, "another")
        assert not was_rolled_back(snapshots, number, None)


def test_a_snapshot_that_is_not_there_any_more_was_rolled_back_unless_it_expired(table: ts.Table) -> None:
    snapshots = table.store.snapshots
    assert was_rolled_back(snapshots, 4, "of one that is gone")
    assert not was_rolled_back(snapshots, 1, "of one that expired")
    assert not was_rolled_back(snapshots, 1, None)


@pytest.mark.parametrize(("earliest", "rolled_back"), [((1, 3), False), ((1, 2), True), ((None, None), True)])
def test_a_snapshot_may_expire_while_it_is_looked_for(
    earliest: tuple[int | None, ...], rolled_back: bool
) -> None:
    """`earliest`: the oldest snapshot before the look at snapshot 2, which is not there, and behind it."""
    snapshots = Mock(earliest_id=Mock(side_effect=earliest), get=Mock(side_effect=NotFound("no snapshot 2")))
    assert was_rolled_back(snapshots, 2, "mark") is rolled_back


def test_snapshots_without_a_uuid_are_told_apart_by_who_made_them_and_when(table: ts.Table) -> None:
    snapshot = table.store.snapshots.get(3)
    assert mark_of(replace(snapshot, uuid="u")) == "u"
    bare = replace(snapshot, uuid=None)
    changes = {"commit_user": "other", "commit_identifier": 5, "time_millis": bare.time_millis + 1}
    marks = {mark_of(bare), *(mark_of(replace(bare, **{name: value})) for name, value in changes.items())}
    assert len(marks) == 4
