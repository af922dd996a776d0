"""ALTER TABLE: the changed schema is written under the next id if that is free, else changed again from the
newest.

A schema is one small file, so a change is there or not there at all. Data files are not touched: readers see
old ones through `format/evolution.py`. Called by `Table.alter`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tablestore.core.errors import CommitConflict, InvalidRequest, TablestoreError, Unsupported
from tablestore.core.options.log_store import LogSystem
from tablestore.core.options.table_options import TableOptions, with_levels
from tablestore.format import evolution
from tablestore.format.schema import TableSchema
from tablestore.format.schema_change import Change, apply
from tablestore.io.confined import roots_of
from tablestore.log.kafka.topics import require_readable
from tablestore.log.settings import require_unchanged
from tablestore.lsm.merge import counted
from tablestore.meta import refs
from tablestore.meta.store import Store
from tablestore.write.retention.auto_tags import Periods
from tablestore.write.retention.expire_partitions import PartitionPolicy
from tablestore.write.supported import require_openable, require_writable

log = logging.getLogger(__name__)
_TRIES = 50
_REWRITING = "t.overwrite(t.scan().to_arrow())"
_REWRITING_BY_KEY = "t.with_options({'compaction.force-rewrite-all-files': True}).compact(full=True)"


def alter(store: Store, changes: Sequence[Change]) -> TableSchema:
    """The schema after `changes`, stored; the newest one where they change nothing.

    Raises what `schema_change.apply` raises, InvalidOption for options that exclude each other,
    CommitConflict when another change came first every time.
    """
    for _ in range(_TRIES):
        store.require_same()
        latest = store.schemas.latest()
        schema = altered(store, latest, changes)
        if schema is latest:
            return latest
        if store.schemas.commit(schema):
            log.info(
                "altered %s to schema %d: %s", store.paths.root, schema.id, ", ".join(map(repr, changes))
            )
            return schema
    raise CommitConflict(f"the schema of {store.paths.root} changed {_TRIES} times meanwhile; try again")


def altered(store: Store, latest: TableSchema, changes: Sequence[Change]) -> TableSchema:
    """The schema after `changes`, not stored; the same value where they change nothing."""
    has_snapshots = store.snapshots.latest() is not None
    schema = apply(latest, changes, has_snapshots=has_snapshots, time_millis=store.env.now_ms())
    schema = replace(schema, options=with_levels(schema.options))
    if replace(schema, id=latest.id, time_millis=latest.time_millis) == latest:
        return latest
    before, after = TableOptions.parse(latest.options), TableOptions.parse(schema.options)
    require_unchanged(before, after, has_rows=has_snapshots)
    if after.log_system is LogSystem.KAFKA and schema.fields != latest.fields:
        require_readable(map(store.schemas.get, store.schemas.ids()), schema)
    _require_consistent(schema, latest, roots_of(store.io))
    _require_castable(store, schema, latest)
    counted.require_whole_rows(schema, latest)
    if any(schema.options.get(key) != latest.options.get(key) for key in (refs.FALLBACK, refs.PRIMARY)):
        refs.require_branch_beside(store.with_schema(schema))
    return schema


def _require_consistent(schema: TableSchema, latest: TableSchema, roots: Iterable[str]) -> None:
    """Raise InvalidOption or SchemaMismatch for options that the columns do not allow, Unsupported for a
    change after which this version cannot write the table any more.

    A table that this version cannot write can be altered.
    """
    options = TableOptions.parse(schema.options)
    PartitionPolicy.of(options)
    Periods.of(options)
    require_openable(schema, options)
    try:
        require_writable(schema, options, roots=roots)
    except Unsupported as e:
        if _is_writable(latest, roots):
            raise
        log.debug("altered, though it cannot be written: %s", e)


def _is_writable(schema: TableSchema, roots: Iterable[str]) -> bool:
    try:
        require_writable(schema, TableOptions.parse(schema.options), roots=roots)
    except TablestoreError:
        return False
    return True


def _require_castable(store: Store, schema: TableSchema, latest: TableSchema) -> None:
    """Raise InvalidRequest for a type that files of an earlier schema cannot be read as.

    Each ALTER has a cast from the type before it, yet files are cast from their own at once, as in Paimon.
    """
    before = latest.by_id
    retyped = [f.name for f in schema.fields if f.id in before and f.type != before[f.id].type]
    unreadable: dict[int, Unsupported] = {}
    for schema_id in store.schemas.ids() if retyped else ():
        try:
            evolution.projection(store.schemas.get(schema_id), schema, retyped)
        except Unsupported as e:
            unreadable[schema_id] = e
    if not unreadable:
        return
    rewriting = _REWRITING_BY_KEY if schema.primary_keys else _REWRITING
    for entry in store.manifests.live_entries(store.snapshots.latest()):
        if entry.file.schema_id in unreadable:
            raise InvalidRequest(
                f"{unreadable[entry.file.schema_id].feature} is not possible, and files of schema "
                f"{entry.file.schema_id} would need it: add a column, or rewrite the files first, with "
                f"{rewriting}"
            )
