"""Formats of messages: kinds and order of rows, exact values, and messages that cannot be read."""

from __future__ import annotations

import base64
import io
import json
import logging
import struct
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema

from tablestore.cdc.formats.registry import FORMATS, format_of
from tablestore.core.errors import InvalidOption, NotFound, Unsupported
from tablestore.format.avro import container
from tablestore.format.messages import encodings
from tablestore.format.messages.debezium_json import DebeziumJson, Handling
from tablestore.format.messages.messages import BadMessage, decoded
from tablestore.format.messages.registry_client import client
from tests.cdc.formats.messages_of import changes, columns, messages

ROW = columns(id="BIGINT NOT NULL", price="DECIMAL(38, 10)", name="STRING")
EXACT = "1234567890123456789012345678.0123456789"
REGISTRY = (("url", "mock://formats"),)


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def rows(
    format: str, values: list[Any], options: dict[str, str] | None = None, fields: Any = ROW
) -> list[Any]:
    row_format, skip = format_of(format, fields, options or {})
    return [(kind, *plain(row)) for kind, row in changes(row_format, values, skip_bad=skip)]


# debezium-json


def test_ops_of_debezium_become_row_kinds_in_order():
    values = [
        {"before": None, "after": {"id": 1, "name": "a"}, "op": "r"},
        {"before": {"id": 1, "name": "a"}, "after": {"id": 1, "name": "b"}, "op": "u"},
        {"op": "m", "message": {"prefix": "p", "content": ""}},
        {"before": {"id": 1, "name": "b"}, "after": None, "op": "d"},
        None,
        {"before": None, "after": {"id": 2, "name": "b"}, "op": "c"},
    ]
    assert rows("debezium-json", values) == [
        ("+I", 1, None, "a"),
        ("-U", 1, None, "a"),
        ("+U", 1, None, "b"),
        ("-D", 1, None, "b"),
        ("+I", 2, None, "b"),
    ]
    assert rows("debezium-json", [None, {"op": "m"}]) == []


def test_each_event_is_read_by_its_own_schema():
    """An ALTER of a scale comes between two events of one topic."""

    def event(scale: int) -> dict[str, Any]:
        decimal = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": str(scale)}}
        row = [{"field": "id", "type": "int64"}, {"field": "price", "type": "bytes", **decimal}]
        schema = {"fields": [{"field": "after", "type": "struct", "fields": row}]}
        return {"schema": schema, "payload": {"op": "c", "after": {"id": scale, "price": "JTYL"}}}

    actual = rows("debezium-json", [event(2), event(2), event(4)], {"schema-include": "true"})
    assert [row[2] for row in actual] == [Decimal("24386.67"), Decimal("24386.67"), Decimal("243.8667")]
    with pytest.raises(BadMessage, match="offset 10: the message has no schema that describes its rows"):
        rows("debezium-json", [{"payload": {"op": "c", "after": {"id": 1}}}], {"schema-include": "true"})
    with pytest.raises(BadMessage, match="'schema-include' = 'true'"):
        rows("debezium-json", [event(2)])


@pytest.mark.parametrize(
    ("mode", "clock", "moment"),
    [
        ("adaptive_time_microseconds", 45_296_654_000, 1_709_210_096_123_456),
        ("adaptive", 45_296_654, 1_709_210_096_123_456),
        ("connect", 45_296_654, 1_709_210_096_123),
        ("microseconds", 45_296_654_000, 1_709_210_096_123_456),
        ("nanoseconds", 45_296_654_000_000, 1_709_210_096_123_456_000),
        ("isostring", "12:34:56.654Z", "2024-02-29T12:34:56.123456Z"),
    ],
)
def test_times_have_the_unit_of_their_mode(mode: str, clock: Any, moment: Any):
    fields = columns(t="TIME(3)", ts="TIMESTAMP(6)", day="DATE", ltz="TIMESTAMP(6) WITH LOCAL TIME ZONE")
    day = "2024-02-29Z" if mode == "isostring" else 19782
    after = {"t": clock, "ts": moment, "day": day, "ltz": "2024-02-29T14:34:56+02:00"}
    [(_, t, ts, actual, ltz)] = rows(
        "debezium-json", [{"op": "c", "after": after}], {"time.precision.mode": mode}, fields
    )
    assert t == time(12, 34, 56, 654_000)
    assert ts == datetime(2024, 2, 29, 12, 34, 56, 123_000 if mode == "connect" else 123_456)
    assert (actual, ltz.isoformat()) == (date(2024, 2, 29), "2024-02-29T12:34:56+00:00")


