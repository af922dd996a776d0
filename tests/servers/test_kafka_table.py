"""Tables whose log is a topic of a real Kafka: written to both, made and dropped together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

import tablestore as ts
import widgets
from tablestore.core.errors import InvalidOption, NotFound, Unsupported
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import CommitMark
from tests.log import held
from tests.servers.kafka import Broker
from tests.tiering.waiting import until


def create(kafka: Broker, path: Path, name: str = "d.t", *, keyed: bool = True, **options: Any) -> ts.Table:
    given = {"bucket": 2, "log.system": "kafka", "kafka.bootstrap.servers": kafka.address, **options}
    if not keyed:
        given |= {"bucket-key": "k", "deletion-vectors.enabled": True}
    columns, key = {"k": ts.INT, "v": ts.BIGINT}, ["k"] if keyed else []
    return ts.connect(str(path)).create_table(name, schema=columns, primary_key=key, options=given)


def test_rows_are_in_the_topic_and_in_files_and_go_with_the_table(kafka: Broker, tmp_path: Path) -> None:
    t = create(kafka, tmp_path)
    lake = ts.connect(str(tmp_path))
    for step in range(3):
        assert len(t.write([{"k": k, "v": step} for k in range(4)]).snapshots) == 1
    t.update({"v": 9}, where="k = 1")
    t.delete("k = 2")
    held.require_prefix(lake, t)
    log = t._handle.log
    assert isinstance(log, KafkaLog)
    appender = log.appender()
    rows = pa.record_batch({"k": pa.array([7], pa.int32()), "v": pa.array([7])})
    appender.write(0, pa.array([0], pa.int8()), rows)
    appender.commit(CommitMark("stream", 4, "there"))  # and the writer is killed here
    t = lake.table("d.t")
    assert not t.write([{"k": 8, "v": 8}]).from_log
    assert t.position("stream") == (4, "there")
    assert "{'k': 7, 'v': 7}" in held.rows(t)
    assert t.write([{"k": 7, "v": 0}], user="stream", identifier=4).replayed
    assert t.log is not None
    assert (t.log.topic, t.log.finish()) == (log.topic, ())
    details = lake.sql("DESCRIBE DETAIL TABLE d.t").to_arrow().to_pylist()[0]
    assert details["log.kafka.topic"] == log.topic
    lake.rename_table("d.t", "d.u")
    t = lake.table("d.u")
    t.write([{"k": 1, "v": 1}])
    lake.drop_table("d.u")
    until(lambda: is_gone(log))  # the broker answers for it a moment longer


def is_gone(log: KafkaLog) -> bool:
    """Whether the topic is not there."""
    try:
        log.bounds()
    except NotFound:
        return True
    return False


def test_rows_without_a_key_change_by_way_of_the_topic(kafka: Broker, tmp_path: Path) -> None:
    t = create(kafka, tmp_path, keyed=False)
    lake = ts.connect(str(tmp_path))
    t.write([{"k": k % 3, "v": k} for k in range(9)])
    t.update({"v": 7}, where="k = 1")
    held.require_prefix(lake, t)
    log = t._handle.log
    assert log is not None
    for number, (kind, row) in enumerate(
        [(0, {"k": 5, "v": 5}), (3, {"k": 1, "v": 7}), (3, {"k": 1, "v": 7})]
    ):
        appender = log.appender()
        rows = pa.RecordBatch.from_pylist([row], t.schema)
        appender.write(0, pa.array([kind], pa.int8()), rows)
        appender.commit(CommitMark("killed", number))
    before = held.rows(t)
    # a union read ends before what is to be marked in files
    assert sorted(map(str, t.scan(log=True).to_arrow().to_pylist())) == sorted([*before, "{'k': 5, 'v': 5}"])
    assert t.log is not None
    assert len(t.log.finish()) == 3
    assert len(held.rows(t)) == 8
    held.require_prefix(lake, t)
    lake.drop_table("d.t")


def test_rows_are_not_changed_where_messages_have_no_kinds(kafka: Broker, tmp_path: Path) -> None:
    t = create(kafka, tmp_path, keyed=False, **{"log.format": "json"})
    t.write([{"k": 1, "v": 1}])
    with pytest.raises(Unsupported, match="debezium-json"):
        t.delete("k = 1")
    assert len(held.rows(t)) == 1
    t.change_rows(lambda batch: ts.RowChanges(), inserts=lambda: iter([t.scan().to_arrow().to_batches()[0]]))
    held.require_prefix(ts.connect(str(tmp_path)), t)
    ts.connect(str(tmp_path)).drop_table("d.t")


def test_a_topic_that_was_there_is_adopted_and_stays(kafka: Broker, tmp_path: Path) -> None:
    first = create(kafka, tmp_path)
    topic = first.options["kafka.topic"]
    with pytest.raises(InvalidOption, match="partitions"):
        create(kafka, tmp_path / "other", **{"bucket": 3, "kafka.topic": topic})
    create(kafka, tmp_path / "other", **{"kafka.topic": topic})
    ts.connect(str(tmp_path / "other")).drop_table("d.t")
    assert first.log is not None
    assert first.log.end == {0: 0, 1: 0}
    ts.connect(str(tmp_path)).drop_table("d.t")


def test_what_a_topic_holds_is_known_by_its_offsets(kafka: Broker, tmp_path: Path) -> None:
    t = create(kafka, tmp_path)
    t.write([{"k": k, "v": 0} for k in range(9)], user="till", identifier=1)
    assert t.log is not None
    parts = t.log.segments().to_pylist()
    assert [(p["file_name"], p["bucket"], p["record_count"]) for p in parts] == [
        (None, 0, None),
        (None, 1, None),
    ]
    assert {p["bucket"]: p["end"] for p in parts} == t.log.end == t.log.visible
    assert t.log.transactions()["commit_user"].to_pylist() == ["till"]
    assert [dict(o) for o in t.log.snapshots()["offsets"].to_pylist()] == [t.log.in_files]
    view = widgets.LogAndLake(t, follow=0)
    assert "in segments that the brokers keep for themselves" in view.text()
    assert f"topic {t.log.topic}" in view.to_svg()
    assert (view.model.log_only, view.model.reader.planned[0].kind) == (0, "state")
    assert "every row of the log is in files" in view.text()


def test_messages_are_read_under_the_columns_of_today(kafka: Broker, tmp_path: Path) -> None:
    t = create(kafka, tmp_path)
    t.write([{"k": 1, "v": 1}])
    for change in (ts.rename("v", "w"), ts.retype("v", ts.STRING)):
        with pytest.raises(Unsupported, match="log in Kafka"):
            t.alter(change)
    t = t.alter(ts.add("n", ts.INT))
    t.write([{"k": 2, "v": 2, "n": 2}])
    t = t.alter(ts.drop("v"), ts.retype("n", ts.BIGINT))
    t.write([{"k": 3, "n": 1 << 40}])
    held.require_prefix(ts.connect(str(tmp_path)), t)
    assert held.rows(t) == ["{'k': 1, 'n': None}", "{'k': 2, 'n': 2}", f"{{'k': 3, 'n': {1 << 40}}}"]
    with pytest.raises(Unsupported, match="a new column v"):
        t.alter(ts.add("v", ts.INT))
    ts.connect(str(tmp_path)).drop_table("d.t")


@pytest.mark.parametrize(
    ("value", "header", "reason"),
    [
        (b'{"op":"c","after":{"k":"x"}}', None, "column 'k'"),
        (b'{"op":"c","after":{"k":1},"kind":"-D"}', None, "has kind '-D'"),
        (b'{"op":"c","after":{"k":1,"v":1}}', b"[]", "header 'tablestore-commit'"),
    ],
)
@pytest.mark.sample(1)
def test_a_message_of_others_that_is_no_row_is_named_with_its_offset(
    kafka: Broker, tmp_path: Path, value: bytes, header: bytes | None, reason: str
) -> None:
    t = create(kafka, tmp_path, bucket=1)
    t.write([{"k": 1, "v": 1}])
    log = t._handle.log
    assert isinstance(log, KafkaLog)
    at = log.bounds().end[0]
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address})
    headers = [] if header is None else [("tablestore-commit", header)]
    for text, marks in ((b'{"op":"c","after":{"k":2,"v":2}}', []), (value, headers)):
        producer.produce(log.topic, text, b'{"k":2}', partition=0, headers=marks)
    assert not producer.flush(240)
    t = ts.connect(str(tmp_path)).table("d.t")
    named = f"topic '{log.topic}', partition 0, offset {at + 1}: .*{reason}"
    assert t.log is not None
    with pytest.raises(ts.InvalidRequest, match=named):
        t.log.finish()
    if header is None:
        with pytest.raises(ts.InvalidRequest, match=named):
            t.scan(log=True).to_arrow()
    assert held.rows(t) == ["{'k': 1, 'v': 1}"]
