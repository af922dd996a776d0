"""Topics of change events as tables: what a real Debezium wrote, by a real broker, to its final state."""

from __future__ import annotations

import json
import shutil
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import ALTERED, CAPTURED, EMPTIED, SKIPPED
from tablestore.cdc.kafka.capture import TopicSettings, open_topics, parsed
from tests.cdc.formats.test_golden import GOLDEN, ITEMS, MODES, ORDERS, OTHER_TYPES, comparable, expected
from tests.servers.kafka import Broker
from tests.servers.kafka_job import KafkaJob, as_bytes, change, events, kinds, send

ADDED, ITEMS_TABLE, ORDERS_TABLE = "shop.added", "shop.items", "shop.orders"


def recorded(mode: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / f"{mode}.jsonl").read_text().splitlines()]


def replay(kafka: Broker, mode: str, *, one_topic: bool) -> str:
    """The recorded messages in topics of their own; gives their name or the expression that matches them."""
    prefix = kafka.topic()
    lines = recorded(mode)
    if one_topic:
        send(kafka, prefix, [(line["key"], line["value"]) for line in lines])
        return prefix
    for topic in sorted({line["topic"] for line in lines}):
        name = kafka.topic(name=f"{prefix}.{topic}")
        send(kafka, name, [(line["key"], line["value"]) for line in lines if line["topic"] == topic])
    return f"{prefix}\\.srv.*"


def declared(mode: str) -> dict[str, Any]:
    """The types that messages without a schema do not say."""
    if mode == "events_schemas":
        return {}
    tables = {"shop.orders": ORDERS | OTHER_TYPES.get(mode, {}), "shop.items": ITEMS}
    return {"columns": tables, "format_options": MODES[mode]}


def final_rows(job: KafkaJob, table: str) -> list[dict[str, Any]]:
    """The rows as the server would say them; the default of an added column is in no event."""
    if table == ORDERS_TABLE:
        return sorted(map(comparable, job.rows(table)), key=lambda r: json.dumps(r, default=str))
    rows = [{name: row[name] for name in ITEMS} for row in job.rows(table)]
    return [row | {"discount": row["discount"] or Decimal("0.05")} for row in rows]


