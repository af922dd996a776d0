"""A log that was begun anew is noticed, wherever the capture stands and however far the new one is."""

from __future__ import annotations

import json

import pytest

from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.stream import MysqlTable
from tablestore.core.errors import NotFound
from tests.cdc.databases.sources import MariaDbSource

ANOTHER = r"the binlog is another one than that of .*start with a new snapshot"


def write(source: MariaDbSource, transactions: int) -> None:
    """A log of this length, about 200 bytes a transaction."""
    source.run(*(f"REPLACE INTO a VALUES ({1000 + n}, {n}, 'new')" for n in range(transactions)))


@pytest.mark.parametrize("length", [0, 1, 40], ids=["empty", "shorter", "longer"])
@pytest.mark.parametrize("phase", ["reading", "log"])
@pytest.mark.sample(2)
def test_a_log_that_was_begun_anew_is_noticed(source: MariaDbSource, phase: str, length: int) -> None:
    """Also by readers of a batch that was planned before."""
    source.run("RESET MASTER")
    source.made(30, "a")
    write(source, 10)
    lake = source.lake(chunk_rows=10, chunks=1)
    lake.batch()
    lake.batch()
    if phase == "log":
        lake.catch_up()
        write(source, 1)
    planned = json.loads(json.dumps(lake.source.next(lake.offset)))
    source.run("DELETE FROM a", "RESET MASTER")
    write(source, length)
    rows = dict(lake.rows["a"])
    with pytest.raises(NotFound, match=ANOTHER):
        lake.catch_up()
    for piece in lake.source.pieces(lake.offset, planned):
        with pytest.raises(NotFound, match=ANOTHER):
            list(piece.read())
    assert lake.rows["a"] == rows


@pytest.mark.parametrize("moment", ["the same position", "the same position and second"])
def test_a_position_that_both_logs_have_is_told_apart(source: MariaDbSource, moment: str) -> None:
    """By the second in which the file was begun, or by the transaction that ends there."""
    source.run("RESET MASTER")
    source.made(3, "a")
    lake = source.lake()
    lake.catch_up()
    file, offset, gtid, created = lake.offset["position"]
    if moment == "the same position":
        lake.offset["position"] = [file, offset, gtid, created - 7]
    else:
        domain, server, number = gtid.split("-")
        lake.offset["position"] = [file, offset, f"{domain}-{server}-{int(number) + 1}", created]
    with pytest.raises(NotFound, match=ANOTHER):
        lake.catch_up()
    lake.offset["position"] = [file, offset, gtid]  # of a checkpoint that does not know the second
    write(source, 1)
    lake.catch_up()
    lake.equals(source)
    assert LogPosition.from_json(lake.offset["position"]).created == created


def test_a_server_without_a_transaction_of_the_old_one_is_no_replica_of_it(source: MariaDbSource) -> None:
    source.made(3, "a")
    lake = source.lake()
    lake.catch_up()
    file, offset, gtid = lake.offset["position"][:3]
    lake.offset |= {"position": [file, offset, ""], "server": 4712}
    with pytest.raises(NotFound, match=ANOTHER):
        lake.catch_up()
    lake.offset |= {"position": [file, offset, f"{gtid.rpartition('-')[0]}-{10**9}"]}
    with pytest.raises(NotFound):
        lake.catch_up()


@pytest.mark.parametrize("phase", ["snapshot", "binlog"])
def test_a_stream_of_one_table_notices_it(source: MariaDbSource, phase: str) -> None:
    source.run("RESET MASTER")
    source.made(30, "a")
    stream = MysqlTable.open(source.address, "a", chunk_rows=10, chunks=1)
    offset = stream.next(stream.initial())
    while phase == "binlog" and offset["phase"] != "binlog":
        offset = stream.next(offset)
    source.run("RESET MASTER")
    for length in (0, 1, 40):
        write(source, length)
        with pytest.raises(NotFound, match=ANOTHER):
            stream.next(offset)


def test_a_bounded_capture_ends_though_it_is_past_where_the_last_run_was_to_end(
    source: MariaDbSource,
) -> None:
    source.made(3, "a")
    lake = source.lake(bounded=True)
    lake.catch_up()
    position = lake.offset["position"]
    write(source, 3)
    lake.source = source.opened(bounded=True)
    lake.catch_up()
    lake.offset |= {"target": position, "ended": ""}
    lake.source = source.opened(bounded=True)
    lake.catch_up()
    assert lake.offset["ended"] == lake.source.run
    lake.equals(source)
