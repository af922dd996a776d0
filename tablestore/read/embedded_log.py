"""The embedded log of a table, opened as its options say."""

from __future__ import annotations

from tablestore.core.options.log_store import LogSystem
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.settings import LogSettings
from tablestore.meta.refs import MAIN
from tablestore.meta.store import Store


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
