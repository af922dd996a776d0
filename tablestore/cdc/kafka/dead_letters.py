"""Messages that a format cannot read, sent to a topic of their own, unchanged, with where they were and why.

Headers: `topic`, `partition`, `offset`, `reason`. Messages that are read again are sent again: at least once.
"""

from __future__ import annotations

from typing import Any

from tablestore.core.errors import Unavailable
from tablestore.core.extras import required
from tablestore.format.messages.messages import BadMessage, Messages
from tablestore.log.kafka.cluster import Properties, hidden, made, without_consumers

_SECONDS = 60


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
