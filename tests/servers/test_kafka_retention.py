"""Tables whose topic has let rows go: those that files have are missed by nobody, others are named."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_END, TopicPartition

import tablestore as ts
from tablestore.core.errors import Corrupt, NotFound, Unavailable
from tablestore.insight.doctor.finding import Finding
from tablestore.log.kafka import kafka_appender, kafka_log
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.kafka.sender import Sender
from tablestore.log.kafka.transactions import HEADER, TransactionMark
from tablestore.log.log import Appender, CommitMark, FilesBehindLog, LogExpired
from tablestore.write.routing import routing
from tests.log import held
from tests.servers.kafka import Broker
from tests.servers.test_kafka_table import create

EVENTUAL = {"log.consistency": "eventual"}


def expire(kafka: Broker, table: ts.Table, **upto: int) -> None:
    """Take all rows of the topic away, or of each partition those up to an offset, as its retention does."""
    topic = table.options["kafka.topic"]
    ends = {int(name[1:]): offset for name, offset in upto.items()} or {0: OFFSET_END, 1: OFFSET_END}
    places = [TopicPartition(topic, partition, offset) for partition, offset in ends.items()]
    for future in kafka.admin.delete_records(places).values():
        future.result(60)


def appender(table: ts.Table) -> Appender:
    """An appender of the table's log: what a writer is that is killed before it has files."""
    log = table._handle.log
    assert isinstance(log, KafkaLog)
    return log.appender()


