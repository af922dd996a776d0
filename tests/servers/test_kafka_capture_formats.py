"""Captures of topics whose changes Canal, Maxwell and Debezium's Avro wrote."""

from __future__ import annotations

import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema

import tablestore as ts
from tablestore.cdc.capture.source import CAPTURED, EMPTIED
from tablestore.format.messages.registry_client import client
from tests.servers.kafka import Broker
from tests.servers.kafka_job import KafkaJob, kinds, send


def test_changes_of_canal_have_the_types_of_mysql(kafka: Broker, tmp_path: Path):
    topic = kafka.topic()
    types = {
        "id": "bigint(20) unsigned",
        "price": "decimal(10,2)",
        "name": "varchar(5)",
        "raw": "blob",
        "at": "datetime(3)",
    }
    row = {
        "id": "18446744073709551615",
        "price": "1.50",
        "name": "é",
        "raw": "\u00ff\u0000",
        "at": "2024-02-29 01:02:03.004",
    }
    base = {"database": "shop", "table": "t", "es": 1_700_000_000_123, "isDdl": False, "pkNames": ["id"]}
    first = {**base, "mysqlType": types}
    wider = {**base, "mysqlType": {**types, "price": "decimal(12,2)", "more": "int"}}
    other = {**row, "id": "2"}
    values = [
        {**first, "type": "INSERT", "data": [row, other], "old": None},
        {**base, "type": "ALTER", "isDdl": True, "data": None, "sql": "ALTER TABLE t …", "pkNames": None},
        {**wider, "type": "UPDATE", "data": [{**row, "more": "7"}], "old": [{"more": None}]},
        {**wider, "type": "DELETE", "data": [{**other, "more": None}], "old": None},
    ]
    job = KafkaJob(kafka, tmp_path, topic, {"format": "canal-json"})
    send(kafka, topic, [(None, value) for value in values])
    reports = job.follow()
    assert kinds(reports) == [(CAPTURED, "shop.t")]
    assert job.types("shop.t") == {
        "id": "DECIMAL(20, 0) NOT NULL",
        "price": "DECIMAL(12, 2)",
        "name": "VARCHAR(5)",
        "raw": "BYTES",
        "at": "TIMESTAMP(3)",
        "more": "INT",
    }
    [actual] = job.rows("shop.t")
    assert (actual["id"], actual["price"], actual["raw"], actual["more"]) == (
        2**64 - 1,
        Decimal("1.50"),
        b"\xff\x00",
        7,
    )
    send(kafka, topic, [(None, {**base, "type": "TRUNCATE", "data": None})])
    assert kinds(job.follow()) == [(EMPTIED, "shop.t")]
    assert job.rows("shop.t") == []


def test_changes_of_maxwell_have_their_key_in_the_key(kafka: Broker, tmp_path: Path):
    topic = kafka.topic()
    base = {"database": "shop", "table": "t", "ts": 1_700_000_000}
    key = {"database": "shop", "table": "t", "pk.id": 1}
    values = [
        {**base, "type": "bootstrap-start", "data": {}},
        {**base, "type": "bootstrap-insert", "data": {"id": 1, "v": "a"}},
        {**base, "type": "bootstrap-complete", "data": {}},
        {**base, "type": "table-alter", "old": {}, "def": {}, "sql": "ALTER …"},
        {**base, "type": "update", "data": {"id": 1, "v": "b", "w": 1}, "old": {"v": "a", "w": None}},
        {**base, "type": "insert", "data": {"id": 2, "v": "x"}},
        {**base, "type": "delete", "data": {"id": 2, "v": "x"}},
    ]
    send(kafka, topic, [(key, value) for value in values])
    job = KafkaJob(kafka, tmp_path, topic, {"format": "maxwell-json"})
    reports = job.follow()
    assert job.rows("shop.t") == [{"id": 1, "v": "b", "w": 1}]
    assert job.lake.table("shop.t").primary_key == ("id",)
    assert [(t.snapshot_rows, t.changes) for t in reports[-1].tables] == [(1, 4)]


