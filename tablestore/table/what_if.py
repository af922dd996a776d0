"""`Table.what_if`: the table's history read, and replayed under other options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablestore.lsm.compaction.strategy import require_strategy
from tablestore.lsm.simulator import History, WhatIf
from tablestore.lsm.simulator.replay import changed
from tablestore.meta.store import Store
from tablestore.options import TableOptions, as_text, current_names, refuse_near_misses, require_levels
from tablestore.read.history import events


def what_if(store: Store, options: Mapping[str, Any]) -> WhatIf:
    """The history of every bucket as it was, and under `options`.

    Raises InvalidOption for bad values, InvalidRequest if they change nothing about compaction.
    """
    given = current_names(as_text(options), keyed=True)
    refuse_near_misses(given)
    schema = store.schema.with_options(given)
    wanted = TableOptions.parse(schema.options)
    require_levels(wanted)
    require_strategy(schema, wanted)
    other = changed(store.options, wanted)
    return WhatIf(History(events(store), store.schema, store.options), other, given)