def row(table: ts.Table, k: int, v: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": k, "v": v}], table.schema)


KINDS = {"+I": 0, "-D": 3}


def killed(table: ts.Table, kind: str, k: int, v: int = 0, *, bucket: int = 0, number: int = 1) -> None:
    """A writer whose row is in the log and in no file."""
    to = appender(table)
    to.write(bucket, pa.array([KINDS[kind]], pa.int8()), row(table, k, v))
    if table.options.get("log.consistency") == "eventual":
        to.flush()
    else:
        to.commit(CommitMark("killed", number))


@pytest.mark.parametrize("consistency", [{}, EVENTUAL], ids=["transactional", "eventual"])
@pytest.mark.sample(1)
def test_commits_of_deletes_alone_are_read(
    kafka: Broker, tmp_path: Path, consistency: dict[str, str]
) -> None:
    t = create(kafka, tmp_path, **consistency)
    t.write([{"k": k, "v": k} for k in range(6)])
    cursor = next(iter(t.stream(follow=False))).cursor
    t.delete("k = 1")
    [step] = t.stream(start=cursor, follow=False)
    assert step.to_arrow().to_pylist() == [{"rowkind": "-D", "k": 1, "v": 1}]
    killed(t, "-D", 2, bucket=_bucket(t, 2))
    assert sorted(r["k"] for r in t.scan(log=True).to_arrow().to_pylist()) == [0, 3, 4, 5]
    assert t.log is not None
    assert len(t.log.finish()) == 1
    killed(t, "-D", 3, bucket=_bucket(t, 3), number=2)
    t.write([{"k": 7, "v": 7}])
    killed(t, "-D", 4, bucket=_bucket(t, 4), number=3)
    t.compact()
    held.require_prefix(ts.connect(str(tmp_path)), t)
    assert [r["k"] for r in t.scan().to_arrow().sort_by("k").to_pylist()] == [0, 5, 7]
    killed(t, "-D", 0, bucket=_bucket(t, 0), number=4)
    t.overwrite([{"k": 8, "v": 8}])
    assert held.rows(t) == ["{'k': 8, 'v': 8}"]
    ts.connect(str(tmp_path)).drop_table("d.t")


def _bucket(table: ts.Table, k: int) -> int:
    """The bucket of a key, as the log has it."""
    rows = row(table, k, 0)
    [(_, bucket, _)] = routing.route(rows, table.store.schema, table.store.options)
    return int(bucket)


LOGS = {"keyed": (True, {}), "eventual": (True, EVENTUAL), "append": (False, {})}


@pytest.mark.large
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.sample(1)
def test_a_table_goes_on_after_a_silence_longer_than_retention(
    kafka: Broker, tmp_path: Path, log: str
) -> None:
    keyed, consistency = LOGS[log]
    t = create(kafka, tmp_path, keyed=keyed, **{"log.retention": "7 d", **consistency})
    t.write([{"k": k, "v": 0} for k in range(6)])
    steps: dict[str, Callable[[ts.Table], Any]] = {
        "finish": lambda t: t.log.finish(),
        "write": lambda t: t.write([{"k": 6, "v": 1}]),
        "delete": lambda t: t.delete("k = 0"),
        "compact": lambda t: t.compact(full=True),
        "set": lambda t: t.alter(ts.set_options({"log.retention": "6 d"})),
        "overwrite": lambda t: t.overwrite([{"k": k, "v": 2} for k in range(3)]),
        "truncate": lambda t: t.truncate(),
        "write again": lambda t: t.write([{"k": 1, "v": 3}]),
    }
    for name, step in steps.items():
        expire(kafka, t)
        step(t)
        t = t.refresh()
        assert t.check() == [], name
        assert t.log is not None
        assert t.log.in_files == t.log.end, name
    assert held.rows(t) == ["{'k': 1, 'v': 3}"]
    ts.connect(str(tmp_path)).drop_table("d.t")


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.sample(1)
def test_readers_go_on_by_files_where_the_topic_is_empty(kafka: Broker, tmp_path: Path, log: str) -> None:
    keyed, consistency = LOGS[log]
    t = create(kafka, tmp_path, keyed=keyed, **{"log.retention": "7 d", **consistency})
    t.write([{"k": k, "v": 0} for k in range(4)])
    first = t.stream(follow=False, consumer="early")
    assert [step.to_arrow().num_rows for step in first] == [4]
    t.write([{"k": 4, "v": 1}])
    [late] = t.stream(start=2, follow=False, consumer="late")
    assert (late.source, late.to_arrow()["k"].to_pylist()) == ("log", [4])
    expire(kafka, t)
    assert list(t.stream(follow=False, consumer="late")) == []
    t.write([{"k": 5, "v": 2}])
    expire(kafka, t)
    t.write([{"k": 6, "v": 3}])
    for consumer, numbers in (("early", [4, 5, 6]), ("late", [5, 6])):
        steps = list(t.stream(follow=False, consumer=consumer))
        assert [step.to_arrow()["k"].to_pylist() for step in steps] == [[k] for k in numbers]
        assert [step.source for step in steps] == ["files"] * (len(numbers) - 1) + ["log"]
        assert all("of bucket" in str(step.reason) for step in steps[:-1])
    earliest = [
        row["k"] for step in t.stream(start="earliest", follow=False) for row in step.to_arrow().to_pylist()
    ]
    assert sorted(earliest) == [0, 1, 2, 3, 4, 5, 6]
    ts.connect(str(tmp_path)).drop_table("d.t")


@pytest.fixture
def open_transaction(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ts.Table, ts.Table, Sender]]:
    """A table, the same with the slot of another writer, and a transaction of the first with row 1 that is
    still open."""
    monkeypatch.setattr(kafka_appender, "_VISIBLE_SECONDS", 0.3)
    t = create(kafka, tmp_path, **{"bucket": 1, "log.retention": "7 d"})
    log = t._handle.log
    assert isinstance(log, KafkaLog)
    with log.sending() as sender:
        sender.begin()
        sender.send(0, *log.format.encode(pa.array([0], pa.int8()), row(t, 1, 1)), None)
        sender.arrived()
        yield t, t.with_options({"tablestore.log.writer-slot": 1}), sender
    ts.connect(str(tmp_path)).drop_table("d.t")


def test_rows_behind_an_open_transaction_are_acknowledged_when_files_have_them(
    kafka: Broker, open_transaction: tuple[ts.Table, ts.Table, Sender]
) -> None:
    t, other, sender = open_transaction
    with pytest.raises(FilesBehindLog, match="still open"):
        other.write([{"k": 2, "v": 2}])
    assert t.log is not None
    assert (t.log.finish(), t.scan(log=True).count(), t.check()) == ((), 0, [])
    sender.abort()
    while not t.log.finish():  # the broker ends it soon
        time.sleep(0.02)
    assert held.rows(t) == ["{'k': 2, 'v': 2}"]
    assert t.log.in_files == t.log.end
    expire(kafka, t, p0=OFFSET_END)
    assert not other.write([{"k": 3, "v": 3}]).from_log
    assert (t.scan().count(), t.check()) == (2, [])


