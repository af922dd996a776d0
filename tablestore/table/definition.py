"""Other definitions of a table: its newest schema, other options for one use, another branch, ALTER."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tablestore.core.options.rules import require_usable
from tablestore.core.options.table_options import as_text, current_names
from tablestore.format.changed_options import DropOptions, SetOptions
from tablestore.format.schema_change import Change
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.meta import refs
from tablestore.meta.refs import MAIN
from tablestore.meta.store import Store
from tablestore.table.handle import Handle
from tablestore.table.refs import require_branch
from tablestore.write.alter import alter


def refreshed(table: Handle) -> Handle:
    """The table under its newest schema, at its newest snapshot, with the options of this use."""
    return Handle(_opened(table, table.store.paths.branch), table.name, used_with=table.used_with)


def branch(table: Handle, name: str) -> Handle:
    """A branch of the table, with the options of this use; raises NotFound naming the nearest."""
    require_branch(table.store, name)
    base = table.name.split("$")[0]
    shown = base if name == MAIN else f"{base}$branch_{name}"
    return Handle(_opened(table, name), shown, used_with=table.used_with)


def _opened(table: Handle, branch: str) -> Store:
    store = table.store
    opened = Store.open(store.paths.root, io=store.io, env=store.env, branch=branch)
    return opened.with_schema(opened.schema.with_options(table.used_with)) if table.used_with else opened


def with_options(table: Handle, options: Mapping[str, Any]) -> Handle:
    """The table with other options, which are not stored. Raises InvalidOption for options that stored rows
    rely on."""
    schema = table.store.schema
    given = current_names(as_text(options), keyed=bool(schema.shown.primary_keys), stored=schema.options)
    require_usable(given, schema.options)
    name = given.pop("branch", table.store.paths.branch)
    chosen = table if name == table.store.paths.branch else branch(table, name)
    store = chosen.store.with_schema(chosen.store.schema.with_options(given))
    if {refs.FALLBACK, refs.PRIMARY} & set(given):
        refs.require_branch_beside(store)
    return Handle(store, chosen.name, table.at, table.moment_ms, {**table.used_with, **given})


def altered(table: Handle, changes: Sequence[Change]) -> Handle:
    """The table after `changes`, which are stored as one new schema; options of this use stay, but for those
    that were changed."""
    table.require_present()
    if not changes:
        return refreshed(table)
    store = table.store.altered_to(alter(table.store, changes))
    of_options = (change for change in changes if isinstance(change, SetOptions | DropOptions))
    stored = {key for change in of_options for key in change.keys}
    used_with = {k: v for k, v in table.used_with.items() if k not in stored}
    store = store.with_schema(store.schema.with_options(used_with)) if used_with else store
    changed = Handle(store, table.name, used_with=used_with)
    retention = changed.store.options.log_retention_ms
    if isinstance(changed.log, KafkaLog) and retention != table.store.options.log_retention_ms:
        changed.log.set_retention(retention)
    return changed
