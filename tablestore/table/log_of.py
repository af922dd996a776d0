"""The log of a table: opened as its options say, made and dropped with it."""

from __future__ import annotations

from collections.abc import Iterable

from tablestore.core.errors import Unsupported
from tablestore.core.options.log_store import LogSystem
from tablestore.core.options.table_options import (
    LogChangelogMode,
    LogConsistency,
    MergeEngine,
    TableOptions,
)
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import Snapshot
from tablestore.io.fileio import FileIO
from tablestore.log import offsets
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.kafka.topics import default_topic
from tablestore.log.log import Log
from tablestore.log.offsets import Offsets
from tablestore.log.settings import ADOPTED, LogSettings
from tablestore.meta.store import Store
from tablestore.read.table_log import TableLog, lack_of, log_of, settings_of


def with_topic(options: dict[str, str], table: str, uuid: str) -> dict[str, str]:
    """The options of a table `database.table` that is to be made, with the topic of its log, if that is to be
    in Kafka: the table may be renamed, its topic may not."""
    given = TableOptions.parse(options)
    if given.log_system is not LogSystem.KAFKA or given.kafka_topic is not None:
        return options
    return {**options, "kafka.topic": default_topic(table, uuid)}


def make_log(schema: TableSchema, io: FileIO) -> tuple[TableSchema, Log | None]:
    """Make what the log of a table that is to be made has outside of its directory: the schema that says so,
    and the log, to be dropped if the table cannot be made; None if there is nothing to drop."""
    settings = LogSettings.of(schema, TableOptions.parse(schema.options), root="", durable=False)
    if settings is None or settings.system is not LogSystem.KAFKA:
        return schema, None
    kafka_log = KafkaLog(settings, io)
    if kafka_log.make():
        return schema, kafka_log
    return schema.with_options({ADOPTED: "true"}), None


def log_outside(store: Store) -> Log | None:
    """The log that has to be dropped beside the table's directory, None if there is none."""
    settings = settings_of(store)
    outside = settings is not None and settings.system is LogSystem.KAFKA
    return log_of(store) if outside and store.schema.options.get("external") != "true" else None


def has_rows_behind(log: Log, at: Offsets, buckets: Iterable[int] | None = None) -> bool:
    """Whether the log has rows of these buckets (None: of any) behind offsets."""
    end = log.bounds().end
    wanted = {bucket: end.get(bucket, 0) for bucket in (end if buckets is None else buckets)}
    if offsets.reaches(at, wanted):
        return False
    transactions = log.transactions({**end, **{bucket: at.get(bucket, 0) for bucket in wanted}})
    return any(a.end[b] > at.get(b, 0) for a in transactions for b in a.end if b in wanted)


def require_log_ends_at(store: Store, snapshot: Snapshot | None, what: str) -> None:
    """Raise Unsupported if the log has rows behind a snapshot to which the table is to go back: they would
    come again; Corrupt if the log is not whole."""
    log = log_of(store)
    if isinstance(log, EmbeddedLog):
        problem = lack_of(store, log, store.snapshots.latest())
        if problem is not None:
            raise problem
    if log is None or not has_rows_behind(log, offsets.known(snapshot, store.snapshots.get)):
        return
    name = "no snapshot" if snapshot is None else f"snapshot {snapshot.id}"
    raise Unsupported(
        f"{what} of a table with a log to {name}",
        "its log has later rows, which readers have seen: overwrite the table with the rows of that snapshot,"
        " table.overwrite(table.at(snapshot=…).scan().to_reader())",
    )


def table_log(store: Store, log: Log | None = None) -> TableLog | None:
    """The log as readers of the table see it; None without one. `log`: it is open already."""
    log, options = log or log_of(store), store.options
    if log is None:
        return None
    transactional = options.log_consistency is LogConsistency.TRANSACTIONAL
    whole = options.log_system is LogSystem.FLUSS  # it says what rows were before
    states = bool(store.schema.shown.primary_keys) and options.merge_engine is MergeEngine.DEDUPLICATE
    return TableLog(
        log,
        store.schema,
        committed_only=transactional
        and options.log_system is LogSystem.EMBEDDED
        and not options.tiering_enabled,
        upserts=states and options.log_changelog_mode is not LogChangelogMode.ALL and not whole,
        loses_buckets=options.log_system is LogSystem.FLUSS,
    )
