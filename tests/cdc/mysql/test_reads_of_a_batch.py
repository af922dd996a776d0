"""How often a batch of a capture connects to its source, and how often it reads the log."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tablestore.cdc.capture.source import TableRows
from tablestore.cdc.mysql import dump
from tablestore.cdc.mysql import pieces as piece_module
from tablestore.cdc.mysql.dump import Dump
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.mysql.stream import MysqlTable
from tests.cdc.databases.sources import MariaDbSource
from tests.cdc.mysql.local_capture import LocalCapture
from tests.servers.mariadb import MariaDb


class Reads:
    """What this process asks a server for. A dump is asked for again where the log is not synced yet: that
    counts as the same one."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def taken(self) -> dict[str, int]:
        """The connections and reads of the log since the last call."""
        counts, self.counts = self.counts, Counter()
        again = counts["asked"] - counts["logs"]
        return {"connections": counts["connections"] - again, "logs": counts["logs"]}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Counts from here on; however much others write to the log, it is recorded."""
    actual = Reads()

    def counted(kind: type, name: str, what: str) -> None:
        before = kind.__dict__[name]
        of_class = isinstance(before, classmethod)
        call = before.__func__ if of_class else before

        def counting(*arguments: Any, **how: Any) -> Any:
            actual.counts[what] += how.get("stretch") is None
            return call(*arguments, **how)

        monkeypatch.setattr(kind, name, classmethod(counting) if of_class else counting)

    counted(Connection, "open", "connections")
    counted(Dump, "open", "logs")
    counted(Dump, "_asked", "asked")
    monkeypatch.setattr(dump, "_MOST_RECORDED", 1 << 40)
    return actual


def test_a_batch_of_one_task_reads_its_log_once(
    mariadb: MariaDb, database: str, tmp_path: Path, reads: Reads
):
    use = f"USE {database}"
    mariadb.run(use, "CREATE TABLE a (k INT PRIMARY KEY, v INT)", "CREATE TABLE b (k INT PRIMARY KEY)")
    mariadb.run(use, "INSERT INTO a VALUES (1, 1), (2, 2)", "INSERT INTO b VALUES (1)")
    capture = LocalCapture(tmp_path, mariadb.url, database, {"chunk_rows": 100})
    capture.catch_up()
    for _ in range(3):
        mariadb.run(use, "UPDATE a SET v = v + 1", "INSERT INTO b SELECT MAX(k) + 1 FROM b")
        reads.taken()
        assert capture.step()
        assert reads.taken() == {"connections": 2, "logs": 1}
    assert capture.lake.table("ods.a").scan().to_arrow().column("v").to_pylist() == [4, 5]
    assert capture.lake.table("ods.b").scan().to_arrow().num_rows == 4
    assert capture.lake.table("ods.a").check() == capture.lake.table("ods.b").check() == []


def rows_of(pieces: list[Any]) -> list[tuple[str, list[Any], list[int], list[Any], str]]:
    actual = [part for piece in pieces for part in piece.read()]
    assert all(isinstance(part, TableRows) for part in actual)
    columns = ((p.rows.to_pylist(), p.kinds.to_pylist(), p.seconds.to_pylist(), p.position) for p in actual)
    return [(str(p.table), *rest) for p, rest in zip(actual, columns, strict=True)]


def test_what_was_recorded_gives_the_same_as_the_log_itself(
    source: MariaDbSource, reads: Reads, seeds: tuple[int, ...]
):
    """In new files of the log, too, and with compressed events; another process has no recording."""
    source.made(50)
    lake = source.lake()
    lake.catch_up()
    for seed in seeds:
        for i in range(seed % 7 + 2):
            source.run(f"UPDATE a SET v = v + {i}, s = REPEAT('é', {seed % 20})", "DELETE FROM b LIMIT 1")
            if (seed + i) % 3 == 0:
                source.run("FLUSH BINARY LOGS")
        end = lake.source.next(lake.offset)
        recorded, direct = (
            s.pieces(lake.offset, end) for s in (lake.source, pickle.loads(pickle.dumps(lake.source)))
        )
        reads.taken()
        rows = rows_of(recorded)
        assert rows
        assert reads.taken() == {"connections": 0, "logs": 0}
        assert rows == rows_of(direct)
        assert reads.taken() == {"connections": 2, "logs": 1}
        lake.offset = end


def test_a_log_that_several_tasks_read_is_not_sent_to_them(
    source: MariaDbSource, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(piece_module, "_SPLIT_BYTES", 1)
    source.made(50)
    lake = source.lake(tasks=3)
    lake.catch_up()
    source.run("UPDATE a SET v = v + 1", "UPDATE b SET v = v + 1")
    end = lake.source.next(lake.offset)
    pieces = lake.source.pieces(lake.offset, end)
    assert len(pieces) > 1
    assert all(len(pickle.dumps(piece)) < 4_000 for piece in pieces)


def test_a_large_log_is_read_again(source: MariaDbSource, reads: Reads, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dump, "_MOST_RECORDED", 2_000)
    source.made(50)
    lake = source.lake()
    lake.catch_up()
    source.run(*["UPDATE a SET v = v + 1"] * 5)
    end = lake.source.next(lake.offset)
    reads.taken()
    assert len(rows_of(lake.source.pieces(lake.offset, end))) > 0
    assert reads.taken() == {"connections": 2, "logs": 1}


def test_a_batch_of_one_table_reads_its_log_once(source: MariaDbSource, reads: Reads):
    """To plan it takes the beginning of the file that the log ends in, and of that where it began."""
    source.made(20, "a")
    table = MysqlTable.open(source.address, "a", chunk_rows=100)
    offset = table.next(table.initial())
    for flushed in (False, True):
        source.run(*(["FLUSH BINARY LOGS"] if flushed else []), "UPDATE a SET v = v + 1 WHERE k < 6")
        reads.taken()
        end = table.next(offset)
        files = len({offset["position"][0], end["position"][0]})  # others may begin one, too
        assert reads.taken() == {"connections": 1 + files, "logs": files}
        assert files == 2 or not flushed
        (piece,) = table.pieces(offset, end)
        changed = [row for rows, _ in piece.read(["k"]) for row in rows.column(0).to_pylist()]
        assert changed == [0, 0, 2, 2, 4, 4]
        assert reads.taken() == {"connections": 2, "logs": 1}
        offset = end