def test_rows_of_writers_that_lie_among_each_other_are_all_in_files(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_appender, "_VISIBLE_SECONDS", 0.3)
    t = create(kafka, tmp_path, **{"bucket": 1})
    other = t.with_options({"tablestore.log.writer-slot": 1})
    send = Sender.send

    def in_between(self: Sender, partition: int, *rows: Any) -> None:
        send(self, partition, *rows)
        if str(self.slot).endswith("-0") and not between:
            self.arrived()
            between.append(7)
            with pytest.raises(FilesBehindLog):
                other.write([{"k": 7, "v": 7}])

    between: list[int] = []
    monkeypatch.setattr(Sender, "send", in_between)
    with t.writer(user="one", identifier=1) as writer:
        for k in range(3):
            writer.write([{"k": k, "v": 0}])
    assert between == [7]
    assert held.rows(t) == [f"{{'k': {k}, 'v': {0 if k < 7 else 7}}}" for k in (0, 1, 2, 7)]
    assert t.position("one") == (1, None)
    assert t.check() == []
    ts.connect(str(tmp_path)).drop_table("d.t")


@pytest.mark.parametrize("tiered", [False, True], ids=["files", "tiered"])
@pytest.mark.sample(1)
def test_rows_that_are_lost_are_named_until_the_table_goes_on_without_them(
    kafka: Broker, tmp_path: Path, tiered: bool
) -> None:
    options = {"tablestore.tiering.enabled": True} if tiered else {}
    t = create(kafka, tmp_path, **{"log.retention": "7 d", **options})
    assert t.log is not None
    if not tiered:
        t.write([{"k": 1, "v": 1}])
    begin = dict(t.log.end)
    killed(t, "+I", 100, bucket=0)
    killed(t, "+I", 101, bucket=0, number=2)
    expire(kafka, t)
    topic, end = t.log.topic, t.log.end
    gone = end[0] - begin[0]
    lost = f"topic '{topic}', partition 0: offsets {begin[0]} to {end[0] - 1} \\(at most {gone} rows\\)"
    calls: list[Callable[[], Any]] = [
        lambda: t.log and t.log.finish(),
        lambda: t.scan(log=True).to_arrow(),
        lambda: t.delete("k = 1"),
        lambda: t.overwrite([{"k": 1, "v": 2}]),
    ]
    for call in calls if tiered else [*calls, lambda: t.write([{"k": 2, "v": 2}]), t.compact]:
        with pytest.raises(LogExpired, match=lost):
            call()
    for start in ("earliest", "latest-full"):
        with pytest.raises((LogExpired, NotFound), match=r"table\.log\.repair\(\)"):
            list(t.stream(start=start, follow=False))
    [actual] = t.check()
    assert actual.invariant == "I14"
    assert f"offsets {begin[0]} to {end[0] - 1}" in actual.text
    assert "table.log.repair()" in actual.text
    killed(t, "+I", 7, 7, bucket=_bucket(t, 7), number=3)
    assert t.log.repair() == {0: gone}
    assert t.log.repair() == {}
    t.write([{"k": 2, "v": 2}])
    t.log.finish()
    assert held.rows(t)[-2:] == ["{'k': 2, 'v': 2}", "{'k': 7, 'v': 7}"]
    assert t.check() == []
    ts.connect(str(tmp_path)).drop_table("d.t")


@pytest.mark.parametrize("mode", ["all", "upsert"])  # the topic of upserts is compacted
@pytest.mark.sample(1)
def test_a_topic_that_was_made_again_is_named_and_lengthened(
    kafka: Broker, tmp_path: Path, mode: str
) -> None:
    t = create(kafka, tmp_path, **{"log.changelog-mode": mode})
    t.write([{"k": k, "v": 0} for k in range(30)])
    log = t._handle.log
    assert isinstance(log, KafkaLog)
    for future in kafka.admin.delete_topics([log.topic]).values():
        future.result(60)
    log.close()
    until = time.monotonic() + 240
    while not log.make():
        assert time.monotonic() < until, "the topic does not go"
    calls: list[Callable[[], Any]] = [
        lambda: t.write([{"k": 1, "v": 1}]),
        lambda: t.log and t.log.finish(),
        t.compact,
    ]
    for call in calls:
        with pytest.raises(Corrupt, match="it ends at offset 0, and files of the table have its rows up to"):
            call()
    assert ["ends at" in violation.text for violation in t.check()] == [True]
    with pytest.raises(Corrupt, match="it ends at offset 0"):
        list(t.stream(follow=False))
    assert t.log is not None
    assert t.log.repair() == {}
    t.write([{"k": 1, "v": 1}])
    assert t.check() == []
    assert t.scan(log=True).count() == 30
    state: dict[int, int] = {}
    for step in t.stream(start="earliest", follow=False):  # files have what was there before
        state |= {row["k"]: row["v"] for row in step.to_arrow().to_pylist()}
    assert state == {k: int(k == 1) for k in range(30)}
    ts.connect(str(tmp_path)).drop_table("d.t")


