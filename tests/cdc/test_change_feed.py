"""A table's changelog between offsets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.cdc.change_feed import ChangeFeed


@pytest.fixture
def source(tmp_path: Path) -> ts.Table:
    """A keyed table with a changelog of what is written."""
    options = {"bucket": 2, "changelog-producer": "input"}
    return ts.connect(tmp_path).create_table(
        "d.goods", schema={"id": ts.BIGINT}, primary_key=["id"], options=options
    )


def ids(feed: ChangeFeed, start: dict[str, object], end: dict[str, object]) -> list[int]:
    """What changed between two offsets, sorted."""
    pieces = feed.pieces(start, end)
    return sorted(
        i for p in pieces for batch, _ in p.read(feed.path, ["id"]) for i in batch["id"].to_pylist()
    )


def test_latest_begins_behind_what_is_there(source: ts.Table):
    feed = ChangeFeed(source.location, start="latest")
    empty = feed.next(feed.initial(), limit=None)
    source.write([{"id": 1}])
    assert ids(feed, empty, feed.next(empty, limit=None)) == [1]
    here = feed.next(feed.initial(), limit=None)
    assert feed.pieces(feed.initial(), here) == []
    source.write([{"id": 2}])
    assert ids(feed, here, feed.next(here, limit=None)) == [2]
    again = ChangeFeed(source.location, start="2")
    assert [p.snapshot for p in again.pieces(again.initial(), again.next(again.initial(), limit=5))] == [2]


def test_a_full_load_without_changelog_is_followed_by_its_rows(source: ts.Table):
    feed = ChangeFeed(source.location)
    offset = feed.initial()
    for i in range(3):
        writer = source.open_writer(changelog=False)
        writer.write(pa.table({"id": [i]}))
        source.commit(writer.prepare(), user="load", identifier=i, properties={"tablestore.phase": "full"})
        if i == 0:
            offset = feed.next(offset, limit=None)
            assert ids(feed, feed.initial(), offset) == [0]
    source.compact(full=True)
    end = feed.next(offset, limit=None)
    assert (ids(feed, offset, end), feed.snapshot(end)) == ([1, 2], 4)


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_rollback_of_what_was_delivered_is_an_error_also_if_its_ids_are_used_again(
    source: ts.Table, written: int
):
    feed = ChangeFeed(source.location)
    for i in range(3):
        source.write([{"id": i}])
    here = feed.next(feed.initial(), limit=None)
    source.rollback(snapshot=2)
    for i in range(written):
        source.refresh().write([{"id": 10 + i}])
    with pytest.raises(ts.NotFound, match=r"snapshot 3 .* was rolled back; start the stream again"):
        feed.next(here, limit=None)


def test_an_offset_whose_snapshot_has_expired_and_one_without_a_mark_go_on(source: ts.Table):
    feed = ChangeFeed(source.location)
    source.write([{"id": 1}])
    here = feed.next(feed.initial(), limit=None)
    source.write([{"id": 2}])
    source.refresh().expire_snapshots(keep=1)
    assert feed.next(here, limit=None)["tables"] == {feed.path: 2}
    unmarked = {"v": 1, "tables": here["tables"]}
    assert feed.next(unmarked, limit=None)["tables"] == {feed.path: 2}
