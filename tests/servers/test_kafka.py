"""Topics of a real Kafka as stream sources: transactions, compaction, retention, new partitions."""

from __future__ import annotations

import dataclasses
import json
import pickle
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tablestore.cdc.final_rows import FinalRows
from tablestore.cdc.formats.registry import format_of
from tablestore.cdc.kafka.topic_ranges import EARLIEST, GROUP, LATEST, SPECIFIC, TIMESTAMP, ScanPoint
from tablestore.cdc.kafka.topic_stream import TopicStream
from tablestore.core.errors import InvalidOption, NotFound, Unavailable
from tablestore.flow.source import Offset
from tablestore.format.messages.messages import BadMessage, Changes
from tests.cdc.formats.messages_of import KINDS, columns
from tests.cdc.formats.test_golden import GOLDEN, ITEMS, MODES, expected
from tests.servers.kafka import Broker

NUMBERS = columns(n="BIGINT")


def numbers(*values: int) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % n, b'{"n":%d}' % n) for n in values]


def stream(kafka: Broker, *topics: str, properties: Any = (), **more: Any) -> TopicStream:
    """A stream of numbers, from the earliest offset."""
    format, _ = format_of("json", NUMBERS, {})
    where = (("bootstrap.servers", kafka.address), *properties)
    created = TopicStream(where, topics, format, ScanPoint(EARLIEST))
    return dataclasses.replace(created, **more)


def begin(source: TopicStream) -> Offset:
    """The offset at which reading begins, as a restart has it."""
    start = source.next(source.initial())
    assert source.pieces(source.initial(), start) == []
    return json.loads(json.dumps(start))


def read(source: TopicStream, start: Offset, end: Offset) -> list[int]:
    """The numbers between two offsets: the same twice, by pieces that were sent somewhere else."""
    collected = []
    for _ in range(2):
        pieces = pickle.loads(pickle.dumps(source.pieces(start, end)))
        collected.append([n for p in pieces for rows, _ in p.read(["n"]) for n in rows.column(0).to_pylist()])
    assert collected[0] == collected[1]
    return collected[0]


def follow(source: TopicStream, start: Offset) -> tuple[list[int], Offset]:
    end = source.next(start)
    return read(source, start, end), end


def reached(source: TopicStream, start: Offset, offset: int) -> Offset:
    """The end of a batch up to this offset: a marker may come a moment after its transaction."""
    until = time.monotonic() + 240
    while (end := source.next(start))["topics"][source.topics[0]]["next"] != {"0": offset}:
        assert time.monotonic() < until, end
        time.sleep(0.02)
    return end


def test_messages_come_once_and_in_the_order_of_their_partition(kafka: Broker):
    topic = kafka.topic(partitions=3)
    for partition in range(3):
        kafka.send(topic, numbers(*range(partition * 100, partition * 100 + 50)), partition=partition)
    source = stream(kafka, topic, limit=30)
    actual, at = follow(source, begin(source))
    assert actual == [*range(30), *range(100, 130), *range(200, 230)]
    kafka.send(topic, numbers(50), partition=0)
    rest, at = follow(source, at)
    assert rest == [*range(30, 51), *range(130, 150), *range(230, 250)]
    assert source.next(at) == at
    assert read(source, begin(source), at) == [*range(51), *range(100, 150), *range(200, 250)]


def test_only_what_is_committed_is_read(kafka: Broker):
    topic = kafka.topic()
    source = stream(kafka, topic)
    uncommitted = stream(kafka, topic, properties=(("isolation.level", "read_uncommitted"),))
    begins = begin(source)
    producer = kafka.producer(transactional_id=f"{topic}-1")
    producer.init_transactions(30)
    for first, commit in ((0, True), (10, False), (20, True), (30, False)):
        producer.begin_transaction()
        for key, value in numbers(*range(first, first + 3)):
            producer.produce(topic, value, key)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    at = reached(source, begins, 16)  # markers take offsets, too
    assert read(source, begins, at) == [0, 1, 2, 20, 21, 22]
    producer.begin_transaction()
    producer.produce(topic, b'{"n":40}')
    producer.flush(30)
    assert source.next(at) == at  # an open transaction is not read, nor what comes after it
    assert follow(uncommitted, at)[0] == [40]
    producer.commit_transaction(30)
    assert read(source, at, reached(source, at, 18)) == [40]
    every = [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40]
    assert follow(uncommitted, begins)[0] == every


