"""Columns that are declared otherwise than the source has them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tablestore.cdc.databases.declared import DeclaredColumns
from tablestore.cdc.mysql.columns import SourceColumn, SourceTable
from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch
from tablestore.format.types.data_type import DataField
from tablestore.format.types.type_text import parse_type


def table(kind: str, **facts: Any) -> SourceTable:
    column = SourceColumn("c", kind, facts.pop("spelled", kind), **facts)
    return SourceTable("d", "t", (column,), ("k",))


def declared(spelled: str, zone: str = "UTC") -> DeclaredColumns:
    return DeclaredColumns((DataField(0, "c", parse_type(spelled)),), zone)


def made(source: SourceTable, wanted: DeclaredColumns, values: list[Any]) -> list[Any]:
    wanted.require(source)
    rows = pa.RecordBatch.from_arrays([pa.array(values, source.schema.field("c").type)], schema=source.schema)
    actual = wanted.of(rows, source, ["c"])
    assert actual.schema == wanted.schema()
    return [None if v is None else str(v) for v in actual.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "facts", "spelled", "values", "texts"),
    [
        ("int", {}, "BIGINT", [1, None], ["1", None]),
        ("bigint", {}, "TINYINT", [1, -128], ["1", "-128"]),
        ("bigint", {"spelled": "bigint unsigned"}, "BIGINT", [7], ["7"]),
        ("bigint", {}, "DECIMAL(10, 2)", [3], ["3.00"]),
        ("tinyint", {}, "BOOLEAN", [0, 1, 2], ["False", "True", "True"]),
        ("decimal", {"size": 10, "scale": 2}, "DECIMAL(6, 2)", ["1.50"], ["1.50"]),
        ("decimal", {"size": 10, "scale": 2}, "DOUBLE", ["1.50"], ["1.5"]),
        ("int", {}, "STRING", [12], ["12"]),
        ("decimal", {"size": 10, "scale": 2}, "STRING", ["1.50"], ["1.50"]),
        ("varchar", {"size": 10}, "VARCHAR(3)", ["abcdef"], ["abcdef"]),
        ("time", {}, "TIME(0)", ["23:59:59"], ["23:59:59"]),
        ("datetime", {"size": 6}, "TIMESTAMP(3)", [1_234_567], ["1970-01-01 00:00:01.234000"]),
        ("varbinary", {"size": 3}, "BYTES", [b"ab"], ["b'ab'"]),
    ],
)
def test_types_that_fit(
    kind: str, facts: dict[str, Any], spelled: str, values: list[Any], texts: list[Any]
) -> None:
    source = table(kind, **facts)
    arrow = source.schema.field("c").type
    if pa.types.is_decimal(arrow):
        values = pa.array([str(v) for v in values]).cast(arrow).to_pylist()
    assert made(source, declared(spelled), values) == texts


def test_an_instant_without_a_zone_is_that_of_the_server() -> None:
    moment = [1_720_000_000_000_000]  # 2024-07-03 09:46:40 UTC
    source = table("timestamp", size=6)
    in_berlin = ["2024-07-03 11:46:40"]
    assert made(source, declared("TIMESTAMP(6)", "Europe/Berlin"), moment) == in_berlin
    assert made(source, declared("STRING", "Europe/Berlin"), moment)[0].startswith(in_berlin[0])
    assert made(source, declared("TIMESTAMP_LTZ(6)", "Europe/Berlin"), moment) == [
        "2024-07-03 09:46:40+00:00"
    ]


@pytest.mark.parametrize(
    ("kind", "spelled"),
    [("varchar", "INT"), ("datetime", "TIMESTAMP_LTZ(3)"), ("int", "DATE"), ("varbinary", "STRING"),
     ("double", "DECIMAL(10, 2)"), ("date", "TIMESTAMP(3)"), ("int", "BOOLEAN")],
)  # fmt: skip
def test_types_that_do_not_fit_are_named(kind: str, spelled: str) -> None:
    with pytest.raises(SchemaMismatch, match=rf"columns of d\.t: 'c' is {kind}, not "):
        declared(spelled).require(table(kind, size=3))


def test_values_that_do_not_fit_are_refused_with_their_column() -> None:
    with pytest.raises(SchemaMismatch, match=r"column 'c' of d\.t, int, has a value that is not TINYINT"):
        made(table("int"), declared("TINYINT"), [1, 300])
    with pytest.raises(SchemaMismatch, match=r"is not TIME"):
        made(table("time"), declared("TIME(0)"), ["25:00:00"])
    with pytest.raises(InvalidRequest, match="has a NULL and is declared NOT NULL"):
        made(table("int"), declared("INT NOT NULL"), [None])
    with pytest.raises(NotFound, match=r"column of d\.t 'c'"):
        declared("INT").require(SourceTable("d", "t", ()))
