"""A private Kafka broker, with what tests do to its topics."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from notebooks.demo.kafka import KafkaBroker
from tests.suite import counterparts


@dataclass(frozen=True)
class Broker:
    """A running broker; `address` is host:port. `server` can be killed and started again."""

    address: str
    server: KafkaBroker

    def topic(self, *, partitions: int = 1, name: str = "", **config: Any) -> str:
        """A new topic's name; options of the topic with `_` for `.`."""
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        options = {key.replace("_", "."): str(value) for key, value in config.items()}
        self._done(self.admin.create_topics([NewTopic(name, partitions, 1, config=options)]))
        self._wait(name, partitions)
        return name

    @cached_property
    def admin(self) -> AdminClient:
        """A client that asks for and changes topics. It lives as long as the broker: one that is gone answers
        nothing that it was asked."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def more_partitions(self, topic: str, count: int) -> None:
        """The topic with so many partitions."""
        self.__dict__.pop("_sender", None)  # it knows the old ones for minutes
        self._done(self.admin.create_partitions([NewPartitions(topic, count)]))
        self._wait(topic, count)

    def _wait(self, topic: str, partitions: int) -> None:
        """Until the broker answers for a change that the controller has made."""
        until = time.monotonic() + 240
        while len(self.admin.list_topics(topic).topics[topic].partitions) != partitions:
            assert time.monotonic() < until, f"{topic} does not come"
            time.sleep(0.02)

    def send(self, topic: str, messages: Sequence[tuple[Any, Any]], *, partition: int = 0) -> None:
        """Messages as (key, value), in one partition and in this order."""
        for key, value in messages:
            self._sender.produce(topic, value, key, partition)
        assert self._sender.flush(60) == 0

    @cached_property
    def _sender(self) -> Producer:
        return self.producer()

    def producer(self, **config: Any) -> Producer:
        """A producer that keeps the order; options with `_` for `.`."""
        more = {key.replace("_", "."): value for key, value in config.items()}
        return Producer(
            {
                "bootstrap.servers": self.address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "log_level": 0,
                **more,
            }
        )

    def _done(self, futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(60)


@contextlib.contextmanager
def broker() -> Iterator[Broker]:
    """It lives for a run."""
    counterparts.need("Kafka")
    with KafkaBroker() as private:
        yield Broker(private.address, private)
