"""What a table's definition says of its log, in one value with which either log is opened; which definitions
cannot have one.

Decided here, too, which row kinds the log holds. In `upsert` mode the newest row of a key is its state, so
older ones may go: that is true of `deduplicate` without sequence fields only. Every other merge engine needs
all rows of a key, and `auto` keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tablestore.core.errors import InvalidOption, Unsupported
from tablestore.core.options.environment import ENVIRONMENT
from tablestore.core.options.log_store import LogCompression, LogFormat, LogKeyFormat
from tablestore.core.options.names import UUID
from tablestore.core.options.secrets import is_from_environment
from tablestore.core.options.table_options import (
    LogChangelogMode,
    LogConsistency,
    LogSystem,
    MergeEngine,
    TableOptions,
)
from tablestore.format.messages.registry_client import Registry
from tablestore.format.schema import TableSchema
from tablestore.io.paths import join

ADOPTED = "tablestore.log.adopted"
"""The option that says that the topic was there before the table."""
# What is part of the log from its first row on, by the names of typed options.
FIXED = {
    "log_system": "log.system",
    "log_consistency": "log.consistency",
    "log_changelog_mode": "log.changelog-mode",
    "log_format": "log.format",
    "log_key_format": "log.key.format",
    "kafka_topic": "kafka.topic",
    "fluss_table": "tablestore.fluss.table",
    "log_registry_subject": "debezium-avro-confluent.subject",
}
_KAFKA = "kafka."


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log of one table.

    `schema` is that which users see, `directory` where an embedded log lies, `kafka` properties of librdkafka
    as they are stored, in which `${env:NAME}` is not yet resolved, `registry` those of the client of its
    schema registry; `adopted`: the topic was there before the table. `source`: the table of a Fluss cluster
    that rows come from. `tiered`: writers append to the log alone. `root`: the folder of the table.
    """

    system: LogSystem
    directory: str
    uuid: str | None
    schema: TableSchema
    buckets: int
    eventual: bool
    upsert: bool
    retention_ms: int | None = None
    retention_bytes: int | None = None
    fsync: bool = False
    compression: LogCompression = LogCompression.LZ4
    value_format: LogFormat = LogFormat.DEBEZIUM_JSON
    key_format: LogKeyFormat = LogKeyFormat.JSON
    servers: str | None = None
    source: str | None = None
    topic: str | None = None
    adopted: bool = False
    slot: int = 0
    registry: Registry = ()
    subject: str | None = None
    tiered: bool = False
    root: str | None = None
    kafka: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, schema: TableSchema, options: TableOptions, *, root: str, durable: bool
    ) -> LogSettings | None:
        """The settings of the table at `root`, None if it has no log. `durable`: whether its commits survive
        a loss of power."""
        if options.log_system is LogSystem.NONE:
            return None
        own = {"bootstrap.servers", "topic"}
        from_fluss = options.log_system is LogSystem.FLUSS
        passed = {k.removeprefix(_KAFKA): v for k, v in schema.options.items() if k.startswith(_KAFKA)}
        return cls(
            system=options.log_system,
            directory=join(root, "tablestore", "log"),
            uuid=schema.options.get(UUID),
            schema=schema.shown,
            buckets=options.bucket,
            eventual=options.log_consistency is LogConsistency.EVENTUAL,
            upsert=upserts(schema, options),
            retention_ms=options.log_retention_ms,
            retention_bytes=options.log_retention_bytes,
            fsync=durable if options.log_fsync is None else options.log_fsync,
            compression=options.log_compression,
            value_format=options.log_format,
            key_format=options.log_key_format,
            servers=options.fluss_servers if from_fluss else options.kafka_servers,
            source=options.fluss_table,
            topic=options.kafka_topic,
            adopted=schema.options.get(ADOPTED) == "true",
            slot=options.log_writer_slot,
            registry=_registry(options),
            subject=options.log_registry_subject,
            tiered=options.tiering_enabled,
            root=root,
            kafka={k: v for k, v in passed.items() if k not in own},
        )


def _registry(options: TableOptions) -> Registry:
    asked = {"url": options.log_registry_url, "basic-auth.user-info": options.log_registry_user}
    return tuple((name, value) for name, value in asked.items() if value is not None)


def upserts(schema: TableSchema, options: TableOptions) -> bool:
    """Whether the log holds no −U."""
    if options.log_changelog_mode is LogChangelogMode.AUTO:
        return _newest_row_is_state(schema, options)
    return options.log_changelog_mode is LogChangelogMode.UPSERT


def _newest_row_is_state(schema: TableSchema, options: TableOptions) -> bool:
    deduplicates = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields
    return bool(schema.shown.primary_keys) and deduplicates