REGISTRY = "mock://capture"


def framed(name: str, schema: dict[str, Any], value: Any) -> bytes:
    """A message as Confluent's converter writes it, its schema in the registry."""
    schema_id = client((("url", REGISTRY),)).register_schema(name, Schema(json.dumps(schema), "AVRO"))
    out = io.BytesIO()
    out.write(struct.pack(">bI", 0, schema_id))
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def envelope(*columns: dict[str, Any]) -> dict[str, Any]:
    row = {"type": "record", "name": "Value", "fields": list(columns)}
    texts = [{"name": name, "type": "string"} for name in ("db", "table")]
    source = {"type": "record", "name": "Source", "fields": [*texts, {"name": "ts_ms", "type": "long"}]}
    sides = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    more = [{"name": "source", "type": source}, {"name": "op", "type": "string"}]
    return {"type": "record", "name": "Envelope", "namespace": "srv.shop.t", "fields": [*sides, *more]}


def test_avro_events_have_the_columns_of_their_schema(kafka: Broker, tmp_path: Path):
    topic = kafka.topic()
    decimal = {"type": "bytes", "connect.name": "org.apache.kafka.connect.data.Decimal"}
    decimal |= {"connect.parameters": {"scale": "2", "connect.decimal.precision": "8"}}
    identity = {"name": "id", "type": "int"}
    price = {"name": "price", "type": ["null", decimal]}
    count, wide = {"name": "n", "type": "int"}, {"name": "n", "type": "long"}
    tags = {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]}
    key_schema = {"type": "record", "name": "Key", "namespace": "srv.shop.t", "fields": [identity]}
    key = framed("key", key_schema, {"id": 1})

    def event(schema: dict[str, Any], op: str, before: Any, after: Any) -> tuple[bytes, bytes]:
        source = {"db": "shop", "table": "t", "ts_ms": 1_700_000_000_000}
        return key, framed("value", schema, {"before": before, "after": after, "source": source, "op": op})

    old, new = envelope(identity, count, price), envelope(identity, wide, price, tags)
    status = {"type": "record", "name": "Status", "fields": [{"name": "status", "type": "string"}]}
    heartbeat = {"type": "record", "name": "Heartbeat", "fields": [{"name": "ts_ms", "type": "long"}]}
    job = KafkaJob(kafka, tmp_path, topic, {"format": "debezium-avro", "format_options": {"url": REGISTRY}})
    passed = [(None, framed("s", status, {"status": "BEGIN"})), (None, framed("h", heartbeat, {"ts_ms": 1}))]
    send(kafka, topic, [*passed, event(old, "r", None, {"id": 1, "n": 1, "price": b"\x01\x00"}), (key, None)])
    assert kinds(job.follow()) == [(CAPTURED, "shop.t")]
    assert job.types("shop.t") == {"id": "INT NOT NULL", "n": "INT NOT NULL", "price": "DECIMAL(8, 2)"}
    row = {"id": 4, "n": 2**40, "price": b"\xff", "tags": ["a", "b"]}
    send(kafka, topic, [event(old, "c", None, {"id": 3, "n": 3, "price": None}), event(new, "c", None, row)])
    job.follow()
    assert job.types("shop.t") == {
        "id": "INT NOT NULL",
        "n": "BIGINT NOT NULL",
        "price": "DECIMAL(8, 2)",
        "tags": "STRING",
    }
    assert {r["n"]: (r["price"], r["tags"]) for r in job.rows("shop.t")} == {
        1: (Decimal("2.56"), None),
        3: (None, None),
        2**40: (Decimal("-0.01"), '["a", "b"]'),
    }
    send(kafka, topic, [(key, b"junk"), event(old, "d", {"id": 3, "n": 3, "price": None}, None)])
    with pytest.raises(ts.SchemaMismatch, match="the message is not framed"):
        job.follow()
