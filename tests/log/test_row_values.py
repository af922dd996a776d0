"""Rows as values of messages: each format gives back what it was given, and others read it, too."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from tablestore.cdc.formats.registry import format_of
from tablestore.core.errors import InvalidOption, Unsupported
from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.avro import container
from tablestore.format.messages.debezium_avro import event_schema
from tablestore.format.messages.messages import Messages, decoded
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataField
from tablestore.log.kafka.row_format import AvroEventRows, JsonEventRows, JsonRows, RowFormat, ValueFormat
from tablestore.log.settings import require_log
from tests.cdc.formats.messages_of import changes, columns, messages
from tests.cdc.formats.test_golden import ITEMS, MODES, ORDERS, OTHER_TYPES

REGISTRY = (("url", "mock://values"),)
GOLDEN = Path(__file__).parents[1] / "golden" / "debezium"
TYPES = {
    "i8": "TINYINT",
    "i16": "SMALLINT NOT NULL",
    "i32": "INT",
    "i64": "BIGINT NOT NULL",
    "f": "FLOAT",
    "d": "DOUBLE NOT NULL",
    "yes": "BOOLEAN",
    "small": "DECIMAL(7, 2)",
    "large": "DECIMAL(38, 10) NOT NULL",
    "text": "STRING",
    "raw": "BYTES NOT NULL",
    "day": "DATE",
    "clock": "TIME(3)",
    "seconds": "TIMESTAMP(0)",
    "millis": "TIMESTAMP(3) NOT NULL",
    "micros": "TIMESTAMP(6)",
    "nanos": "TIMESTAMP(9)",
    "zoned": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "list": "ARRAY<INT>",
    "row": "ROW<a INT NOT NULL, b ROW<c STRING, t TIMESTAMP(3)>>",
    "rows": "ARRAY<ROW<x DECIMAL(5, 1), y ARRAY<STRING>>> NOT NULL",
}


def value(rng: random.Random, f: DataField) -> Any:
    t = f.type
    if t.nullable and rng.random() < 0.25:
        return None
    if t.root in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[t.root]
        return rng.choice([0, -1, 2**bits - 1, -(2**bits), rng.randrange(-100, 100)])
    if t.root in ("FLOAT", "DOUBLE"):
        return rng.choice([0.0, -1.5, float("inf"), 1e10])
    if t.root == "BOOLEAN":
        return rng.random() < 0.5
    if t.root == "DECIMAL":
        most = 10**t.precision - 1
        return Decimal(f"{rng.choice([0, most, -most, rng.randrange(-999, 999)])}E-{t.scale}")
    if t.is_string:
        return rng.choice(["", "é 😀", 'a"b', "x" * 200])
    if t.is_binary:
        return rng.choice([b"", b"\x00\xff", b"y" * 70])
    if t.root == "DATE":
        return date(1970, 1, 1) + timedelta(rng.randrange(-9999, 30000))
    if t.root == "TIME":
        return time(rng.randrange(24), 5, 6, 7000)
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        at = datetime(1969, 12, 31) + timedelta(seconds=rng.randrange(10**9))
        at = at.replace(microsecond=0 if t.precision == 0 else 123_000)
        return at.replace(tzinfo=UTC) if t.root == "TIMESTAMP_LTZ" else at
    if t.root == "ARRAY":
        return [value(rng, DataField(0, "e", t.element)) for _ in range(rng.choice([0, 1, 70]))]
    return {c.name: value(rng, c) for c in t.children}


def batch(rng: random.Random, fields: tuple[DataField, ...], rows: int) -> tuple[pa.Array, pa.RecordBatch]:
    values = [{f.name: value(rng, f) for f in fields} for _ in range(rows)]
    kinds = pa.array(np.array([rng.randrange(4) for _ in range(rows)], np.int8))
    return kinds, pa.RecordBatch.from_pylist(values, pa.schema([f.arrow for f in fields]))


def given_back(values: ValueFormat, kinds: pa.Array, rows: pa.RecordBatch, fields: Any) -> None:
    decoded = values.decode(values.encode(kinds, rows).cast(pa.binary()), fields)
    assert decoded.kinds.equals(kinds)
    assert decoded.rows.equals(rows)


def avro(fields: tuple[DataField, ...]) -> AvroEventRows:
    return AvroEventRows(fields, REGISTRY, "rows-value")


@pytest.fixture(params=["polars", "fastavro"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of decoding Avro."""
    if request.param == "fastavro":
        monkeypatch.setattr(container, "available", lambda _: None)


@pytest.mark.usefixtures("decoder")
def test_events_in_avro_give_back_all_types(seeds: tuple[int, ...]) -> None:
    fields = columns(**TYPES)
    for seed in seeds[:2]:
        kinds, rows = batch(random.Random(seed), fields, 50)
        given_back(avro(fields), kinds, rows, fields)
        given_back(avro(fields), kinds.slice(7, 20), rows.slice(7, 20), fields)
        some = avro(fields).decode(avro(fields).encode(kinds, rows), fields[3:5])
        assert some.rows.equals(rows.select(["i64", "f"]))


