"""When a stream compacts the table that it writes, whose tasks write level 0 only."""

from __future__ import annotations

from tablestore.table.table import Table
from tablestore.write import full_compaction


def compactions(table: Table, number: int, *, every: int) -> tuple[bool, bool]:
    """(whether to compact after batch `number`, whether fully): after every so many batches (0: never), and
    as often as the table's changelog or deletion vectors need it."""
    options = table.store.options
    due = bool(every) and (number + 1) % every == 0
    if options.write_only or not table.primary_key:
        return due, False
    often = full_compaction.interval(options)
    full = often is not None and (number + 1) % often == 0
    return due or full or (options.needs_lookup and options.lookup_wait), full
