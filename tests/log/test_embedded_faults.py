"""The embedded log when the store fails, the process dies, files are torn or the disk is full."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tablestore.core.errors import CommitUnknown, Corrupt, TablestoreError, Unavailable
from tablestore.io.fileio import LocalFileIO
from tablestore.log.embedded.directory import SPAN
from tablestore.log.embedded.files import CUT
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.log import CommitMark
from tests.faults import FaultyIO, Killed, SimEnv, failures
from tests.log.embedded_logs import WithoutRollUps, append, content, ids, inserts, open_log, rows

MARK = CommitMark("u", 1)


def commit(log: EmbeddedLog) -> None:
    """One transaction of both buckets, with rows in a part file and rows of a task."""
    task = log.appender()
    task.write(0, inserts(2), rows(10, 11))
    staged = task.stage()
    appender = log.appender()
    appender.write(0, inserts(3), rows(12, 13, 14))
    appender.write(1, inserts(1), rows(15))
    assert staged is not None
    for _ in range(3):
        try:
            appender.commit(MARK, [staged])
        except (CommitUnknown, Unavailable):
            continue
        return
    raise AssertionError("three times")


def expire(log: EmbeddedLog) -> None:
    log.expire({0: 100, 1: 100})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that is about to be rolled up: 2 · SPAN − 1 transactions."""
    path = tmp_path_factory.mktemp("prepared") / "log"
    log = open_log(path)
    for n in range(2 * SPAN - 1):
        append(log, {0: [n]})
    return path


BEFORE = {0: list(range(2 * SPAN - 1))}
AFTER = {0: [*range(2 * SPAN - 1), 12, 13, 14, 10, 11], 1: [15]}


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
@pytest.mark.sample(1)
def test_a_transaction_is_there_wholly_or_not_at_all(
    tmp_path: Path, prepared: Path, memory_bytes: int
) -> None:
    def run(io: FaultyIO, path: Path) -> EmbeddedLog:
        return open_log(path, io=io, memory_bytes=memory_bytes, env=SimEnv(5))

    shutil.copytree(prepared, tmp_path / "count")
    counting = FaultyIO()
    commit(run(counting, tmp_path / "count"))
    assert ids(open_log(tmp_path / "count")) == AFTER
    cases = failures(counting.log)
    assert len(cases) > 40
    for number, mode in _some(cases):
        path = tmp_path / f"{number}-{mode}"
        shutil.copytree(prepared, path)
        io = FaultyIO(number, mode)
        done = False
        try:
            commit(run(io, path))
            done = True
        except (Killed, TablestoreError):
            pass
        log = open_log(path, env=SimEnv(9))
        actual = ids(log)
        assert actual in (BEFORE, AFTER), (number, mode)
        assert actual == AFTER or not done, (number, mode)
        if actual == BEFORE:
            commit(log)
        append(log, {1: [99]})
        assert ids(open_log(path)) == {0: AFTER[0], 1: [15, 99]}, (number, mode)
        shutil.rmtree(path)


