"""The SQL connector `kafka` on a real broker: batch and streaming, INSERT, options that are refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.format import rowkind
from tablestore.sql import Session
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming.follow import follow
from tablestore.sql.streaming.plan import planned
from tests.cdc.formats.test_golden import GOLDEN, ITEMS
from tests.servers.kafka import Broker

ITEM_COLUMNS = ", ".join(f"{name} {kind}" for name, kind in ITEMS.items())
ITEM_KEY = "PRIMARY KEY (order_id, line) NOT ENFORCED"
FINAL = [(1, 1, "first!"), (1, 2, None), (2, 1, "tx1"), (3, 1, "with discount!")]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    lake = ts.connect(tmp_path / "lake")
    created = ts.sql_session(lake)
    created.sql("CREATE DATABASE shop")
    created.sql("USE shop")
    return created


def table(session: Session, kafka: Broker, topic: str, columns: str, name: str = "t", **options: str) -> None:
    """A temporary table over a topic, read from its beginning."""
    given = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": kafka.address,
        "format": "json",
        "scan.startup.mode": "earliest-offset",
        **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
    }
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items() if value)
    session.sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({pairs})")


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.sql(query).to_arrow().to_pylist()]


def send_items(kafka: Broker, topic: str) -> None:
    """The events of a real Debezium."""
    lines = [json.loads(line) for line in (GOLDEN / "events.jsonl").read_text().splitlines()]
    for line in lines:
        if line["topic"] == "srv.shop.items":
            value = None if line["value"] is None else json.dumps(line["value"])
            kafka.send(topic, [(json.dumps(line["key"]), value)])


def test_rows_that_are_inserted_are_read(kafka: Broker, session: Session):
    topic = kafka.topic(partitions=2)
    table(session, kafka, topic, "id INT, name STRING, price DECIMAL(8, 2), at TIMESTAMP(3)")
    insert = (
        "INSERT INTO t VALUES (1, 'a\"b', 1.50, TIMESTAMP '2024-01-02 03:04:05.678'), (2, NULL, -2, NULL)"
    )
    assert session.sql(insert).rows_affected == 2
    actual = rows(session, "SELECT id, name, CAST(price AS STRING), CAST(at AS STRING) FROM t ORDER BY id")
    assert actual == [(1, 'a"b', "1.50", "2024-01-02 03:04:05.678"), (2, None, "-2.00", None)]
    assert rows(session, "SELECT count(*) FROM t WHERE price > 0") == [(1,)]
    with pytest.raises(ts.InvalidRequest, match="INT"):  # the transaction is aborted
        session.sql("INSERT INTO t SELECT id, CAST(name AS INT), price, at FROM t")
    assert rows(session, "SELECT count(*) FROM t") == [(2,)]


def test_updates_lead_to_the_rows_that_are_there_in_the_end(kafka: Broker, session: Session):
    topic = kafka.topic()
    send_items(kafka, topic)
    modes = {"format": "debezium-json", "debezium_json__decimal__handling__mode": "precise"}
    table(session, kafka, topic, f"{ITEM_COLUMNS}, {ITEM_KEY}", **modes)
    query = "SELECT order_id, line, `comment` FROM {} ORDER BY 1, 2"
    assert rows(session, query.format("t")) == FINAL
    assert str(rows(session, "SELECT sum(qty) FROM t WHERE order_id = 1")[0][0]) == "1.501"
    table(session, kafka, topic, ITEM_COLUMNS, "keyless", **modes)
    # an ALTER added a column with a default: its rows were not what was inserted, and only a key tells
    with pytest.raises(ts.InvalidRequest, match="a row is deleted that was never there"):
        rows(session, query.format("keyless"))


def test_a_stream_gives_changes_with_their_kinds(kafka: Broker, session: Session):
    topic = kafka.topic()
    send_items(kafka, topic)
    table(
        session,
        kafka,
        topic,
        f"{ITEM_COLUMNS}, {ITEM_KEY}",
        format="debezium-json",
        debezium_json__decimal__handling__mode="precise",
        scan__bounded__mode="latest-offset",
    )
    sql = "SELECT line, `comment` FROM t WHERE order_id = 2"
    collected = []
    for batch, kinds in follow(planned(session, reader(()).read(pieces(sql)[0]), sql)):
        collected += zip(rowkind.texts(kinds).to_pylist(), *batch.to_pydict().values(), strict=True)
    assert collected == [
        ("+I", 1, "tx1"),
        ("+I", 2, "tx1"),
        ("-U", 1, "tx1"),
        ("+U", 1, "tx1"),
        ("-D", 2, "tx1"),
    ]


@pytest.mark.spark
@pytest.mark.large
def test_a_job_keeps_a_table_like_the_source(kafka: Broker, session: Session, spark: Any):
    topic = kafka.topic()
    send_items(kafka, topic)
    modes = {"format": "debezium-json", "debezium_json__decimal__handling__mode": "precise"}
    table(session, kafka, topic, f"{ITEM_COLUMNS}, {ITEM_KEY}", **modes)
    session.sql(f"CREATE TABLE items ({ITEM_COLUMNS}, {ITEM_KEY}) WITH ('bucket' = '1')")
    query = "SELECT order_id, line, `comment` FROM items ORDER BY 1, 2"
    session.spark = spark
    session.settings.set("execution.runtime-mode", "streaming")
    session.settings.set("execution.checkpointing.interval", "50 ms")
    session.sql("INSERT INTO items SELECT * FROM t")
    await_rows(session, query, FINAL)
    more = {"order_id": 9, "line": 9, "qty": "AQ==", "comment": "more"}
    kafka.send(topic, [(None, json.dumps({"before": None, "after": more, "op": "c"}))])
    await_rows(session, query, [*FINAL, (9, 9, "more")])
    session.jobs.stop_all()
    assert session.lake().table("shop.items").check() == []


def await_rows(session: Session, query: str, wanted: list[tuple[Any, ...]]) -> None:
    until = time.monotonic() + 240
    session.settings.set("execution.runtime-mode", "batch")
    while (actual := rows(session, query)) != wanted:
        assert time.monotonic() < until, (actual, session.sql("SHOW JOBS").text(width=None))
        assert not session.jobs.failures()
        time.sleep(0.5)
    session.settings.set("execution.runtime-mode", "streaming")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"scan__startup__mode": ""}, ts.InvalidOption, "names no group; 'earliest-offset' reads all"),
        (
            {"scan__startup__mode": "timestamp"},
            ts.InvalidOption,
            "needs option 'scan.startup.timestamp-millis'",
        ),
        (
            {"properties__sasl__password": "typed"},
            ts.InvalidOption,
            r"is a secret: give it as \$\{env:NAME\}",
        ),
        ({"properties__sasl__jaas__config": "x"}, ts.Unsupported, "sasl.jaas.config"),
        ({"properties__nonsense": "x"}, ts.InvalidOption, 'No such configuration property: "nonsense"'),
        (
            {"format": "avro"},
            ts.InvalidOption,
            "option 'format' is one of json, debezium-json",
        ),
        ({"format": ""}, ts.InvalidOption, "needs option 'format'"),
        ({"debezium_json__schema_include": "true"}, ts.InvalidOption, "is one of format 'debezium-json'"),
        ({"json__nonsense": "true"}, ts.NotFound, "json.nonsense"),
        ({"key__format": "json"}, ts.Unsupported, "key.format"),
        (
            {"scan__startup__mode": "specific-offsets", "scan__startup__specific_offsets": "1:2"},
            ts.InvalidOption,
            "partition:0,offset:42",
        ),
        ({"topic": "missing"}, ts.NotFound, "has no topic 'missing'"),
    ],
    ids=lambda v: "" if not isinstance(v, str) else v[:30],
)
def test_options_that_cannot_be_used_are_named(
    kafka: Broker, session: Session, options: dict[str, str], error: type[Exception], says: str
):
    table(session, kafka, options.pop("topic", "t"), "id INT", **options)
    with pytest.raises(error, match=says) as raised:
        session.sql("SELECT * FROM t").to_arrow()
    assert "typed" not in str(raised.value)


def test_rows_that_are_only_added_have_no_primary_key(kafka: Broker, session: Session):
    table(session, kafka, "t", "id INT, PRIMARY KEY (id) NOT ENFORCED")
    with pytest.raises(ts.InvalidOption, match="'json' only adds rows, and one key may come twice"):
        session.sql("SELECT * FROM t").to_arrow()


def test_secrets_of_the_environment_are_not_shown(
    kafka: Broker, session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KAFKA_PASSWORD", "hidden-one")
    topic = kafka.topic()
    table(session, kafka, topic, "id INT", properties__sasl__password="${env:KAFKA_PASSWORD}")
    kafka.send(topic, [(None, '{"id": 1}')])
    assert rows(session, "SELECT * FROM t") == [(1,)]
    assert "hidden-one" not in session.sql("SHOW CREATE TABLE t").text(width=None)


METADATA = (
    "t STRING METADATA FROM 'topic' VIRTUAL, `partition` BIGINT METADATA VIRTUAL, k INT, "
    "o BIGINT METADATA FROM 'offset', at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', "
    "kind STRING METADATA FROM 'timestamp-type', h MAP<STRING, BYTES> METADATA FROM 'headers', "
    "id BYTES METADATA FROM 'key'"
)


def test_metadata_of_messages_are_columns(kafka: Broker, session: Session) -> None:
    topic = kafka.topic(partitions=2)
    began = int(time.time() * 1000)
    producer = kafka.producer()
    producer.produce(topic, b'{"k": 1}', b"one", 1, headers=[("a", b"x"), ("b", None)])
    producer.produce(topic, b"no json", b"two", 1)
    producer.produce(topic, b'{"k": 3}', None, 1, timestamp=1_700_000_000_000)
    producer.produce(topic, b'{"k": 4}', b"four", 0)
    producer.flush()
    bounded = {"json__ignore_parse_errors": "true", "scan__bounded__mode": "latest-offset"}
    table(session, kafka, topic, METADATA, **bounded)
    result = session.sql("SELECT * FROM t ORDER BY k").to_arrow().to_pylist()
    assert [(r["t"], r["partition"], r["k"], r["o"], r["id"]) for r in result] == [
        (topic, 1, 1, 0, b"one"),
        (topic, 1, 3, 2, None),
        (topic, 0, 4, 0, b"four"),
    ]
    assert [dict(r["h"]) for r in result] == [{"a": b"x", "b": None}, {}, {}]
    times = [r["at"].timestamp() * 1000 for r in result]
    assert times[1] == 1_700_000_000_000
    assert began - 1000 <= times[0] <= time.time() * 1000 + 1000
    assert {r["kind"] for r in result} == {"CreateTime"}
    assert rows(session, "SELECT o FROM t WHERE `partition` = 1 AND id IS NOT NULL") == [(0,)]
    assert rows(session, "SELECT count(*) AS n, max(o) AS m FROM t") == [(3, 2)]
    sql = "SELECT o, t FROM t WHERE `partition` = 1"
    streamed = follow(planned(session, reader(()).read(pieces(sql)[0]), sql))
    assert [r for batch, _ in streamed for r in batch.to_pylist()] == [{"o": o, "t": topic} for o in (0, 2)]


@pytest.mark.parametrize(
    ("columns", "options", "error", "words"),
    [
        ("k INT, o STRING METADATA FROM 'offset'", {}, ts.SchemaMismatch, "'o' is STRING"),
        ("k INT, o BIGINT METADATA FROM 'ofset'", {}, ts.NotFound, "offset"),
        (
            "k INT, o BIGINT METADATA FROM 'offset'",
            {"format": "debezium-json"},
            ts.Unsupported,
            "METADATA columns with format 'debezium-json'",
        ),
    ],
    ids=["type", "name", "format"],
)
def test_metadata_that_messages_do_not_have_are_refused(
    kafka: Broker,
    session: Session,
    columns: str,
    options: dict[str, str],
    error: type[Exception],
    words: str,
) -> None:
    def read() -> None:
        table(session, kafka, kafka.topic(), columns, **options)
        session.sql("SELECT * FROM t")

    with pytest.raises(error, match=words):
        read()
