"""Streams of a table with a log: the state of a snapshot, then the log, each row once, whatever happens."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import NotFound
from tablestore.meta import consumers
from tablestore.read.changes.log_steps import (
    LogPlace,
    LogState,
    Lost,
    ReadFiles,
    ReadLog,
    WaitForRows,
    next_step,
)
from tablestore.read.changes.stream import StreamRequest
from tablestore.read.scan.scan_mode import SnapshotState
from tablestore.read.table_log import kept_for_consumers, offsets_at
from tablestore.table.normalize import follow
from tablestore.table.scan import Scan
from tablestore.table.union_read import union_of
from tests.log.log_reader import LogReader
from tests.log.logged import to_files, to_log, writers_look_away
from tests.read.changes.logged_lake import LoggedLake, Rows, bucket_of_key, folded, rows_of


@pytest.fixture(autouse=True)
def log_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    writers_look_away(monkeypatch)


def test_a_stream_gives_the_state_then_the_log(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path)
    lake.put(("+I", "x", 1, 1), ("+I", "x", 2, 2))
    request = StreamRequest(timeout=0.0)
    stream = follow(lake.table.store, request, normalize=False, log=lake.readable)
    first = next(stream)
    assert first.full
    assert first.source == "files"
    assert len(rows_of(first)) == 2
    lake.put(("+U", "x", 1, 5), ("-D", "x", 2, 2))
    second = next(stream)
    assert (second.source, second.snapshot, second.reason) == ("log", 2, None)
    assert sorted(rows_of(second)) == [("+U", "x", 1, 5), ("-D", "x", 2, 2)]
    cursor = json.loads(second.cursor)
    assert cursor["snapshot"] == 3
    assert cursor["log"] == {str(b): o for b, o in lake.log.bounds().end.items()}
    assert list(stream) == []
    lake.put(("+I", "y", 3, 3))
    (third,) = lake.steps(start=second.cursor, normalize=False)
    assert rows_of(third) == [("+I", "y", 3, 3)]


def test_offsets_without_rows_are_no_step(tmp_path: Path) -> None:
    """The end marker of a transaction takes an offset behind its rows."""
    lake = LoggedLake(tmp_path, eventual=True)
    lake.put(("+I", "x", 1, 1))
    stream = follow(lake.table.store, StreamRequest(timeout=0.0), normalize=False, log=lake.readable)
    assert next(stream).full
    lake.write(("+I", "x", 2, 2))
    step = next(stream)
    assert rows_of(step) == rows_of(step) == [("+I", "x", 2, 2)]
    lake.log.skip(3)
    assert list(stream) == []
    lake.log.skip(1)
    lake.write(("+I", "x", 3, 3))
    (step,) = lake.steps(start=step.cursor, normalize=False)
    assert rows_of(step) == [("+I", "x", 3, 3)]
    assert list(lake.steps(start=step.cursor, normalize=False)) == []


def test_a_normalised_stream_of_the_log_has_what_was_before(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path)
    lake.put(("+I", "x", 1, 1), ("+I", "x", 2, 2))
    lake.put(("+U", "x", 1, 5), ("-D", "x", 2, 0), ("-D", "x", 9, 0), ("+I", "x", 3, 3))
    (step,) = lake.steps(start=2)
    assert step.source == "log"
    assert sorted(rows_of(step)) == [
        ("+I", "x", 3, 3),
        ("+U", "x", 1, 5),
        ("-D", "x", 2, 2),
        ("-U", "x", 1, 1),
    ]
    assert step.state.rows == 2
    (step,) = lake.steps(start=2, where="v > 2", columns=["k"])
    assert sorted(rows_of(step)) == [("+I", 1), ("+I", 3)]


def test_eventual_rows_come_before_their_commit_and_once(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path, eventual=True)
    reader = lake.reader()
    lake.write(("+I", "x", 1, 1))
    reader.read()
    assert reader.states == {("x", 1): (1,)}
    assert lake.table.store.snapshots.latest_id() is None
    lake.commit()
    reader.read()
    lake.write(("+U", "x", 1, 2))
    reader.restart()
    reader.read()
    lake.commit()
    reader.restart()
    reader.read()
    assert reader.states == {("x", 1): (2,)}
    assert reader.sources == ["log", "log"]


def test_transactional_rows_come_with_their_snapshot(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path)
    lake.write(("+I", "x", 1, 1))
    assert lake.steps() == []
    lake.commit()
    assert [s.source for s in lake.steps(start="earliest")] == ["log"]


def test_where_the_log_has_expired_files_go_on_and_say_so(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path)
    lake.put(("+I", "x", 1, 1))
    reader = lake.reader()
    reader.read()
    for v in range(2, 6):
        lake.put(("+U", "x", 1, v), ("+I", "x", v, v))
    lake.table.compact(full=True)
    lake.log.keep_from(offsets_at(lake.table.store, lake.table.store.snapshots.get(3)))
    reader.restart()
    steps = lake.steps(start=reader.cursor)
    assert [(s.source, s.snapshot) for s in steps[:2]] == [("files", 2), ("files", 3)]
    assert [s.source for s in steps[2:]] == ["log"]
    assert "starts at offset" in steps[0].reason
    assert steps[2].reason is None
    reader.read()
    assert reader.states == {("x", 1): (5,), **{("x", v): (v,) for v in range(2, 6)}}


def test_what_is_nowhere_any_more_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path)
    lake.put(("+I", "x", 1, 1))
    reader = lake.reader()
    reader.read()
    for v in range(2, 6):
        lake.put(("+U", "x", 1, v))
    lake.log.keep_from(lake.log.bounds().end)
    lake.table.expire_snapshots(keep=1)
    reader.restart()
    with pytest.raises(NotFound, match=r"has expired.*latest-full"):
        reader.read()


def test_a_cursor_inside_a_commit_without_a_key_is_refused_where_the_log_has_gone(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path, keyed=False)
    lake.put(*(("+I", "x", k, k) for k in range(8)))
    lake.put(*(("+I", "x", k, k) for k in range(8)))
    offsets = {b: o - 1 for b, o in lake.log.bounds().end.items()}
    assert sum(s.to_arrow().num_rows for s in lake.steps(start={"log": offsets})) == 2
    lake.log.keep_from(lake.log.bounds().end)
    with pytest.raises(NotFound, match="inside a commit"):
        lake.steps(start={"log": offsets})


def test_starts(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path)
    env: Any = lake.table.store.env
    for v in range(1, 5):
        env.sleep(1)
        lake.put(("+I", "x", v, v))
    third = lake.table.store.snapshots.get(3).time_millis

    def found(start: Any, **asked: Any) -> list[Any]:
        return sorted(r[3] for s in lake.steps(start=start, normalize=False, **asked) for r in rows_of(s))

    assert found("latest") == []
    assert found("earliest") == [1, 2, 3, 4]
    assert found(3) == found({"timestamp": third}) == [3, 4]
    assert found(2, until=3) == [2, 3]
    assert found({"snapshot": 2, "full": True}) == found("latest-full") == [1, 2, 3, 4]
    assert found({"log": offsets_at(lake.table.store, lake.table.store.snapshots.get(3))}) == [4]
    assert [s.source for s in lake.steps(start={"snapshot": 2, "full": True})] == ["files", "log"]
    lake.log.keep_from(offsets_at(lake.table.store, lake.table.store.snapshots.get(3)))
    assert found("earliest") == [1, 2, 3, 4]
    assert found({"timestamp": third}) == [3, 4]
    with pytest.raises(NotFound, match="ends at offset"):
        found({"log": {0: 99}})
    other = LoggedLake(tmp_path / "b", {"scan.mode": "compacted-full"})
    other.put(("+I", "x", 1, 1))
    other.table.compact(full=True)
    other.put(("+I", "x", 2, 2))
    assert [(s.full, s.snapshot, s.source) for s in other.steps()] == [(True, 2, "files"), (False, 3, "log")]


def test_a_consumer_goes_on_in_the_log(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path, eventual=True)
    lake.put(("+I", "x", 1, 1))
    lake.steps(consumer="c")
    lake.write(("+U", "x", 1, 2))
    (step,) = lake.steps(consumer="c")
    assert sorted(rows_of(step)) == [("+U", "x", 1, 2), ("-U", "x", 1, 1)]
    place = consumers.place(lake.table.store, "c")
    assert place is not None
    assert place.log == lake.log.bounds().end
    assert place.inside
    assert lake.steps(consumer="c") == []


def test_a_log_keeps_what_was_before_the_place_of_a_consumer(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path, eventual=True)
    store = lake.table.store

    def kept() -> dict[int, int]:
        return kept_for_consumers(store, lake.log.bounds().end)

    def kept_when_read() -> dict[int, int]:
        lake.steps(consumer="c")
        return kept()

    lake.write(("+I", "x", 1, 1))
    assert kept_when_read() == {0: 0, 1: 0}  # there is no snapshot: all of the log was before
    lake.commit()
    lake.write(("+U", "x", 1, 2))
    assert kept_when_read() == {0: 0, 1: 0}  # a consumer at the first snapshot may have begun before it
    lake.commit()
    lake.write(("+U", "x", 1, 3))
    logged_to = offsets_at(store, store.snapshots.get(2))
    assert kept_when_read() == logged_to
    assert sorted(logged_to.values()) == [0, 2]
    lake.commit()
    assert kept() == logged_to  # until it reads on
    lake.write(("+U", "x", 1, 4))
    assert kept_when_read() == offsets_at(store, store.snapshots.get(3))


@pytest.mark.parametrize("keyed", [True, False])
def test_streams_go_on_without_a_bucket_that_the_log_has_lost(tmp_path: Path, keyed: bool) -> None:
    """The partition of a Fluss table is dropped: what files have of it is read from them."""
    lake = LoggedLake(tmp_path, keyed=keyed, eventual=True, loses_buckets=True)
    env: Any = lake.table.store.env
    lake.put(*(("+I", "x", k, 1) for k in range(16)))
    abreast, behind = lake.reader(), lake.reader()
    for reader in (abreast, behind):
        reader.read()
    env.sleep(1)
    moment = env.now_ms()
    lake.put(*(("+I", "x", k, 2) for k in range(16, 32)))
    abreast.read()
    lost = 0
    of_lost = {k for k in range(64) if bucket_of_key(lake, k) == lost}
    assert 0 < len(of_lost & set(range(32, 48))) < 16
    lake.write(*(("+I", "x", k, 3) for k in range(32, 48)))  # no snapshot ever has those of the bucket
    abreast.read()
    lake.log.lose(lost)
    rest = [("+I", "x", k, 4) for k in range(48, 64) if k not in of_lost]
    lake.write(*rest)

    def numbers(reader: LogReader) -> list[int]:
        return sorted(k for _, k, *_ in (reader.states if keyed else reader.counts.elements()))

    for reader in (abreast, behind):
        reader.restart()
        reader.read()
    seen = [k for k in range(64) if k not in of_lost or k < 32]
    assert numbers(abreast) == sorted({*seen, *range(32, 48)})
    assert numbers(behind) == seen
    assert behind.sources == ["full", "files", "log"]
    for start in ("latest-full", "earliest"):
        fresh = lake.reader(start)
        fresh.read()
        assert numbers(fresh) == seen
    for start, wanted in (
        ({"timestamp": moment}, [k for k in seen if k >= 16]),
        ({"timestamp": env.now_ms() + 1}, []),
        ("latest", []),
    ):
        rows = [r for step in lake.steps(start=start, normalize=False) for r in rows_of(step)]
        assert sorted(r[2] for r in rows) == wanted
    assert sorted(k for _, k, _ in union_rows(lake).elements()) == seen
    lake.waiting = [r for r in lake.waiting if r[2] not in of_lost]
    lake.commit()
    for reader in (abreast, behind):
        reader.read()
    assert numbers(behind) == seen


def test_a_log_that_starts_later_gives_the_changes_of_a_moment_before_the_first_snapshot(
    tmp_path: Path,
) -> None:
    lake = LoggedLake(tmp_path, eventual=True)
    for v in range(1, 4):
        lake.put(("+I", "x", v, v))
    lake.log.keep_from(offsets_at(lake.table.store, lake.table.store.snapshots.get(2)))
    steps = lake.steps(start={"timestamp": 0}, normalize=False)
    assert sorted(r[3] for step in steps for r in rows_of(step)) == [1, 2, 3]


def test_why_files_are_read_though_there_is_a_log(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path / "a", {"merge-engine": "partial-update", "changelog-producer": "lookup"})
    lake.put(("+I", "x", 1, 1))
    (step,) = lake.steps()
    assert (step.source, step.reason) == (
        "files",
        "rows of the log are no states with merge-engine partial-update",
    )
    lake.put(("+I", "x", 1, None))
    assert [s.source for s in lake.steps(start=2, normalize=False)] == ["log"]
    lake = LoggedLake(tmp_path / "b", {"streaming-read-overwrite": True})
    lake.put(("+I", "x", 1, 1))
    assert lake.steps()[0].reason == "what an overwrite replaced is in no log"


def test_columns_are_those_of_the_start(tmp_path: Path) -> None:
    lake = LoggedLake(tmp_path)
    lake.put(("+I", "x", 1, 1))
    before, cursor = lake.table, lake.steps()[-1].cursor
    lake.table = lake.table.alter(ts.add("c", ts.INT))
    to_log(lake.table, lake.log, [("+I", "x", 2, 2, 7)])
    to_files(lake.table, [("+I", "x", 2, 2, 7)], lake.log.bounds().end)
    (step,) = lake.steps(start=cursor)
    assert rows_of(step) == [("+I", "x", 2, 2, 7)]
    request = StreamRequest(start=cursor, timeout=0.0)
    (step,) = follow(before.store, request, log=lake.readable)
    assert rows_of(step) == [("+I", "x", 2, 2)]


def random_row(rng: random.Random, kind: str) -> tuple[Any, ...]:
    row_kind = rng.choice(("+I", "+U", "+I", "-D")) if kind in ("keyed", "eventual") else "+I"
    return row_kind, rng.choice("xy"), rng.randrange(10), rng.randrange(100)


def summed(rows: Rows) -> dict[Any, Any]:
    state: dict[Any, Any] = {}
    for _, p, k, v in rows:
        state[p, k] = (state.get((p, k), (0,))[0] + v,)
    return state


def union_rows(lake: LoggedLake) -> Counter[Any]:
    """The rows of a union read at this moment."""
    actual = union_of(
        lake.table.store, lake.readable, SnapshotState(lake.table.store.snapshots.latest()), None
    )
    scan = Scan(actual.under(lake.table.store), actual)
    return Counter(tuple(r.values()) for r in scan.to_arrow().to_pylist())


class Life:
    """A random life of a table with a log: writes, kills between log and files, compactions, expiry,
    retention, readers that restart and begin again. At each moment what readers have is the truth."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self.kind, self.rng = kind, random.Random(f"{kind} {seed}")
        self.eventual = kind == "eventual"
        options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
        self.lake = LoggedLake(
            folder, options if kind == "sums" else None, keyed=kind != "append", eventual=self.eventual
        )
        self.lake.log.gap = self.rng.choice((0, 3))
        self.readers = [] if kind == "sums" else [self.lake.reader() for _ in range(3)]
        self.written: Rows = []
        self.committed: Rows = []

    @property
    def truth(self) -> Rows:
        """The rows that readers see."""
        return self.written if self.eventual else self.committed

    def moment(self) -> None:
        """One thing happens, and some readers look."""
        rng, store = self.rng, self.lake.table.store
        action = rng.random()
        if action < 0.45:
            self._write()
        elif action < 0.55:
            self.lake.table.compact(full=rng.random() < 0.5)
        elif action < 0.62 and store.snapshots.latest_id():
            self.lake.table.expire_snapshots(keep=rng.randrange(4, 9))
        elif action < 0.7 and store.snapshots.latest_id():
            oldest = store.snapshots.get(rng.choice(store.snapshots.ids()[-4:]))
            self.lake.log.keep_from(offsets_at(store, oldest))
        for number in range(len(self.readers)):
            if rng.random() < (0.6, 0.3, 0.1)[number]:
                self._read(number)
        if rng.random() < 0.3:
            self._union()

    def _write(self) -> None:
        rows = [random_row(self.rng, self.kind) for _ in range(self.rng.randrange(1, 6))]
        self.lake.write(*rows)
        self.written += rows
        if self.rng.random() < (0.5 if self.eventual else 0.3):
            return  # killed before the files: the next writer finishes them
        self.lake.commit()
        self.committed = list(self.written)

    def _read(self, number: int) -> None:
        reader = self.readers[number]
        if self.rng.random() < 0.4:
            reader.restart()
        with suppress(NotFound):
            reader.read()
        if reader.stopped:  # what it wanted has expired: it begins again, as it is told
            reader = self.readers[number] = self.lake.reader()
            reader.read()
        if self.lake.keyed:
            assert reader.states == folded(self.truth)
        else:
            assert reader.counts == Counter(r[1:] for r in self.truth)

    def _union(self) -> None:
        if self.kind == "append":
            expected = Counter(r[1:] for r in self.truth)
        else:
            state = summed(self.truth) if self.kind == "sums" else folded(self.truth)
            expected = Counter((*key, *values) for key, values in state.items())
        assert union_rows(self.lake) == expected


