"""The log of a table in a topic of a real Kafka."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tablestore.core.errors import CommitConflict, InvalidOption, NotFound
from tablestore.core.options.log_store import LogCompression, LogFormat, LogSystem
from tablestore.format import rowkind
from tablestore.format.messages.messages import Messages
from tablestore.format.messages.registry_client import client
from tablestore.format.predicates import evaluate
from tablestore.format.predicates.predicate import bind, col
from tablestore.format.schema import TableSchema
from tablestore.io.fileio import LocalFileIO
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.kafka.row_format import RowFormat
from tablestore.log.log import CommitMark, LogBatch, LogExpired, RowsInBetween
from tablestore.log.settings import LogSettings
from tablestore.table.union_read import selected_rows
from tests.cdc.formats.messages_of import columns
from tests.servers.kafka import Broker
from tests.servers.test_kafka_table import is_gone
from tests.tiering.waiting import until

_number = iter(range(1_000_000))


@pytest.fixture
def topic_log(kafka: Broker, tmp_path: Path) -> Iterator[Any]:
    """Logs by their settings; their topics are dropped afterwards."""
    logs: list[KafkaLog] = []

    def make(*, of: KafkaLog | None = None, keyed: bool = True, **more: Any) -> KafkaLog:
        fields = columns(k="BIGINT NOT NULL", v="STRING", d="DECIMAL(20,2) NOT NULL")
        keys = ("k",) if keyed else ()
        schema = TableSchema(0, fields, 2, (), keys, {}, "", 0)
        settings: dict[str, Any] = {
            "system": LogSystem.KAFKA,
            "directory": str(tmp_path / "log"),
            "topic": f"shop.orders.{next(_number)}",
            "uuid": f"{next(_number):08d}",
            "schema": schema,
            "buckets": 2,
            "eventual": False,
            "upsert": keyed,
            "servers": kafka.address,
            **more,
        }
        log = KafkaLog(LogSettings(**settings), LocalFileIO())
        log.make()
        logs.append(log)
        return log

    yield make
    for log in logs:
        log.drop()


def rows(*keys: int, text: str = "x") -> pa.RecordBatch:
    values = {"k": list(keys), "v": [f"{text}{k}" for k in keys], "d": list(range(len(keys)))}
    schema = pa.schema(
        [f.arrow for f in columns(k="BIGINT NOT NULL", v="STRING", d="DECIMAL(20,2) NOT NULL")]
    )
    return pa.RecordBatch.from_pydict(values, schema=schema)


def kinds(*values: str) -> pa.Array:
    return rowkind.parse(pa.array(values))


def inserts(batch: pa.RecordBatch) -> pa.Array:
    return kinds(*["+I"] * batch.num_rows)


def write(log: KafkaLog, *batches: tuple[int, pa.RecordBatch], identifier: int = 1) -> Any:
    appender = log.appender()
    for bucket, batch in batches:
        appender.write(bucket, inserts(batch), batch)
    return appender.commit(CommitMark("writer", identifier, "here", {"a": "ü"}, 7))


def together(actual: Iterator[LogBatch]) -> tuple[list[dict[str, Any]], list[str], list[int]]:
    """Rows, kinds and offsets of one bucket: how many batches they come in is the client's affair."""
    batches = list(actual)
    rows = [row for b in batches for row in b.rows.to_pylist()]
    kinds = [kind for b in batches for kind in rowkind.texts(b.kinds).to_pylist()]
    assert all((b.timestamps > 1.7e12).all() for b in batches)
    return rows, kinds, [int(offset) for b in batches for offset in b.offsets]


def keys_of(actual: Iterator[LogBatch]) -> dict[int, list[int]]:
    by_bucket: dict[int, list[int]] = {}
    for batch in actual:
        by_bucket.setdefault(batch.bucket, []).extend(batch.rows.column("k").to_pylist())
    return by_bucket


def test_a_transaction_is_read_as_it_was_written_with_its_mark(topic_log: Any) -> None:
    log = topic_log()
    start = log.bounds()
    first = write(log, (0, rows(1, 2)), (1, rows(3)))
    second = write(log, (1, rows(4)), identifier=2)
    end = log.bounds().end
    assert keys_of(log.read(start.start, end)) == {0: [1, 2], 1: [3, 4]}
    read = together(log.read({0: first.start[0]}, {0: first.end[0]}))
    assert read == (rows(1, 2).to_pylist(), ["+I", "+I"], [0, 1])
    actual = list(log.transactions(start.start))
    assert [t.mark.identifier for t in actual] == [1, 2]
    assert [t.mark for t in actual] == [first.mark, second.mark]
    assert [(t.start, t.end) for t in actual] == [(first.start, first.end), (second.start, second.end)]
    assert [t.mark.identifier for t in log.transactions(first.end)] == [2]
    assert list(log.transactions(end)) == []


