"""The log of a table, opened as its options say, wherever it is."""

from __future__ import annotations

from tablestore import doors
from tablestore.core.options.log_store import LogSystem
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Log
from tablestore.log.settings import LogSettings
from tablestore.meta import tiered
from tablestore.meta.refs import MAIN
from tablestore.meta.store import Store


def log_of(store: Store) -> Log | None:
    """The table's log; None without one."""
    settings = settings_of(store)
    if settings is None:
        return None
    if settings.system is LogSystem.FLUSS:
        return doors.fluss_log(settings, table_id=lambda: tiered.table_id(store.snapshots), env=store.env)
    return embedded_log_of(store) or KafkaLog(settings, store.io, store.env)


def settings_of(store: Store) -> LogSettings | None:
    """What the options say of the table's log; None without one. Branches have none."""
    if store.paths.branch != MAIN:
        return None
    return LogSettings.of(store.schema, store.options, root=store.paths.root, durable=store.durable)


def embedded_log_of(store: Store) -> EmbeddedLog | None:
    """The table's log if it is embedded; else None."""
    settings, schemas = settings_of(store), store.schemas
    if settings is None or settings.system is not LogSystem.EMBEDDED:
        return None
    return EmbeddedLog(store.io, settings, schemas=lambda id: schemas.get(id).shown, env=store.env)