def test_what_compaction_removed_is_passed_over(kafka: Broker):
    topic = kafka.topic(
        cleanup_policy="compact",
        segment_ms=500,
        min_cleanable_dirty_ratio=0.01,
        delete_retention_ms=100,
        min_compaction_lag_ms=0,
    )
    source = stream(kafka, topic)
    begins = begin(source)
    kafka.send(topic, [(b"%d" % (n % 10), b'{"n":%d}' % n) for n in range(100)])
    kafka.send(topic, [(b"%d" % n, None) for n in range(5)])
    first, at = follow(source, begins)
    assert first == [*range(100)]
    until = time.monotonic() + 240
    kept = first
    while kept != [95, 96, 97, 98, 99] and time.monotonic() < until:
        kafka.send(topic, [(b"other", None)])  # the segment that is written to is never cleaned
        time.sleep(0.4)
        kept = read_once(source, begins, at)
    assert kept == [95, 96, 97, 98, 99]


def read_once(source: TopicStream, start: Offset, end: Offset) -> list[int]:
    pieces = source.pieces(start, end)
    return [n for piece in pieces for rows, _ in piece.read(["n"]) for n in rows.column(0).to_pylist()]


def test_reading_begins_and_ends_where_the_modes_say(kafka: Broker):
    topic = kafka.topic(partitions=2)
    kafka.send(topic, numbers(0, 1, 2), partition=0)
    kafka.send(topic, numbers(10, 11), partition=1)
    moment = int(time.time() * 1000) + 1
    time.sleep(0.05)
    kafka.send(topic, numbers(3), partition=0)

    def found(start: ScanPoint, **more: Any) -> list[int]:
        source = stream(kafka, topic, start=start, **more)
        return follow(source, begin(source))[0]

    earliest = ScanPoint(EARLIEST)
    assert found(earliest) == [0, 1, 2, 3, 10, 11]
    assert found(ScanPoint(TIMESTAMP, millis=moment)) == [3]
    assert found(ScanPoint(SPECIFIC, offsets={0: 2})) == [2, 3, 10, 11]
    assert found(earliest, bound=ScanPoint(TIMESTAMP, millis=moment)) == [0, 1, 2, 10, 11]
    assert found(earliest, bound=ScanPoint(SPECIFIC, offsets={0: 1, 1: 1})) == [0, 10]
    with pytest.raises(NotFound, match="name partition 7, and there are 2"):
        found(ScanPoint(SPECIFIC, offsets={7: 2}))

    newest = stream(kafka, topic, start=ScanPoint(LATEST))
    at = begin(newest)
    assert newest.next(at) == at
    kafka.send(topic, numbers(12), partition=1)
    assert follow(newest, at)[0] == [12]


def test_a_bounded_stream_ends_where_it_was_when_it_began(kafka: Broker):
    topic = kafka.topic()
    kafka.send(topic, numbers(0, 1, 2))
    source = stream(kafka, topic, bound=ScanPoint(LATEST), limit=2)
    assert source.ended(source.latest())
    assert not stream(kafka, topic).ended(stream(kafka, topic).latest())
    at = begin(source)
    kafka.send(topic, numbers(3))
    first, at = follow(source, at)
    assert not source.ended(at)
    second, at = follow(source, at)
    assert (first, second) == ([0, 1], [2])
    assert source.ended(at)
    assert source.next(at) == at


