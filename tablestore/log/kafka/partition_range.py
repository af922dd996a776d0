"""The messages of one partition between two offsets, in batches of bounded size.

Offsets have gaps: markers of transactions, messages of aborted ones, what compaction removed. So the read is
over when a message at or behind the end comes, or the broker says that the end of the partition is there.
Memory: about 16 MB of messages and 32 MB in the client's queue, and a message however large.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.core.errors import NotFound, Unavailable
from tablestore.core.extras import required
from tablestore.format.messages.messages import Messages
from tablestore.log.kafka.cluster import PASSING, BrokerCluster, Properties, consumer, hidden

_BATCH_BYTES, _BATCH_MESSAGES, _FIRST_MESSAGES = 16 << 20, 20_000, 64
_WAIT_SECONDS, _SILENT_SECONDS = 0.05, 60.0
_TIMES = ("NoTimestampType", "CreateTime", "LogAppendTime")


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """The messages of a partition from offset `start` up to `end`, which is not among them; with `metadata`
    with their times and headers. That some are gone is an error, unless `fail_on_data_loss` is off."""

    properties: Properties
    topic: str
    partition: int
    start: int
    end: int
    fail_on_data_loss: bool = True
    metadata: bool = False

    def read(self) -> Iterator[Messages]:
        """The messages in their order, the same at each reading as long as the topic keeps them. Raises
        NotFound where it does not, Unavailable where the brokers are silent."""
        if self.start >= self.end:
            return
        kafka = required("confluent_kafka", by="topics of Kafka")
        reset = {"auto.offset.reset": "error" if self.fail_on_data_loss else "earliest"}
        reading = consumer(self.properties, reset, by="topics of Kafka")
        try:
            reading.assign([kafka.TopicPartition(self.topic, self.partition, self.start)])
            yield from self._batches(reading, kafka.KafkaError)
        finally:
            reading.close()

    def gone(self, first: int) -> NotFound:
        """The error of messages before offset `first` that the topic no longer has."""
        return NotFound(
            f"{self}: offsets {self.start} to {first - 1} are gone, retention was faster than the reader; "
            "begin anew with 'scan.startup.mode', or go on without them: "
            "'tablestore.fail-on-data-loss' = 'false'"
        )

    def _batches(self, consumer: Any, errors: Any) -> Iterator[Messages]:
        wanted, heard = _FIRST_MESSAGES, SYSTEM.monotonic()
        over = False
        while not over:
            messages, over = self._until_end(consumer.consume(wanted, _WAIT_SECONDS), errors)
            if messages:
                batch = self._messages(messages)
                yield batch
                size = max(1, (batch.values.nbytes + batch.keys.nbytes) // len(messages))
                wanted = max(1, min(_BATCH_MESSAGES, 4 * wanted, _BATCH_BYTES // size))
                heard = SYSTEM.monotonic()
            elif not over and SYSTEM.monotonic() - heard > _SILENT_SECONDS:
                raise Unavailable(f"{self}: nothing came for {_SILENT_SECONDS:.0f} seconds")

    def _until_end(self, messages: list[Any], errors: Any) -> tuple[list[Any], bool]:
        """(the messages before the end, whether the end was reached)."""
        before = []
        for message in messages:
            error = message.error()
            if error is None:
                if message.offset() < self.end:
                    before.append(message)
                if message.offset() >= self.end - 1:
                    return before, True
            elif error.code() == errors._PARTITION_EOF:
                if message.offset() >= self.end:
                    return before, True
            elif error.code() == errors._AUTO_OFFSET_RESET:
                place = self.topic, self.partition
                raise self.gone(BrokerCluster(self.properties).earliest([place])[place])
            elif not error.retriable() and error.name() not in PASSING:
                raise Unavailable(f"{self}: {hidden(error.str(), self.properties)}")
        return before, False

    def _messages(self, messages: list[Any]) -> Messages:
        offsets = np.fromiter((m.offset() for m in messages), np.int64, len(messages))
        keys = pa.array([m.key() for m in messages], pa.binary())
        values = pa.array([m.value() for m in messages], pa.binary())
        metadata = _metadata(messages) if self.metadata else None
        return Messages(self.topic, self.partition, offsets, keys, values, metadata)

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}"


def _metadata(messages: list[Any]) -> pa.StructArray:
    """What else is known of messages."""
    kinds, times = zip(*(m.timestamp() for m in messages), strict=True)
    millis = pa.array([time if kind else None for kind, time in zip(kinds, times, strict=True)], pa.int64())
    headers = pa.array([m.headers() or [] for m in messages], pa.map_(pa.string(), pa.binary()))
    names = pa.array([_TIMES[kind] for kind in kinds], pa.string())
    arrays = [millis.cast(pa.timestamp("ms", "UTC")), names, headers]
    return pa.StructArray.from_arrays(arrays, names=["timestamp", "timestamp-type", "headers"])