def require_log(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOption or Unsupported, naming the option, for a table that cannot have the log it asks
    for."""
    if options.tiering_enabled:
        _require_tiered(options)
    if options.log_system is LogSystem.NONE:
        return
    keyed = bool(schema.shown.primary_keys)
    if options.log_system is LogSystem.FLUSS:
        _require_fluss(schema, options)
        return
    if options.bucket <= 0:
        why = "a log has one part a bucket: set 'bucket' to a number (and 'bucket-key' without a primary key)"
        raise Unsupported(f"log.system = {options.log_system} with bucket = {options.bucket}", why)
    if schema.row_count_field is not None:
        raise Unsupported(
            "log.system of a change-log table without a primary key", "its rows are stored as counts"
        )
    if options.log_changelog_mode is LogChangelogMode.UPSERT and not _newest_row_is_state(schema, options):
        raise InvalidOption(
            "option 'log.changelog-mode' is upsert, for tables with a primary key, merge-engine deduplicate "
            "and no sequence.field: others need every row of a key; leave it out, or set all"
        )
    if options.log_consistency is LogConsistency.EVENTUAL:
        _require_eventual(options, keyed=keyed)
    if options.log_system is LogSystem.KAFKA and not options.kafka_servers:
        raise InvalidOption("option 'log.system' is kafka: set 'kafka.bootstrap.servers', too")
    if options.log_system is LogSystem.KAFKA and options.log_format is LogFormat.DEBEZIUM_AVRO:
        _require_registry(options)
    if options.log_writer_slot < 0:
        raise InvalidOption(
            f"option 'tablestore.log.writer-slot' is {options.log_writer_slot}; it must be at least 0"
        )
    kafka_only = (LogCompression.GZIP, LogCompression.SNAPPY)
    if options.log_system is LogSystem.EMBEDDED and options.log_compression in kafka_only:
        raise InvalidOption(
            f"option 'tablestore.log.compression' is {options.log_compression}; an embedded log takes none, "
            "lz4, zstd"
        )


def _require_fluss(schema: TableSchema, options: TableOptions) -> None:
    if not (options.fluss_servers and options.fluss_table):
        raise InvalidOption(
            "option 'log.system' is fluss: set 'tablestore.fluss.bootstrap.servers' and "
            "'tablestore.fluss.table', too, or let lake.tier make the table"
        )
    if options.bucket <= 0 and schema.shown.primary_keys:
        raise Unsupported(
            f"log.system = fluss with bucket = {options.bucket} and a primary key",
            "rows are in the bucket that they have in Fluss",
        )


def _require_tiered(options: TableOptions) -> None:
    if options.log_system not in (LogSystem.EMBEDDED, LogSystem.KAFKA):
        raise InvalidOption(
            f"option 'tablestore.tiering.enabled' is true, and 'log.system' {options.log_system}: what is "
            "tiered is a log of the table's own; set 'log.system' to embedded or kafka"
        )
    if options.log_consistency is LogConsistency.EVENTUAL:
        raise InvalidOption(
            "options 'tablestore.tiering.enabled' and 'log.consistency' = eventual: rows of a tiered table "
            "are seen at once anyway; leave 'log.consistency' out"
        )


def require_own_rows(options: TableOptions, what: str) -> None:
    """Raise Unsupported for a table whose rows come by tiering alone."""
    if options.log_system is LogSystem.FLUSS:
        raise Unsupported(
            f"{what} of a table that is filled from Fluss",
            f"its rows come from table {options.fluss_table} by tiering: change them there",
        )


def _require_registry(options: TableOptions) -> None:
    if not options.log_registry_url:
        raise InvalidOption(
            "option 'log.format' is debezium-avro, whose schemas are in a registry: set "
            "'debezium-avro-confluent.url' to its address, or 'log.format' to debezium-json"
        )
    user = options.log_registry_user
    if user is not None and not is_from_environment(user):
        raise InvalidOption(
            "option 'debezium-avro-confluent.basic-auth.user-info' is a secret: give it as "
            f"{ENVIRONMENT}NAME}}, from the environment"
        )


def _require_eventual(options: TableOptions, *, keyed: bool) -> None:
    if not keyed:
        raise InvalidOption(
            "option 'log.consistency' is eventual: rows that come twice are recognised by their key, and "
            "this table has none; use transactional"
        )
    if options.merge_engine not in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW):
        raise InvalidOption(
            f"option 'log.consistency' is eventual: rows may come twice, which merge-engine "
            f"{options.merge_engine} would merge twice; use transactional"
        )


def require_unchanged(before: TableOptions, after: TableOptions, *, has_rows: bool) -> None:
    """Raise InvalidOption naming the first option of a log that cannot change any more. A table without
    snapshots may still get a log."""
    if before.log_system is LogSystem.NONE and not has_rows:
        if after.log_system is LogSystem.KAFKA:
            raise InvalidOption("option 'log.system': kafka is set when a table is made, with its topic")
        return
    none = LogSystem.NONE
    if before.log_system is none and after.log_system is none:
        return
    for name, key in FIXED.items():
        had, now = getattr(before, name), getattr(after, name)
        if had != now:
            what = "rows that were written are not in it" if before.log_system is none else "it has begun"
            raise InvalidOption(f"option {key!r} cannot become {now} in a table with rows or a log: {what}")
    if before.bucket != after.bucket:
        raise Unsupported(
            "another number of buckets of a table with a log",
            "the log has one part a bucket: make a table with that number and insert the rows",
        )
