"""Where a stream of a table with a log begins, as a decision; the rows it gives: `test_log_stream.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tablestore.core.errors import Corrupt, InvalidRequest, NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.log.embedded.continuity import LogMismatch
from tablestore.meta import consumers
from tablestore.read.changes.log_start import files_alone, log_start
from tablestore.read.changes.log_steps import LogPlace
from tablestore.read.table_log import offsets_at
from tests.log.logged import writers_look_away
from tests.read.changes.logged_lake import LoggedLake


@pytest.fixture(autouse=True)
def log_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    writers_look_away(monkeypatch)


@pytest.fixture
def lake(tmp_path: Path) -> LoggedLake:
    """A table with three snapshots, a second apart, whose rows are in its log, too."""
    lake = LoggedLake(tmp_path, eventual=True)
    env: Any = lake.table.store.env
    for key in (1, 2, 3):
        lake.put(("+I", "x", key, key))
        env.sleep(1)
    return lake


def begin(lake: LoggedLake, start: Any = None, **asked: Any) -> Snapshot | LogPlace:
    return log_start(lake.table.store, lake.readable, start, **{"consumer": None, "until": None} | asked)


def at(lake: LoggedLake, number: int) -> dict[int, int]:
    """The offsets of the log at a snapshot."""
    return offsets_at(lake.table.store, lake.table.store.snapshots.get(number))


def place_of_consumer(lake: LoggedLake, snapshot: int, **place: Any) -> Snapshot | LogPlace:
    consumers.record(lake.table.store, "reader", snapshot, **place)
    return begin(lake, "latest-full", consumer="reader")


def test_a_consumer_goes_on_at_its_place(lake: LoggedLake) -> None:
    assert place_of_consumer(lake, 1) == LogPlace({})
    assert place_of_consumer(lake, 3) == LogPlace(at(lake, 2), 2)
    assert place_of_consumer(lake, 4) == LogPlace(at(lake, 3), 3)
    assert place_of_consumer(lake, 3, log=at(lake, 2)) == LogPlace(at(lake, 2), 2)
    assert place_of_consumer(lake, 2, log=at(lake, 2)) == LogPlace(at(lake, 2), 1)
    lake.write(("+U", "x", 1, 9))
    end = lake.log.bounds().end
    assert end != at(lake, 3)
    assert place_of_consumer(lake, 4, log=end, inside=True) == LogPlace(end, 3, inside=True)
    assert place_of_consumer(lake, 1, log=end, inside=True) == LogPlace(end, 3, inside=True)


def test_who_names_no_start_begins_with_the_newest_state(lake: LoggedLake) -> None:
    newest = lake.table.store.snapshots.get(3)
    assert begin(lake) == begin(lake, "latest-full") == begin(lake, consumer="new") == newest
    assert begin(lake, "latest-full", until=2) == lake.table.store.snapshots.get(2)


def test_the_end_of_the_log_is_the_latest(lake: LoggedLake) -> None:
    assert begin(lake, "latest") == LogPlace(at(lake, 3), 3)
    lake.write(("+U", "x", 1, 9))
    assert begin(lake, "latest") == LogPlace(lake.log.bounds().end, 3, inside=True)


def test_the_earliest_is_in_the_log_while_it_is_whole(lake: LoggedLake, tmp_path: Path) -> None:
    assert begin(LoggedLake(tmp_path / "empty"), "earliest") == LogPlace({})
    assert begin(lake, "earliest") == LogPlace({})
    lake.log.keep_from(at(lake, 1))
    assert begin(lake, "earliest") == LogPlace(None, 0)
    lake.table.expire_snapshots(keep=2)
    assert begin(lake, "earliest") == LogPlace(None, 1)


def test_a_damaged_log_is_passed_over_and_another_one_is_not(
    lake: LoggedLake, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = Mock(bounds=Mock(side_effect=Corrupt("log/0", "torn")))
    lake.table.expire_snapshots(keep=2)
    store = lake.table.store
    assert log_start(store, damaged, "earliest", consumer=None, until=None) == LogPlace(None, 1)
    assert "a stream begins with files: log/0" in caplog.text
    other = Mock(bounds=Mock(side_effect=LogMismatch("log/0", "of another table")))
    with pytest.raises(LogMismatch, match="of another table"):
        log_start(store, other, "earliest", consumer=None, until=None)


def test_a_bound_of_snapshots_is_read_from_files_alone(lake: LoggedLake) -> None:
    bounded = lake.table.with_options({"scan.bounded.watermark": 5}).store
    assert files_alone(lake.table.store, as_written=False, look_up=False) is None
    why = "scan.bounded.watermark is of snapshots"
    assert files_alone(bounded, as_written=False, look_up=False) == why


def test_a_snapshot_is_its_place_in_the_log(lake: LoggedLake) -> None:
    assert begin(lake, 1) == LogPlace({})
    assert begin(lake, 2) == LogPlace(at(lake, 1), 1)
    assert begin(lake, 4) == LogPlace(at(lake, 3), 3)
    with pytest.raises(NotFound, match="no snapshot 5 yet, and none before it; the newest is 3"):
        begin(lake, 5)
    lake.table.expire_snapshots(keep=1)
    assert begin(lake, 2) == LogPlace(None, 1)


def test_a_cursor_is_its_place_in_the_log(lake: LoggedLake) -> None:
    fields: dict[str, Any] = {"v": 1, "snapshot": 3, "log": {str(b): n for b, n in at(lake, 2).items()}}
    assert begin(lake, json.dumps(fields)) == begin(lake, fields) == LogPlace(at(lake, 2), 2)
    assert begin(lake, fields | {"inside": True}) == LogPlace(at(lake, 2), 2, inside=True)
    gone = fields | {"snapshot": 4, "after": "of one that was rolled back"}
    assert begin(lake, gone) == LogPlace(at(lake, 2), 2)
    with pytest.raises(InvalidRequest, match="version 1 is known"):
        begin(lake, json.dumps(fields | {"v": 2}))
    with pytest.raises(InvalidRequest, match="is no cursor of a stream"):
        begin(lake, '{"log": {"0": 0}}')
    with pytest.raises(InvalidRequest, match="give the offsets alone"):
        begin(lake, fields | {"odd": 1})


def test_offsets_stand_behind_the_newest_snapshot_that_they_reach(lake: LoggedLake) -> None:
    assert begin(lake, {"log": at(lake, 2)}) == LogPlace(at(lake, 2), 2)
    nothing = dict.fromkeys(at(lake, 3), 0)
    assert begin(lake, {"log": nothing}) == LogPlace(nothing, 0)
    lake.table.expire_snapshots(keep=1)
    assert begin(lake, {"log": at(lake, 3)}) == LogPlace(at(lake, 3), 3)
    some = {b: n - 1 if n else 0 for b, n in at(lake, 3).items()}
    assert begin(lake, {"log": some}) == LogPlace(some, 0, inside=any(some.values()))


def test_a_moment_is_a_place_in_the_log(lake: LoggedLake) -> None:
    third = lake.table.store.snapshots.get(3).time_millis
    lake.readable = type(lake.readable)(lake.log, lake.readable.schema, committed_only=True, upserts=True)
    assert begin(lake, {"timestamp": third}) == LogPlace(at(lake, 2), 2)
    assert begin(lake, {"timestamp": third - 5_000}) == LogPlace({})
