"""Joints for engines: what a worker runs without holding a Table, and the doors that `tablestore/__init__`
fills.

`compact_bucket` is a plain function of a path and bytes, so it can be shipped. `spark_engine.load` gives the
Spark package,
which lies above this layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tablestore.core.arguments import checked
from tablestore.io.confined import named_roots
from tablestore.io.paths import location
from tablestore.meta.store import Store
from tablestore.table import compaction


class Engine(Protocol):
    """What a table asks of an engine."""

    def arrow_schema(self, frame: Any) -> Any: ...
    def to_spark(self, table: Any, spark: Any, *, columns: Any = None, where: Any = None) -> Any: ...


class EngineDoor:
    """Where an engine is found once somebody asks for it."""

    load: Callable[[], Engine]


spark_engine = EngineDoor()


@checked
def compact_bucket(path: str, task: bytes, *, full: bool = False, roots: Sequence[str] = ()) -> bytes | None:
    """Run one task of `Table.buckets_to_compact`; the message for `Table.commit`, None if nothing was to be
    done. `roots` as in `open`."""
    return compaction.run_task(Store.open(location(path), roots=named_roots(roots)), task, full=full)
