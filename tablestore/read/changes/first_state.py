"""The state that a stream begins with: what no later step will deliver (FORMAT.md 21.4).

Rows whose changes a compaction's changelog will deliver are left out; rows that wait at level 0, where
deletion vectors hide them, are in it, since they were delivered when they came.
"""

from __future__ import annotations

from collections.abc import Sequence

from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import with_level_0
from tablestore.read.scan import time_travel
from tablestore.read.scan.plan import FileChoice, Plan, plan


def first_state(
    store: Store,
    snapshot: Snapshot,
    where: Predicate | None = None,
    *,
    columns: Sequence[str],
    made_since_ms: int | None = None,
    look_up: bool = False,
) -> Plan:
    """The plan of the first state; `made_since_ms` (epoch) leaves out files made before. With `look_up` all
    rows: changes are then looked up in snapshots, not taken from changelogs."""
    since = None if made_since_ms is None else time_travel.local_ms(made_since_ms)
    files = FileChoice(made_since=since, min_level=0 if look_up else first_level(store))
    whole = with_level_0(store) if look_up else first_store(store)
    return plan(whole, snapshot, where, columns=columns, files=files)


def first_store(store: Store) -> Store:
    """The table as its splits of `first_state` are read."""
    return store if first_level(store) else with_level_0(store)


def first_level(store: Store) -> int:
    """The level below which rows are not in the first state: a compaction's changelog will deliver them."""
    producer = store.options.changelog_producer
    if not store.schema.primary_keys:
        return 0
    if producer is ChangelogProducer.FULL_COMPACTION:
        return store.options.num_levels - 1
    return int(producer is ChangelogProducer.LOOKUP)