def test_a_decimal_that_may_be_text_or_bytes_is_not_guessed():
    bytes_or_number = [{"op": "c", "after": {"id": 1, "price": "1234"}}]
    with pytest.raises(BadMessage, match=r"'1234' is a number or the bytes of one: option decimal\.handling"):
        rows("debezium-json", bytes_or_number)
    assert rows("debezium-json", bytes_or_number, {"decimal.handling.mode": "string"})[0][2] == 1234
    precise = rows("debezium-json", bytes_or_number, {"decimal.handling.mode": "precise"})
    assert precise[0][2] == Decimal(0xD76DF8 - (1 << 24)).scaleb(-10)
    assert rows("debezium-json", [{"op": "c", "after": {"id": 1, "price": 1234}}])[0][2] == 1234
    assert rows("debezium-json", [{"op": "c", "after": {"id": 1, "price": "12.5"}}])[0][2] == Decimal("12.5")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"{", "the message is not JSON"),
        (b"", "the message is not JSON"),
        (b"null", "the message is not a JSON object"),
        (b"[1]", "the message is not a JSON object"),
        (b"{}", "it has no 'op'"),
        (b'{"op":"c","after":{"id":1}} {"op":"c","after":{"id":2}}', "the message is not JSON"),
        (b'{"op":"c","after":{"id":"\xff"}}', "the message is not a text in UTF-8"),
        ({"op": "c", "after": None}, "a change with op 'c' has no 'after'"),
        ({"op": "u", "after": {"id": 1}}, "has no 'before'; the source must log whole rows"),
        ({"op": "c", "after": {"name": "a"}}, "column 'id' is NOT NULL and has no value"),
        (
            {"op": "c", "after": {"id": "x"}},
            "column 'id' of type BIGINT NOT NULL: Failed to parse string: 'x'",
        ),
        (
            {"op": "c", "after": {"id": 1, "price": "1.01234567891"}},
            "Rescaling Decimal value would cause data",
        ),
        ({"op": "t"}, "change event with op 't'"),
    ],
    ids=lambda v: "" if isinstance(v, bytes | dict) else v[:30],
)
def test_a_bad_message_is_named_or_by_option_left_out(message: Any, reason: str, caplog: Any):
    good = [{"op": "c", "after": {"id": i}} for i in range(5)]
    values = [*good[:3], message, *good[3:]]
    with pytest.raises(BadMessage) as raised:
        rows("debezium-json", values)
    assert reason in str(raised.value)
    assert str(raised.value).startswith("topic 't', partition 3, offset 13: ")
    assert raised.value.offset == 13
    with caplog.at_level(logging.WARNING):
        actual = rows("debezium-json", values, {"ignore-parse-errors": "true"})
    assert [row[1] for row in actual] == [0, 1, 2, 3, 4]
    assert reason in caplog.text
    assert "offset 13" in caplog.text


# json, canal-json, maxwell-json


def test_json_rows_are_read_exactly():
    fields = columns(
        id="BIGINT",
        d="DECIMAL(38, 10)",
        day="DATE",
        ts="TIMESTAMP(3)",
        tags="ARRAY<STRING>",
        r="ROW<a INT, b DATE>",
    )
    text = (
        '{"id":9223372036854775807,"d":%s,"day":"2024-02-29","ts":"2024-02-29T12:34:56.5",'
        '"tags":["x",null],"r":{"a":1,"b":"2024-01-01"},"more":[{}]}'
    )
    actual = rows("json", [(text % EXACT).encode(), {}, None], fields=fields)
    assert actual[0] == (
        "+I",
        2**63 - 1,
        Decimal(EXACT),
        date(2024, 2, 29),
        datetime(2024, 2, 29, 12, 34, 56, 500_000),
        ["x", None],
        {"a": 1, "b": date(2024, 1, 1)},
    )
    assert actual[1] == ("+I", *[None] * 6)
    assert len(actual) == 2
    with pytest.raises(BadMessage, match="19782"):
        rows("json", [{"day": 19782}], fields=fields)


