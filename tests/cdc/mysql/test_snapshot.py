"""Rows of key ranges: each row once, at a position that fits, whatever its size."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pyarrow as pa
import pytest

from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.binlog import RowImages, read_log
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.snapshot import KeyRange, chunk_key, ranges, read_range, read_view
from tablestore.core.errors import NotFound, Unavailable
from tests.servers.mariadb import MariaDb

KEYS = {
    "INT": "seq",
    "BIGINT UNSIGNED": "seq * 1000000000000000",
    "DECIMAL(30,3)": "seq / 8 - 10",
    "VARCHAR(40)": "CONCAT(ELT(seq % 4 + 1, 'a', 'B', 'é', '\\'\\\\'), seq DIV 4)",
    "VARCHAR(40) COLLATE utf8mb4_bin": "CONCAT(ELT(seq % 4 + 1, 'a', 'A', 'ä', '%'), seq DIV 4)",
    "VARCHAR(40) CHARACTER SET latin1": "CONCAT(ELT(seq % 4 + 1, 'a', 'B', 'é', '€'), seq DIV 4)",
    "VARBINARY(8)": "UNHEX(HEX(seq * 65521))",
    "DATE": "DATE'1999-12-01' + INTERVAL seq DAY",
    "TIMESTAMP": "TIMESTAMP'2024-03-31 00:00:00' + INTERVAL seq MINUTE",
    "UUID": "CONCAT(LPAD(HEX(seq * 7919), 8, '0'), '-0000-1000-8000-000000000000')",
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.sample(4)
def test_ranges_hold_every_row_once(
    mariadb: MariaDb, database: str, connection: Connection, kind: str
) -> None:
    mariadb.run(
        f"USE {database}",
        f"CREATE TABLE {database}.t (k {kind} PRIMARY KEY, v INT)",
        f"INSERT INTO {database}.t SELECT {KEYS[kind]}, seq FROM seq_1_to_50",
    )
    table = SourceTable.read(connection, database, "t")
    actual = list(ranges(connection, table, 7))
    assert len(actual) == 8
    assert [r.low for r in actual[1:]] == [r.high for r in actual[:-1]]
    assert [actual[0].low, actual[-1].high] == [None, None]
    sizes, seen = [], Counter()
    for key_range in actual:
        rows = [row for batch in read_range(connection, table, key_range) for row in batch["v"].to_pylist()]
        sizes.append(len(rows))
        seen.update(rows)
    assert sizes == [7] * 7 + [1]
    assert seen == Counter(range(1, 51))


def test_ranges_of_a_key_of_two_columns_do_not_part_its_first(
    mariadb: MariaDb, database: str, connection: Connection
) -> None:
    mariadb.run(
        f"USE {database}",
        f"CREATE TABLE {database}.t (a INT, b INT, PRIMARY KEY (a, b))",
        f"INSERT INTO {database}.t SELECT seq DIV 5, seq FROM seq_0_to_19",
    )
    table = SourceTable.read(connection, database, "t")
    assert list(ranges(connection, table, 7)) == [KeyRange(None, 1), KeyRange(1, 3), KeyRange(3, None)]
    assert sum(b.num_rows for b in read_range(connection, table, KeyRange(None, 1))) == 10


def test_a_table_without_a_key_for_ranges_is_read_whole(
    mariadb: MariaDb, database: str, connection: Connection
) -> None:
    mariadb.run(f"CREATE TABLE {database}.t (a INT)", f"INSERT INTO {database}.t VALUES (1), (1)")
    mariadb.run(f"CREATE TABLE {database}.f (a DOUBLE PRIMARY KEY)")
    table = SourceTable.read(connection, database, "t")
    assert chunk_key(table) is None
    assert chunk_key(SourceTable.read(connection, database, "f")) is None
    assert list(ranges(connection, table, 1)) == [KeyRange()]
    assert pa.Table.from_batches(read_range(connection, table)).to_pydict() == {"a": [1, 1]}


def test_names_are_those_of_the_server_to_the_letter(
    mariadb: MariaDb, database: str, connection: Connection
) -> None:
    mariadb.run(
        f"USE {database}",
        "CREATE TABLE `t%s ``x` (`k%d ``y` INT PRIMARY KEY)",
        "INSERT INTO `t%s ``x` VALUES (1), (2), (3)",
        "CREATE TABLE `T%s ``x` (other INT PRIMARY KEY)",
    )
    table = SourceTable.read(connection, database, "t%s `x")
    assert table.primary_key == ("k%d `y",) == tuple(c.name for c in table.columns)
    actual = [pa.Table.from_batches(read_range(connection, table, r)) for r in ranges(connection, table, 2)]
    assert [t.column(0).to_pylist() for t in actual] == [[1, 2], [3]]


def test_an_empty_table_has_one_range_and_no_batch(
    mariadb: MariaDb, database: str, connection: Connection
) -> None:
    mariadb.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    table = SourceTable.read(connection, database, "t")
    assert list(ranges(connection, table, 10)) == [KeyRange()]
    assert list(read_range(connection, table)) == []
    with pytest.raises(NotFound, match="there are: t"):
        SourceTable.read(connection, database, "other")


def test_rows_of_several_packets_and_of_several_batches(
    mariadb: MariaDb, database: str, connection: Connection
) -> None:
    mariadb.run(
        f"USE {database}",
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v LONGBLOB)",
        f"INSERT INTO {database}.t SELECT seq, seq FROM seq_1_to_100000",
    )
    large = {5: 16_777_215, 6: 16_777_215 - 9, 70_000: 5_000_000, 70_001: 40_000_000, 100_000: 16_777_216}
    with mariadb.connect(database=database, max_allowed_packet=1 << 30) as owner, owner.cursor() as cursor:
        for key, size in large.items():
            cursor.execute(
                f"UPDATE t SET v = CONCAT(REPEAT('x', {size - 6}), LPAD({key}, 6, '0')) WHERE id = {key}"
            )
    table = SourceTable.read(connection, database, "t")
    batches = list(read_range(connection, table))
    assert len(batches) > 5
    rows = pa.Table.from_batches(batches).combine_chunks()
    assert rows["id"].to_pylist() == list(range(1, 100_001))
    small = [k for k in range(1, 100_001) if k not in large]
    assert rows["v"].take([k - 1 for k in small]).to_pylist() == [str(k).encode() for k in small]
    for key, size in large.items():
        value = rows["v"][key - 1].as_py()
        assert (len(value), value[:2], value[-7:]) == (size, b"xx", f"x{key:06d}".encode())
    assert connection.rows("SELECT 1") == [(1,)]


def test_a_reader_that_stops_lets_the_connection_go(
    mariadb: MariaDb, database: str, connection: Connection
) -> None:
    mariadb.run(
        f"USE {database}",
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v CHAR(200))",
        f"INSERT INTO {database}.t SELECT seq, 'x' FROM seq_1_to_300000",
    )
    table = SourceTable.read(connection, database, "t")
    rows = read_range(connection, table)
    next(rows)
    rows.close()
    with pytest.raises(Unavailable):
        connection.rows("SELECT 1")
    with Connection.open(connection.address) as other:
        number = other.rows("SELECT CONNECTION_ID()")[0][0]
        rows = read_range(other, table)
        read = next(rows).num_rows
        mariadb.run(f"KILL {number}")
        try:
            read += sum(batch.num_rows for batch in rows)
        except Unavailable:
            return
        assert read == 300_000, "an error, or all rows where the server was quicker"


def test_a_read_view_has_the_rows_of_its_position(
    mariadb: MariaDb, database: str, address: Address, connection: Connection, seeds: tuple[int, ...]
) -> None:
    """Beside four writers the rows of a view are those that the binlog has before the view's position."""
    mariadb.run(f"CREATE TABLE {database}.t (id INT AUTO_INCREMENT PRIMARY KEY)")
    table, dialect = SourceTable.read(connection, database, "t"), dialect_of(connection)
    start = dialect.position(connection)
    stop = threading.Event()

    def write() -> None:
        with mariadb.connect(database=database) as owner, owner.cursor() as cursor:
            while not stop.wait(0.002):  # more rows would only take longer to count
                cursor.execute("INSERT INTO t VALUES ()")

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    try:
        while dialect.position(connection) == start:
            time.sleep(0.01)  # until a writer is connected
        for _ in range(4 + len(seeds)):
            wanted = dialect.position(connection)
            with read_view(connection, dialect, at_least=wanted) as position:
                batches = list(read_range(connection, table))
            assert position.reaches(wanted)
            log = read_log(address, [table], start=start, until=position)
            logged = sum(c.batch.num_rows for c in log if isinstance(c, RowImages))
            assert sum(b.num_rows for b in batches) == logged
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert logged > 0, "it is read while rows come"


