"""The log of a table, opened as its options say, wherever it is."""

from __future__ import annotations

from tablestore import doors
from tablestore.core.options.log_store import LogSystem
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Log
from tablestore.meta import tiered
from tablestore.meta.store import Store
from tablestore.read.embedded_log import embedded_log_of, settings_of


def log_of(store: Store) -> Log | None:
    """The table's log; None without one."""
    settings = settings_of(store)
    if settings is None:
        return None
    if settings.system is LogSystem.FLUSS:
        return doors.fluss_log(settings, table_id=lambda: tiered.table_id(store.snapshots), env=store.env)
    return embedded_log_of(store) or KafkaLog(settings, store.io)