def test_staged_rows_of_other_processes_are_part_of_the_transaction(topic_log: Any, tmp_path: Path) -> None:
    log = topic_log(compression=LogCompression.ZSTD)
    messages = []
    for task in range(2):
        appender = log.appender()
        for n in range(3):
            appender.write(task, inserts(rows(n)), rows(10 * task + n))
        messages.append(appender.stage())
    assert keys_of(log.read(log.bounds().start, log.bounds().end)) == {}
    log.appender().commit(CommitMark("u", 1), messages)
    assert keys_of(log.read({}, log.bounds().end)) == {0: [0, 1, 2], 1: [10, 11, 12]}
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize("format", [LogFormat.DEBEZIUM_JSON, LogFormat.JSON])
@pytest.mark.sample(1)
def test_a_delete_in_a_log_of_upserts_is_a_key_without_a_value(topic_log: Any, format: LogFormat) -> None:
    log = topic_log(value_format=format)
    appender = log.appender()
    appender.write(0, kinds("+I", "+U", "-D"), rows(1, 1, 1))
    appender.commit(CommitMark("u", 1))
    actual, kinds_read, _ = together(log.read({}, log.bounds().end))
    update = "+U" if format is LogFormat.DEBEZIUM_JSON else "+I"
    assert kinds_read == ["+I", update, "-D"]
    assert actual[2] == {"k": 1, "v": None, "d": 0}


def test_all_row_kinds_survive_in_a_log_of_changes(topic_log: Any) -> None:
    log = topic_log(upsert=False)
    appender = log.appender()
    appender.write(1, kinds("+I", "-U", "+U", "-D"), rows(1, 1, 1, 1))
    appender.commit(CommitMark("u", 1))
    actual, kinds_read, _ = together(log.read({}, log.bounds().end, ["v"]))
    assert kinds_read == ["+I", "-U", "+U", "-D"]
    assert actual == [{"v": "x1"}] * 4


def test_a_second_writer_of_a_slot_fences_the_first(topic_log: Any, kafka: Broker) -> None:
    log = topic_log()
    write(log, (0, rows(1)))
    other = KafkaLog(log._settings, LocalFileIO())
    write(other, (0, rows(2)), identifier=2)
    with pytest.raises(CommitConflict, match="slot"):
        write(log, (0, rows(3)), identifier=3)
    assert keys_of(log.read({}, log.bounds().end)) == {0: [1, 2]}
    write(log, (0, rows(3)), identifier=3)
    assert keys_of(log.read({}, log.bounds().end)) == {0: [1, 2, 3]}
    other.close()


def test_a_transaction_that_was_not_committed_is_not_seen(topic_log: Any) -> None:
    log = topic_log()
    with log.sending() as sender:
        sender.begin()
        sender.send(0, pa.array(["{}"]), pa.array(["{}"]), None)
    log._sender = None  # as after a kill
    write(log, (0, rows(5)))  # the same slot: the open transaction is aborted
    assert keys_of(log.read({}, log.bounds().end)) == {0: [5]}
    assert [t.mark.identifier for t in log.transactions({})] == [1]


def test_rows_written_at_once_are_seen_by_who_waits(topic_log: Any) -> None:
    log = topic_log(eventual=True)
    appender, offsets = log.appender(), log.bounds().end
    assert not log.wait(offsets, 0.05)
    collected: list[Any] = []

    def follow() -> None:
        at = dict(offsets)
        while len(collected) < 3:
            if log.wait(at, 240):
                end = log.bounds().end
                keys = [key for batch in log.read(at, end) for key in batch.rows.column("k").to_pylist()]
                collected.extend((key, time.monotonic()) for key in keys)
                at = dict(end)

    reader = threading.Thread(target=follow)
    reader.start()
    written = []
    for n in range(3):
        time.sleep(0.2)
        appender.write(n % 2, inserts(rows(n)), rows(n))
        written.append(time.monotonic())
        assert appender.flush().mark is None
    reader.join(240)
    assert sorted(key for key, _ in collected) == [0, 1, 2]
    assert min(seen - written[key] for key, seen in collected) < 60, (
        "sooner than who does not wait looks again"
    )
    [both] = log.transactions({})
    assert (both.mark, both.start, both.end) == (None, {0: 0, 1: 0}, {0: 2, 1: 1})


def test_an_append_is_refused_where_others_were_first(topic_log: Any) -> None:
    log = topic_log()
    other = topic_log(topic=log.topic, uuid=log._settings.uuid, slot=1)
    begin = log.bounds().end

    def append(to: KafkaLog, number: int, **more: Any) -> Any:
        appender = to.appender()
        appender.write(0, inserts(rows(number)), rows(number))
        try:
            return appender.commit(CommitMark("writer", number), **more)
        finally:
            appender.abort()

    first = append(log, 1, after=begin)
    append(other, 2, after=first.end)  # there is a marker in between, and no row
    with pytest.raises(RowsInBetween):
        append(log, 3, after=first.end)
    append(log, 4, after=log.bounds().end)  # there are a marker and an aborted transaction in between
    with other.sending() as sender:  # a transaction that is open and may be committed yet
        sender.begin()
        sender.send(0, *other.format.encode(inserts(rows(5)), rows(5)), None)
        sender.arrived()
        with pytest.raises(RowsInBetween):
            append(log, 6, after=log.bounds().end)
        sender.finish()
    until = time.monotonic() + 240
    while keys_of(log.read(begin, log.bounds().end)) != {0: [1, 2, 4, 5]}:
        assert time.monotonic() < until, "the broker writes the end of a transaction soon after it is decided"
        time.sleep(0.02)


