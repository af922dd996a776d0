"""A consumer of all partitions of one topic that stays connected, so that what was just written is read at
once; and which rows a topic no longer has that are asked for.

It reads from offsets to offsets. What comes behind the end waits for the next read, which finds the consumer
where it stands if it begins there. Offsets have gaps (markers of transactions, aborted messages): a partition
is read up to its end when a message at or behind the last wanted offset comes, or the broker says that the
partition ends there. Not thread-safe. Memory: 32 MB in the client's queue and one batch of messages.

Where messages were that are gone, nobody can say: of their offsets some may have been ends of transactions,
or messages of aborted ones. So the rows are counted as at most so many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from tablestore.core.env import SYSTEM
from tablestore.core.errors import Corrupt, Unavailable
from tablestore.core.extras import required
from tablestore.log.kafka.cluster import PASSING, Properties, consumer, hidden
from tablestore.log.log import LogExpired
from tablestore.log.offsets import Offsets

_BATCH_MESSAGES, _WAIT_SECONDS, _SILENT_SECONDS = 20_000, 0.01, 60.0


class Tail:
    """Reads the messages of a topic, those of committed transactions unless its properties say otherwise."""

    def __init__(self, properties: Properties, topic: str) -> None:
        self._kafka = required("confluent_kafka", by="a log in Kafka")
        self._properties, self._topic = properties, topic
        more = {"auto.offset.reset": "error", "fetch.wait.max.ms": 100}
        self._consumer = consumer(properties, more, by="a log in Kafka")
        self.positions: dict[int, int] = {}
        self._waiting: dict[int, list[Any]] = {}
        self._ends: dict[int, int] = {}
        self._wanted: frozenset[int] | None = None

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()

    def read(self, start: Mapping[int, int], stop: Mapping[int, int]) -> Iterator[tuple[int, list[Any]]]:
        """(partition, its next messages) from `start` up to `stop`, each partition in its order. Raises
        LogExpired for messages that are gone, Unavailable where the brokers are silent."""
        wanted = {b: stop[b] for b in stop if stop[b] > start.get(b, 0)}
        if not wanted:
            return
        self._wanted = frozenset(wanted)
        self._stand_at({**start, **{b: start.get(b, 0) for b in wanted}})
        last = SYSTEM.monotonic()
        yield from self._came(list(wanted), wanted)
        while wanted:
            missing = sum(end - self.positions[bucket] for bucket, end in wanted.items())
            came = self._poll(min(missing, _BATCH_MESSAGES), _WAIT_SECONDS)
            if came:
                last = SYSTEM.monotonic()
            elif SYSTEM.monotonic() - last > _SILENT_SECONDS:
                raise Unavailable(f"topic {self._topic!r}: nothing came for {_SILENT_SECONDS:.0f} seconds")
            yield from self._came([bucket for bucket in came if bucket in wanted], wanted)

    def _came(self, buckets: list[int], wanted: dict[int, int]) -> Iterator[tuple[int, list[Any]]]:
        """What is there of these partitions; those that are over are `wanted` no longer."""
        for bucket in buckets:
            messages, over = self._before(bucket, self._waiting.pop(bucket, []), wanted[bucket])
            if messages:
                yield bucket, messages
            if over or self._ends.get(bucket, -1) >= wanted[bucket]:
                self.positions[bucket] = wanted.pop(bucket)

    def wait(self, offsets: Mapping[int, int], seconds: float) -> dict[int, int] | None:
        """Wait until a message behind the offsets is there; then the offset behind all that have come of each
        partition. None after that time without any."""
        self._wanted = None
        self._stand_at(offsets)
        over = SYSTEM.monotonic() + seconds
        self._poll(_BATCH_MESSAGES, 0)
        while not any(self._waiting.values()):
            remaining = over - SYSTEM.monotonic()
            if remaining <= 0:
                return None
            if self._poll(1, min(remaining, 0.5)):
                self._poll(_BATCH_MESSAGES, 0)  # others that came with it
        ends = {b: messages[-1].offset() + 1 for b, messages in self._waiting.items() if messages}
        return {**self.positions, **ends}

    def _stand_at(self, offsets: Mapping[int, int]) -> None:
        if self.positions and all(self.positions.get(b) == offset for b, offset in offsets.items()):
            return
        self.positions, self._waiting, self._ends = dict(offsets), {}, {}
        places = [self._kafka.TopicPartition(self._topic, b, offset) for b, offset in offsets.items()]
        self._consumer.assign(places)

    def _before(self, bucket: int, messages: list[Any], end: int) -> tuple[list[Any], bool]:
        """(the messages before the end, whether nothing before it can follow); others wait."""
        if not messages:
            return [], False
        if messages[-1].offset() < end:
            self.positions[bucket] = messages[-1].offset() + 1
            return messages, messages[-1].offset() == end - 1
        before = [m for m in messages if m.offset() < end]
        self._waiting[bucket] = messages[len(before) :]
        return before, True

    def _poll(self, count: int, seconds: float) -> set[int]:
        """The partitions of which something came: messages, which wait now, or word of their end."""
        came = set()
        polled = self._consumer.consume(count, seconds)
        if not any(map(self._kafka.Message.error, polled)):
            for bucket, messages in groupby(polled, self._kafka.Message.partition):
                self._waiting.setdefault(bucket, []).extend(messages)
                came.add(bucket)
            return came
        for message in polled:
            error, bucket = message.error(), message.partition()
            if error is None:
                self._waiting.setdefault(bucket, []).append(message)
                came.add(bucket)
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                self._ends[bucket] = message.offset()
                came.add(bucket)
            elif error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
                if self._wanted is not None and bucket not in self._wanted:
                    self.positions.pop(bucket, None)  # nobody asks for what is gone there
                    continue
                self.positions = {}
                raise LogExpired(
                    f"topic {self._topic!r}, partition {bucket}: rows behind the offset that was asked for "
                    "are gone; retention was faster than the reader"
                )
            elif not error.retriable() and error.name() not in PASSING:
                self.positions = {}
                text = hidden(error.str(), self._properties)
                raise Unavailable(f"topic {self._topic!r}: {text}")
        return came


def missing_rows(at: Offsets, start: Offsets) -> dict[int, range]:
    """The offsets from `at` up to the first that is there, of each bucket that has such."""
    return {b: range(at[b], first) for b, first in start.items() if b in at and at[b] < first}


def missing_text(topic: str, lost: Mapping[int, range]) -> str:
    """What is gone: topic, partitions, offsets, how many rows at most."""
    parts = [
        f"partition {bucket}: offsets {gone.start} to {gone.stop - 1} (at most {len(gone):,} rows)"
        for bucket, gone in sorted(lost.items())
    ]
    return f"topic {topic!r}, {', '.join(parts)}: gone, retention was faster than who needs them"


def require_written(topic: str, at: Offsets, written: Offsets) -> None:
    """Raise Corrupt where the topic ends before the offsets up to which files have its rows."""
    for bucket, offset in sorted(at.items()):
        if written.get(bucket, 0) < offset:
            raise Corrupt(
                f"topic {topic!r}, partition {bucket}",
                f"it ends at offset {written.get(bucket, 0)}, and files of the table have its rows up to "
                f"{offset}: the topic was made again, or its brokers lost messages; what is written there "
                "would not be seen: table.log.repair() goes on behind",
            )
