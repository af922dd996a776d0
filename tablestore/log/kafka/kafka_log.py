"""The log of a table in a topic of Kafka: a bucket is a partition.

Transactional: a commit of the table is one transaction of the slot, and its mark rides in a header of the
first message of each partition, with the number of its messages in each. So whoever reads behind the offsets
of the newest snapshot finds which commits lie there. Eventual: messages are there at once and have no mark.
Readers see committed messages only. Offsets have gaps.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidOption, SchemaMismatch
from tablestore.core.options.log_store import LogFormat
from tablestore.format.messages.messages import Messages
from tablestore.io.fileio import FileIO
from tablestore.log.kafka import topics
from tablestore.log.kafka.cluster import Cluster, Properties
from tablestore.log.kafka.kafka_appender import KafkaAppender
from tablestore.log.kafka.overlap import overlapped
from tablestore.log.kafka.row_format import RowFormat
from tablestore.log.kafka.row_values import AvroEventRows, JsonEventRows, JsonRows, ValueFormat
from tablestore.log.kafka.sender import Sender
from tablestore.log.kafka.tail import Tail
from tablestore.log.kafka.transaction_mark import HEADER, TransactionMark
from tablestore.log.log import Appended, Appender, CommitMark, LogBatch, LogBounds
from tablestore.log.offsets import Offsets
from tablestore.log.settings import LogSettings


class KafkaLog:
    """The log of one table. Safe to share between threads."""

    def __init__(self, settings: LogSettings, io: FileIO) -> None:
        self._settings, self._io = settings, io
        if settings.topic is None:
            raise InvalidOption("option 'kafka.topic' is missing: which topic is the log of the table?")
        self.topic = topics.legal_topic(settings.topic)
        self._lock = threading.Lock()
        self._tails: list[Tail] = []
        self._sender: Sender | None = None
        self._use = threading.Lock()

    @cached_property
    def properties(self) -> Properties:
        """The properties of librdkafka; secrets still as names of the environment."""
        return (("bootstrap.servers", str(self._settings.servers)), *sorted(self._settings.kafka.items()))

    @cached_property
    def format(self) -> RowFormat:
        """How rows are messages."""
        s = self._settings
        columns = s.schema.fields
        values: ValueFormat = JsonRows(columns)
        if s.value_format is LogFormat.DEBEZIUM_JSON:
            values = JsonEventRows(columns)
        elif s.value_format is LogFormat.DEBEZIUM_AVRO:
            values = AvroEventRows(columns, s.registry, s.subject or f"{self.topic}-value")
        return RowFormat(columns, tuple(s.schema.primary_keys), s.upsert, values)

    def make(self) -> bool:
        """Make the topic; False if it was there and is adopted. Raises InvalidOption for one with another
        number of partitions, Unsupported for columns that no message can hold."""
        self.format.require_valid()
        s = self._settings
        return topics.make_topic(
            self.properties, self.topic, s.buckets, retention_ms=s.retention_ms, compact=s.upsert
        )

    def set_retention(self, retention_ms: int | None) -> None:
        """Keep rows for another time; None: as long as the cluster says."""
        topics.set_retention(self.properties, self.topic, retention_ms)

    def bounds(self) -> LogBounds:
        """Where the log starts and ends now. Raises NotFound if its topic is gone."""
        start = Cluster(self.properties).earliest(self._places)
        return LogBounds({b: offset for (_, b), offset in start.items()}, self._end())

    def _end(self) -> dict[int, int]:
        """The offset behind the last message of each bucket that may be read."""
        return {b: end for (_, b), end in Cluster(self.properties).latest(self._places).items()}

    def appender(self) -> Appender:
        """A new appender."""
        return KafkaAppender(self, self._settings, self._io)

    def read(self, start: Offsets, stop: Offsets, columns: Sequence[str] | None = None) -> Iterator[LogBatch]:
        """The rows between the offsets, of each bucket in order. Large batches are decoded while the next
        ones come: memory is that of two."""
        names = list(self._settings.schema.names if columns is None else columns)
        with closing(self._messages(start, stop)) as found:
            yield from overlapped(found, lambda m: self._decoded(*m, names), lambda m: len(m[1]))

    def _decoded(self, bucket: int, found: list[Any], names: Sequence[str]) -> LogBatch:
        """Messages of a bucket as rows."""
        messages, times = _columns(self.topic, bucket, found)
        changes = self.format.decode(messages, names)
        if changes.num_rows != len(found):
            raise SchemaMismatch(f"topic {self.topic!r}: messages that are no rows of the table")
        end = int(messages.offsets[-1]) + 1
        return LogBatch(bucket, messages.offsets, times, changes.kinds, changes.rows, end)

    def has_rows(self, bucket: int, start: int, stop: int) -> bool:
        """Whether committed messages lie between two offsets of a bucket."""
        there = {b: o for (_, b), o in Cluster(self.properties).earliest(self._places).items()}
        begin = {**there, bucket: max(start, there[bucket])}
        return next(self._messages(begin, {bucket: stop}), None) is not None

    def transactions(self, start: Offsets) -> Iterator[Appended]:
        """What was appended behind `start`, in the order of the log."""
        found: dict[str, _Found] = {}
        open_: dict[int, tuple[_Found, int]] = {}
        for bucket, messages in self._messages(self._filled(start), self.bounds().end):
            for message in messages:
                marks = message.headers() or ()
                text = next((value for key, value in marks if key == HEADER), None)
                if text is not None:
                    mark = TransactionMark.decode(text)
                    new = _Found(mark.order, mark.mark, mark.rows, mark.timestamp_ms)
                    one = found.setdefault(mark.id, new)
                    open_[bucket] = one, one.rows.get(bucket, 0)
                if bucket not in open_:  # without a mark: written at once, or by others
                    one = found.setdefault("", _Found(0, None, {}, 0))
                    one.take(bucket, message)
                    continue
                one, remaining = open_.pop(bucket)
                one.take(bucket, message)
                if remaining > 1:
                    open_[bucket] = one, remaining - 1
        for one in sorted(found.values(), key=lambda f: f.order):
            yield Appended(one.start, one.end, one.timestamp_ms, one.mark)

    def at(self, timestamp_ms: int) -> dict[int, int]:
        """The offset of the first row of each bucket that is not older than a moment; the end, if none."""
        return {b: o for (_, b), o in Cluster(self.properties).at(self._places, timestamp_ms).items()}

    def wait(self, offsets: Offsets, seconds: float) -> Offsets | None:
        """Wait until a bucket has rows behind `offsets`; then the end as far as messages have come, or with
        transactions, of which a part may have come, as the broker says. None after that time without any."""
        tail = self._taken(offsets)
        try:
            found = tail.wait(self._filled(offsets), seconds)
        except BaseException:
            tail.close()
            raise
        self._give_back(tail)
        return found if found is None or self._settings.eventual else self._end()

    def expire(self, keep: Offsets, *, everywhere: Offsets | None = None) -> int:
        """Nothing: the brokers remove old messages, as the topic says."""
        return 0

    def drop(self) -> None:
        """Remove the topic, unless it was there before the table."""
        self.close()
        if not self._settings.adopted:
            topics.drop_topic(self.properties, self.topic)

    def close(self) -> None:
        """Let go of connections."""
        with self._lock:
            tails, self._tails, self._sender = self._tails, [], None
        for tail in tails:
            tail.close()

    @contextmanager
    def sending(self) -> Iterator[Sender]:
        """The sender of this log, for one transaction; made anew after an error, since its slot may have
        been taken over."""
        s = self._settings
        with self._use:
            if self._sender is None:
                slot = None if s.eventual else f"tablestore-{s.uuid or self.topic}-{s.slot}"
                self._sender = Sender(self.properties, self.topic, slot, s.compression.value)
            try:
                yield self._sender
            except BaseException:
                self._sender = None
                raise

    def __repr__(self) -> str:
        return f"KafkaLog(topic {self.topic!r} at {self._settings.servers}, {self._settings.buckets} buckets)"

    @cached_property
    def _places(self) -> list[tuple[str, int]]:
        return [(self.topic, b) for b in range(self._settings.buckets)]

    def _filled(self, offsets: Offsets) -> dict[int, int]:
        """The offsets of all buckets; those that are not named stand at the start of the log."""
        missing = [b for b in range(self._settings.buckets) if b not in offsets]
        start = self.bounds().start if missing else {}
        return {b: offsets[b] if b in offsets else start[b] for b in range(self._settings.buckets)}

    def _messages(self, start: Offsets, stop: Offsets) -> Generator[tuple[int, list[Any]]]:
        tail = self._taken(start)
        try:
            yield from tail.read(self._filled(start), stop)
        except BaseException:
            tail.close()
            raise
        self._give_back(tail)

    def _taken(self, offsets: Mapping[int, int]) -> Tail:
        """A tail that nobody uses, best one that stands at these offsets."""
        with self._lock:
            for i, tail in enumerate(self._tails):
                if all(tail.positions.get(b) == o for b, o in offsets.items()):
                    return self._tails.pop(i)
            if self._tails:
                return self._tails.pop()
        return Tail(self.properties, self.topic)

    def _give_back(self, tail: Tail) -> None:
        with self._lock:
            if len(self._tails) < 2:
                self._tails.append(tail)
                return
        tail.close()


@dataclass(slots=True)
class _Found:
    """A transaction that is being read: how many rows it has in each bucket, and where they are so far."""

    order: int
    mark: CommitMark | None
    rows: Mapping[int, int]
    timestamp_ms: int
    start: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)

    def take(self, bucket: int, message: Any) -> None:
        self.start.setdefault(bucket, message.offset())
        self.end[bucket] = message.offset() + 1
        self.timestamp_ms = self.timestamp_ms or message.timestamp()[1]


def _columns(topic: str, bucket: int, found: list[Any]) -> tuple[Messages, np.ndarray]:
    """(messages as columns, their times in milliseconds). Keys are there where a value is not."""
    kind = type(found[0])  # its methods, called from C, cost half of what a loop does
    first, last = found[0].offset(), found[-1].offset()
    if last - first + 1 == len(found):
        offsets = np.arange(first, last + 1)
    else:
        offsets = np.fromiter(map(kind.offset, found), np.int64, len(found))
    times = np.fromiter(map(itemgetter(1), map(kind.timestamp, found)), np.int64, len(found))
    values = pa.array(map(kind.value, found), pa.binary(), size=len(found))
    keys = pa.array(map(kind.key, found), pa.binary()) if values.null_count else values.slice(0, 0)
    return Messages(topic, bucket, offsets, keys, values), times
