"""Messages sent to a topic in one transaction: all of them are there, or readers of committed messages see
none.

Not thread-safe. A transaction that is open for more than 15 minutes is ended by the broker, and then the send
fails.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.core.errors import Unavailable
from tablestore.core.extras import required
from tablestore.log.kafka.cluster import BrokerCluster, Properties, hidden, made, without_consumers

_SECONDS = 60
_TRANSACTION_MS = 900_000  # what brokers allow at most by default


class TopicWriter:
    """Writes values to a topic. Raises NotFound for a topic that is not there, Unavailable where the brokers
    do not take the messages."""

    def __init__(self, properties: Properties, topic: str) -> None:
        self._kafka = required("confluent_kafka", by="topics of Kafka")
        self._properties, self._topic = properties, topic
        BrokerCluster(properties).topics([topic])
        more = {
            "transactional.id": f"tablestore-{SYSTEM.uuid()}",
            "transaction.timeout.ms": _TRANSACTION_MS,
            "linger.ms": 20,
        }
        self._producer = made(self._kafka.Producer, without_consumers(properties), more)
        self._call(self._producer.init_transactions, _SECONDS)
        self._call(self._producer.begin_transaction)

    def write(self, values: pa.Array) -> None:
        """Take values (binary, none NULL) in their order."""
        for value in values.to_pylist():
            while True:
                try:
                    self._producer.produce(self._topic, value)
                    break
                except BufferError:  # the queue of the client is full
                    self._producer.poll(0.1)
                except self._kafka.KafkaException as e:
                    raise self._problem(e) from None
        self._producer.poll(0)

    def commit(self) -> None:
        """Make the messages visible."""
        self._call(self._producer.commit_transaction, _SECONDS)

    def abort(self) -> None:
        """Leave no message that is visible."""
        self._producer.purge()
        self._call(self._producer.abort_transaction, _SECONDS)

    def _call(self, step: Any, *arguments: Any) -> None:
        try:
            step(*arguments)
        except self._kafka.KafkaException as e:
            raise self._problem(e) from None

    def _problem(self, error: Any) -> Unavailable:
        text = hidden(error.args[0].str(), self._properties)
        return Unavailable(f"{BrokerCluster(self._properties)}, topic {self._topic!r}: {text}")