def test_rows_of_others_before_a_commit_that_is_there_twice_are_in_files(
    kafka: Broker, tmp_path: Path
) -> None:
    """Two transactions of two partitions each; each is first in one of them, and one was there before."""
    t = create(kafka, tmp_path)
    other = t.with_options({"tablestore.log.writer-slot": 1})
    keys = {1: keys_of(t, range(8)), 2: keys_of(t, range(8, 16))}
    t.write([{"k": k, "v": 1} for k in keys[1]], user="one", identifier=1)
    log, others = t._handle.log, other._handle.log
    assert isinstance(log, KafkaLog)
    assert isinstance(others, KafkaLog)
    with log.sending() as again, others.sending() as first:
        parts = [
            (again, TransactionMark("a", 100, 1, {0: 1, 1: 1}, CommitMark("one", 1)), 1),
            (first, TransactionMark("b", 100, 1, {0: 1, 1: 1}, CommitMark("other", 4)), 2),
        ]
        again.begin()
        first.begin()
        for bucket, order in ((0, parts), (1, parts[::-1])):
            for sender, mark, value in order:
                message = log.format.encode(pa.array([0], pa.int8()), row(t, keys[value][bucket], value))
                sender.send(bucket, *message, [(HEADER, mark.encode())])
                sender.arrived()
        again.finish()
        first.finish()
    assert t.log is not None
    while t.log.finish() or t.position("other") is None:  # the broker ends transactions soon
        time.sleep(0.02)
    wanted = [f"{{'k': {k}, 'v': {value}}}" for value in keys for k in keys[value]]
    assert (held.rows(t), t.check()) == (sorted(wanted), [])
    assert (t.position("one"), t.position("other")) == ((1, None), (4, None))


def keys_of(table: ts.Table, among: range) -> list[int]:
    """A key of each bucket."""
    actual = {_bucket(table, k): k for k in among}
    return [actual[bucket] for bucket in sorted(actual)]


def test_a_commit_is_not_looked_for_before_an_open_transaction(
    open_transaction: tuple[ts.Table, ts.Table, Sender], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lie behind that: to append it again would be twice."""
    monkeypatch.setattr(kafka_log, "_DECIDED_SECONDS", 0.3)
    _, other, sender = open_transaction
    with pytest.raises(FilesBehindLog, match="still open"):
        other.write([{"k": 2, "v": 2}])
    with pytest.raises(Unavailable, match="hides what lies behind it; nothing was written"):
        other.write([{"k": 3, "v": 3}], user="stream", identifier=1)
    sender.abort()
    assert other.write([{"k": 3, "v": 3}], user="stream", identifier=1).rows == 1
    assert other.write([{"k": 3, "v": 3}], user="stream", identifier=1).replayed
    assert sorted(held.rows(other)) == ["{'k': 2, 'v': 2}", "{'k': 3, 'v': 3}"]


def test_the_doctor_names_rows_of_a_topic_that_are_gone_or_wait(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = create(kafka, tmp_path, **{"bucket": 1, "log.retention": "7 d"})
    t.write([{"k": 1, "v": 1}])

    def found() -> dict[str, Finding]:
        return {f.kind: f for f in ts.connect(str(tmp_path)).table("d.t").inspect.doctor() if "log" in f.kind}

    assert found() == {}
    killed(t, "+I", 2)
    assert found() == {}
    with monkeypatch.context() as patch:
        patch.setattr(KafkaLog, "retention_ms", lambda _: 2)
        time.sleep(0.02)
        late = found()["unfinished log"]
        assert ("partition 0: up to 2 rows wait for files" in late.what, late.remedy) == (
            True,
            "table.log.finish()",
        )
    expire(kafka, t, p0=OFFSET_END)
    damaged = found()["damaged log"]
    assert "gone, retention was faster" in damaged.what
    table = ts.connect(str(tmp_path)).table("d.t")
    assert damaged.remedy == "table.log.repair()"
    assert table.mend(damaged, dry_run=False, decided=True).done
    assert (found(), table.refresh().check()) == ({}, [])