@pytest.mark.parametrize("name", ['we"ird', "q's", "*", "a/b", "~1", "a.b[0]", "back\\slash", "$"])
def test_old_names_columns_of_any_name(name: str):
    fields = columns(**{name: "INT", "other": "STRING"})
    values = [{"type": "UPDATE", "data": [{name: "2", "other": "x"}], "old": [{name: None}]}]
    assert rows("canal-json", values, fields=fields) == [("-U", None, "x"), ("+U", 2, "x")]
    values = [{"type": "update", "data": {name: 2, "other": "x"}, "old": {"other": None}}]
    assert rows("maxwell-json", values, fields=fields) == [("-U", 2, None), ("+U", 2, "x")]


def test_canal_rows_before_an_update_are_as_old_says():
    change = {"database": "shop", "table": "t", "isDdl": False}
    values = [
        {
            **change,
            "type": "INSERT",
            "data": [{"id": "1", "price": EXACT, "name": "a"}, {"id": "2"}],
            "old": None,
        },
        {
            **change,
            "type": "UPDATE",
            "data": [{"id": "1", "price": "2", "name": "a"}, {"id": "3", "price": None, "name": "b"}],
            "old": [{"price": EXACT}, {"id": "2", "name": None}],
        },
        {**change, "type": "DELETE", "data": [{"id": "3", "name": "b"}]},
        {**change, "type": "CREATE", "isDdl": True, "data": None, "sql": "create table …"},
    ]
    expected = [
        ("+I", 1, Decimal(EXACT), "a"),
        ("+I", 2, None, None),
        ("-U", 1, Decimal(EXACT), "a"),
        ("+U", 1, Decimal(2), "a"),
        ("-U", 2, None, None),
        ("+U", 3, None, "b"),
        ("-D", 3, None, "b"),
    ]
    assert rows("canal-json", values) == expected
    other = {**change, "table": "t2", "type": "TRUNCATE"}
    assert (
        rows("canal-json", [*values, other], {"table.include": "t", "database.include": "sh.*"}) == expected
    )
    with pytest.raises(BadMessage, match="offset 14: not supported: a change of type 'TRUNCATE'"):
        rows("canal-json", [*values, other])


def test_maxwell_rows_before_an_update_are_as_old_says():
    values = [
        {"type": "bootstrap-start", "data": {}},
        {"type": "bootstrap-insert", "data": {"id": 1, "price": 1.5, "name": "a"}},
        f'{{"type":"update","data":{{"id":1,"price":{EXACT},"name":"a"}},"old":{{"price":1.5}}}}'.encode(),
        {"type": "update", "data": {"id": 1, "price": 2, "name": "b"}, "old": {"name": None}},
        {"type": "delete", "data": {"id": 1, "price": 2, "name": "b"}},
    ]
    assert rows("maxwell-json", values) == [
        ("+I", 1, Decimal("1.5"), "a"),
        ("-U", 1, Decimal("1.5"), "a"),
        ("+U", 1, Decimal(EXACT), "a"),
        ("-U", 1, Decimal(2), None),
        ("+U", 1, Decimal(2), "b"),
        ("-D", 1, Decimal(2), "b"),
    ]


# debezium-avro

VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "price",
            "type": [
                "null",
                {
                    "type": "bytes",
                    "scale": 2,
                    "precision": 15,
                    "connect.parameters": {"scale": "2"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                    "logicalType": "decimal",
                },
            ],
        },
        {"name": "day", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
        {"name": "at", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.Timestamp"}]},
        {"name": "name", "type": ["null", "string"]},
    ],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium",
    "fields": [{"name": "db", "type": "string"}],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "srv.shop.orders",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
    ],
}
AVRO = columns(
    id="BIGINT NOT NULL", price="DECIMAL(15, 2)", day="DATE", at="TIMESTAMP(6)", name="STRING", added="INT"
)


def framed(op: str, before: Any = None, after: Any = None) -> bytes:
    """An event as Confluent's converter writes it, its schema in the registry."""
    schema_id = client(REGISTRY).register_schema("orders-value", Schema(json.dumps(ENVELOPE), "AVRO"))
    out = io.BytesIO()
    out.write(struct.pack(">bI", 0, schema_id))
    event = {"before": before, "after": after, "source": {"db": "shop"}, "op": op}
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(ENVELOPE))), event)
    return out.getvalue()


