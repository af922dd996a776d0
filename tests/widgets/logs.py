"""Tables with an embedded log for the pictures of it, and what such a log is beside its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tablestore as ts

COLUMNS = {"k": ts.INT, "v": ts.STRING}


def visits(folder: Path, *, buckets: int = 2, commits: int = 6, **options: Any) -> ts.Table:
    """A keyed table; commit n adds n + 1 rows of keys of its own, by till-0 and till-1 in turn."""
    wanted = {
        "log.system": "embedded",
        "bucket": buckets,
        "num-sorted-run.compaction-trigger": "50",
        **options,
    }
    table = ts.connect(folder).create_table("shop.visits", schema=COLUMNS, primary_key=["k"], options=wanted)
    for number in range(commits):
        add(table, number)
    return table


def add(table: ts.Table, number: int) -> None:
    """Commit `number`."""
    keys = [1000 * number + k for k in range(number + 1)]
    table.write({"k": keys, "v": ["v"] * len(keys)}, user=f"till-{number % 2}", identifier=number)


def cursors(table: ts.Table, start: Any = "earliest") -> list[str]:
    """The cursors of all steps of a stream that are there now."""
    return [step.cursor for step in table.stream(start=start, follow=False, normalize=False)]