def test_a_consumer_group_says_where_to_go_on(kafka: Broker):
    topic = kafka.topic()
    group = f"g-{topic}"
    kafka.send(topic, numbers(0, 1, 2))
    properties = (("group.id", group),)
    start = ScanPoint(GROUP, group=group)
    with pytest.raises(NotFound, match=f"consumer group '{group}' has no offset for topic"):
        begin(stream(kafka, topic, properties=properties, start=start))
    otherwise = ScanPoint(GROUP, group=group, otherwise=EARLIEST)
    source = stream(kafka, topic, properties=properties, start=otherwise)
    actual, at = follow(source, begin(source))
    source.done(at)
    kafka.send(topic, numbers(3))
    again = stream(kafka, topic, properties=properties, start=start)
    assert (actual, follow(again, begin(again))[0]) == ([0, 1, 2], [3])


def test_partitions_that_are_added_are_read_from_their_beginning(kafka: Broker):
    topic = kafka.topic()
    kafka.send(topic, numbers(0))
    source = stream(kafka, topic, start=ScanPoint(LATEST))
    at = begin(source)
    kafka.more_partitions(topic, 2)
    kafka.send(topic, numbers(10, 11), partition=1)
    collected: list[int] = []
    for _ in range(2):
        some, at = follow(source, at)
        collected += some
    assert collected == [10, 11]
    assert at["topics"][topic]["next"] == {"0": 1, "1": 2}


def test_retention_that_is_faster_than_the_reader_is_an_error(kafka: Broker, caplog: Any):
    topic = kafka.topic()
    kafka.send(topic, numbers(*range(10)))
    source = stream(kafka, topic)
    lenient = dataclasses.replace(source, fail_on_data_loss=False)
    start = begin(source)
    end = source.next(start)
    for future in kafka.admin.delete_records([TopicPartition(topic, 0, 6)]).values():
        future.result(30)
    with pytest.raises(NotFound, match=r"partition 0: offsets 0 to 5 are gone.*fail-on-data-loss"):
        source.next(start)
    with pytest.raises(NotFound, match="partition 0: offsets 0 to 5 are gone"):
        read(source, start, end)
    assert read(lenient, start, lenient.next(start)) == [6, 7, 8, 9]
    assert "offsets 0 to 5 are gone; it goes on without them" in caplog.text
    assert follow(source, begin(source))[0] == [6, 7, 8, 9]


def test_a_topic_that_ends_before_what_was_read_is_an_error(kafka: Broker, caplog: Any):
    topic = kafka.topic()
    kafka.send(topic, numbers(*range(10)))
    source = stream(kafka, topic)
    lenient = dataclasses.replace(source, fail_on_data_loss=False)
    read_to = json.loads(json.dumps(source.next(begin(source))).replace('{"0": 10}', '{"0": 13}'))
    with pytest.raises(NotFound, match=r"partition 0 ends at offset 10, and was read up to 13: its brokers"):
        source.next(read_to)
    at = lenient.next(read_to)
    assert "it goes on from there" in caplog.text
    kafka.send(topic, numbers(*range(10, 14)))
    assert follow(lenient, at)[0] == [10, 11, 12, 13]


def test_a_topic_that_was_made_anew_differs_from_the_old_one(kafka: Broker):
    topic = kafka.topic()
    kafka.send(topic, numbers(0))
    source = stream(kafka, topic)
    at = source.next(begin(source))
    for future in kafka.admin.delete_topics([topic]).values():
        future.result(240)
    until = time.monotonic() + 240
    while topic in kafka.admin.list_topics().topics:
        assert time.monotonic() < until, f"{topic} does not go"
        time.sleep(0.02)
    with pytest.raises(NotFound, match=f"has no topic '{topic}'"):
        source.next(at)
    kafka.topic(name=topic)
    with pytest.raises(NotFound, match="was deleted and made anew since it was read"):
        source.next(at)


def test_a_bad_message_is_named_where_it_lies(kafka: Broker):
    topic = kafka.topic()
    kafka.send(topic, [*numbers(0, 1), (b"k", b"{"), *numbers(2)])
    source = stream(kafka, topic)
    start = begin(source)
    with pytest.raises(BadMessage, match=f"topic '{topic}', partition 0, offset 2: the message is not JSON"):
        follow(source, start)
    assert follow(dataclasses.replace(source, skip_bad=True), start)[0] == [0, 1, 2]


