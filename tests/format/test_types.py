"""Types: text and JSON both ways, Arrow both ways, and what is refused."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablestore as ts
from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.format.types.arrow_types import DataField, from_arrow, parse_type, to_arrow

SAME = [
    "BOOLEAN",
    "INT NOT NULL",
    "DECIMAL(38, 10)",
    "CHAR(3)",
    "VARCHAR(7) NOT NULL",
    "STRING",
    "BYTES",
    "BINARY(4)",
    "TIME(3)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
    "VARIANT",
    "BLOB",
    "GEOMETRY('OGC:CRS84')",
    "ARRAY<INT NOT NULL> NOT NULL",
    "MAP<STRING NOT NULL, ARRAY<INT>>",
    "MULTISET<STRING>",
    "ROW<`a` INT, `b c` STRING NOT NULL COMMENT 'it''s'>",
    "VECTOR<FLOAT, 8>",
]


@pytest.mark.parametrize("text", SAME)
def test_text_of_a_type_reads_back_as_itself(text: str) -> None:
    assert str(parse_type(text)) == text
    assert parse_type(parse_type(text).to_json()) == parse_type(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("integer", "INT"),
        ("double precision", "DOUBLE"),
        ("dec(5)", "DECIMAL(5, 0)"),
        ("numeric", "DECIMAL(10, 0)"),
        ("timestamp without time zone", "TIMESTAMP(6)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("VARCHAR(2147483647) NULL", "STRING"),
        ("INT ARRAY", "ARRAY<INT>"),
        ("INT NOT NULL MULTISET NOT NULL", "MULTISET<INT NOT NULL> NOT NULL"),
        ("INT ARRAY ARRAY", "ARRAY<ARRAY<INT>>"),
        ("row(x int, y: array<string>)", "ROW<`x` INT, `y` ARRAY<STRING>>"),
    ],
)
def test_aliases_and_suffix_forms(text: str, same: str) -> None:
    assert str(parse_type(text)) == same


@pytest.mark.parametrize(
    "text",
    [
        "",
        "INTS",
        "INT INT",
        "DECIMAL(39)",
        "DECIMAL(5, 6)",
        "TIMESTAMP(10)",
        "CHAR(0)",
        "ARRAY<INT",
        "MAP<INT>",
        "ROW<a INT, a INT>",
        "ROW<1 INT>",
        "VARCHAR(99999999999)",
        "INT; DROP",
        "'INT'",
        "INT" + " ARRAY" * 200,
        "ARRAY<" * 200 + "INT" + ">" * 200,
    ],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_type(text)


@pytest.mark.parametrize(
    "body",
    [{"type": "ARRAY"}, {"type": "MAP", "key": "INT"}, {"type": "ROW", "fields": 3}, {"type": "SET"}, {}],
)
def test_damaged_objects_are_refused(body: dict) -> None:
    with pytest.raises(InvalidRequest):
        parse_type(body)


def test_row_fields_keep_ids_comments_and_defaults() -> None:
    inner = {"id": 7, "name": "x", "type": "INT", "description": "d", "defaultValue": "5"}
    t = parse_type({"type": "ROW NOT NULL", "fields": [inner, {"name": "y", "type": "DATE"}]})
    assert t.children == (DataField(7, "x", ts.INT, "d", "5"), DataField(1, "y", ts.DATE))
    assert not t.nullable
    assert t.to_json()["fields"][0] == inner


def test_arrow_forms_of_nested_types() -> None:
    row = ts.ROW(a=ts.INT.not_null(), b=ts.ARRAY(ts.DECIMAL(5, 2)))
    expected = pa.struct(
        [
            pa.field("a", pa.int32(), nullable=False),
            pa.field("b", pa.list_(pa.field("element", pa.decimal128(5, 2)))),
        ]
    )
    assert to_arrow(row) == expected
    counts = to_arrow(ts.MULTISET(ts.STRING))
    assert (counts.key_type, counts.item_type) == (pa.string(), pa.int32())
    assert not counts.item_field.nullable
    assert not to_arrow(ts.MAP(ts.INT, ts.INT)).key_field.nullable
    assert to_arrow(ts.VARIANT).field(1).name == "metadata"


@pytest.mark.parametrize(
    "text", ["ARRAY<INT NOT NULL>", "MAP<STRING NOT NULL, BIGINT>", "ROW<`x` ARRAY<DATE>>"]
)
def test_arrow_and_back(text: str) -> None:
    assert from_arrow(to_arrow(parse_type(text))) == parse_type(text)


def test_arrow_lists_of_any_kind_are_arrays() -> None:
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 3)):
        assert from_arrow(kind) == ts.ARRAY(ts.BIGINT)


@pytest.mark.parametrize("text", ["BLOB", "VECTOR<FLOAT, 4>", "GEOMETRY", "ARRAY<BLOB>"])
def test_types_without_an_arrow_form_are_refused_by_name(text: str) -> None:
    with pytest.raises(Unsupported, match=r"BLOB|VECTOR|GEOMETRY"):
        to_arrow(parse_type(text))


def test_types_are_values() -> None:
    t = ts.MAP(ts.STRING, ts.ROW({"a b": "DECIMAL(4, 1)"}))
    assert {t, pickle.loads(pickle.dumps(t)), ts.MAP("STRING", ts.ROW({"a b": ts.DECIMAL(4, 1)}))} == {t}
    assert t.not_null() != t
    assert t.not_null().as_nullable() == t


@given(st.text(st.sampled_from("ARRAYMP<>(),:`' INTROW9_é"), max_size=40) | st.text(max_size=20))
def test_any_text_is_a_type_or_refused(text: str) -> None:
    try:
        t = parse_type(text)
    except InvalidRequest:
        return
    assert parse_type(str(t)) == t