@pytest.mark.parametrize("one_topic", [True, False], ids=["one-topic", "topics"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sample(2)
def test_what_debezium_recorded_leads_to_the_rows_of_the_server(
    kafka: Broker, tmp_path: Path, mode: str, one_topic: bool
):
    job = KafkaJob(kafka, tmp_path, replay(kafka, mode, one_topic=one_topic), declared(mode))
    reports = job.follow()
    assert final_rows(job, ORDERS_TABLE) == expected("orders", mode)
    assert final_rows(job, ITEMS_TABLE) == expected("items", mode)
    assert job.rows(ADDED) == []
    actual = kinds(reports)
    assert sorted(actual[:3]) == [
        (CAPTURED, "shop.added"),
        (CAPTURED, "shop.items"),
        (CAPTURED, "shop.orders"),
    ]
    assert (EMPTIED, "shop.added") in actual
    assert sum(n for report in reports for _, n in report.commits) == 22
    assert all(job.lake.table(name).check() == [] for name in (ADDED, ITEMS_TABLE, ORDERS_TABLE))


def test_a_column_that_comes_later_ends_the_batch_in_front_of_it(kafka: Broker, tmp_path: Path):
    topic = replay(kafka, "events_schemas", one_topic=True)
    job = KafkaJob(kafka, tmp_path, topic, {"messages": 20})
    reports = job.follow()
    assert final_rows(job, ITEMS_TABLE) == expected("items", "events_schemas")
    assert final_rows(job, ORDERS_TABLE) == expected("orders", "events_schemas")
    [altered] = [e for e in events(reports) if e.kind == ALTERED]
    at = next(i for i, line in enumerate(recorded("events_schemas")) if has_discount(line))
    assert (altered.source, altered.position) == ("shop.items", f"{topic}[0]@{at}")
    assert altered.seconds > 1_700_000_000
    assert at in [end["topics"][topic]["next"]["0"] for _, end in job.batches]
    assert job.types(ITEMS_TABLE)["discount"] == "DECIMAL(4, 2)"
    assert job.lake.table(ITEMS_TABLE).primary_key == ("order_id", "line")


def has_discount(line: dict[str, Any]) -> bool:
    row = (line["value"] or {}).get("payload", {}).get("after")
    return line["topic"] == "srv.shop.items" and "discount" in (row or ())


def test_a_batch_that_comes_again_changes_nothing(kafka: Broker, tmp_path: Path):
    topic = replay(kafka, "events_schemas", one_topic=True)
    job = KafkaJob(kafka, tmp_path, topic, {"messages": 15})
    job.follow()
    snapshots = [job.lake.table(t).store.snapshots.latest() for t in (ITEMS_TABLE, ORDERS_TABLE)]
    again = [job.carry_out(number) for number in range(len(job.batches))]
    assert {t.changes + t.snapshot_rows for report in again for t in report.tables} == {0}
    assert [job.lake.table(t).store.snapshots.latest() for t in (ITEMS_TABLE, ORDERS_TABLE)] == snapshots


@pytest.mark.large
def test_a_job_follows_topics_into_tables(kafka: Broker, tmp_path: Path):
    """The whole pipeline: planned, read by processes of this machine, stopped, and gone on with."""
    topic = kafka.topic(partitions=2)
    lines = [line for line in recorded("events_schemas") if line["topic"] == "srv.shop.items"]
    capture = KafkaJob(kafka, tmp_path, topic)
    send(kafka, topic, [(line["key"], line["value"]) for line in lines[:6]])

    def run() -> Any:
        url, place = f"kafka://{kafka.address}/{topic}", tmp_path / "checkpoint"
        return capture.lake.ingest(
            url, format="debezium-json", interval=0.05, checkpoint=place, engine="local"
        )

    job = run()
    await_rows(capture, job, 3)
    send(kafka, topic, [(line["key"], line["value"]) for line in lines[6:]])
    await_rows(capture, job, 4)
    job.stop()
    send(kafka, topic, [({"id": 1}, change("c", None, {"id": 1}, table="more"))], partition=1)
    again = run()
    until = time.monotonic() + 240
    while "shop.more" not in capture.lake and time.monotonic() < until:
        time.sleep(0.2)
    again.stop()
    assert (job.error, again.error) == (None, None)
    assert final_rows(capture, ITEMS_TABLE) == expected("items", "events_schemas")
    assert capture.rows("shop.more") == [{"id": 1}]
    actual = [(event.kind, event.source) for report in again.reports() for event in report.events]
    assert actual[0] == (CAPTURED, "shop.items")
    assert actual[-1] == (CAPTURED, "shop.more")
    assert all(capture.lake.table(name).check() == [] for name in (ITEMS_TABLE, "shop.more"))


def await_rows(capture: KafkaJob, job: Any, count: int) -> None:
    until = time.monotonic() + 240
    while ITEMS_TABLE not in capture.lake or len(capture.rows(ITEMS_TABLE)) != count:
        assert time.monotonic() < until, repr(job)
        assert job.running, repr(job)
        time.sleep(0.2)


def test_types_are_those_of_values_where_no_schema_says_them(kafka: Broker, tmp_path: Path):
    topic = kafka.topic()
    job = KafkaJob(kafka, tmp_path, topic, rules={"bad_rows": "dead-letter"})
    first = {"id": 1, "n": 5, "s": "x", "o": {"a": [1]}, "b": True, "later": None}
    send(kafka, topic, [({"id": 1}, change("r", None, first)), ({"id": 1}, None), (None, {"ts_ms": 1})])
    assert kinds(job.follow()) == [(CAPTURED, "shop.t")]
    assert job.types("shop.t") == {
        "id": "BIGINT NOT NULL",
        "n": "BIGINT",
        "s": "STRING",
        "o": "STRING",
        "b": "BOOLEAN",
    }
    second, third = {**first, "id": 2, "n": 1.5, "later": 7}, {**first, "id": 3, "n": "text"}
    send(kafka, topic, [({"id": n}, change("c", None, row)) for n, row in ((2, second), (3, third))])
    reports = job.follow()
    assert kinds(reports) == [(ALTERED, "shop.t")]
    assert job.types("shop.t") | {"n": "DOUBLE", "later": "BIGINT"} == job.types("shop.t")
    assert [(r["id"], r["n"], r["o"], r["later"]) for r in job.rows("shop.t")] == [
        (1, 5.0, '{"a":[1]}', None),
        (2, 1.5, '{"a":[1]}', 7),
    ]
    [letter] = job.rows("shop.cdc_dead_letters")
    assert (letter["source_table"], letter["position"]) == ("shop.t", f"{topic}[0]@4")
    assert "column 'n' of type DOUBLE" in letter["reason"]
    assert json.loads(letter["row"])["after"]["n"] == "text"
    assert reports[-1].tables[-1].table == "shop.cdc_dead_letters" or reports[-1].tables[0].bad_rows == 1


def test_bad_messages_fail_by_name_or_are_kept(kafka: Broker, tmp_path: Path):
    topic = kafka.topic()
    good = [({"id": n}, change("c", None, {"id": n})) for n in (1, 2)]
    send(kafka, topic, [good[0], (None, b"{"), (None, {"op": "x"}), (None, b"\xff"), good[1]])
    failing = KafkaJob(kafka, tmp_path / "a", topic)
    with pytest.raises(
        ts.SchemaMismatch, match=rf"shop.t at {topic}\[0\]@1 does not fit: the message is not JSON"
    ):
        failing.follow()
    keeping = KafkaJob(kafka, tmp_path / "b", topic, rules={"bad_rows": "dead-letter"})
    keeping.follow()
    assert [row["id"] for row in keeping.rows("shop.t")] == [1, 2]
    letters = {row["position"]: row for row in keeping.rows("shop.cdc_dead_letters")}
    assert sorted(letters) == [f"{topic}[0]@{n}" for n in (1, 2, 3)]
    assert json.loads(letters[f"{topic}[0]@3"]["row"]) == {"base64": "/w=="}
    assert "op 'x'" in letters[f"{topic}[0]@2"]["reason"]


def test_an_update_without_the_row_before_is_taken_by_its_key(kafka: Broker, tmp_path: Path):
    """As PostgreSQL's connector writes it where only keys are logged; tables are in schemas there."""
    topic = kafka.topic()
    where = {"db": "app", "schema": "sales", "table": "t"}
    values = [
        change("c", None, {"id": 1, "v": "a"}, **where),
        change("u", None, {"id": 1, "v": "b"}, **where),
        change("c", None, {"id": 2, "v": "c"}, **where),
        change("d", {"id": 2, "v": None}, None, **where),
    ]
    send(kafka, topic, [({"id": 1}, value) for value in values])
    job = KafkaJob(kafka, tmp_path, topic)
    job.follow()
    assert job.rows("sales.t") == [{"id": 1, "v": "b"}]


def test_a_table_without_a_key_is_skipped_or_refused_or_given_one(kafka: Broker, tmp_path: Path):
    topic = kafka.topic()
    send(kafka, topic, [(None, change("c", None, {"id": n, "v": n})) for n in (1, 2, 2)])
    [report] = KafkaJob(kafka, tmp_path / "a", topic).follow()[-1:]
    [skipped] = report.events
    assert (skipped.kind, skipped.source) == (SKIPPED, "shop.t")
    assert "without a primary key" in skipped.done
    assert "primary_keys={'shop.t': [...]}" in skipped.done
    with pytest.raises(ts.Unsupported, match=r"table shop\.t without a primary key"):
        KafkaJob(kafka, tmp_path / "b", topic, rules={"tables": "shop.t"}).follow()
    job = KafkaJob(kafka, tmp_path / "c", topic, rules={"primary_keys": {"shop.*": "id"}})
    job.follow()
    assert job.rows("shop.t") == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]


def test_a_truncate_among_several_partitions_is_a_bad_message(kafka: Broker, tmp_path: Path):
    topic = kafka.topic(partitions=2)
    send(kafka, topic, [({"id": 1}, change("c", None, {"id": 1}))])
    send(kafka, topic, [({"id": 2}, change("c", None, {"id": 2})), (None, change("t"))], partition=1)
    job = KafkaJob(kafka, tmp_path, topic, rules={"bad_rows": "dead-letter"})
    assert kinds(job.follow()) == [(CAPTURED, "shop.t")]
    assert [row["id"] for row in job.rows("shop.t")] == [1, 2]
    [letter] = job.rows("shop.cdc_dead_letters")
    assert "TRUNCATE in a topic of several partitions" in letter["reason"]


def test_topics_and_tables_that_come_later_are_captured(kafka: Broker, tmp_path: Path):
    prefix = kafka.topic()
    job = KafkaJob(
        kafka, tmp_path, f"{prefix}.*", rules={"exclude": "shop.secret*", "into": "ods", "prefix": "s_"}
    )
    job.follow()
    for table in ("a", "b", "secrets"):
        topic = kafka.topic(name=f"{prefix}.{table}", partitions=2)
        send(kafka, topic, [({"id": 1}, change("c", None, {"id": 1}, table=table))], partition=1)
        job.follow()
        job.follow()
    assert sorted(job.lake.tables("ods")) == ["s_a", "s_b"]
    assert job.rows("ods.s_b") == [{"id": 1}]


def test_what_is_lost_beside_the_checkpoint_is_found_again(kafka: Broker, tmp_path: Path):
    topic = kafka.topic()
    job = KafkaJob(kafka, tmp_path, topic)
    send(kafka, topic, [({"id": 1}, change("c", None, {"id": 1, "a": 1, "b": 1.5}))])
    job.follow()
    shutil.rmtree(tmp_path / "checkpoint" / "tablestore-source")
    with pytest.raises(ts.NotFound, match=r"the columns of shop\.t are lost"):
        job.carry_out(len(job.batches) - 1)
    send(kafka, topic, [({"id": 2}, change("c", None, {"id": 2, "a": 3, "c": True}))])
    assert kinds(job.follow()) == [(CAPTURED, "shop.t")]
    assert job.rows("shop.t") == [
        {"id": 1, "a": 1, "b": 1.5, "c": None},
        {"id": 2, "a": 3, "b": None, "c": True},
    ]


def test_a_bounded_capture_ends_where_the_topic_did(kafka: Broker, tmp_path: Path):
    topic = kafka.topic()
    send(kafka, topic, [({"id": n}, change("c", None, {"id": n})) for n in range(5)])
    job = KafkaJob(kafka, tmp_path, topic, {"messages": 2}, endless=False)
    reports = job.follow()
    assert job.source.ended(job.batches[-1][1])
    assert [report.bytes_behind > 0 for report in reports] == [False, True, True, False]
    assert reports[-1].position == f"{topic} 0:5"
    assert len(job.rows("shop.t")) == 5


@pytest.mark.parametrize(
    ("url", "how", "error", "says"),
    [
        ("kafka://u:typed@h:1/t", {}, ts.InvalidRequest, "holds a user"),
        ("kafka://h:1", {}, ts.InvalidRequest, "write kafka://host:9092/topic"),
        ("kafka://h:1/*", {}, ts.InvalidRequest, "nor a regular expression"),
        ("kafka://h:1/t", {"format": "json"}, ts.NotFound, "no format of changes 'json'"),
        ("kafka://h:1/t", {"format": "debezium-avro"}, ts.InvalidOption, "needs option 'debezium-avro.url'"),
        ("kafka://h:1/t", {"start": "newest"}, ts.InvalidOption, "start is earliest-offset"),
        ("kafka://h:1/t", {"start": "group-offsets"}, ts.InvalidOption, "no 'group.id'"),
        (
            "kafka://h:1/t",
            {"properties": {"sasl.password": "typed"}},
            ts.InvalidOption,
            "is a secret: give it as",
        ),
        (
            "kafka://h:1/t",
            {"properties": {"nonsense": "1"}},
            ts.InvalidOption,
            "No such configuration property",
        ),
        (
            "kafka://h:1/t",
            {
                "format": "debezium-avro",
                "format_options": {"url": "http://r", "basic-auth.user-info": "typed"},
            },
            ts.InvalidOption,
            "is a secret",
        ),
        ("kafka://h:1/t", {"format_options": {"ignore-parse-errors": "true"}}, ts.Unsupported, "bad_rows"),
        ("kafka://h:1/t", {"columns": {"shop.t": {"a": "NUMBER"}}}, ts.InvalidRequest, "NUMBER"),
        ("kafka://h:1/t", {"columns": {"a": "INT"}}, ts.InvalidRequest, "columns is {table: {column: type}}"),
        ("kafka://h:1/t", {"properties": "x=1"}, ts.InvalidRequest, "properties is a mapping of names"),
        (
            "kafka://h:1/t",
            {"format_options": ["x"]},
            ts.InvalidRequest,
            "format_options is a mapping of names",
        ),
        ("kafka://h:1/t", {"format": 1}, ts.NotFound, "no format of changes"),
        ("kafka://h:1/t", {"messages": 0}, ts.InvalidRequest, "messages is a whole number above 0"),
    ],
    ids=lambda v: v[:30] if isinstance(v, str) else "",
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path, url: str, how: dict[str, Any], error: type[Exception], says: str
):
    def begin() -> None:
        settings = TopicSettings(**{"format": "debezium-json", **how})
        source = open_topics(url, settings, CaptureRules.of("*.*"), checkpoint=str(tmp_path))
        source.next(source.initial())

    with pytest.raises(error, match=says) as raised:
        begin()
    assert "typed" not in str(raised.value)


def test_topics_are_names_or_an_expression():
    assert parsed("kafka://a:1,b:2/x,srv.shop-1.t") == ("a:1,b:2", ("x", "srv.shop-1.t"), "")
    assert parsed("kafka://a:1/srv%5C.shop.%2A") == ("a:1", (), r"srv\.shop.*")


def test_secrets_are_nowhere_but_in_the_environment(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
):
    monkeypatch.setenv("KAFKA_PASSWORD", "hidden-one")
    topic = kafka.topic()
    send(kafka, topic, [({"id": 1}, change("c", None, {"id": 1})), (None, b"{")])
    secret = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "${env:KAFKA_PASSWORD}"}
    job = KafkaJob(kafka, tmp_path, topic, {"properties": secret}, {"bad_rows": "dead-letter"})
    reports = job.follow()
    files = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"hidden-one" not in files
    assert "hidden-one" not in f"{job.source}{job.batches}{reports}{caplog.text}"


