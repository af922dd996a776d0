"""Roll-ups, retention, key compaction and orphans of the embedded log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tablestore.log.embedded.directory import SPAN
from tablestore.log.embedded.files import CUT
from tablestore.log.embedded.roll_up import due
from tablestore.log.log import CommitMark, LogExpired
from tests.faults import FaultyIO, SimEnv
from tests.log.embedded_logs import WithoutRollUps, append, content, ids, inserts, open_log, rows


def names(path: Path) -> list[str]:
    """The log files, numbers without zeros in front."""
    actual = sorted(path.glob("*.log"))
    return ["-".join(n.lstrip("0") for n in p.stem.split("-")) for p in actual]


def test_ranges_are_due_once_all_their_numbers_are_old() -> None:
    singles = [(n, n) for n in range(1, 3 * SPAN + 1)]
    assert due(singles, SPAN) == [(1, SPAN), (SPAN + 1, 2 * SPAN)]
    assert due(singles[1:], SPAN) == [(SPAN + 1, 2 * SPAN)]
    assert due(singles[:SPAN], SPAN) == []
    assert due([(1, SPAN), *singles[SPAN : 2 * SPAN]], SPAN) == []


def test_writers_roll_up_and_readers_see_the_same_rows(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path, env=SimEnv(1))
    appended = []
    for n in range(1, 2 * SPAN + 3):
        appended.append(append(log, {n % 2: [n]}, CommitMark("u", n)))
        if n == SPAN:
            before = ids(other)
    assert names(tmp_path)[0] == f"1-{SPAN}"
    assert len(names(tmp_path)) == SPAN + 3
    expected = {b: [n for n in range(1, 2 * SPAN + 3) if n % 2 == b] for b in (0, 1)}
    assert before[0] == expected[0][: SPAN // 2]
    for reader in (log, other, open_log(tmp_path)):
        assert ids(reader) == expected
        assert list(reader.transactions({})) == appended
        assert list(reader.transactions({0: 7, 1: 7})) == appended[14:]
        middle = content(reader, {0: 3, 1: 5}, {0: 9, 1: 6})
        assert middle == {0: list(enumerate(expected[0]))[3:9], 1: [(5, expected[1][5])]}
        for n in (1, 5, SPAN, 2 * SPAN):
            assert reader.at(appended[n].timestamp_ms) == reader.at(0)  # the clock stood still


def test_reader_goes_on_where_its_files_were_rolled_up_meanwhile(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path, env=SimEnv(1))
    for n in range(SPAN + 5):
        append(log, {0: [n]})
    reading = other.read({}, other.bounds().end)
    assert next(reading).rows.column("id").to_pylist() == [0]
    other._directory._cache.clear()
    for n in range(SPAN):
        append(log, {0: [n]})
    rest = [i for batch in reading for i in batch.rows.column("id").to_pylist()]
    assert rest == list(range(1, SPAN + 5))


def test_segments_are_rolled_up_again(tmp_path: Path) -> None:
    env = SimEnv()
    log = open_log(tmp_path, env=env, buckets=1)
    count = SPAN * SPAN + SPAN + 1
    for n in range(count):
        append(log, {0: [n]})
        env.sleep(0.001)
    log.expire({})
    assert names(tmp_path)[0] == f"1-{SPAN * SPAN}"
    for reader in (log, open_log(tmp_path, buckets=1)):
        assert ids(reader) == {0: list(range(count))}
        moments = [t.timestamp_ms for t in reader.transactions({})]
        assert moments == sorted(set(moments))
        assert [reader.at(moments[n])[0] for n in (0, 40, 1000, count - 1)] == [0, 40, 1000, count - 1]


def test_large_files_stay_and_are_not_opened_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3 * SPAN):
        append(open_log(tmp_path, kind=WithoutRollUps), {0: [n]})
    size = sum(p.stat().st_size for p in tmp_path.glob("*.log")) // 3
    monkeypatch.setattr("tablestore.log.embedded.roll_up._LARGEST", size // 2)
    io = FaultyIO()
    open_log(tmp_path, io=io).expire({})
    assert len(names(tmp_path)) == 3 * SPAN
    assert len([line for line in io.log if line.startswith("open")]) < 5
    monkeypatch.setattr("tablestore.log.embedded.roll_up._LARGEST", size * 2)
    open_log(tmp_path).expire({})
    assert len(names(tmp_path)) == SPAN + 2


def test_rows_in_parts_stay_there(tmp_path: Path) -> None:
    log = open_log(tmp_path, memory_bytes=0)
    for n in range(2 * SPAN):
        append(log, {0: [n]})
    assert names(tmp_path)[0] == f"1-{SPAN}"
    assert ids(log) == ids(open_log(tmp_path)) == {0: list(range(2 * SPAN))}


def test_a_stale_writer_does_not_take_a_number_that_was_rolled_up(tmp_path: Path) -> None:
    log, stale = open_log(tmp_path), open_log(tmp_path, env=SimEnv(1))
    append(log, {0: [0]})
    stale.bounds()
    for n in range(1, 2 * SPAN):
        append(log, {0: [n]})
    appender = stale.appender()
    appender.write(0, inserts(1), rows(2 * SPAN))
    done = appender.flush()
    assert done is not None
    assert done.start == {0: 2 * SPAN}
    assert ids(log) == {0: list(range(2 * SPAN + 1))}


@pytest.mark.parametrize("expired", [2, 3])
@pytest.mark.parametrize("back_ms", [0, 99_000])
def test_a_stalled_writer_does_not_take_a_number_that_expired(
    tmp_path: Path, expired: int, back_ms: int
) -> None:
    """The number is the one before the first that is left, or one before that; the clock may be put back."""
    env, late = SimEnv(), SimEnv(1)
    log = open_log(tmp_path, env=env, retention_ms=1)
    stale = open_log(tmp_path, env=late)
    append(log, {0: [0]})
    stale.bounds()
    for n in range(1, 4):
        append(log, {0: [n]})
    env.sleep(100)
    assert log.expire({0: expired}) > 0
    late.sleep(100)
    late.move(-back_ms)
    assert append(stale, {0: [4]}).start == {0: 4}
    assert content(log, {0: 3}) == content(open_log(tmp_path), {0: 3}) == {0: [(3, 3), (4, 4)]}


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_retention_removes_old_rows_that_snapshots_hold(tmp_path: Path, memory_bytes: int) -> None:
    env = SimEnv()
    log = open_log(tmp_path, env=env, retention_ms=600_000, memory_bytes=memory_bytes)
    for n in range(10):
        append(log, {0: [n], 1: [n]})
        env.sleep(120)
    assert log.expire({}) == 0
    assert log.expire({0: 10}) == 0
    assert log.expire({0: 3, 1: 9}) > 0
    assert log.bounds().start == {0: 3, 1: 3}
    assert log.expire({0: 10, 1: 10}) > 0
    start = log.bounds().start
    assert start == open_log(tmp_path).bounds().start == {0: 5, 1: 5}
    assert content(log, start) == {b: [(n, n) for n in range(5, 10)] for b in (0, 1)}
    with pytest.raises(LogExpired, match="starts at offset 5"):
        content(log)
    assert content(log, {}, {0: 0}) == {}
    assert len(list((tmp_path / "parts").glob("*"))) == (5 if memory_bytes == 0 else 0)
    env.sleep(10_000)
    log.expire({0: 10, 1: 10})
    assert log.bounds().start == {0: 9, 1: 9}  # the newest stays


def test_retention_by_bytes_goes_down_to_the_limit(tmp_path: Path) -> None:
    env = SimEnv()
    log = open_log(tmp_path, env=env, retention_bytes=5000)
    for n in range(20):
        append(log, {0: [n]})
    assert log.expire({0: 20}) == 0  # too young
    env.sleep(100)
    assert log.expire({0: 20}) > 0
    size = sum(p.stat().st_size for p in tmp_path.glob("*.log"))
    assert 3000 < size <= 5000


def test_newest_rows_of_a_key_remain_of_what_snapshots_hold(tmp_path: Path) -> None:
    log = open_log(tmp_path, buckets=1, upsert=True, kind=WithoutRollUps)
    for n in range(3 * SPAN):
        append(log, {0: [n % 3, n % 3 + 10]})
    log.expire({0: 2 * SPAN}, everywhere={0: 2 * SPAN})
    assert names(tmp_path)[:2] == [f"1-{SPAN}", f"{SPAN + 1}-{2 * SPAN}"]
    last = 2 * SPAN
    for reader in (log, open_log(tmp_path, buckets=1, upsert=True)):
        actual = content(reader)[0]
        assert [offset for offset, _ in actual][:6] == list(range(last - 6, last))
        assert [i for _, i in actual][:6] == [((SPAN - 3 + k // 2) % 3) + 10 * (k % 2) for k in range(6)]
        assert [offset for offset, _ in actual[6:]] == list(range(last, 6 * SPAN))
        assert len(list(reader.transactions({}))) == 3 * SPAN
        assert content(reader, {0: 5}, {0: last - 2})[0] == actual[:4]


def test_orphan_parts_are_found_by_their_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, memory_bytes=0)
    append(log, {0: [1]})
    for n in range(2):
        appender = open_log(tmp_path, env=SimEnv(n + 1)).appender()
        appender.write(0, inserts(1), rows(5))
        message = appender.stage()
    appender = log.appender()
    appender.commit(CommitMark("u", 1), [message or b""])
    (tmp_path / ".1.log.uuid.tmp").write_bytes(b"half")
    real = open_log(tmp_path, env=SimEnv(now_ms=1 << 42))
    removed = real.remove_orphans(older_than_ms=1000)
    assert len(removed) == 2
    assert real.remove_orphans(older_than_ms=1000, dry_run=False) == removed
    assert real.remove_orphans(older_than_ms=1000) == []
    assert ids(real) == {0: [1, 5]}
    assert real.remove_orphans(older_than_ms=1 << 43) == []


def test_a_torn_file_at_the_end_of_a_range_takes_nothing_else_with_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, buckets=1, kind=WithoutRollUps)
    for n in range(SPAN - 1):
        append(log, {0: [n]})
    (tmp_path / f"{SPAN:020}.log").write_bytes(b"")
    for n in range(SPAN - 1, 2 * SPAN):
        append(open_log(tmp_path, buckets=1, kind=WithoutRollUps), {0: [n]})
    open_log(tmp_path, buckets=1).expire({})
    assert names(tmp_path)[0] == f"1-{SPAN}"
    for reader in (log, open_log(tmp_path, buckets=1)):
        assert [i for _, i in content(reader)[0]] == list(range(2 * SPAN))


def test_a_reader_behind_which_there_is_only_a_torn_file_misses_nothing(tmp_path: Path) -> None:
    env = SimEnv()
    log = open_log(tmp_path, env=env, buckets=2, retention_ms=1000, kind=WithoutRollUps)
    (tmp_path / f"{1:020}.log").write_bytes(b"")
    assert append(log, {0: [1]}).start == {0: CUT}
    assert log.bounds().start == {0: 0, 1: 0}
    for n in range(2, 4):
        (tmp_path / f"{2 * n - 1:020}.log").write_bytes(b"TSLOG")
        append(open_log(tmp_path, env=env), {0: [n]})
    env.sleep(1000)
    append(log, {0: [4]})
    before = dict(log.bounds().end)
    assert log.expire({0: 2 * CUT + 2, 1: 2 * CUT}) > 0
    start = {0: 2 * CUT + 2, 1: 2 * CUT}
    assert log.bounds().start == open_log(tmp_path, env=env).bounds().start == start
    assert before == log.bounds().end
