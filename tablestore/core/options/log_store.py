"""The log of a table: which system holds it, when its rows are visible, how they are kept.

One field each: key, parser, default, meaning. Names are those of the Flink Table Store; what starts with
`tablestore.` is ours. Part of `options.TableOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tablestore.core.options.values import STORED, boolean, duration_ms, enum, integer, memory_size, opt


class LogSystem(StrEnum):
    """What holds the log of a table."""

    NONE = "none"
    EMBEDDED = "embedded"
    KAFKA = "kafka"
    FLUSS = "fluss"


class LogConsistency(StrEnum):
    """When readers of the log see rows: with their commit, or at once."""

    TRANSACTIONAL = "transactional"
    EVENTUAL = "eventual"


class LogChangelogMode(StrEnum):
    """Which row kinds the log holds: all, or no −U, as the next row of a key says what it is now."""

    AUTO = "auto"
    ALL = "all"
    UPSERT = "upsert"


class LogFormat(StrEnum):
    """How a message of a log in Kafka holds a row."""

    DEBEZIUM_JSON = "debezium-json"
    DEBEZIUM_AVRO = "debezium-avro"
    JSON = "json"


class LogKeyFormat(StrEnum):
    """How a message of a log in Kafka holds the key of its row."""

    JSON = "json"


class LogCompression(StrEnum):
    """The codec of the rows of a log; gzip and snappy are of Kafka alone."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    GZIP = "gzip"
    SNAPPY = "snappy"


@dataclass(frozen=True)
class LogOptions:
    """The log of a table: which system holds it, when its rows are visible, how they are kept, and who brings
    them into files: its writers, or rounds of tiering."""

    log_system: LogSystem = opt(
        "log.system",
        enum(LogSystem),
        LogSystem.NONE,
        "what holds the table's log: embedded (files in the table's directory), kafka, or fluss (a cluster"
        " from which rows come by tiering); none: no log",
        places=STORED,
    )
    log_consistency: LogConsistency = opt(
        "log.consistency",
        enum(LogConsistency),
        LogConsistency.TRANSACTIONAL,
        "when readers of the log see rows: transactional (with their commit) or eventual (at once)",
        places=STORED,
    )
    log_changelog_mode: LogChangelogMode = opt(
        "log.changelog-mode",
        enum(LogChangelogMode),
        LogChangelogMode.AUTO,
        "row kinds in the log: all, upsert (no -U), auto: upsert where the last row of a key is its state",
        places=STORED,
    )
    log_format: LogFormat = opt(
        "log.format",
        enum(LogFormat),
        LogFormat.DEBEZIUM_JSON,
        "Kafka: what a message's value is",
        places=STORED,
    )
    log_key_format: LogKeyFormat = opt(
        "log.key.format",
        enum(LogKeyFormat),
        LogKeyFormat.JSON,
        "Kafka: what a message's key is",
        places=STORED,
    )
    log_retention_ms: int | None = opt(
        "log.retention",
        duration_ms,
        None,
        "age at which rows of the log may go; if absent, Kafka's own, and an embedded log keeps all",
    )
    log_retention_bytes: int | None = opt(
        "tablestore.log.retention-bytes", memory_size, None, "size of the log beyond which its oldest rows go"
    )
    log_fsync: bool | None = opt(
        "tablestore.log.fsync",
        boolean,
        None,
        "appends to an embedded log survive a loss of power; as tablestore.durability says if absent",
    )
    log_compression: LogCompression = opt(
        "tablestore.log.compression", enum(LogCompression), LogCompression.LZ4, "codec of the log's rows"
    )
    log_writer_slot: int = opt(
        "tablestore.log.writer-slot",
        integer,
        0,
        "Kafka: number of this writer; a second one of the same number takes the place of the first",
        least=0,
    )
    log_registry_url: str | None = opt(
        "debezium-avro-confluent.url", str, None, "Kafka: schema registry of log.format = debezium-avro"
    )
    log_registry_user: str | None = opt(
        "debezium-avro-confluent.basic-auth.user-info",
        str,
        None,
        "user:password for the schema registry, as ${env:NAME}",
    )
    log_registry_subject: str | None = opt(
        "debezium-avro-confluent.subject",
        str,
        None,
        "subject of the log's schema; if absent TOPIC-value",
        places=STORED,
    )
    kafka_servers: str | None = opt(
        "kafka.bootstrap.servers", str, None, "addresses of the Kafka cluster that holds the log"
    )
    kafka_topic: str | None = opt(
        "kafka.topic", str, None, "topic of the log; named after the table if absent", places=STORED
    )
    fluss_servers: str | None = opt(
        "tablestore.fluss.bootstrap.servers",
        str,
        None,
        "addresses host:port of the Fluss cluster that rows come from",
    )
    fluss_table: str | None = opt(
        "tablestore.fluss.table",
        str,
        None,
        "database.table of the Fluss cluster that rows come from",
        places=STORED,
    )
    tiering_enabled: bool = opt(
        "tablestore.tiering.enabled",
        boolean,
        False,
        "writers append to the log alone, and rounds of tiering bring its rows into files",
    )
    tiering_freshness_ms: int = opt(
        "tablestore.tiering.freshness",
        duration_ms,
        180_000,
        "how long after its last round a table is due for the next",
    )