@pytest.fixture(params=["polars", "fastavro"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both ways of decoding Avro: they agree."""
    if request.param == "fastavro":
        monkeypatch.setattr(container, "available", lambda _: None)
    return request.param


def avro_row(i: int) -> dict[str, Any]:
    return {"id": i, "price": Decimal(i) / 4, "day": 19782, "at": 1500, "name": f"é{i}"}


def test_avro_events_are_read_by_their_schema(decoder: str):
    row, half = avro_row(-3), {"id": 5, "price": None, "day": None, "at": None, "name": None}
    values = [framed("c", after=row), framed("u", row, half), None, framed("d", half), framed("r", after=row)]
    expected = (-3, Decimal("-0.75"), date(2024, 2, 29), datetime(1970, 1, 1, 0, 0, 1, 500_000), "é-3", None)
    empty = (5, *[None] * 5)
    actual = rows("debezium-avro", values, {"url": "mock://formats"}, AVRO)
    assert actual == [("+I", *expected), ("-U", *expected), ("+U", *empty), ("-D", *empty), ("+I", *expected)]


@pytest.mark.parametrize("cut", [slice(0, -3), slice(0, 4), slice(0, 0)])
def test_an_avro_message_that_is_cut_is_named(decoder: str, cut: slice):
    good = framed("c", after=avro_row(1))
    for bad in (good[cut], good + b"x", b"\x00\x00\x00\x00\x63" + good[5:], b"\x01" + good[1:]):
        with pytest.raises(BadMessage, match=r"offset 11: the (message|schema)"):
            rows("debezium-avro", [good, bad, good], {"url": "mock://formats"}, AVRO)


# bytes and options


@pytest.mark.parametrize("mode", ["base64", "base64-url-safe", "hex"])
def test_bytes_are_read_as_python_reads_them(mode: str):
    rng = np.random.default_rng(1)
    values = [None if n % 7 == 3 else rng.bytes(n % 23) for n in range(500)]
    texts = pa.array([None if v is None else written(v, mode) for v in values], pa.string())
    assert encodings.decoded(texts, mode).to_pylist() == values
    assert encodings.decoded(texts.slice(100, 50), mode).to_pylist() == values[100:150]
    for bad in ("QUI", "Q===", "=QUI", "QU=I", "Q?I=", "xyz"):
        with pytest.raises(ValueError, match="a text is not"):
            encodings.decoded(pa.array(["", bad]), mode)


def written(value: bytes, mode: str) -> str:
    encode = {"base64": base64.b64encode, "base64-url-safe": base64.urlsafe_b64encode}.get(mode)
    return encode(value).decode() if encode else value.hex()


def test_bytes_of_decimals_are_read_as_python_reads_them():
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 256, 10**38 - 1, -(10**38) + 1, None]
    raw = [None if n is None else n.to_bytes((n.bit_length() + 8) // 8, "big", signed=True) for n in numbers]
    rows = encodings.decimals(pa.array(raw, pa.binary()), 3).to_pylist()
    assert rows == [None if n is None else Decimal(f"{n}E-3") for n in numbers]
    for bad in (b"", bytes(17), (10**38).to_bytes(16, "big")):
        with pytest.raises(ValueError):
            encodings.decimals(pa.array([bad]), 0)


def test_options_are_checked_by_name():
    with pytest.raises(NotFound, match="no format 'debezium'; did you mean"):
        format_of("debezium", ROW, {})
    with pytest.raises(NotFound, match=r"no option 'json\.ignore'"):
        format_of("json", ROW, {"ignore": "true"})
    with pytest.raises(Unsupported, match=r"json\.fail-on-missing-field"):
        format_of("json", ROW, {"fail-on-missing-field": "true"})
    with pytest.raises(InvalidOption, match=r"'debezium-json\.decimal\.handling\.mode' is precise or double"):
        format_of("debezium-json", ROW, {"decimal.handling.mode": "text"})
    with pytest.raises(InvalidOption, match=r"needs option 'debezium-avro\.url'"):
        format_of("debezium-avro", ROW, {})
    with pytest.raises(InvalidOption, match=r"is a secret: give it as \$\{env:NAME\}"):
        format_of("debezium-avro", ROW, {"url": "http://h", "basic-auth.user-info": "me:hidden"})
    with pytest.raises(Unsupported, match="they differ in case only"):
        rows("json", [{}], fields=columns(a="INT", A="INT"))
    assert "debezium-avro" in FORMATS


def test_nothing_decodes_to_nothing():
    assert list(decoded(messages(), DebeziumJson(ROW, handling=Handling()))) == []