def test_a_read_view_before_a_position_is_not_given(connection: Connection) -> None:
    dialect = dialect_of(connection)
    far = LogPosition("binlog.999999", 4)
    with (
        pytest.raises(Unavailable, match=r"before binlog\.999999:4"),
        read_view(connection, dialect, at_least=far, patience_seconds=0.05),
    ):
        pass


@pytest.mark.parametrize(
    "keys",
    ["seq", "CAST(seq AS SIGNED) * 7 - 90000", "seq DIV 1000 * 1000000 + seq", "IF(seq = 9, 1 << 60, seq)"],
)
@pytest.mark.sample(2)
def test_large_ranges_hold_all_rows_about_evenly(
    mariadb: MariaDb, address: Address, connection: Connection, keys: str
) -> None:
    """Of evenly spread keys bounds are computed; where that goes wrong they are counted."""
    mariadb.run(
        f"USE {address.database}",
        "CREATE TABLE many (k BIGINT PRIMARY KEY)",
        f"INSERT INTO many SELECT {keys} FROM seq_1_to_100000",
        "ANALYZE TABLE many",
    )
    actual = list(ranges(connection, SourceTable.read(connection, address.database, "many"), 25_000))
    assert [key_range.low for key_range in actual] == [None, *(key_range.high for key_range in actual[:-1])]
    assert actual[-1].high is None
    bounds = [
        (
            -(1 << 62) if key_range.low is None else key_range.low,
            1 << 62 if key_range.high is None else key_range.high,
        )
        for key_range in actual
    ]
    counts = [
        mariadb.run(f"SELECT COUNT(*) FROM {address.database}.many WHERE k > {low} AND k <= {high}")[0][0]
        for low, high in bounds
    ]
    assert sum(counts) == 100_000
    assert max(counts) <= 100_000 - 25_000 // 4
    assert 3 <= len(actual) <= 16
