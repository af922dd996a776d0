"""Streams whose changes add up to the table tell what an OVERWRITE replaced."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.change_feed import ChangeFeed
from tablestore.cdc.table_stream import TableStream
from tablestore.core.errors import NotFound
from tablestore.format import rowkind
from tablestore.read.changes.change import Change

Rows = list[tuple[Any, ...]]


def made(path: Path, **options: Any) -> ts.Table:
    return ts.connect(path).create_table(
        "d.t",
        schema={"p": ts.INT, "k": ts.INT, "v": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": 2, **options},
    )


def rows(t: ts.Table) -> Rows:
    return sorted(tuple(r.values()) for r in t.scan().to_arrow().to_pylist())


def added(steps: Iterator[Change], start: Counter[Any] | None = None) -> Counter[Any]:
    """The rows that the steps add up to, as a sum would: none is ever fewer than no times there."""
    actual = Counter[Any]() if start is None else start
    for step in steps:
        for kind, *row in (tuple(r.values()) for r in step.to_arrow().to_pylist()):
            actual[tuple(row)] += -1 if kind in ("-U", "-D") else 1
            assert actual[tuple(row)] >= 0 or kind == "-U", (kind, row)
    return +actual


def lived(t: ts.Table) -> None:
    """Writes, a truncated partition, overwrites of one partition and of all, some of the same rows, another
    number of buckets."""
    t.write([{"p": p, "k": k, "v": k} for p in (1, 2, 3) for k in range(5)])
    t.truncate(partition={"p": 1})
    t.write([{"p": 2, "k": 1, "v": 50}, {"p": 2, "k": 9, "v": 9}])
    t.overwrite([{"p": 2, "k": 1, "v": 3}, {"p": 2, "k": 2, "v": 2}, {"p": 2, "k": 7, "v": 7}])
    t.write([{"p": 2, "k": 1, "v": 60}, {"p": 3, "k": 3, "v": 61}])
    t.rescale(3)
    t = t.refresh()
    t.write([{"p": 1, "k": 2, "v": 70}])
    t.overwrite([{"p": 3, "k": 0, "v": 1}, {"p": 1, "k": 2, "v": 70}], dynamic=False)
    t.write([{"p": 1, "k": 2, "v": 71}, {"p": 1, "k": 3, "v": 1}])
    t.compact(full=True)


KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "sequence field": {"sequence.field": "v"},
    "ignore-delete": {"ignore-delete": True},
    "vectors": {"deletion-vectors.enabled": True},
    "lookup": {"changelog-producer": "lookup"},
    "lookup of vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": True},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "not upgraded": {"changelog-producer": "lookup", "overwrite-upgrade": False},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [1, "latest-full"])
@pytest.mark.sample(2)
def test_steps_add_up_to_the_table(tmp_path: Path, kind: str, start: int | str) -> None:
    t = made(tmp_path, **KINDS[kind])
    if start == "latest-full":
        t.write([{"p": 1, "k": k, "v": 0} for k in range(4)])
        if "full" in kind:
            t.compact(full=True)
        first = t.stream(start=start, timeout=0)
        before = added(iter([next(first)]))
        lived(t)
        assert added(first, before) == Counter(rows(t))
        return
    lived(t)
    assert added(t.stream(start=start, follow=False)) == Counter(rows(t))


@pytest.mark.parametrize("kind", ["none", "lookup", "full-compaction", "sequence field"])
@pytest.mark.sample(2)
def test_a_feed_adds_up_to_the_table(tmp_path: Path, kind: str) -> None:
    t = made(tmp_path, **KINDS[kind])
    lived(t)
    feed, actual = ChangeFeed(t.location, start="1"), Counter[Any]()
    end = feed.newest()
    for piece in feed.pieces(feed.initial(), end):
        for batch, kinds in piece.read(t.location, ["p", "k", "v"]):
            gone = rowkind.retracts(kinds.to_numpy(zero_copy_only=False))
            for row, minus in zip(batch.to_pylist(), gone, strict=True):
                actual[tuple(row.values())] += -1 if minus else 1
    assert +actual == Counter(rows(t))
    assert min(actual.values()) == 0


def test_changes_written_by_an_input_changelog_are_followed_by_what_an_overwrite_replaced(
    tmp_path: Path,
) -> None:
    t = made(tmp_path, **{"changelog-producer": "input"})
    t.write([{"p": p, "k": 1, "v": 1} for p in (1, 2)])
    t.truncate(partition={"p": 1})
    assert added(t.stream(start=1, follow=False)) == Counter(rows(t))
    assert t.changes(since=1).to_pylist() == [{"rowkind": "-D", "p": 1, "k": 1, "v": 1}]


@pytest.mark.parametrize("kind", ["none", "lookup"])
def test_where_the_state_before_has_expired_the_stream_ends_and_says_how_to_go_on(
    tmp_path: Path, kind: str
) -> None:
    t = made(tmp_path, **KINDS[kind], **{"snapshot.num-retained.min": 1})
    t.write([{"p": p, "k": 1, "v": 1} for p in (1, 2)])
    t.truncate(partition={"p": 1})
    at = t.store.snapshots.latest_id()
    t.expire_snapshots(keep=1)
    with pytest.raises(NotFound, match=r"expired.*start (again )?with latest-full"):
        added(t.stream(start=at, follow=False))
    assert added(t.stream(start="latest-full", follow=False)) == Counter(rows(t))


@pytest.mark.parametrize("kind", ["none", "lookup"])
def test_an_option_leaves_overwrites_out_and_the_stream_says_so(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    t = made(tmp_path, **KINDS[kind], **{"streaming-read-overwrite": False})
    t.write([{"p": 1, "k": 1, "v": 1}])
    t.truncate()
    at = t.store.snapshots.latest_id()
    with caplog.at_level(logging.WARNING, logger="tablestore.read.changes.overwritten"):
        assert list(t.stream(start=at, follow=False)) == []
        feed = ChangeFeed(t.location, start=str(at))
        assert feed.pieces(feed.initial(), feed.newest()) == []
    assert any(f"snapshot {at} is an OVERWRITE" in text for text in caplog.messages)


def keyless(path: Path, **options: Any) -> ts.Table:
    return ts.connect(path).create_table(
        "d.t", schema={"p": ts.INT, "k": ts.INT, "v": ts.INT}, partition_by=["p"], options=options
    )


def overwritten(t: ts.Table) -> int:
    """An OVERWRITE that only adds, one that replaces and one that removes; the snapshot before them."""
    t.write([{"p": p, "k": k, "v": k} for p in (1, 2) for k in (1, 1, 2)])
    at = t.store.snapshots.latest_id()
    assert at is not None
    t.overwrite([{"p": 3, "k": 3, "v": 3}])
    t.overwrite([{"p": 2, "k": 1, "v": 1}, {"p": 2, "k": 5, "v": 5}])
    t.truncate(partition={"p": 1})
    return at


def test_a_stream_without_a_key_adds_up_to_the_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    t = keyless(tmp_path)
    at = overwritten(t)
    assert added(t.stream(start=at, follow=False)) == Counter(rows(t))
    assert caplog.messages == []
    assert len(list(t.stream(start=at, follow=False, normalize=False))) == 1
    assert ["is an OVERWRITE" in text for text in caplog.messages] == [True] * 3


def test_a_feed_of_rows_that_are_only_added_ends_at_an_overwrite(tmp_path: Path) -> None:
    t = keyless(tmp_path)
    feed = TableStream(ChangeFeed(t.location, start=str(overwritten(t))))
    assert feed.appends
    with pytest.raises(
        NotFound, match=r"OVERWRITE.*start again with latest-full.*append-overwrite' = 'true'"
    ):
        feed.pieces(feed.initial(), feed.latest())
    again = replace(feed, feed=replace(feed.feed, start="latest-full"))
    assert fed(again) == Counter(rows(t))
    t.alter(ts.set_options({"streaming-read-append-overwrite": "true"}))
    assert not feed.appends
    assert fed(feed) == Counter(rows(t))


def test_an_emptied_table_that_was_empty_ends_no_feed(tmp_path: Path) -> None:
    t = keyless(tmp_path)
    t.truncate()
    t.write([{"p": 1, "k": 1, "v": 1}])
    assert fed(TableStream(ChangeFeed(t.location, start="1"))) == Counter(rows(t))


def fed(stream: TableStream) -> Counter[Any]:
    """What all pieces of a source add up to."""
    actual = Counter[Any]()
    for piece in stream.pieces(stream.initial(), stream.latest()):
        for batch, kinds in piece.read(["p", "k", "v"]):
            gone = rowkind.retracts(kinds.to_numpy(zero_copy_only=False))
            for row, minus in zip(batch.to_pylist(), gone, strict=True):
                actual[tuple(row.values())] += -1 if minus else 1
    assert min(actual.values()) >= 0
    return +actual


@pytest.mark.parametrize("key", [["k"], []])
@pytest.mark.sample(1)
def test_streams_of_a_log_end_at_an_overwrite(tmp_path: Path, key: list[str]) -> None:
    """The log has no rows of it."""
    t = ts.connect(tmp_path).create_table(
        "d.t",
        schema={"k": ts.INT, "v": ts.INT},
        primary_key=key,
        options={"log.system": "embedded", "bucket": 1, "bucket-key": "k"},
    )
    t.write([{"k": k, "v": 0} for k in range(3)])
    stream = t.stream(timeout=0.0)
    first = next(stream)
    feed = TableStream(ChangeFeed(t.location))
    at = feed.next(feed.initial())
    t.truncate()
    for _ in range(2):
        with pytest.raises(NotFound, match=r"OVERWRITE.*start again with latest-full"):
            list(t.stream(start=first.cursor, timeout=0.0))
        with pytest.raises(NotFound, match=r"OVERWRITE.*start again with latest-full"):
            feed.next(at, feed.latest())
        t.write([{"k": 1, "v": 1}])
    with pytest.raises(NotFound, match="OVERWRITE"):
        list(stream)
    assert added(t.stream(timeout=0.0)) == Counter(rows(t))
    assert len(list(t.stream(start=first.cursor, timeout=0.0, normalize=False))) >= 1
    option = "streaming-read-overwrite" if key else "streaming-read-append-overwrite"
    t = t.alter(ts.set_options({option: "false"}))
    feed.pieces(at, feed.next(at, feed.latest()))
    t = t.alter(ts.set_options({option: "true"}))
    assert added(t.stream(start=2, follow=False), Counter({(k, 0): 1 for k in range(3)})) == Counter(rows(t))


def test_what_a_stream_leaves_out_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    t = ts.connect(tmp_path).create_table(
        "d.t",
        schema={"p": ts.INT, "k": ts.INT, "v": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
    )
    t.write([{"p": p, "k": k, "v": k} for p in (1, 2) for k in (1, 2)])
    latest = t.store.snapshots.latest_id()
    assert latest is not None
    with caplog.at_level(logging.WARNING, logger="tablestore.read.changes.overwritten"):
        assert list(t.stream(start=latest, follow=False, normalize=False)) != []
        assert caplog.messages == []
        t.truncate(partition={"p": 1})
        assert list(t.stream(start=latest + 1, follow=False, normalize=False)) == []
    assert [f"snapshot {latest + 1} is an OVERWRITE" in text for text in caplog.messages] == [True]
    assert "streaming-read-overwrite" in caplog.messages[0]
