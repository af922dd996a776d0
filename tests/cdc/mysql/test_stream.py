"""A table of MariaDB as a stream: what it gives equals the source, whatever is written meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tablestore.cdc.databases.address import Address
from tablestore.cdc.databases.declared import DeclaredColumns
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.stream import MysqlTable, StartPoint
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.flow.source import Offset
from tablestore.format.types.data_type import DataField
from tablestore.format.types.type_text import parse_type
from tests.cdc.databases.stream_sink import KeyedSink, changes_of
from tests.servers.mariadb import MariaDb


def made(server: MariaDb, address: Address, rows: int) -> None:
    server.run(
        f"USE {address.database}",
        "CREATE TABLE t (k INT PRIMARY KEY, v INT, s VARCHAR(20))",
        f"INSERT INTO t SELECT seq, seq, 'x' FROM seq_0_to_{2 * rows - 1} WHERE seq % 2 = 0",
    )


def source_rows(server: MariaDb, address: Address) -> dict[Any, Any]:
    return {
        k: {"k": k, "v": v, "s": s} for k, v, s in server.run(f"SELECT k, v, s FROM {address.database}.t")
    }


@pytest.fixture
def table(mariadb: MariaDb, address: Address) -> Iterator[MysqlTable]:
    made(mariadb, address, 100)
    return MysqlTable.open(address, "t", chunk_rows=10, chunks=3)


def test_each_row_is_read_once_where_nothing_is_written(mariadb: MariaDb, table: MysqlTable) -> None:
    offset, seen, batches = table.initial(), [], 0
    target = table.latest()
    while (end := table.next(offset, target)) != offset:
        for piece in table.pieces(offset, end):
            seen += [row["k"] for batch, _ in piece.read(["k"]) for row in batch.to_pylist()]
        offset, batches = end, batches + 1
    assert sorted(seen) == list(range(0, 200, 2))
    assert batches == 4  # 10 chunks by three
    assert offset["phase"] == "binlog"


def test_columns_that_nobody_asked_for_may_change(mariadb: MariaDb, address: Address) -> None:
    """In the middle of a snapshot, too: what is undone may have other columns."""
    made(mariadb, address, 100)
    wanted = DeclaredColumns(tuple(DataField(0, n, parse_type("BIGINT")) for n in "vk"))
    table = MysqlTable.open(address, "t", columns=wanted, chunk_rows=40, chunks=1)
    assert table.schema.names == ["v", "k"]
    assert table.primary_key == ("k",)
    sink = KeyedSink(table)
    for statement in (
        "ALTER TABLE t ADD note TEXT DEFAULT 'x', DROP COLUMN s, ADD INDEX (v)",
        "ALTER TABLE t CHANGE note word VARCHAR(9), ADD s INT FIRST",
        "ALTER TABLE t MODIFY s BIGINT, COMMENT = 'v and k'",
    ):
        begun = table.next(sink.offset)
        mariadb.run(f"USE {address.database}", "UPDATE t SET v = v + 1 WHERE k < 150", statement)
        mariadb.run(f"DELETE FROM {address.database}.t WHERE k = {statement.count(',')}")
        for piece in table.pieces(sink.offset, begun):
            for change in changes_of(piece, table):
                sink.apply(*change)
        sink.offset = begun
    sink.catch_up()
    outcome = mariadb.run(f"SELECT k, v FROM {address.database}.t")
    assert sink.rows == {k: {"v": v, "k": k} for k, v in outcome}
    for statement in (
        "MODIFY v TINYINT",
        "DROP v",
        "CHANGE k other INT",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (v)",
    ):
        assert ddl.touches(f"ALTER TABLE t {statement}", address.database, table=table.table)
    mariadb.run(f"ALTER TABLE {address.database}.t MODIFY v SMALLINT")
    with pytest.raises(Unsupported, match=r"MODIFY v SMALLINT.* which alters"):
        sink.catch_up()


def test_a_stream_begins_where_its_start_says(mariadb: MariaDb, table: MysqlTable) -> None:
    def keys(start: StartPoint) -> list[Any]:
        source = replace(table, start=start)
        began = source.next(source.initial())
        end = source.next(began)
        assert source.pieces(source.initial(), began) == []
        actual = [row["k"] for piece in source.pieces(began, end) for _, row in changes_of(piece, source)]
        return [k for k in actual if k >= 1000]

    def insert(key: int) -> Offset:
        mariadb.run(f"INSERT INTO {table.address.database}.t VALUES ({key}, 0, '')")
        return table.latest()

    insert(1000)
    file, offset, gtid, *_ = insert(1001)["position"]
    time.sleep(1.1 - time.time() % 1)  # the log counts in seconds
    millis = int(time.time()) * 1000
    mariadb.run("FLUSH BINARY LOGS")
    insert(1002)
    assert keys(StartPoint("specific-offset", file=file, offset=offset)) == [1002]
    assert keys(StartPoint("specific-offset", gtid=gtid)) == [1002]
    assert keys(StartPoint("timestamp", millis=millis)) == [1002]
    late = replace(table, start=StartPoint("latest-offset"))
    now = late.next(late.initial())
    assert late.next(now) == now
    insert(1003)
    (piece,) = late.pieces(now, late.next(now))
    assert [row["k"] for _, row in changes_of(piece, late)] == [1003]
    with pytest.raises(NotFound, match="the binlog begins later than 1000 ms"):
        keys(StartPoint("timestamp", millis=1000))
    with pytest.raises(NotFound, match="is gone"):
        keys(StartPoint("specific-offset", file="binlog.999999"))


def test_a_log_that_is_gone_ends_the_stream_with_words(mariadb: MariaDb, table: MysqlTable) -> None:
    sink = KeyedSink(table)
    sink.catch_up()
    mariadb.run("FLUSH BINARY LOGS", f"INSERT INTO {table.address.database}.t VALUES (-1, 1, '')")
    mariadb.run(f"PURGE BINARY LOGS TO '{table.latest()['position'][0]}'")
    with pytest.raises(NotFound, match=r"is gone .*start with a new snapshot"):
        sink.catch_up()


def test_another_server_of_a_replication_is_followed_by_gtid(mariadb: MariaDb, table: MysqlTable) -> None:
    """An offset of another server, whose files and offsets mean nothing here."""
    sink = KeyedSink(table)
    sink.catch_up()
    gtid = sink.offset["position"][2]
    sink.offset |= {"position": ["its-own.000077", 5, gtid], "server": 4712}
    mariadb.run(f"UPDATE {table.address.database}.t SET v = v + 1")
    sink.catch_up()
    assert sink.rows == source_rows(mariadb, table.address)
    assert sink.offset["server"] == 4711
    begun = table.next(table.initial()) | {"server": 4712}
    with pytest.raises(InvalidRequest, match="is another server than that on which the snapshot"):
        list(table.pieces(table.initial(), begun)[0].read(["k"]))


def test_what_cannot_be_a_stream_is_refused(mariadb: MariaDb, address: Address) -> None:
    mariadb.run(
        f"CREATE TABLE {address.database}.n (a INT)",
        f"CREATE TABLE {address.database}.g (a INT PRIMARY KEY, p POINT)",
    )
    with pytest.raises(Unsupported, match="without a primary key"):
        MysqlTable.open(address, "n")
    with pytest.raises(Unsupported, match="column 'p'"):
        MysqlTable.open(address, "g")
    table = MysqlTable.open(address, "g", left_out=["p"])
    assert table.schema.names == ["a"]
    assert not table.appends
    with pytest.raises(InvalidRequest, match="no offset"):
        table.next({"v": 2})


@pytest.mark.parametrize(
    ("text", "alters"),
    [
        ("TRUNCATE t", True),
        ("truncate table `t`", True),
        ("ALTER TABLE d.t ADD c INT", True),
        ("ALTER TABLE other.t ADD c INT", False),
        ("ALTER TABLE x ADD FOREIGN KEY (a) REFERENCES t (k)", False),
        ("DROP TABLE IF EXISTS `a`,`d`.`t` /* generated by server */", True),
        ("RENAME TABLE t TO t_old, t_new TO t", True),
        ("/* gh-ost */ RENAME TABLE `d`.`x` TO `d`.`t`", True),
        ("CREATE OR REPLACE TABLE t (a INT)", True),
        ("CREATE TABLE x LIKE t", False),
        ("CREATE INDEX i ON t (a)", False),
        ("DROP DATABASE d", True),
        ("DROP INDEX i ON t", False),
    ],
)
def test_statements_that_alter_a_table(text: str, alters: bool) -> None:
    assert ddl.alters(text, "d", owner="d", table="t") is alters
