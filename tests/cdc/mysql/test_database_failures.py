"""What a capture depends on goes away: definitions, the server, its log."""

from __future__ import annotations

import json

import pytest

from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.core.errors import NotFound
from tests.cdc.databases.sources import MariaDbSource


def test_definitions_that_are_lost_are_read_again(source: MariaDbSource) -> None:
    source.made(30)
    lake = source.lake(chunk_rows=20, chunks=2)
    for _ in range(3):
        lake.batch()
    source.run("UPDATE a SET v = 8", "DELETE FROM c WHERE v < 20", "ALTER TABLE a ADD w INT FIRST")
    source.run("INSERT INTO a VALUES (7, 4001, 1, 'x')")
    end = json.loads(json.dumps(lake.source.next(lake.offset)))
    for file in (source.checkpoint / "tablestore-source").iterdir():
        file.unlink()
    lake.source = source.opened(chunk_rows=20, chunks=2)
    for piece in lake.source.pieces(lake.offset, end):  # a batch that is done again
        lake.apply(piece)
    lake.offset = end
    lake.source = source.opened(chunk_rows=20, chunks=2)
    for file in (source.checkpoint / "tablestore-source").iterdir():
        file.unlink()
    begin = len(lake.events)
    lake.catch_up()
    lake.equals(source)
    assert {event.reason for event in lake.events[begin : begin + 3]} == {
        "its definition, which the checkpoint held, is lost"
    }


def test_another_server_and_a_log_that_is_gone(source: MariaDbSource) -> None:
    source.made(30, "ab")
    lake = source.lake(chunk_rows=20, chunks=1)
    for moment in ("reading", "log"):
        if moment == "log":
            lake.catch_up()
        else:
            lake.batch()
            lake.batch()
        gtid = lake.offset["position"][2]
        lake.offset |= {"position": ["its-own.000077", 5, gtid], "server": 4712}
        source.run(
            "UPDATE a SET v = v + 1", "ALTER TABLE b ADD COLUMN IF NOT EXISTS w INT", "DELETE FROM b LIMIT 2"
        )
        lake.catch_up()
        lake.equals(source)
        assert lake.offset["server"] == 4711
    source.run("FLUSH BINARY LOGS", "UPDATE a SET v = 0")
    source.run(f"PURGE BINARY LOGS TO '{lake.source._patiently(position).file}'")
    with pytest.raises(NotFound, match=r"is gone .*start with a new snapshot"):
        lake.catch_up()


def position(connection: Connection) -> LogPosition:
    return dialect_of(connection).position(connection)