def test_offsets_of_a_moment(topic_log: Any) -> None:
    log = topic_log()
    write(log, (0, rows(1)))
    time.sleep(0.05)
    moment = int(time.time() * 1000)
    time.sleep(0.05)
    appended = write(log, (0, rows(2)), identifier=2)
    assert log.at(moment)[0] == appended.start[0]
    assert log.at(moment + 3_600_000) == log.bounds().end


def test_rows_that_are_gone_are_an_error_not_a_gap(topic_log: Any, kafka: Broker) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    log = topic_log(retention_ms=86_400_000)
    write(log, (0, rows(1, 2, 3)))
    client = AdminClient({"bootstrap.servers": kafka.address})
    place = TopicPartition(log.topic, 0, 2)
    for future in client.delete_records([place]).values():
        future.result()
    assert log.bounds().start[0] == 2
    with pytest.raises(LogExpired, match="retention"):
        list(log.read({0: 0, 1: 0}, log.bounds().end))
    assert keys_of(log.read(log.bounds().start, log.bounds().end)) == {0: [3]}


def test_a_topic_that_is_there_is_adopted_only_with_as_many_partitions(topic_log: Any) -> None:
    log = topic_log(topic="adopted.orders")
    assert not KafkaLog(log._settings, LocalFileIO()).make()
    with pytest.raises(InvalidOption, match="2 partitions and the table 3 buckets"):
        topic_log(topic="adopted.orders", buckets=3)
    with pytest.raises(InvalidOption, match="no name of a topic"):
        topic_log(topic="../orders")
    kept = topic_log(topic="adopted.orders", adopted=True)
    kept.drop()
    assert kept.bounds().end == {0: 0, 1: 0}
    log.drop()
    until(lambda: is_gone(kept))  # the broker answers for it a moment longer
    with pytest.raises(NotFound, match="no topic"):
        kept.bounds()


def test_events_in_avro_are_read_as_they_were_written(topic_log: Any) -> None:
    registry = (("url", "mock://log"),)
    for upsert in (False, True):
        log = topic_log(value_format=LogFormat.DEBEZIUM_AVRO, registry=registry, upsert=upsert)
        appender = log.appender()
        appender.write(0, kinds("+I", "-U", "+U", "-D"), rows(1, 2, 2, 3))
        appended = appender.commit(CommitMark("writer", 1))
        actual, read_kinds, _ = together(log.read({0: 0}, appended.end))
        assert read_kinds == ["+I", "-U", "+U", "-D"]
        assert actual[:3] == rows(1, 2, 2).to_pylist()
        assert actual[3]["k"] == 3
        again = together(log.read({0: 0}, appended.end, ["v"]))[0]
        assert again[:3] == [{"v": "x1"}, {"v": "x2"}, {"v": "x2"}]
        subject = client(registry).get_latest_version(f"{log.topic}-value")
        assert json.loads(subject.schema.schema_str)["name"] == "org.apache.flink.avro.generated.record"


def test_formats_that_cannot_hold_the_rows_are_refused(topic_log: Any) -> None:
    with pytest.raises(InvalidOption, match="row kinds"):
        topic_log(upsert=False, value_format=LogFormat.JSON)
    log = topic_log(keyed=False, value_format=LogFormat.JSON)
    write(log, (0, rows(1)))
    assert keys_of(log.read({}, log.bounds().end)) == {0: [1]}


@pytest.mark.parametrize("format", [LogFormat.DEBEZIUM_JSON, LogFormat.JSON])
@pytest.mark.sample(1)
def test_a_condition_selects_rows_and_deletes_by_their_key(
    topic_log: Any, format: LogFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = topic_log(value_format=format)
    appender = log.appender()
    appender.write(0, kinds(*["+I"] * 9, "-D", "-D"), rows(*range(9), 2, 7))
    appender.commit(CommitMark("u", 1))
    whole = together(log.read({}, log.bounds().end))
    decode, decoded = RowFormat.decode, Counter[str]()

    def counted(self: RowFormat, messages: Messages, names: list[str]) -> Any:
        decoded[" ".join(names)] += len(messages)
        return decode(self, messages, names)

    monkeypatch.setattr(RowFormat, "decode", counted)
    schema = log._settings.schema
    for where in (col("k") == 7, col("k") > 20, col("k").is_in([2, 3])):
        actual = together(selected_rows(log, {}, log.bounds().end, ["k", "v", "d"], bind(where, schema)))
        chosen = [
            i
            for i, row in enumerate(whole[0])
            if evaluate.mask(bind(where, schema), table_of(row))[0].as_py()
        ]
        assert actual == tuple([part[i] for i in chosen] for part in whole)
        assert decoded == Counter({"k": 11, "k v d": len(chosen)})
        decoded.clear()


def table_of(row: dict[str, Any]) -> pa.Table:
    return pa.table({name: [value] for name, value in row.items()})
