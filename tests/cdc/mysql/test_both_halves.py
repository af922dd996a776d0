"""Snapshot and binlog of the same rows are equal, column by column, for every type; and right."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from tablestore.cdc.databases import slices
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql import charsets
from tablestore.cdc.mysql.binlog import RowImages, read_log
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.snapshot import read_range
from tablestore.core import extras
from tablestore.core.errors import InvalidRequest, Unsupported
from tests.cdc.mysql import kinds
from tests.servers.mariadb import MariaDb

LOOSE = "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'"


@pytest.fixture(params=["numba", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which rows are cut into values."""
    if request.param == "python":
        there = extras.available
        monkeypatch.setattr(slices, "available", lambda name: None if name == "numba" else there(name))
    slices.compiled.cache_clear()
    yield request.param
    slices.compiled.cache_clear()


def both(mariadb: MariaDb, address: Address, rows: list[list[object]]) -> tuple[pa.Table, pa.Table]:
    """The rows as snapshot and binlog have them, with warnings and lies of sql_mode as they come."""
    with mariadb.connect(database=address.database) as owner, Connection.open(address) as connection:
        with owner.cursor() as cursor:
            cursor.execute(LOOSE)
            cursor.execute(kinds.statement("t"))
            table = SourceTable.read(connection, address.database, "t")
            start = dialect_of(connection).position(connection)
            marks = ", ".join(["%s"] * (1 + len(kinds.KINDS)))
            for i, row in enumerate(rows):
                cursor.execute(f"INSERT INTO t VALUES ({marks})", [i, *row])
        end = dialect_of(connection).position(connection)
        snapshot = pa.Table.from_batches(read_range(connection, table), table.schema)
    batches = [
        c.batch for c in read_log(address, [table], start=start, until=end) if isinstance(c, RowImages)
    ]
    return snapshot, pa.Table.from_batches(batches, table.schema)


def assert_equal(snapshot: pa.Table, log: pa.Table) -> None:
    assert log.num_rows == snapshot.num_rows > 0
    for (name, kind), column in zip({"id": "id", **kinds.columns()}.items(), snapshot.columns, strict=True):
        column.validate(full=True)
        log.column(name).validate(full=True)
        assert log.column(name).equals(column), f"{kind}: {differing(column, log.column(name))}"


def differing(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[object]:
    pairs = zip(left, right, strict=True)
    return [(a, b) for a, b in pairs if not a.equals(b)][:3]


def test_the_ends_of_every_type_are_equal(mariadb: MariaDb, address: Address, engine: str) -> None:
    assert slices.engine() == engine
    snapshot, log = both(mariadb, address, kinds.edges())
    assert_equal(snapshot, log)


def test_random_values_of_every_type_are_equal(
    mariadb: MariaDb, database: str, address: Address, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[:3]:
        snapshot, log = both(mariadb, address, kinds.random_rows(random.Random(seed), 60))
        assert_equal(snapshot, log)
        mariadb.run(f"DROP TABLE {database}.t")


def test_values_are_what_was_written(mariadb: MariaDb, address: Address) -> None:
    rows = kinds.random_rows(random.Random(7), 40)
    snapshot, _ = both(mariadb, address, rows)
    names = {kind: name for name, kind in kinds.columns().items()}
    for kind in (
        "BIGINT UNSIGNED",
        "INT",
        "VARCHAR(300)",
        "VARBINARY(300)",
        "LONGTEXT",
        "DOUBLE",
        "UUID",
        "TIME",
    ):
        column = names[kind]
        written = [row[list(kinds.KINDS).index(kind)] for row in rows]
        if kind == "TIME":
            written = [None if v is None else _padded(v) for v in written]
        actual = snapshot.column(column).to_pylist()
        assert [int(v) if isinstance(v, Decimal) else v for v in actual] == written, kind


def _padded(text: str) -> str:
    sign, body = ("-", text[1:]) if text.startswith("-") else ("", text)
    return f"{sign}{body.zfill(8)}"


def test_codecs_give_what_the_server_gives(connection: Connection, mariadb: MariaDb) -> None:
    """All characters of sets of single bytes; a sample of those of the others that they can hold."""
    sample = "".join(
        map(chr, [*range(32, 127), *range(0xA0, 0x250), *range(0x386, 0x3CF), *range(0x400, 0x460)])
    )
    sample += "中文字日本語ひらがなカタカナ한국어"
    for charset in charsets.CODECS:
        if charset.startswith(("utf", "ucs")):
            continue
        rows = connection.rows(
            f"WITH v(h) AS (VALUES {_values(sample)}), "
            "x(c) AS (SELECT CONVERT(UNHEX(h) USING utf8mb4) FROM v) "
            f"SELECT HEX(CONVERT(c USING {charset})),"
            f" HEX(CONVERT(CONVERT(c USING {charset}) USING utf8mb4)) FROM x"
        )
        wrong = [
            (raw, text)
            for raw, text in ((bytes.fromhex(a), bytes.fromhex(b).decode()) for a, b in rows)
            if charsets.text(raw, charset) != text
        ]
        assert not wrong, (charset, wrong[:5])


def _values(sample: str) -> str:
    return ", ".join(f"('{c.encode().hex()}')" for c in sample)


def test_what_has_no_type_here_is_refused_by_name(
    mariadb: MariaDb, database: str, connection: Connection, address: Address
) -> None:
    mariadb.run(f"CREATE TABLE {database}.g (id INT PRIMARY KEY, place POINT, line GEOMETRY, v INT)")
    table = SourceTable.read(connection, database, "g")
    with pytest.raises(
        Unsupported,
        match=r"column 'place' of type point \(leave the column out: .*--leave-out db.table=place\)",
    ):
        table.schema  # noqa: B018
    with pytest.raises(InvalidRequest, match="'id' is in the primary key"):
        table.without("id")
    without = table.without("place", "line")
    start = dialect_of(connection).position(connection)
    mariadb.run(f"INSERT INTO {database}.g VALUES (1, POINT(1, 2), NULL, 3)")
    end = dialect_of(connection).position(connection)
    actual = [c for c in read_log(address, [without], start=start, until=end) if isinstance(c, RowImages)]
    assert [c.batch.to_pylist() for c in actual] == [[{"id": 1, "v": 3}]]
    assert [b.to_pylist() for b in read_range(connection, without)] == [[{"id": 1, "v": 3}]]


def test_an_impossible_date_in_a_key_is_refused(
    mariadb: MariaDb, database: str, connection: Connection, address: Address
) -> None:
    mariadb.run(f"CREATE TABLE {database}.k (d DATE PRIMARY KEY, e DATE NOT NULL)")
    table = SourceTable.read(connection, database, "k")
    assert [f.nullable for f in table.schema] == [False, True]
    start = dialect_of(connection).position(connection)
    with mariadb.connect(database=database) as owner, owner.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute("INSERT INTO k VALUES ('0000-00-00', '2024-01-01')")
    with pytest.raises(InvalidRequest, match="key column 'd'"):
        list(read_range(connection, table))
    with pytest.raises(InvalidRequest, match="key column 'd'"):
        list(read_log(address, [table], start=start))
