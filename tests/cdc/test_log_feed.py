"""The changes of a table with a log between offsets: batches that may be planned and read again."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.change_feed import ChangeFeed
from tablestore.core.errors import NotFound
from tablestore.log.log import Log
from tablestore.meta import consumers
from tablestore.read.table_log import log_of
from tests.log.logged import LOGGED, to_files, to_log
from tests.tables import KEEP_ALL, TableSpec

SPEC = TableSpec(
    {"p": ts.STRING, "k": ts.INT, "v": ts.INT},
    primary_key=("p", "k"),
    partition_by=("p",),
    options={"bucket": 2, "bucket-key": "k", **KEEP_ALL, **LOGGED},
)
EVENTUAL = {"log.consistency": "eventual"}
Rows = list[tuple[Any, ...]]


class Logged:
    """A table, its log, and rows that wait there."""

    def __init__(self, folder: Path, options: dict[str, Any] | None = None, **changes: Any) -> None:
        self.table = SPEC.create(folder, options, **changes)
        actual = log_of(self.table.store)
        assert actual is not None
        self.log: Log = actual
        self.waiting: Rows = []

    def write(self, *rows: tuple[Any, ...]) -> None:
        to_log(self.table, self.log, rows)
        self.waiting += rows

    def put(self, *rows: tuple[Any, ...]) -> None:
        self.write(*rows)
        to_files(self.table, self.waiting, self.log.bounds().end)
        self.waiting = []


def read(feed: ChangeFeed, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for piece in pickle.loads(pickle.dumps(feed.pieces(start, end))):
        for batch, kinds in piece.read(feed.path, ["p", "k", "v"]):
            rows = zip(kinds.to_pylist(), batch.to_pylist(), strict=True)
            yield from ((("+I", "-U", "+U", "-D")[kind], *row.values()) for kind, row in rows)


def test_rows_come_as_they_were_written_after_the_state(tmp_path: Path) -> None:
    lake = Logged(tmp_path)
    lake.put(("+I", "x", 1, 1), ("+I", "x", 2, 2))
    feed = ChangeFeed(lake.table.location, normalize=False)
    first = feed.next(feed.initial(), limit=None)
    assert sorted(read(feed, feed.initial(), first)) == [("+I", "x", 1, 1), ("+I", "x", 2, 2)]
    assert feed.next(first, limit=None) == first
    lake.put(("+U", "x", 1, 5), ("-D", "x", 2, 2))
    second = feed.next(first, limit=None)
    assert all(type(p).__name__ == "LogPiece" for p in feed.pieces(first, second))
    assert sorted(read(feed, first, second)) == [("+U", "x", 1, 5), ("-D", "x", 2, 2)]
    assert second == feed.newest()


def test_an_append_table_gives_each_row_once(tmp_path: Path) -> None:
    lake = Logged(tmp_path, primary_key=())
    feed = ChangeFeed(lake.table.location, start="latest")
    at = feed.next(feed.initial(), limit=None)
    for k in range(3):
        lake.put(("+I", "x", k, k))
    assert sorted(read(feed, at, feed.next(at, limit=None))) == [("+I", "x", k, k) for k in range(3)]
    from_two = ChangeFeed(lake.table.location, start="2")
    end = from_two.next(from_two.initial(), limit=None)
    assert sorted(read(from_two, from_two.initial(), end)) == [("+I", "x", k, k) for k in (1, 2)]


@pytest.mark.parametrize("eventual", [False, True])
def test_what_was_before_is_looked_up_in_a_snapshot_and_the_log(tmp_path: Path, eventual: bool) -> None:
    lake, rng = Logged(tmp_path, EVENTUAL if eventual else None), random.Random(eventual)
    feed, state = ChangeFeed(lake.table.location, consumer="c"), dict[Any, Any]()
    truth, at = dict[Any, Any](), feed.initial()
    for step in range(12):
        rows = [
            (rng.choice(("+I", "+U", "-D")), rng.choice("xy"), rng.randrange(6), rng.randrange(50))
            for _ in range(rng.randrange(1, 5))
        ]
        (lake.write if eventual and rng.random() < 0.6 else lake.put)(*rows)
        for kind, p, k, v in rows:
            truth.pop((p, k), None)
            if kind != "-D":
                truth[p, k] = v
        if rng.random() < 0.3:
            lake.table.compact(full=True)
        if rng.random() < 0.3:
            continue
        while (end := feed.next(at, limit=None)) != at:
            changes = list(read(feed, at, end))
            assert sorted(changes) == sorted(read(feed, at, end)), "a batch that is read again is the same"
            for kind, p, k, v in changes:
                if kind in ("-U", "-D"):
                    assert state.pop((p, k)) == v
                else:
                    assert (p, k) not in state
                    state[p, k] = v
            at = end
        assert state == truth, step
        feed.done(at)
        place = consumers.place(lake.table.store, "c")
        assert place is None or place.log == lake.log.bounds().end


def test_where_the_log_has_expired_files_give_the_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Logged(tmp_path)
    lake.put(("+I", "x", 1, 1))
    feed = ChangeFeed(lake.table.location, normalize=False)
    at = feed.next(feed.initial(), limit=None)
    lake.put(("+I", "x", 2, 2))
    middle = feed.next(at, limit=None)
    lake.put(("+I", "x", 3, 3))
    bounds = lake.log.bounds()
    monkeypatch.setattr(type(lake.log), "bounds", lambda _: type(bounds)(bounds.end, bounds.end))
    end = feed.next(at, limit=None)
    assert [type(p).__name__ for p in feed.pieces(at, end)] == ["SnapshotPiece", "SnapshotPiece"]
    assert sorted(read(feed, at, end)) == [("+I", "x", 2, 2), ("+I", "x", 3, 3)]
    assert list(read(feed, at, middle)) == [("+I", "x", 2, 2)], "a batch that was planned before"
    lake.table.expire_snapshots(keep=1)
    with pytest.raises(NotFound, match="start the stream again"):
        feed.pieces(at, end)
