"""Checksums of both sides: equal for equal rows of every type, and the keys that differ are named."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import tablestore as ts
from notebooks.demo.source_checksums import compare
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.mysql.snapshot import ranges, read_range
from tests.servers.mariadb import MariaDb

KINDS = """(
    a VARCHAR(20) PRIMARY KEY, b BIT(1), c TINYINT(1), d DATETIME(3), e TIMESTAMP(6) NULL DEFAULT NULL,
    f BLOB, g TEXT CHARACTER SET latin1, h BIGINT UNSIGNED, i DECIMAL(65,30), j TIME(2), k ENUM('a','ü'),
    l SET('x','y'), m YEAR, n DATE, o UUID, p JSON, q DOUBLE, r BIT(12), s BINARY(4), t INT ZEROFILL,
    u DECIMAL(9,2))"""
FULL = """('ä', 1, 1, '2020-01-01 01:02:03.5', '2020-01-01 01:02:03.5', x'00ff', 'süß',
    18446744073709551615, 123.5, '-200:01:02.5', 'ü', 'x,y', 2020, '2020-02-03', UUID(), '{}', 1e300, 5,
    x'01020300', 7, -1.5)"""
NONE = f"('none', {', '.join(['NULL'] * 20)})"
ZERO = "('zero', 0, 0, 0, NULL, '', '', 0, 0, 0, 'a', '', 0, 0, NULL, '[]', 0, 0, '', 0, 0)"


@pytest.fixture
def address(mariadb: MariaDb) -> Iterator[Address]:
    name = f"d{uuid.uuid4().hex[:12]}"
    mariadb.run(f"CREATE DATABASE {name}")
    yield Address.parse(f"{mariadb.url}/{name}", password_file=str(mariadb.password_file))
    mariadb.run(f"DROP DATABASE {name}")


def captured(address: Address, name: str, folder: Path) -> ts.Table:
    """The rows of a table of the source as a table of a lake."""
    with Connection.open(address) as connection:
        table = SourceTable.read(connection, address.database, name)
        lake = ts.connect(str(folder))
        target = lake.create_table(f"d.{name}", schema=table.schema, primary_key=table.primary_key)
        for key_range in ranges(connection, table, 1000):
            for batch in read_range(connection, table, key_range):
                target.write(batch)
    return target


@pytest.mark.large
def test_rows_of_every_type_agree(mariadb: MariaDb, address: Address, tmp_path: Path):
    place = f"{address.database}.t"
    mariadb.run(
        "SET sql_mode = ''",
        f"CREATE TABLE {place} {KINDS}",
        f"INSERT INTO {place} VALUES {FULL}, {NONE}, {ZERO}",
    )
    target = captured(address, "t", tmp_path)
    differences = compare(address, "t", target)
    assert (differences.rows, differences.columns, differences.left_out, differences.differences) == (
        3,
        20,
        ("q",),
        (),
    )
    names, row = f"{place} and d.t", "WHERE a = 'none'"
    for column, value in (("g", "'N'"), ("b", "0"), ("f", "''"), ("u", "0"), ("j", "'00:00:00'")):
        mariadb.run(f"UPDATE {place} SET {column} = {value} {row}")
        assert compare(address, "t", target).differences == (f"{names}: differ in (4:none)",), column
        mariadb.run(f"UPDATE {place} SET {column} = NULL {row}")
    assert target.check() == []


def test_texts_that_run_together_alike_differ(mariadb: MariaDb, address: Address, tmp_path: Path):
    place = f"{address.database}.t"
    mariadb.run(
        f"CREATE TABLE {place} (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9))",
        f"INSERT INTO {place} VALUES (1, 'ab', 'c'), (2, NULL, 'x')",
    )
    target = captured(address, "t", tmp_path)
    assert not compare(address, "t", target).differences
    mariadb.run(f"UPDATE {place} SET a = 'a', b = 'bc' WHERE id = 1")
    mariadb.run(f"UPDATE {place} SET a = 'x', b = NULL WHERE id = 2")
    assert len(compare(address, "t", target).differences) == 2


def test_keys_that_differ_are_named_range_by_range(mariadb: MariaDb, address: Address, tmp_path: Path):
    place = f"{address.database}.t"
    mariadb.run(
        f"CREATE TABLE {place} (id BIGINT PRIMARY KEY, v INT)",
        f"INSERT INTO {place} SELECT CAST(seq AS SIGNED) - 500, seq FROM {address.database}.seq_1_to_2000",
    )
    target = captured(address, "t", tmp_path)
    shown: list[int] = []
    differences = compare(address, "t", target, shown.append)
    assert (differences.rows, differences.ranges, differences.differences) == (2000, 16, ())
    assert shown[-1] == 4000
    mariadb.run(
        f"DELETE FROM {place} WHERE id IN (-499, 1500)",
        f"UPDATE {place} SET v = -1 WHERE id BETWEEN 10 AND 14",
        f"INSERT INTO {place} VALUES (9999, 1)",
    )
    texts = sorted(text.partition(": ")[2] for text in compare(address, "t", target).differences)
    assert texts == [
        "differ in (10), (11), (12) and 2 more",
        "only the lake has (-499)",
        "only the lake has (1500)",
        "only the source has (9999)",
    ]
