"""What an engine's worker runs without holding a Table: plain functions of a path and bytes, so that they
can be shipped."""

from __future__ import annotations

from tablestore.io.paths import location
from tablestore.meta.store import Store
from tablestore.table import compaction


def compact_bucket(path: str, task: bytes, *, full: bool = False) -> bytes | None:
    """Run one task of `Table.buckets_to_compact`; the commit message for `Table.commit`, None if nothing was
    to be done."""
    return compaction.run_task(Store.open(location(path)), task, full=full)
