"""The log of a table, opened for its readers."""

from __future__ import annotations

from tablestore.core.options.table_options import (
    LogChangelogMode,
    LogConsistency,
    LogSystem,
    MergeEngine,
)
from tablestore.log.log import Log
from tablestore.meta.store import Store
from tablestore.read.open_log import log_of
from tablestore.read.table_log import TableLog


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
