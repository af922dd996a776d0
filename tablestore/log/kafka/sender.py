"""What sends messages to a topic: to that of a log, in transactions of one writer slot, or at once; and to
any other in one transaction.

The broker knows a slot by its transactional id: who opens it last has it, and the transaction of the one
before is aborted. At once means idempotent and in order, without a transaction. A transaction that is open
for more than 15 minutes is ended by the broker, and then the send fails. Not thread-safe. Memory: what
waits in the client's queue, 128 MB and one chunk of 10,000 messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.env import SYSTEM
from tablestore.core.errors import CommitConflict, CommitUnknown, TablestoreError, Unavailable
from tablestore.core.extras import required
from tablestore.log.kafka.cluster import BrokerCluster, Properties, hidden, made, without_consumers

_SECONDS, _TRIES = 60, 3
Headers = list[tuple[str, bytes]] | None
_TRANSACTION_MS = 900_000  # what brokers allow at most by default
_ANYWHERE = -1  # a partition that the client chooses
_CHUNK, _QUEUE_BYTES = 10_000, 128 << 20
_FENCED = ("_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING")


@dataclass(slots=True)
class MessageOffsets:
    """Where the messages of one partition are: the offset of the first, and behind the last."""

    start: int = -1
    end: int = -1
    failed: list[str] = field(default_factory=list)


class Sender:
    """A producer of one topic; `slot` is its transactional id, None to send at once."""

    def __init__(self, properties: Properties, topic: str, slot: str | None, compression: str) -> None:
        self._kafka = required("confluent_kafka", by="a log in Kafka")
        self._properties, self._topic, self.slot = properties, topic, slot
        more: dict[str, Any] = {
            "enable.idempotence": True,
            "linger.ms": 1 if slot is None else 20,
            "compression.type": compression,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 4 * _QUEUE_BYTES >> 10,
        }
        if slot is not None:
            more |= {"transactional.id": slot, "transaction.timeout.ms": _TRANSACTION_MS}
        self._producer = made(self._kafka.Producer, without_consumers(properties), more)
        self._sent: dict[int, MessageOffsets] = {}
        self._largest = 1
        if slot is not None:
            self._call(self._producer.init_transactions, _SECONDS)

    def begin(self) -> None:
        """Begin a transaction, or messages that are sent at once."""
        self._sent = {}
        if self.slot is not None:
            self._call(self._producer.begin_transaction)

    def send(self, partition: int, keys: pa.Array, values: pa.Array, headers: Headers) -> None:
        """Send one or more messages to a partition, in their order; the headers go with the first."""
        sent = self._sent.setdefault(partition, MessageOffsets())
        keys, values = keys.cast(pa.binary()), values.cast(pa.binary())
        last = len(values) if self.slot is None else max(len(values) - 1, 1)  # of a transaction, says where
        self._one(partition, keys[0].as_py(), values[0].as_py(), headers, sent)
        for begin in range(1, last, _CHUNK):
            count = min(_CHUNK, last - begin)
            self._batch(partition, keys.slice(begin, count), values.slice(begin, count), sent)
        for i in range(last, len(values)):
            self._one(partition, keys[i].as_py(), values[i].as_py(), None, sent)
        self._producer.poll(0)

    def send_anywhere(self, values: pa.Array) -> None:
        """Send messages without a key, each to the partition that the client chooses."""
        sent = self._sent.setdefault(_ANYWHERE, MessageOffsets())
        for value in values.to_pylist():
            self._one(_ANYWHERE, None, value, None, sent)
        self._producer.poll(0)

    def arrived(self) -> dict[int, MessageOffsets]:
        """Where the messages of the open transaction are, which nobody sees yet, by partition. Raises
        Unavailable where the broker does not take them."""
        remaining = self._producer.flush(_SECONDS)
        problems = [text for sent in self._sent.values() for text in sent.failed]
        if remaining or problems:
            text = problems[0] if problems else f"{remaining} messages were not taken in {_SECONDS} s"
            raise Unavailable(f"topic {self._topic!r}: {hidden(text, self._properties)}")
        return self._sent

    def finish(self) -> dict[int, MessageOffsets]:
        """Make the messages visible; where they are, by partition. Raises CommitConflict if another writer
        took the slot over, and CommitUnknown where it is not known whether the transaction is there."""
        if self.slot is None:
            remaining = self._producer.flush(_SECONDS)
            problems = [text for sent in self._sent.values() for text in sent.failed]
            if remaining or problems:
                self._producer.purge()
                text = problems[0] if problems else f"{remaining} messages were not taken in {_SECONDS} s"
                raise CommitUnknown(f"topic {self._topic!r}: {text}; some messages may be there")
            return self._sent
        self._commit()
        return self._sent

    def abort(self) -> None:
        """Leave no message of the transaction that is visible."""
        self._producer.purge()
        if self.slot is not None:
            self._call(self._producer.abort_transaction, _SECONDS)

    def _commit(self) -> None:
        for attempt in range(_TRIES):
            try:
                self._producer.commit_transaction(_SECONDS)
                return
            except self._kafka.KafkaException as e:
                error = e.args[0]
                if error.retriable() and attempt + 1 < _TRIES:
                    continue
                if error.txn_requires_abort():
                    self.abort()
                    raise self._problem(error) from None
                if error.name() in _FENCED:
                    raise self._problem(error) from None
                text = f"topic {self._topic!r}: {hidden(error.str(), self._properties)}"
                raise CommitUnknown(f"{text}: whether the transaction is there is not known") from None

    def _one(
        self,
        partition: int,
        key: Any,
        value: Any,
        headers: Headers,
        sent: MessageOffsets,
    ) -> None:
        more: dict[str, Any] = {} if headers is None else {"headers": headers}
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition, on_delivery=_noting(sent), **more)
                return
            except BufferError:  # the queue of the client is full
                self._producer.poll(0.1)
            except self._kafka.KafkaException as e:
                raise self._problem(e.args[0]) from None

    def _batch(self, partition: int, keys: pa.Array, values: pa.Array, sent: MessageOffsets) -> None:
        """Send messages with one call, once the queue has room for all: a part that is refused would come
        behind what follows it."""
        pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
        messages: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in pairs]
        size = sum(pc.sum(pc.binary_length(some)).as_py() or 0 for some in (keys, values))
        self._largest = max(self._largest, size // len(messages) + 1)
        while len(self._producer) and len(self._producer) * self._largest + size > _QUEUE_BYTES:
            self._producer.poll(0.01)
        noted = {"on_delivery": _noting(sent)} if self.slot is None else {}
        try:
            taken = self._producer.produce_batch(self._topic, messages, partition, **noted)
        except (BufferError, self._kafka.KafkaException) as e:
            raise Unavailable(f"topic {self._topic!r}: {hidden(str(e), self._properties)}") from None
        if taken < len(messages):
            text = next(str(m["_error"]) for m in messages if "_error" in m)
            raise Unavailable(f"topic {self._topic!r}: {hidden(text, self._properties)}")

    def _call(self, step: Any, *arguments: Any) -> None:
        for attempt in range(_TRIES):
            try:
                step(*arguments)
                return
            except self._kafka.KafkaException as e:
                if not e.args[0].retriable() or attempt + 1 == _TRIES:
                    raise self._problem(e.args[0]) from None
                SYSTEM.sleep(0.2)

    def _problem(self, error: Any) -> TablestoreError:
        if error.name() in _FENCED:
            return CommitConflict(
                f"another writer has taken over slot {self.slot} of topic {self._topic!r}; nothing of this "
                "transaction is there: try again, or give each writer its 'tablestore.log.writer-slot'"
            )
        return Unavailable(f"topic {self._topic!r}: {hidden(error.str(), self._properties)}")


def _noting(sent: MessageOffsets) -> Any:
    """What is called when the broker has a message, or has refused it."""

    def note(error: Any, message: Any) -> None:
        if error is not None:
            sent.failed.append(error.str())
        else:
            offset = message.offset()
            sent.start = offset if sent.start < 0 else min(sent.start, offset)
            sent.end = max(sent.end, offset + 1)

    return note


class TopicWriter:
    """Writes values to a topic in one transaction, to any of its partitions. Raises NotFound for a topic that
    is not there, else as `Sender`."""

    def __init__(self, properties: Properties, topic: str) -> None:
        BrokerCluster(properties).topics([topic])
        self._sender = Sender(properties, topic, f"tablestore-{SYSTEM.uuid()}", "none")
        self._sender.begin()

    def write(self, values: pa.Array) -> None:
        """Take values (binary, none NULL) in their order."""
        self._sender.send_anywhere(values)

    def commit(self) -> None:
        """Make the messages visible."""
        self._sender.finish()

    def abort(self) -> None:
        """Leave no message that is visible."""
        self._sender.abort()
