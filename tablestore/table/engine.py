"""The function that a worker of an engine calls without a Table: of a path and bytes, so it can be
shipped."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tablestore.catalog.options import CatalogOptions
from tablestore.core.arguments import checked
from tablestore.io.confined import named_roots
from tablestore.io.paths import location
from tablestore.io.routed import file_io_for
from tablestore.meta.store import Store
from tablestore.table import compaction


@checked
def compact_bucket(
    path: str,
    task: bytes,
    *,
    roots: Sequence[str | os.PathLike[str]] = (),
    options: Mapping[str, Any] | None = None,
) -> bytes | None:
    """Run one task of `Table.buckets_to_compact`; the message for `Table.commit`, None if there was nothing
    to do.

    `path` is the table's location, `task` the bytes of the task; `roots` and `options` as in `open`. A plain
    function, so that an engine can ship it to its workers.

    >>> (task,) = orders.buckets_to_compact(full=True)
    >>> message = ts.compact_bucket(orders.location, task)
    >>> orders.commit([message], user="compactor").snapshot
    3
    """
    root = location(path)
    io = file_io_for(root, CatalogOptions.parse(options or {}).raw)
    return compaction.run_task(Store.open(root, io=io, roots=named_roots(roots)), task)
