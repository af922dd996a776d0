"""What a cluster says of its topics: partitions and offsets; and the clients' properties.

Properties are librdkafka's by name (its CONFIGURATION.md). Those that hold a secret are `${env:NAME}` and are
looked up when a client is made, so that neither a source nor its pieces, offsets or errors hold one. The
client that asks lives as long as the process, one for each cluster; safe to share.

A table stores the properties of its log, and anyone may have written a table: what loads a library or runs a
command is refused wherever a client is made. What takes a variable of the environment, a file or the identity
of this machine to servers that the table names is refused unless the user trusts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidOption, NotFound, TablestoreError, Unavailable, Unsupported
from tablestore.core.extras import required
from tablestore.core.options.environment import ENVIRONMENT, require_trusted, resolved
from tablestore.core.options.secrets import without

_FILES = ("location", "keytab", "file", "path", "paths", "cmd")  # the last words of properties that name one
_CODE = {
    "plugin.library.paths": "it loads libraries into the process",
    "sasl.kerberos.kinit.cmd": "it runs a command; the client's own kinit is run without it",
    "ssl.engine.location": "it loads a library into the process",
    "ssl.providers": "they are libraries that are loaded into the process",
}

_SERVERS = ("bootstrap.servers", "metadata.broker.list")
_IDENTITY = "sasl.oauthbearer."  # a token, which may be that of the machine


def names_file(key: str) -> bool:
    """Whether a property, with or without what stands before its name, has a path as its value."""
    return key.lower().rpartition(".")[2] in _FILES


def require_no_code(properties: Iterable[tuple[str, str]]) -> None:
    """Raise Unsupported for a property that makes the client run something."""
    for key, _ in properties:
        if key in _CODE:
            raise Unsupported(f"property {key!r} of Kafka", _CODE[key])


def require_trusted_servers(properties: Iterable[tuple[str, str]]) -> None:
    """Raise InvalidRequest where the properties that a table stores take something of this process to a
    server that the user did not name."""
    given = list(properties)
    own = [
        key for key, value in given if ENVIRONMENT in value or names_file(key) or key.startswith(_IDENTITY)
    ]
    if own:
        servers = [value for key, value in given if key in _SERVERS or key.endswith("url")]
        require_trusted(f"what 'kafka.{own[0]}' stands for", servers)


Properties = tuple[tuple[str, str], ...]
Partition = tuple[str, int]  # topic and number
COMMITTED_ONLY = "read_committed"
_SECONDS = 30
_TRIES_A_CLIENT = 10  # while a partition moves
_USER = "topics of Kafka"
PASSING = ("_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE", "_TIMED_OUT")  # errors that a client mends itself
_CONSUMER = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "fetch.queue.backoff.ms": 5,  # by default it sleeps up to a second when its queue is full
    "queued.max.messages.kbytes": 32768,
}
_OF_CONSUMERS = ("group.id", "isolation.level", "auto.offset.reset")


_LEADERLESS = (
    "NOT_LEADER_FOR_PARTITION",
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
)


class _Moving(Unavailable):
    """A partition that another broker takes over now."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its id, which is another one where it was deleted and made again, and how many partitions it
    has."""

    id: str
    partitions: int


@dataclass(frozen=True)
class BrokerCluster:
    """A cluster of brokers. All questions raise Unavailable where it does not answer, NotFound for a topic
    that is not there, InvalidOption for properties that the client does not take."""

    properties: Properties

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics of these names."""
        kafka = required("confluent_kafka", by=_USER)
        wanted = kafka.TopicCollection(list(names))
        asked = self.admin().describe_topics(wanted, request_timeout=_SECONDS)
        answers = {name: self._answer(future, name) for name, future in asked.items()}
        return {name: Topic(str(answer.topic_id), len(answer.partitions)) for name, answer in answers.items()}

    def names(self) -> list[str]:
        """The names of all topics but the broker's own."""
        kafka = required("confluent_kafka", by=_USER)
        try:
            topics = self.admin().list_topics(timeout=_SECONDS).topics
        except kafka.KafkaException as e:
            raise self.problem(e.args[0], "*") from None
        return sorted(name for name in topics if not name.startswith("__"))

    def led_partitions(self, topic: str) -> int:
        """How many partitions of a topic can be read now, 0 for one that is not there."""
        kafka = required("confluent_kafka", by=_USER)
        try:
            topic_now = self.admin().list_topics(topic, timeout=_SECONDS).topics[topic]
        except kafka.KafkaException as e:
            raise self.problem(e.args[0], topic) from None
        return sum(p.leader >= 0 for p in topic_now.partitions.values())

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The first offset that is still there."""
        return self._offsets(partitions, lambda specs: specs.earliest())

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offset behind the last message that may be read: not behind an open transaction, unless
        messages that are not committed are read, too."""
        return self._offsets(partitions, lambda specs: specs.latest())

    def written(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offset behind the last message, be its transaction open, committed or aborted."""
        return self._offsets(partitions, lambda specs: specs.latest(), committed_only=False)

    def at(self, partitions: Iterable[Partition], millis: int) -> dict[Partition, int]:
        """The first offset whose message is of that time or later; where there is none, the latest."""
        wanted = list(partitions)
        ends = self.latest(wanted)  # asked first: what is committed meanwhile is not passed over
        offsets = self._offsets(wanted, lambda specs: specs.for_timestamp(millis))
        return {place: ends[place] if offset < 0 else offset for place, offset in offsets.items()}

    def committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offsets that a consumer group has committed; partitions without one are left out."""
        kafka = required("confluent_kafka", by=_USER)
        request = kafka.ConsumerGroupTopicPartitions(
            group, [kafka.TopicPartition(*place) for place in partitions]
        )
        asked = self.admin().list_consumer_group_offsets([request], request_timeout=_SECONDS)
        places = self._answer(asked[group], group).topic_partitions
        return {(place.topic, place.partition): place.offset for place in places if place.offset >= 0}

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Note offsets with a consumer group, for those who watch its lag."""
        kafka = required("confluent_kafka", by=_USER)
        noted = [kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]
        request = kafka.ConsumerGroupTopicPartitions(group, noted)
        asked = self.admin().alter_consumer_group_offsets([request], request_timeout=_SECONDS)
        self._answer(asked[group], group)

    def reached(self, offsets: Mapping[Partition, int], seconds: float) -> bool:
        """Wait until what lies before these offsets is committed or aborted; False after that time."""
        over = SYSTEM.monotonic() + seconds
        while True:
            latest = self.latest(offsets)
            if all(latest[place] >= offset for place, offset in offsets.items()):
                return True
            if SYSTEM.monotonic() >= over:
                return False
            SYSTEM.sleep(0.002)

    def _offsets(
        self, partitions: Iterable[Partition], spec: Callable[[Any], Any], *, committed_only: bool = True
    ) -> dict[Partition, int]:
        kafka = required("confluent_kafka", by=_USER)
        specs = required("confluent_kafka.admin", by=_USER).OffsetSpec
        wanted = {kafka.TopicPartition(*place): spec(specs) for place in partitions}
        if not wanted:
            return {}
        levels, committed_only = kafka.IsolationLevel, committed_only and self._reads_committed
        level = levels.READ_COMMITTED if committed_only else levels.READ_UNCOMMITTED
        over = SYSTEM.monotonic() + _SECONDS
        tries = 0
        while True:
            asked = self.admin().list_offsets(wanted, isolation_level=level, request_timeout=_SECONDS)
            try:
                return {(p.topic, p.partition): self._answer(f, p.topic).offset for p, f in asked.items()}
            except _Moving:
                if SYSTEM.monotonic() > over:
                    raise
                tries += 1
                if tries % _TRIES_A_CLIENT == 0:
                    _admin.cache_clear()  # it goes on asking under the leader's epoch before a restart
                SYSTEM.sleep(0.05)

    @property
    def _reads_committed(self) -> bool:
        return isolation(self.properties) == COMMITTED_ONLY

    def admin(self) -> Any:
        """The client that asks for and changes topics, of this process."""
        return _admin(self.properties, SYSTEM.process())

    def _answer(self, future: Any, name: str) -> Any:
        try:
            return future.result(2 * _SECONDS)
        except TimeoutError:
            raise Unavailable(f"{self} does not answer") from None
        except required("confluent_kafka", by=_USER).KafkaException as e:
            raise self.problem(e.args[0], name) from None

    def problem(self, error: Any, name: str) -> TablestoreError:
        """The error of ours for one of Kafka that concerns the topic or group `name`."""
        if error.name() in ("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION"):
            return NotFound(f"{self} has no topic {name!r}")
        if error.name() in _LEADERLESS:
            return _Moving(f"{self}: topic {name!r} has no leader")
        return Unavailable(f"{self}, {name!r}: {hidden(error.str(), self.properties)}")

    def __str__(self) -> str:
        return f"Kafka at {dict(self.properties).get('bootstrap.servers', '?')}"


def isolation(properties: Properties) -> str:
    """Which messages are read: by default those of committed transactions only."""
    return dict(properties).get("isolation.level", COMMITTED_ONLY)


def without_consumers(properties: Properties) -> Properties:
    """The properties of a client that reads no messages."""
    return tuple((key, value) for key, value in properties if key not in _OF_CONSUMERS)


def made(kind: Callable[[dict[str, Any]], Any], properties: Properties, more: Mapping[str, Any]) -> Any:
    """A client with these properties. Raises InvalidOption for one that it does not take, Unsupported for one
    that runs a program."""
    require_no_code(properties)
    settings: dict[str, Any] = {"log_level": 0}
    settings |= {key: resolved(f"properties.{key}", value) for key, value in properties}
    try:
        return kind({**settings, **more})
    except required("confluent_kafka", by=_USER).KafkaException as e:
        text = hidden(e.args[0].str(), properties)
        raise InvalidOption(f"properties of Kafka: {text} (names are those of librdkafka)") from None


def consumer(properties: Properties, more: Mapping[str, Any], *, by: str) -> Any:
    """A client that reads messages of partitions that it is assigned, and hears of their ends."""
    kind = required("confluent_kafka", by=by).Consumer
    group = dict(properties).get("group.id", "tablestore")
    own = {"group.id": group, "isolation.level": isolation(properties)}
    return made(kind, properties, {**_CONSUMER, **own, **more})


def hidden(text: str, properties: Properties) -> str:
    """A text of the client without what came from the environment."""
    return without(text, (resolved(key, value) for key, value in properties if ENVIRONMENT in value))


@lru_cache(maxsize=16)
def _admin(properties: Properties, process: int) -> Any:
    """The client that asks, of this process: none outlives a fork."""
    return made(required("confluent_kafka.admin", by=_USER).AdminClient, without_consumers(properties), {})
