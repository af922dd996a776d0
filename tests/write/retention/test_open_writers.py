"""Signs of life: files of a writer that is open for longer than the age of orphans stay while it lives."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.meta import open_writers
from tests.faults import FaultyIO, SimEnv
from tests.tables import KEEP_ALL, TableSpec

HOUR_MS = 3_600_000
APPENDED = TableSpec(
    {"k": ts.BIGINT, "v": ts.STRING},
    options=KEEP_ALL | {"write-buffer-size": "64 kb", "target-file-size": "64 kb"},
)
KEYED = TableSpec(APPENDED.columns, primary_key=("k",), options=APPENDED.options)


class FileClock(SimEnv):
    """A clock of which the files below `root` have their times, too."""

    def __init__(self, root: Path) -> None:
        super().__init__(0, time.time_ns() // 1_000_000)
        self.__dict__.update(root=root, stamped={})

    def now_ms(self) -> int:
        for folder, _, names in os.walk(self.__dict__["root"]):
            for path in (os.path.join(folder, name) for name in names):
                if os.stat(path).st_mtime_ns != self.__dict__["stamped"].get(path):
                    os.utime(path, (self._now / 1000,) * 2)
                    self.__dict__["stamped"][path] = os.stat(path).st_mtime_ns
        return self._now

    def move(self, millis: int) -> None:
        self.now_ms()
        super().move(millis)


@pytest.fixture(params=[APPENDED, KEYED], ids=["append", "key"])
def clocked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ts.Table, FileClock]:
    request.param.create(tmp_path)
    clock = FileClock(tmp_path)
    return ts.connect(tmp_path, env=clock).table("d.t"), clock


def many(first: int) -> pa.Table:
    chance = random.Random(first)
    return pa.table({"k": range(first, first + 3000), "v": [chance.randbytes(40).hex() for _ in range(3000)]})


def signs(table: ts.Table) -> list[Path]:
    folder = Path(table.location, "tablestore", "writers")
    return sorted(folder.iterdir()) if folder.exists() else []


def strayed(table: ts.Table) -> Path:
    """A file of a writer that was killed before all others began."""
    path = Path(table.location, "bucket-0", "data-left-0.parquet")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x")
    return path


def test_files_of_a_writer_that_is_open_for_longer_stay(clocked: tuple[ts.Table, FileClock]) -> None:
    table, clock = clocked
    stray = strayed(table)
    clock.move(HOUR_MS)
    with table.writer() as w:
        for n in range(4):
            w.write(many(n * 3000))
            clock.move(HOUR_MS)
        assert len(list(Path(table.location).rglob("data-*.parquet"))) > 2, "files were flushed"
        w.write(many(12_000))
        done = table.remove_orphans("30 min", dry_run=False)
        assert [p for p, _ in done.files] == [str(stray)]
        assert f"files of a writer that is open stay: process {os.getpid()} on" in repr(done)
    assert table.scan().count() == 15_000
    assert table.check() == []
    assert signs(table) == []


def test_the_sign_of_a_killed_writer_counts_for_minutes(clocked: tuple[ts.Table, FileClock]) -> None:
    table, clock = clocked
    w = table.writer()
    for n in range(3):
        w.write(many(n * 3000))
        clock.move(HOUR_MS)
    w.write(many(9000))
    w._sign._process = -1  # killed: nobody renews it
    flushed = list(Path(table.location).rglob("data-*.parquet"))
    assert (len(flushed) > 1, len(signs(table))) == (True, 1)
    clock.move(open_writers.LASTS_MS - 60_000)
    assert table.remove_orphans("30 min").files == ()
    clock.move(120_000)
    done = table.remove_orphans("10 min", dry_run=False)
    assert {str(p) for p in flushed} < {p for p, _ in done.files}
    assert (signs(table), [p for p in flushed if p.exists()]) == ([], [])
    assert done.writers == ()
    w._target.abort()  # only so that none of its files is left open


def test_force_takes_files_of_open_writers(clocked: tuple[ts.Table, FileClock]) -> None:
    table, clock = clocked
    w = table.writer()
    for n in range(3):
        w.write(many(n * 3000))
        clock.move(HOUR_MS)
    w.write(many(9000))
    assert table.remove_orphans("1 min", dry_run=False, force=True).files
    with pytest.raises(ts.CommitConflict, match="remove_orphans"):
        w.__exit__(None, None, None)
    assert table.check() == []


def test_an_engine_has_a_day_to_commit(clocked: tuple[ts.Table, FileClock]) -> None:
    table, clock = clocked
    w = table.open_writer()
    w.write(many(0))
    clock.move(HOUR_MS)
    w.write(many(3000))
    messages = w.prepare()
    w.close()
    clock.move(20 * HOUR_MS)
    assert table.remove_orphans("1 h", dry_run=False).files == ()
    table.commit(messages, user="engine")
    assert table.scan().count() == 6000
    clock.move(open_writers.HANDED_OVER_MS)
    assert len(signs(table)) == 1
    with table.writer() as w2:  # the next sign takes those away that count no more
        clock.move(open_writers.FIRST_MS)
        w2.write(many(0))
        assert len(signs(table)) == 1
    assert signs(table) == []


def compacted(table: ts.Table) -> Any:
    return table.compact(full=True)


def overwritten(table: ts.Table) -> Any:
    return table.overwrite(many(0))


def rescaled(table: ts.Table) -> Any:
    return table.rescale(3)


class Looking(FaultyIO):
    """Lets time pass at the first file that a verb begins, and looks who is open at every later one."""

    def __init__(self, clock: FileClock, table: ts.Table) -> None:
        super().__init__()
        self._clock, self._table, self._begun = clock, table, False
        self.seen: list[int] = []

    def _run(self, what: str, path: str, action: Any, *, writes: bool) -> Any:
        name = path.rpartition("/")[2]
        if what in ("create", "write", "put") and name.startswith(("data-", "index-", "manifest-")):
            if not self._begun:
                self._begun = True
                self._clock.move(HOUR_MS)
                open_writers._PULSE.beat()
            self.seen.append(len(signs(self._table)))
        return super()._run(what, path, action, writes=writes)


@pytest.mark.parametrize("verb", [compacted, overwritten, rescaled])
def test_every_verb_that_writes_files_has_a_sign(tmp_path: Path, verb: Callable[[ts.Table], Any]) -> None:
    table = KEYED.create(tmp_path, {"bucket": 1, "write-only": True})
    for n in range(3):
        table.write(many(n))
    clock = FileClock(tmp_path)
    io = Looking(clock, table)
    verb(ts.connect(tmp_path, env=clock, io=io).table("d.t"))
    assert len(io.seen) > 1
    assert min(io.seen) == 1
    assert signs(table) == []
    assert table.refresh().check() == []


def test_a_writer_that_commits_at_once_leaves_none(tmp_path: Path) -> None:
    KEYED.create(tmp_path)
    io = FaultyIO()
    ts.connect(tmp_path, io=io).table("d.t").write(many(0))
    assert not [line for line in io.log if "/writers" in line]


def test_a_sign_is_no_way_back_into_a_dropped_table(
    clocked: tuple[ts.Table, FileClock], tmp_path: Path
) -> None:
    table, clock = clocked
    w = table.writer()
    w.write(many(0))
    ts.connect(tmp_path).drop_table("d.t")
    clock.move(HOUR_MS)
    open_writers._PULSE.beat()
    assert not Path(table.location).exists()
    with pytest.raises(ts.NotFound), w:
        w.write(many(3000))
    assert not Path(table.location).exists()


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"openMs": "x"}', b"\xff"])
def test_a_damaged_sign_holds_everything_for_minutes(
    clocked: tuple[ts.Table, FileClock], damage: bytes
) -> None:
    table, clock = clocked
    stray = strayed(table)
    clock.move(2 * HOUR_MS)
    path = Path(table.location, "tablestore", "writers", "writer-a.json")
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    assert table.remove_orphans("1 h", dry_run=False).files == ()
    clock.move(2 * open_writers.LASTS_MS)
    assert {p for p, _ in table.remove_orphans("10 min", dry_run=False).files} == {str(stray), str(path)}


def test_a_sign_says_whose_it_is(clocked: tuple[ts.Table, FileClock]) -> None:
    table, clock = clocked
    with table.writer() as w:
        clock.move(open_writers.FIRST_MS)
        w.write(many(0))
        (path,) = signs(table)
        body = json.loads(path.read_bytes())
        assert (body["process"], body["openMs"]) == (os.getpid(), open_writers.FIRST_MS)
        stored = table.inspect.storage().files.to_pylist()
        (row,) = (r for r in stored if r["path"].startswith("tablestore/writers/"))
        assert (row["kind"], row["freed"]) == ("temporary", "when its writer ends")