def test_a_bad_message_goes_to_a_topic_of_its_own(kafka: Broker):
    topic, letters = kafka.topic(), kafka.topic()
    kafka.send(topic, [*numbers(0), (b"key", b"{"), *numbers(2)])
    source = stream(kafka, topic, dead_letters=letters)
    start = begin(source)
    assert read_once(source, start, source.next(start)) == [0, 2]
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "letters"})
    consumer.assign([TopicPartition(letters, 0, 0)])
    [letter] = consumer.consume(1, 20)
    consumer.close()
    assert (letter.key(), letter.value()) == (b"key", b"{")
    headers = {name: value.decode() for name, value in letter.headers()}
    assert headers.pop("reason").startswith("the message is not JSON")
    assert headers == {"topic": topic, "partition": "0", "offset": "1"}
    impatient = (*source.properties, ("message.timeout.ms", "1500"))
    missing = dataclasses.replace(source, dead_letters="missing", properties=impatient)
    with pytest.raises(Unavailable, match="bad messages do not get into topic 'missing'"):
        read_once(missing, start, source.next(start))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sample(2)
def test_recorded_events_of_debezium_lead_to_the_rows_of_the_server(kafka: Broker, mode: str):
    topic = kafka.topic()
    lines = [json.loads(line) for line in (GOLDEN / f"{mode}.jsonl").read_text().splitlines()]
    mine = [line for line in lines if line["topic"] == "srv.shop.items"]
    kafka.send(topic, [(encoded(line["key"]), encoded(line["value"])) for line in mine])
    fields = columns(**ITEMS)
    format, _ = format_of("debezium-json", fields, MODES[mode])
    source = stream(kafka, topic, format=format)
    final = FinalRows(source.schema, ["order_id", "line"])
    start = begin(source)
    [piece] = source.pieces(start, source.next(start))
    for rows, kinds in piece.read(source.schema.names):
        final.add(Changes(rows, kinds))
    rows = [
        row | {"discount": row["discount"] or expected("items", mode)[0]["discount"]}
        for row in final.rows().to_pylist()
    ]
    assert sorted(rows, key=lambda r: json.dumps(r, default=str)) == expected("items", mode)
    assert {KINDS[kind] for _, kinds in piece.read(["line"]) for kind in kinds.to_pylist()} == set(KINDS)


def encoded(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value).encode()


def test_secrets_stay_in_the_environment(kafka: Broker, monkeypatch: pytest.MonkeyPatch, caplog: Any):
    monkeypatch.setenv("KAFKA_PASSWORD", "hidden-one")
    topic = kafka.topic()
    secret = (("sasl.mechanism", "PLAIN"), ("sasl.username", "u"), ("sasl.password", "${env:KAFKA_PASSWORD}"))
    source = stream(kafka, topic, properties=secret)
    kafka.send(topic, numbers(1))
    actual, at = follow(source, begin(source))
    assert actual == [1]
    kept = f"{source}{at}{source.pieces(source.next(source.initial()), at)}{caplog.text}"
    assert "hidden-one" not in kept.encode().decode()
    assert b"hidden-one" not in pickle.dumps(source)
    monkeypatch.delenv("KAFKA_PASSWORD")
    with pytest.raises(InvalidOption, match="the environment variable KAFKA_PASSWORD is not set"):
        [*source.pieces(begin(stream(kafka, topic)), at)[0].read(["n"])]


def test_properties_and_brokers_that_cannot_be_used_are_named(kafka: Broker, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InvalidOption, match=r'No such configuration property: "key\.deserializer"'):
        stream(kafka, "t", properties=(("key.deserializer", "x"),)).latest()
    with pytest.raises(NotFound, match="has no topic 'missing'"):
        stream(kafka, "missing").latest()
    monkeypatch.setattr("tablestore.log.kafka.cluster._SECONDS", 1)
    with pytest.raises(Unavailable, match="Kafka at 127"):
        stream(dataclasses.replace(kafka, address="127.0.0.1:9"), "t").latest()