def test_events_in_json_give_them_back_as_well(seeds: tuple[int, ...]) -> None:
    fields = columns(**{k: v for k, v in TYPES.items() if k not in ("f", "row", "rows")})
    kinds, rows = batch(random.Random(seeds[0]), fields, 50)
    given_back(JsonEventRows(fields), kinds, rows, fields)


def test_fastavro_reads_the_events_by_their_schema(seeds: tuple[int, ...]) -> None:
    fields = columns(**{k: v for k, v in TYPES.items() if k not in ("nanos", "clock")})
    kinds, rows = batch(random.Random(seeds[0]), fields, 40)
    schema = fastavro.parse_schema(json.loads(event_schema(fields)))
    texts = rowkind.texts(kinds).to_pylist()
    for event, kind, row in zip(
        avro(fields).encode(kinds, rows).to_pylist(), texts, rows.to_pylist(), strict=True
    ):
        source = io.BytesIO(event[5:])
        actual: Any = fastavro.schemaless_reader(source, schema, None)
        assert source.tell() == len(event) - 5
        for name in ("seconds", "millis", "micros"):  # of Avro, in UTC
            row[name] = row[name] and row[name].replace(tzinfo=UTC)
        if row["row"] and row["row"]["b"] and row["row"]["b"]["t"]:
            row["row"]["b"]["t"] = row["row"]["b"]["t"].replace(tzinfo=UTC)
        side = "before" if kind in ("-U", "-D") else "after"
        assert actual[side] == row
        assert actual["before" if side == "after" else "after"] is None
        assert actual["op"] == ("d" if side == "before" else "c")
        assert actual["kind"] == (kind if kind in ("-U", "+U") else None)


def test_readers_of_debezium_understand_them() -> None:
    fields = columns(**TYPES)
    kinds, rows = batch(random.Random(3), fields, 30)
    format_, _ = format_of("debezium-avro-confluent", fields, {"url": "mock://values"})
    actual = changes(format_, avro(fields).encode(kinds, rows).to_pylist())
    plain = ["-D" if k in ("-U", "-D") else "+I" for k in rowkind.texts(kinds).to_pylist()]
    assert actual == list(zip(plain, rows.to_pylist(), strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("table", ["orders", "items"])
def test_rows_of_a_real_debezium_pass_through(table: str, mode: str) -> None:
    fields = columns(**(ITEMS if table == "items" else ORDERS | OTHER_TYPES.get(mode, {})))
    lines = [json.loads(line) for line in (GOLDEN / f"{mode}.jsonl").read_text().splitlines()]
    values = [line["value"] for line in lines if line["topic"] == f"srv.shop.{table}"]
    format_, _ = format_of("debezium-json", fields, MODES[mode])
    for _, some in decoded(messages(*values), format_):
        assert some.num_rows > 5
        given_back(avro(fields), some.kinds, some.rows, fields)


def test_what_avro_cannot_hold_is_refused() -> None:
    with pytest.raises(Unsupported, match="column 'a-b' in Avro messages"):
        avro(columns(**{"a-b": "INT"})).require_valid()
    with pytest.raises(Unsupported, match="in messages"):
        avro(columns(m="MAP<STRING, INT>")).require_valid()


def test_a_registry_must_be_named_and_its_password_come_from_the_environment() -> None:
    schema = TableSchema(0, columns(k="INT NOT NULL"), 1, (), ("k",), {}, "", 0)
    options = {"log.system": "kafka", "bucket": "1", "log.format": "debezium-avro"}
    options["kafka.bootstrap.servers"] = "h:9092"
    with pytest.raises(InvalidOption, match=r"set 'debezium-avro-confluent\.url'"):
        require_log(schema, TableOptions.parse(options))
    options["debezium-avro-confluent.url"] = "http://registry:8081"
    require_log(schema, TableOptions.parse(options))
    options["debezium-avro-confluent.basic-auth.user-info"] = "me:hidden"
    with pytest.raises(InvalidOption, match="from the environment") as e:
        require_log(schema, TableOptions.parse(options))
    assert "hidden" not in str(e.value)


@pytest.mark.parametrize("format", [JsonRows, JsonEventRows, avro])
def test_messages_that_are_all_deletes_are_read(format: Callable[..., ValueFormat]) -> None:
    fields = columns(k="INT NOT NULL", **{k: v for k, v in TYPES.items() if k != "rows"})
    rows = RowFormat(fields, ("k",), True, format(fields))
    none = pa.nulls(2, pa.binary())
    keys = pa.array([b'{"k":1}', b'{"k":2}'])
    decoded = rows.decode(Messages("t", 0, np.arange(2), keys, none), [f.name for f in fields])
    assert rowkind.texts(decoded.kinds).to_pylist() == ["-D", "-D"]
    assert decoded.rows.column("k").to_pylist() == [1, 2]
    assert decoded.rows.schema.types == [f.arrow.type for f in fields]
    empty = rows.values.decode(none.slice(0, 0), fields)
    assert (empty.rows.num_rows, len(empty.kinds)) == (0, 0)
