"""The log of a table in a topic of Kafka: a bucket is a partition.

Transactional: a commit of the table is one transaction of the slot, and its mark rides in a header of the
first message of each partition, with the number of its messages in each. So whoever reads behind the offsets
of the newest snapshot finds which commits lie there. Eventual: messages are there at once and have no mark.
Readers see committed messages only. Offsets have gaps.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidOption, SchemaMismatch, Unavailable
from tablestore.core.options.environment import ENVIRONMENT, require_trusted
from tablestore.core.options.log_store import LogFormat
from tablestore.format.messages.messages import BadMessage, Changes, Messages, readable
from tablestore.format.predicates import evaluate
from tablestore.format.predicates.predicate import Predicate
from tablestore.io.fileio import FileIO
from tablestore.log.kafka import topics
from tablestore.log.kafka.cluster import BrokerCluster, Partition, Properties, require_trusted_servers
from tablestore.log.kafka.kafka_appender import KafkaAppender
from tablestore.log.kafka.row_format import (
    AvroEventRows,
    JsonEventRows,
    JsonRows,
    RowFormat,
    ValueFormat,
    overlapped,
)
from tablestore.log.kafka.sender import Sender
from tablestore.log.kafka.tail import Tail, missing_rows, missing_text, require_written
from tablestore.log.kafka.transactions import Transactions
from tablestore.log.log import Appended, Appender, LogBatch, LogBounds, LogExpired
from tablestore.log.offsets import Offsets
from tablestore.log.settings import LogSettings

_DECIDED_SECONDS = 5.0
_SPENT_AT_ONCE = 10_000  # offsets without rows


class KafkaLog:
    """The log of one table. Safe to share between threads."""

    def __init__(self, settings: LogSettings, io: FileIO, env: Env = SYSTEM) -> None:
        self._settings, self._io, self._env = settings, io, env
        if settings.topic is None:
            raise InvalidOption("option 'kafka.topic' is missing: which topic is the log of the table?")
        self.topic = topics.legal_topic(settings.topic)
        self._lock = threading.Lock()
        self._tails: list[Tail] = []
        self._sender: Sender | None = None
        self._use = threading.Lock()

    @cached_property
    def properties(self) -> Properties:
        """The properties of librdkafka; secrets still as names of the environment. Raises InvalidRequest
        where they would go to servers that the user does not trust."""
        properties = (
            ("bootstrap.servers", str(self._settings.servers)),
            *sorted(self._settings.kafka.items()),
        )
        require_trusted_servers(properties)
        return properties

    @cached_property
    def format(self) -> RowFormat:
        """How rows are messages. Raises InvalidRequest as `properties`."""
        s = self._settings
        if any(ENVIRONMENT in value for _, value in s.registry):
            own = "the user and the password of its schema registry"
            require_trusted(own, [value for key, value in s.registry if key == "url"])
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

    def retention_ms(self) -> int | None:
        """How long the brokers keep rows, files or no files; None: for ever."""
        return topics.retention_ms(self.properties, self.topic)

    def bounds(self) -> LogBounds:
        """Where the log starts and ends now. Raises NotFound if its topic is gone."""
        cluster, places = BrokerCluster(self.properties), self._places
        start, end = _by_bucket(cluster.earliest(places)), self._end()
        return LogBounds(start, end, _by_bucket(cluster.written(places)))

    def _end(self) -> dict[int, int]:
        """The offset behind the last message of each bucket that may be read."""
        return _by_bucket(BrokerCluster(self.properties).latest(self._places))

    def require_end(self, at: Offsets, bounds: LogBounds) -> None:
        """Raise Corrupt where the topic ends before `at`, up to which files have its rows: it was made again,
        or a broker lost messages."""
        require_written(self.topic, at, bounds.last)

    def whole_bounds(self, at: Offsets) -> LogBounds:
        """`bounds`. Raises what `require_end` does, and LogExpired where rows behind `at` are gone: that a
        topic keeps nothing of them looks like one all of which is in files."""
        bounds = self.bounds()
        self.require_end(at, bounds)
        lost = self.lost(at, bounds.start)
        if lost:
            text = f"{missing_text(self.topic, lost)}, and no file of the table has them"
            raise LogExpired(f"{text}: table.log.repair() goes on without them")
        return bounds

    def require_decided(self) -> None:
        """Wait until all that was written before is committed or aborted, so that whoever reads sees it. An
        open transaction of this log's own slot is aborted. Raises Unavailable where that of another stays
        open: what lies behind it is not seen."""
        if self._settings.eventual:
            return
        cluster = BrokerCluster(self.properties)
        written = cluster.written(self._places)
        if cluster.reached(written, 0):
            return
        with self.sending():  # opens the slot
            pass
        if not cluster.reached(written, _DECIDED_SECONDS):
            text = "a transaction of another writer is open, and hides what lies behind it"
            raise Unavailable(
                f"topic {self.topic!r}: {text}; nothing was written. Retry later: the writer ends it, or the "
                "brokers do 15 minutes after it began"
            )

    def lost(self, at: Offsets, start: Offsets) -> dict[int, range]:
        """The offsets of each bucket behind `at` that the log, which begins at `start`, no longer has.

        That of a topic that was there before the table had begun anywhere before the table named it."""
        begin = at if self._settings.adopted else {**dict.fromkeys(start, 0), **at}
        return missing_rows(begin, start)

    def without_rows(self, at: Offsets, *, committed: bool = False) -> dict[int, int]:
        """The offsets up to which nothing follows `at` but ends of transactions and what was aborted.
        `committed`: `at` is behind the rows of a transaction, whose end follows in each of these buckets."""
        places = [(self.topic, b) for b in at]
        visible = _by_bucket(BrokerCluster(self.properties).latest(places))
        written = _by_bucket(BrokerCluster(self.properties).written(places))
        passed = dict(at)
        for bucket, offset in at.items():
            if committed and visible[bucket] == offset + 1 == written[bucket]:
                passed[bucket] = offset + 1
            elif visible[bucket] > offset:
                first = self._first_row(bucket, offset, visible[bucket])
                passed[bucket] = visible[bucket] if first is None else first
        return passed

    def appender(self) -> Appender:
        """A new appender."""
        return KafkaAppender(self, self._settings, self._io, self._env)

    def read(
        self,
        start: Offsets,
        stop: Offsets,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
    ) -> Iterator[LogBatch]:
        """The rows between the offsets, of each bucket in order; with a bound condition those that it
        selects. Large batches are decoded while the next ones come: memory is that of two."""
        names = list(self._settings.schema.names if columns is None else columns)
        with closing(self._messages(start, stop)) as messages:
            batches = overlapped(messages, lambda m: self._decoded(*m, names, where), lambda m: len(m[1]))
            yield from (batch for batch in batches if len(batch.offsets))

    def _decoded(
        self, bucket: int, consumed: list[Any], names: Sequence[str], where: Predicate | None
    ) -> LogBatch:
        """Messages of a bucket as rows, those that a condition selects: its columns are decoded first."""
        messages, times = _columns(self.topic, bucket, consumed)
        end = int(messages.offsets[-1]) + 1
        if where is not None:
            chosen = evaluate.mask(where, self._changes(messages, sorted(where.columns)).rows)
            messages, times = _chosen(messages, chosen), times[chosen.to_numpy(zero_copy_only=False)]
        changes = self._changes(messages, names)
        return LogBatch(bucket, messages.offsets, times, changes.kinds, changes.rows, end)

    def _changes(self, messages: Messages, names: Sequence[str]) -> Changes:
        try:
            changes = self.format.decode(messages, names)
        except SchemaMismatch:
            self._raise_first_bad(messages, names)
            raise
        if changes.num_rows != len(messages.offsets):
            raise SchemaMismatch(f"topic {self.topic!r}: messages that are no rows of the table")
        return changes

    def _raise_first_bad(self, messages: Messages, names: Sequence[str]) -> None:
        """Raise BadMessage, which names the offset, for the first message that is no row."""

        def bad(error: BadMessage, _: Messages) -> None:
            raise error from None

        if not len(messages.keys):
            messages = replace(messages, keys=pa.nulls(len(messages), pa.binary()))
        for _ in readable(messages, lambda some: self.format.decode(some, names), bad):
            pass

    def has_rows(self, bucket: int, start: int, stop: int) -> bool:
        """Whether committed messages lie between two offsets of a bucket."""
        [there] = BrokerCluster(self.properties).earliest([(self.topic, bucket)]).values()
        return self._first_row(bucket, max(start, there), stop) is not None

    def _first_row(self, bucket: int, start: int, stop: int) -> int | None:
        """The offset of the first committed message between two offsets of a bucket; None without any."""
        with closing(self._messages({bucket: start}, {bucket: stop})) as runs:
            return next((int(messages[0].offset()) for _, messages in runs), None)

    def transactions(self, start: Offsets) -> Iterator[Appended]:
        """What was appended behind `start`, in the order of the log."""
        transactions, stop = Transactions(self.topic), self._end()
        for bucket, messages in self._messages(start, stop):
            for message in messages:
                transactions.take(bucket, message)
        yield from transactions.appended(stop)

    def reach(self, at: Offsets) -> None:
        """Spend offsets, in transactions that are aborted, until the topic ends at or behind `at`: new rows
        lie behind the offsets that snapshots and readers know then. A million takes a second or two. A topic
        of the table's own begins there, so that readers take what was before from files; one that was there
        before the table keeps its messages."""
        written = _by_bucket(BrokerCluster(self.properties).written(self._places))
        missing = {b: offset - written[b] for b, offset in at.items() if written.get(b, 0) < offset}
        if not missing:
            return
        slot = f"tablestore-{self._settings.uuid or self.topic}-repair"
        sender = Sender(self.properties, self.topic, slot, self._settings.compression.value)
        for bucket, count in missing.items():
            sender.begin()
            for begin in range(0, count, _SPENT_AT_ONCE):
                empty = pa.repeat(pa.scalar(b""), min(_SPENT_AT_ONCE, count - begin))
                sender.send(bucket, empty, empty, None)
            sender.arrived()
            sender.abort()
        if not self._settings.adopted:
            topics.begin_at(self.properties, self.topic, {bucket: at[bucket] for bucket in missing})

    def at(self, timestamp_ms: int) -> dict[int, int]:
        """The offset of the first row of each bucket that is not older than a moment; the end, if none."""
        return _by_bucket(BrokerCluster(self.properties).at(self._places, timestamp_ms))

    def wait(self, offsets: Offsets, seconds: float) -> Offsets | None:
        """Wait until a bucket has rows behind `offsets`; then the end as far as messages have come, or with
        transactions, of which a part may have come, as the broker says. None after that time without any."""
        tail = self._taken(offsets)
        try:
            arrived = tail.wait(self._filled(offsets, range(self._settings.buckets)), seconds)
        except BaseException:
            tail.close()
            raise
        self._give_back(tail)
        if arrived is None or self._settings.eventual:
            return arrived
        return {b: max(end, offsets.get(b, 0)) for b, end in self._end().items()}

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

    def _filled(self, offsets: Offsets, buckets: Iterable[int]) -> dict[int, int]:
        """The offsets with those of these buckets that they do not name, which stand at the start of the log:
        at 0, unless the topic was there before the table."""
        missing = [b for b in buckets if b not in offsets]
        start = dict.fromkeys(missing, 0)
        if missing and self._settings.adopted:
            start = _by_bucket(BrokerCluster(self.properties).earliest([(self.topic, b) for b in missing]))
        return {**offsets, **start}

    def _messages(self, start: Offsets, stop: Offsets) -> Generator[tuple[int, list[Any]]]:
        begin = self._filled(start, stop)
        tail = self._taken(begin)
        try:
            yield from tail.read(begin, stop)
        except LogExpired:
            tail.close()
            first = _by_bucket(BrokerCluster(self.properties).earliest(self._places))
            asked = {b: offset for b, offset in begin.items() if offset < stop.get(b, 0)}
            if lost := missing_rows(asked, {b: min(first[b], stop[b]) for b in asked}):
                text = missing_text(self.topic, lost)
                raise LogExpired(f"{text}; table.log.repair() passes those that no file has") from None
            raise
        except GeneratorExit:  # the caller has seen enough, which may be less than what was fetched
            tail.positions = {}
            self._give_back(tail)
            raise
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


def _by_bucket(offsets: Mapping[Partition, int]) -> dict[int, int]:
    return {bucket: offset for (_, bucket), offset in offsets.items()}


def _chosen(messages: Messages, chosen: pa.BooleanArray) -> Messages:
    keys = messages.keys.filter(chosen) if len(messages.keys) else messages.keys
    offsets = messages.offsets[chosen.to_numpy(zero_copy_only=False)]
    return replace(messages, offsets=offsets, keys=keys, values=messages.values.filter(chosen))


def _columns(topic: str, bucket: int, messages: list[Any]) -> tuple[Messages, np.ndarray]:
    """(messages as columns, their times in milliseconds). Keys are there where a value is not."""
    kind = type(messages[0])  # its methods, called from C, cost half of what a loop does
    first, last = messages[0].offset(), messages[-1].offset()
    if last - first + 1 == len(messages):
        offsets = np.arange(first, last + 1)
    else:
        offsets = np.fromiter(map(kind.offset, messages), np.int64, len(messages))
    times = np.fromiter(map(itemgetter(1), map(kind.timestamp, messages)), np.int64, len(messages))
    values = pa.array(map(kind.value, messages), pa.binary(), size=len(messages))
    keys = pa.array(map(kind.key, messages), pa.binary()) if values.null_count else values.slice(0, 0)
    return Messages(topic, bucket, offsets, keys, values), times
