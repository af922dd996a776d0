"""The topic of a table: made with it, or adopted if it was there; checked, and dropped with the table that
made it.

A bucket is a partition. A log of upserts is compacted by key unless a retention is set. Names from outside
become names of topics only if Kafka allows them.

ALTERs leave the messages readable: they name columns, so a name stays with its column. A message is read
under the columns that the table has then: what it lacks is NULL, what is no longer a column is passed over.
That gives what the files of the table give, whose columns have ids, as long as no name moves to another
column and values of the old type read the same in the new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidOption, NotFound, Unavailable, Unsupported
from tablestore.core.extras import required
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataField, DataType
from tablestore.log.kafka.cluster import BrokerCluster, Properties

_SECONDS = 30
_UNCOMPACTED_MS = 7 * 86_400_000  # marks of commits ride with messages, so those of late ones must stay
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_USER = "a log in Kafka"


def legal_topic(name: str) -> str:
    """The name, if Kafka allows it for a topic; raises InvalidOption otherwise."""
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise InvalidOption(
            f"option 'kafka.topic': {name!r} is no name of a topic (up to 249 letters, digits, '.', '_', '-')"
        )
    return name


def default_topic(table: str, uuid: str | None) -> str:
    """The topic of a table that names none: its own name, and the start of its uuid, since others may have
    had the name."""
    plain = re.sub(r"[^a-zA-Z0-9._-]", "_", table)[:200]
    return plain if uuid is None else f"{plain}.{uuid[:8]}"


def make_topic(
    properties: Properties, topic: str, partitions: int, *, retention_ms: int | None, compact: bool
) -> bool:
    """Make the topic; False if it was there, with as many partitions. Raises InvalidOption if it has another
    number of them."""
    admin = required("confluent_kafka.admin", by=_USER)
    config = {"cleanup.policy": "compact" if compact and retention_ms is None else "delete"}
    if compact:
        config["min.compaction.lag.ms"] = str(_UNCOMPACTED_MS)
        if retention_ms is not None:
            config["cleanup.policy"] = "compact,delete"
    if retention_ms is not None:
        config["retention.ms"] = str(retention_ms)
    client = BrokerCluster(properties).admin()
    new = admin.NewTopic(legal_topic(topic), num_partitions=partitions, config=config)
    try:
        client.create_topics([new], request_timeout=_SECONDS)[topic].result(2 * _SECONDS)
    except required("confluent_kafka", by=_USER).KafkaException as e:
        if e.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise BrokerCluster(properties).problem(e.args[0], topic) from None
        require_partitions(properties, topic, partitions)
        return False
    _await_leaders(properties, topic, partitions)
    return True


def _await_leaders(properties: Properties, topic: str, partitions: int) -> None:
    """Wait until each partition of a new topic can be read; raises Unavailable after a while.

    Asked by the client that answers later questions: it remembers a partition that has no leader yet.
    """
    over = SYSTEM.monotonic() + _SECONDS
    while BrokerCluster(properties).led_partitions(topic) < partitions:
        if SYSTEM.monotonic() > over:
            raise Unavailable(f"{BrokerCluster(properties)}: topic {topic!r} was made and cannot be read yet")
        SYSTEM.sleep(0.05)


def require_partitions(properties: Properties, topic: str, partitions: int) -> None:
    """Raise NotFound for a topic that is not there, InvalidOption for another number of partitions."""
    have = BrokerCluster(properties).topics([topic])[topic].partitions
    if have != partitions:
        raise InvalidOption(
            f"topic {topic!r} has {have} partitions and the table {partitions} buckets: a bucket is a "
            f"partition; set 'bucket' = '{have}' or name another 'kafka.topic'"
        )


def set_retention(properties: Properties, topic: str, retention_ms: int | None) -> None:
    """Set how long the topic keeps messages; None: as the cluster does."""
    admin = required("confluent_kafka.admin", by=_USER)
    operation = admin.AlterConfigOpType.DELETE if retention_ms is None else admin.AlterConfigOpType.SET
    value = None if retention_ms is None else str(retention_ms)
    entry = admin.ConfigEntry("retention.ms", value, incremental_operation=operation)
    wanted = admin.ConfigResource(admin.ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = BrokerCluster(properties).admin()
    try:
        client.incremental_alter_configs([wanted], request_timeout=_SECONDS)[wanted].result(2 * _SECONDS)
    except required("confluent_kafka", by=_USER).KafkaException as e:
        raise BrokerCluster(properties).problem(e.args[0], topic) from None


def _refusal(client: Any, places: Sequence[Any]) -> Exception | None:
    """Remove the messages before these offsets; the refusal of a broker that does not know of the policy that
    allows it, which brokers hear of after it is set."""
    kafka = required("confluent_kafka", by=_USER)
    refusal = None
    for removal in client.delete_records(list(places), request_timeout=_SECONDS).values():
        try:
            removal.result(2 * _SECONDS)
        except kafka.KafkaException as e:
            if e.args[0].code() != kafka.KafkaError.POLICY_VIOLATION:
                raise
            refusal = e
    return refusal


def begin_at(properties: Properties, topic: str, offsets: Mapping[int, int]) -> None:
    """Remove the messages of each partition before an offset, so that the topic begins there. Of a topic that
    is compacted alone brokers refuse that: it gets the policy "delete", too, without a retention."""
    kafka = required("confluent_kafka", by=_USER)
    admin = required("confluent_kafka.admin", by=_USER)
    client = BrokerCluster(properties).admin()
    wanted = admin.ConfigResource(admin.ResourceType.TOPIC, topic)
    try:
        settings = client.describe_configs([wanted], request_timeout=_SECONDS)[wanted].result(2 * _SECONDS)
        if settings["cleanup.policy"].value == "compact":
            change = [
                admin.ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType.SET)
                for name, value in (("retention.ms", "-1"), ("cleanup.policy", "compact,delete"))
            ]
            kind = admin.ResourceType.TOPIC
            altered = admin.ConfigResource(kind, topic, incremental_configs=change)
            altering = client.incremental_alter_configs([altered], request_timeout=_SECONDS)
            altering[altered].result(2 * _SECONDS)
        places = [kafka.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        until = SYSTEM.monotonic() + _SECONDS
        while places and (refusal := _refusal(client, places)) is not None:
            if SYSTEM.monotonic() > until:
                raise refusal
            SYSTEM.sleep(0.2)
    except kafka.KafkaException as e:
        raise BrokerCluster(properties).problem(e.args[0], topic) from None


def retention_ms(properties: Properties, topic: str) -> int | None:
    """How long the brokers keep messages of the topic, by its own setting or theirs; None: for ever."""
    admin = required("confluent_kafka.admin", by=_USER)
    wanted = admin.ConfigResource(admin.ResourceType.TOPIC, topic)
    client = BrokerCluster(properties).admin()
    try:
        settings = client.describe_configs([wanted], request_timeout=_SECONDS)[wanted].result(2 * _SECONDS)
    except required("confluent_kafka", by=_USER).KafkaException as e:
        raise BrokerCluster(properties).problem(e.args[0], topic) from None
    kept = int(settings["retention.ms"].value)
    return kept if kept >= 0 and "delete" in settings["cleanup.policy"].value else None


def drop_topic(properties: Properties, topic: str) -> None:
    """Remove the topic with all its messages; nothing if it is not there."""
    client = BrokerCluster(properties).admin()
    try:
        client.delete_topics([topic], request_timeout=_SECONDS)[topic].result(2 * _SECONDS)
    except required("confluent_kafka", by=_USER).KafkaException as e:
        error = BrokerCluster(properties).problem(e.args[0], topic)
        if not isinstance(error, NotFound):
            raise error from None


_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def require_readable(earlier: Iterable[TableSchema], altered: TableSchema) -> None:
    """Raise Unsupported, naming the column, where messages written under an earlier schema would be read
    otherwise than files of that schema."""
    for schema in earlier:
        _require(schema.shown.fields, altered.shown.fields, "")


def _require(before: Sequence[DataField], after: Sequence[DataField], within: str) -> None:
    by_id, by_name = {f.id: f for f in before}, {f.name: f for f in before}
    for f in after:
        old, name = by_id.get(f.id), f"{within}{f.name}"
        if old is not None and old.name != f.name:
            raise _refused(
                f"renaming column {within}{old.name} to {f.name}", "whose messages have the old name"
            )
        if old is None and f.name in by_name:
            why = "whose messages have values of the column of that name that was dropped"
            raise _refused(f"a new column {name}", why)
        if old is not None:
            _require_type(old.type, f.type, name)


def _require_type(before: DataType, after: DataType, name: str) -> None:
    if before.root == after.root == "ROW":
        _require(before.children, after.children, f"{name}.")
    elif before.root == after.root == "ARRAY":
        _require_type(before.element, after.element, f"{name}.element")
    elif not _reads_alike(before, after):
        raise _refused(f"type {after} of column {name}", f"whose messages have values of type {before}")


def _reads_alike(before: DataType, after: DataType) -> bool:
    """Whether texts of values of a type give, under another one, what a cast of the values gives."""
    if before.as_nullable() == after.as_nullable():
        return True
    if before.root in _WHOLE and after.root in _WHOLE:
        return _WHOLE.index(before.root) <= _WHOLE.index(after.root)
    if before.root == after.root == "DECIMAL":
        return before.scale == after.scale and before.precision <= after.precision
    longer = before.precision <= after.precision
    return before.root == after.root and longer and (before.root in ("VARCHAR", "VARBINARY"))


def _refused(what: str, why: str) -> Unsupported:
    remedy = "make a table with these columns and insert the rows; columns may be added, dropped and widened"
    return Unsupported(f"{what} of a table with a log in Kafka", f"{why}: {remedy}")