@pytest.mark.parametrize("kind", ["keyed", "eventual", "append", "sums"])
@pytest.mark.sample(2)
def test_readers_equal_the_truth_at_random_moments(tmp_path: Path, kind: str, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        life = Life(tmp_path / str(seed), kind, seed)
        for _ in range(20):
            life.moment()
        wrong = life.lake.table.check()
        assert [v for v in wrong if v.invariant != "I14"] == []  # this log is in memory


@pytest.mark.parametrize(
    ("place", "now", "step"),
    [
        (LogPlace({}), LogState({0: 0}, {0: 0}, 0, True), WaitForRows(log=True)),
        (LogPlace({0: 2}, 1), LogState({0: 0}, {0: 5, 1: 3}, 1, True), ReadLog({0: 5, 1: 3})),
        (LogPlace({0: 6}, 1), LogState({0: 0}, {0: 5}, 1, True, {0: 7}), WaitForRows(log=True)),
        (LogPlace(None, 3), LogState({0: 9}, {0: 9}, 3, True), WaitForRows(log=False)),
        (
            LogPlace(None, 3),
            LogState({0: 9}, {0: 9}, 4, True),
            ReadFiles(4, "the stream starts before the log does"),
        ),
        (
            LogPlace({0: 2}, 1),
            LogState({0: 4}, {0: 5}, 2, False),
            ReadFiles(2, "the log of bucket 0 starts at offset 4, this stream is at 2"),
        ),
        (
            LogPlace({0: 2}, 1),
            LogState({0: 0}, {0: 6, 1: 3}, 2, True, has={0: 5, 1: 3}),
            ReadLog({0: 5, 1: 3}),
        ),
        (
            LogPlace({0: 5, 1: 3}, 1),
            LogState({0: 0}, {0: 6, 1: 3}, 2, False, has={0: 5, 1: 3}),
            ReadFiles(2, "the log of bucket 0 ends at offset 5, before 6"),
        ),
    ],
)
def test_next_step(place: LogPlace, now: LogState, step: Any) -> None:
    assert next_step(place, now) == step


def test_next_step_names_what_is_lost() -> None:
    ahead = next_step(LogPlace({0: 7}, 1), LogState({0: 0}, {0: 5}, 1, True))
    gone = next_step(LogPlace({0: 2}, 1), LogState({0: 4}, {0: 5}, 1, True))
    inside = next_step(LogPlace({0: 2}, 1, inside=True), LogState({0: 4}, {0: 5}, 2, False))
    whys = [step.why for step in (ahead, gone, inside) if isinstance(step, Lost)]
    assert [("before 7" in w, "no snapshot" in w, "inside" in w) for w in whys] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