def test_half_of_the_time_for_which_a_topic_keeps_messages_is_reported(kafka: Broker, tmp_path: Path) -> None:
    topic, for_ever = kafka.topic(retention_ms=3_600_000), kafka.topic(retention_ms=-1)
    lines = [(as_bytes(line["key"]), as_bytes(line["value"])) for line in recorded("events_schemas")]
    job = KafkaJob(kafka, tmp_path, topic)
    producer, ago = kafka.producer(), round(time.time() * 1000) - 2_400_000

    def send_old(some: list[tuple[Any, Any]]) -> None:
        for key, value in some:
            producer.produce(topic, value, key, timestamp=ago)
        assert producer.flush(60) == 0

    send_old(lines[:6])
    job.follow()
    reached = job.batches[-1][1]
    (kept,) = job.source.kept(reached)
    assert (kept.log, kept.used, kept.limit, kept.ill()) == (f"topic {topic}", 0.0, 3_600.0, [])
    send_old(lines[6:])
    (kept,) = job.source.kept(reached)
    assert (kept.used, kept.left) == (2_250.0, 1_350.0), "five eighths of an hour"
    assert kept.ill()[0].startswith(
        f"half of the time is over for which topic {topic} keeps what is not read"
    )
    job.follow()
    assert not job.source.kept(job.batches[-1][1])[0].ill()
    (kept,) = KafkaJob(kafka, tmp_path, for_ever).source.kept(
        {"topics": {for_ever: {"id": "", "next": {"0": 0}}}}
    )
    assert kept.limit is None