def _some(cases: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """All but those amid the reads and deletes of a roll-up, of which every ninth will do."""
    return [case for i, case in enumerate(cases) if i < 30 or i > len(cases) - 10 or i % 9 == 0]


def test_expiry_that_is_killed_leaves_a_log_to_go_on_with(tmp_path: Path) -> None:
    def prepare(path: Path) -> EmbeddedLog:
        env = SimEnv()
        log = open_log(path, env=env, retention_ms=1000, memory_bytes=0, kind=WithoutRollUps)
        for n in range(2 * SPAN + 4):
            append(log, {0: [n]})
            if n == 2:
                env.sleep(1000)
        return log

    prepare(tmp_path / "origin")
    late = SimEnv(3, now_ms=1_700_001_000_000)

    def run(path: Path, io: FaultyIO) -> None:
        open_log(path, env=late, io=io, retention_ms=1000, memory_bytes=0).expire({0: 1000, 1: 0})

    counting = FaultyIO()
    shutil.copytree(tmp_path / "origin", tmp_path / "count")
    run(tmp_path / "count", counting)
    for number, mode in [c for c in failures(counting.log) if "kill" in c[1]][:40]:
        path = tmp_path / "log"
        shutil.copytree(tmp_path / "origin", path)
        with pytest.raises(Killed):
            run(path, FaultyIO(number, mode))
        log = open_log(path, env=late)
        start = log.bounds().start
        assert start[0] <= 3
        assert content(log, start) == {0: [(n, n) for n in range(start[0], 2 * SPAN + 4)]}
        run(path, FaultyIO())
        assert content(log, {0: 3}) == {0: [(n, n) for n in range(3, 2 * SPAN + 4)]}
        shutil.rmtree(path)


def test_a_full_disk_appends_nothing_and_the_rows_can_be_appended_later(tmp_path: Path) -> None:
    append(open_log(tmp_path), {0: [1]})
    io = FaultyIO(0, "full")
    log = open_log(tmp_path, io=io)
    appender = log.appender()
    appender.write(0, inserts(1), rows(2))
    with pytest.raises(Unavailable):
        appender.commit(MARK)
    assert ids(log) == {0: [1]}
    io.fail_at = None
    done = appender.commit(MARK)
    assert done is not None
    assert done.mark == MARK
    assert ids(open_log(tmp_path)) == {0: [1, 2]}


def test_a_full_disk_below_a_part_file_is_an_error_until_abort(tmp_path: Path) -> None:
    log = open_log(tmp_path, io=(io := FaultyIO(0, "full")), memory_bytes=0)
    appender = log.appender()
    with pytest.raises(Unavailable):
        appender.write(0, inserts(1), rows(2))
    with pytest.raises(TablestoreError, match="abort"):
        appender.commit(MARK)
    io.fail_at = None
    appender.abort()
    appender.write(0, inserts(1), rows(2))
    appender.commit(MARK)
    assert ids(log) == {0: [2]}
    assert not io.open_outputs


def damage(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def test_a_torn_newest_file_is_passed_over(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    log = open_log(whole)
    for n in range(3):
        append(log, {0: [n], 1: [n]})
    name = f"{3:020}.log"
    size = (whole / name).stat().st_size
    for keep in (0, 5, 12, 16, 100, size // 2, size - 20):  # whose last bytes are zeros
        for zeros in (False, True)[: 1 if keep == size - 20 else 2]:
            path = tmp_path / f"{keep}-{zeros}"
            shutil.copytree(whole, path)
            damage(path / name, lambda d, k=keep, z=zeros: d[:k] + (bytes(size - k) if z else b""))
            log = open_log(path)
            assert ids(log) == {0: [0, 1], 1: [0, 1]}
            assert log.bounds().end == {0: 2, 1: 2}
            following = open_log(path, env=SimEnv(4))
            done = append(log, {0: [7]})
            assert done.start == {0: 2 + CUT}  # no offset that anybody may have seen comes again
            for reader in (log, following, open_log(path)):
                actual = content(reader)
                assert actual == {0: [(0, 0), (1, 1), (2 + CUT, 7)], 1: [(0, 0), (1, 1)]}
                assert content(reader, {0: 2, 1: 2}) == {0: [(2 + CUT, 7)]}


def test_every_damaged_byte_is_found(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    log = open_log(whole, buckets=1)
    for n in range(3):
        append(log, {0: [n]})
    name = f"{2:020}.log"
    size = (whole / name).stat().st_size
    for place in [*range(16), *range(16, size, 23), size - 1]:
        path = tmp_path / str(place)
        shutil.copytree(whole, path)
        damage(path / name, lambda d, p=place: d[:p] + bytes([d[p] ^ 4]) + d[p + 1 :])
        log = open_log(path, buckets=1)
        assert content(log, {0: 2}) == {0: [(2, 2)]}
        with pytest.raises(Corrupt, match=name):
            content(log)
        assert append(log, {0: [5]}).start == {0: 3}


def test_a_lost_part_is_named(tmp_path: Path) -> None:
    log = open_log(tmp_path, memory_bytes=0)
    append(log, {0: [1]})
    (part,) = (tmp_path / "parts").iterdir()
    append(log, {0: [2]})
    part.unlink()
    with pytest.raises(Corrupt, match=part.name):
        content(open_log(tmp_path))


def test_a_store_without_answer_leaves_the_outcome_open_until_the_retry(tmp_path: Path) -> None:
    class Deaf(LocalFileIO):
        """Writes arrive, answers do not, nor does any reading back."""

        deaf = False

        def write_new(self, path: str, data: bytes, **more: object) -> bool:
            super().write_new(path, data)
            if self.deaf:
                raise Unavailable(5, "no answer")
            return True

        def read(self, path: str) -> bytes:
            if self.deaf:
                raise Unavailable(5, "no answer")
            return super().read(path)

    io = Deaf()
    log = open_log(tmp_path, io=io)
    append(log, {0: [1]})
    appender = log.appender()
    appender.write(0, inserts(1), rows(2))
    io.deaf = True
    with pytest.raises(CommitUnknown):
        appender.commit(MARK)
    io.deaf = False
    for n in range(3 * SPAN):  # others go on, and roll up
        append(open_log(tmp_path, env=SimEnv(n)), {1: [n]})
    done = appender.commit(MARK)
    assert done is not None
    assert (done.start, done.end) == ({0: 1}, {0: 2})
    assert ids(log)[0] == [1, 2]
