"""Topics of Kafka as a stream source: ranges of their partitions (`topic_ranges`), decoded. One piece a
partition.

Messages that the format cannot read may be sent to a topic of their own, unchanged, with where they were and
why in the headers `topic`, `partition`, `offset`, `reason`. What is read again is sent again: at least once.

What is known of a message beside its value may be columns of rows: keys and types are Flink's, `key` is ours.
Only formats with a row for each message have such columns: of a message that changes several rows, or none,
it would not be said which row they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.cdc.kafka.topic_ranges import UNBOUNDED, ScanPoint, TopicRanges
from tablestore.core.errors import SchemaMismatch, Unavailable
from tablestore.core.extras import required
from tablestore.core.options import environment
from tablestore.flow.source import Changes, Offset
from tablestore.format.messages.messages import BadMessage, MessageFormat, Messages, decoded
from tablestore.format.messages.messages import Changes as MessageChanges
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.types.arrow_types import BIGINT, BYTES, INT, MAP, STRING, TIMESTAMP_LTZ
from tablestore.format.types.data_type import DataField, DataType
from tablestore.log.kafka.cluster import Properties, hidden, made, without_consumers
from tablestore.log.kafka.partition_range import PartitionRange

METADATA: dict[str, tuple[str, DataType]] = {
    "topic": ("the topic", STRING.not_null()),
    "partition": ("the number of the partition", INT.not_null()),
    "offset": ("the place in the partition", BIGINT.not_null()),
    "timestamp": ("the time of the message; NULL if it has none", TIMESTAMP_LTZ(3)),
    "timestamp-type": ("NoTimestampType, CreateTime or LogAppendTime", STRING.not_null()),
    "headers": ("the headers; of equal keys all are there", MAP(STRING.not_null(), BYTES).not_null()),
    "key": ("the bytes of the key; NULL if it has none", BYTES),
}


@dataclass(frozen=True, slots=True)
class MessageMetadata:
    """A column of rows with one of `METADATA`."""

    field: DataField
    key: str

    def require_valid(self) -> None:
        """Raise SchemaMismatch for another type than that of the metadata, or a wider one."""
        is_, declared = METADATA[self.key][1], self.field.type
        wider = (is_.root, declared.root) == ("INT", "BIGINT")
        finer = is_.root == declared.root == "TIMESTAMP_LTZ" and declared.precision >= is_.precision
        if not (wider or finer or _kind(is_) == _kind(declared)):
            raise SchemaMismatch(
                f"METADATA column {self.field.name!r} is {declared}; {self.key!r} of a message is {is_}"
            )

    def values(self, messages: Messages) -> pa.Array:
        """The metadata of each message."""
        count = len(messages)
        match self.key:
            case "topic":
                values: pa.Array = pa.repeat(pa.scalar(messages.topic), count)
            case "partition":
                values = pa.array(np.full(count, messages.partition, np.int32))
            case "offset":
                values = pa.array(messages.offsets)
            case "key":
                values = messages.keys
            case _:
                assert messages.metadata is not None, "messages are read with their metadata"
                values = messages.metadata.field(self.key)
        return values.cast(self.field.arrow.type)


def one_row_each(
    messages: Messages, changes: MessageChanges, decode: Callable[[Messages], MessageChanges]
) -> Iterator[tuple[Messages, MessageChanges]]:
    """Messages with their rows, one each, of messages that gave a row at most: those that gave none are left
    out."""
    if changes.num_rows == len(messages):
        yield messages, changes
    elif len(messages) > 1:
        half = len(messages) // 2
        for part in (messages.slice(0, half), messages.slice(half, len(messages) - half)):
            yield from one_row_each(part, decode(part), decode)


def _kind(t: DataType) -> str:
    """The type without NOT NULL, at any depth."""
    return str(t.as_nullable()).replace(" NOT NULL", "")


_SECONDS = 60


@dataclass(frozen=True)
class TopicPiece:
    """A range of one partition, decoded. `metadata`: columns that are not of the format."""

    range: PartitionRange
    format: MessageFormat
    skip_bad: bool
    dead_letters: str = ""
    metadata: tuple[MessageMetadata, ...] = ()

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """Changes in the order of the messages; all of them, whatever the condition. Raises BadMessage."""
        fields = {f.name: f for f in self.format.columns}
        of_rows = tuple(fields[name] for name in columns if name in fields)
        beside = [column for column in self.metadata if column.field.name in columns]
        chosen = self.format.of(of_rows) if of_rows else self.format
        letters = DeadLetters(self.range.properties, self.dead_letters)
        bad = letters.add if self.dead_letters else _forget
        skips = self.skip_bad or bool(self.dead_letters)
        for messages in replace(self.range, metadata=bool(beside)).read():
            for some, changes in decoded(messages, chosen, skip_bad=skips, bad=bad):
                if not beside:
                    yield changes.rows.select(list(columns)), changes.kinds
                    continue
                for these, of_these in one_row_each(some, changes, chosen.decode):
                    rows = of_these.rows
                    for column in beside:
                        rows = rows.append_column(column.field.arrow, column.values(these))
                    yield rows.select(list(columns)), of_these.kinds
        letters.flush()


def _forget(error: BadMessage, message: Messages) -> None:
    """A message that is left out and only logged."""


@dataclass(frozen=True)
class TopicStream:
    """The changes that the messages of topics mean. `limit`: messages of a partition in one batch, at
    most. `metadata`: columns behind those of the format."""

    properties: Properties
    topics: tuple[str, ...]
    format: MessageFormat
    start: ScanPoint
    bound: ScanPoint = ScanPoint(UNBOUNDED)
    skip_bad: bool = False
    fail_on_data_loss: bool = True
    limit: int = 1_000_000
    primary_key: tuple[str, ...] = ()
    dead_letters: str = ""
    metadata: tuple[MessageMetadata, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [f.arrow for f in (*self.format.columns, *(column.field for column in self.metadata))]
        )

    @property
    def appends(self) -> bool:
        return self.format.appends

    @property
    def variables(self) -> list[str]:
        """The environment variables that hold its secrets."""
        return environment.variables(*(value for _, value in self.properties), str(self.format))

    def initial(self) -> Offset:
        return self._ranges.initial()

    def latest(self) -> Offset:
        """Where all that there is now has been read; of a stream that ends, not behind its end."""
        return self._ranges.latest()

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        """Raises NotFound where messages that come next are gone, or the topic was made anew."""
        return self._ranges.next(start, target)

    def ended(self, offset: Offset) -> bool:
        return self._ranges.ended(offset)

    def pieces(self, start: Offset, end: Offset) -> list[TopicPiece]:
        ranges = self._ranges.ranges(start, end)
        how = self.format, self.skip_bad, self.dead_letters, self.metadata
        return [TopicPiece(part, *how) for part in ranges]

    def done(self, end: Offset) -> None:
        """Note the offsets with the consumer group, if there is one: for those who watch its lag."""
        self._ranges.done(end)

    @property
    def _ranges(self) -> TopicRanges:
        return TopicRanges(
            self.properties, self.topics, self.start, self.bound, self.fail_on_data_loss, self.limit
        )


class DeadLetters:
    """Takes bad messages; `flush` says that all are in the topic. Not thread-safe."""

    def __init__(self, properties: Properties, topic: str) -> None:
        self._properties, self._topic = properties, topic
        self._producer: Any = None
        self._problems: list[str] = []

    def add(self, bad: BadMessage, message: Messages) -> None:
        """Send the one message."""
        if self._producer is None:
            producer = required("confluent_kafka", by="topics of Kafka").Producer
            kept = without_consumers(self._properties)
            self._producer = made(producer, kept, {"enable.idempotence": True})
        headers = {"topic": bad.topic, "partition": bad.partition, "offset": bad.offset, "reason": bad.reason}
        self._producer.produce(
            self._topic,
            message.values[0].as_py(),
            message.keys[0].as_py(),
            headers=[(name, str(value).encode()) for name, value in headers.items()],
            on_delivery=self._delivered,
        )
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all are in the topic. Raises Unavailable where any is not."""
        if self._producer is None:
            return
        if self._producer.flush(_SECONDS) or self._problems:
            why = hidden(self._problems[0], self._properties) if self._problems else "no answer"
            raise Unavailable(f"bad messages do not get into topic {self._topic!r}: {why}")

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._problems.append(error.str())
