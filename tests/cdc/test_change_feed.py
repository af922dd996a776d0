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
