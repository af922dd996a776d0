"""Other definitions of a table: its newest schema, other options for one use, another branch, ALTER."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tablestore.core.errors import InvalidOption
from tablestore.core.options.names import CHANGE_TRACKING
from tablestore.core.options.rules import require_usable
from tablestore.core.options.table_options import as_text, current_names
from tablestore.format.schema import ROW_COUNT_OPTION
from tablestore.format.schema_change import Change
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.settings import FIXED
from tablestore.meta import refs
from tablestore.meta.refs import MAIN
from tablestore.meta.store import Store
from tablestore.table.handle import Handle
from tablestore.table.refs import require_branch
from tablestore.write.alter import alter

_LAYOUT = {"bucket", "bucket-key", "bucket-function.type", "merge-engine", "data-file.path-directory"}
_LAYOUT |= {"partition.default-name", "partition.legacy-name", "sequence.field", ROW_COUNT_OPTION}


def refreshed(table: Handle) -> Handle:
    """The table under its newest schema, at its newest snapshot."""
    return Handle(_opened(table.store, table.store.paths.branch), table.name)


def branch(table: Handle, name: str) -> Handle:
    """A branch of the table; raises NotFound naming the nearest."""
    require_branch(table.store, name)
    base = table.name.split("$")[0]
    return Handle(_opened(table.store, name), base if name == MAIN else f"{base}$branch_{name}")


def _opened(store: Store, branch: str) -> Store:
    return Store.open(store.paths.root, io=store.io, env=store.env, branch=branch)


def with_options(table: Handle, options: Mapping[str, Any]) -> Handle:
    """The table with other options, which are not stored. Raises InvalidOption for options of the layout of
    stored files."""
    schema = table.store.schema
    given = current_names(as_text(options), keyed=bool(schema.shown.primary_keys), stored=schema.options)
    require_usable(given)
    for key in (k for k in given if k.startswith(CHANGE_TRACKING)):
        raise InvalidOption(f"option {key!r} is stored, so that streams know of it: alter(ts.set_options(…))")
    for key in sorted(_LAYOUT & set(given)):
        raise InvalidOption(f"option {key!r} is part of the table's layout and cannot be set for one use")
    for key in sorted(set(FIXED.values()) & set(given)):
        raise InvalidOption(f"option {key!r} is part of the table's log and cannot be set for one use")
    name = given.pop("branch", table.store.paths.branch)
    chosen = table if name == table.store.paths.branch else branch(table, name)
    store = chosen.store.with_schema(chosen.store.schema.with_options(given))
    if {refs.FALLBACK, refs.PRIMARY} & set(given):
        refs.require_branch_beside(store)
    return Handle(store, chosen.name, table.at, table.moment_ms)


def altered(table: Handle, changes: Sequence[Change]) -> Handle:
    """The table after `changes`, which are stored as one new schema."""
    table.require_present()
    if not changes:
        return refreshed(table)
    changed = Handle(table.store.altered_to(alter(table.store, changes)), table.name, table.at)
    retention = changed.store.options.log_retention_ms
    if isinstance(changed.log, KafkaLog) and retention != table.store.options.log_retention_ms:
        changed.log.set_retention(retention)
    return changed
