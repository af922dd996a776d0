"""A table, its log and the truth, moved by a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tablestore as ts
from tablestore.read.changes.stream import StreamRequest
from tablestore.read.table_log import TableLog
from tablestore.table.normalize import follow
from tablestore.write.routing import routing
from tests.faults import SimEnv
from tests.log.log_reader import LogReader
from tests.log.logged import KIND, LOGGED, batch, to_files, to_log
from tests.log.memory_log import MemoryLog
from tests.tables import KEEP_ALL, TableSpec

SPEC = TableSpec(
    {"p": ts.STRING, "k": ts.INT, "v": ts.INT},
    primary_key=("p", "k"),
    partition_by=("p",),
    options={"bucket": 2, "bucket-key": "k", **KEEP_ALL, **LOGGED},
    new_env=SimEnv,
)


Rows = list[tuple[Any, ...]]


class LoggedLake:
    """A table, its log, and the truth. `waiting`: rows in the log that no snapshot has."""

    def __init__(
        self,
        folder: Path,
        options: dict[str, Any] | None = None,
        *,
        keyed: bool = True,
        eventual: bool = False,
        loses_buckets: bool = False,
    ) -> None:
        keys = ("p", "k") if keyed else ()
        self.table = SPEC.create(folder, options, primary_key=keys)
        self.log = MemoryLog(2, self.table.store.env)
        self.keyed = keyed
        self.waiting: Rows = []
        self.readable = TableLog(
            self.log,
            self.table.store.schema,
            committed_only=not eventual,
            upserts=keyed,
            loses_buckets=loses_buckets,
        )

    def write(self, *rows: tuple[Any, ...]) -> None:
        """Append to the log."""
        to_log(self.table, self.log, rows)
        self.waiting += rows

    def commit(self) -> None:
        """Commit what waits to the files."""
        to_files(self.table, self.waiting, self.log.bounds().end)
        self.waiting = []

    def put(self, *rows: tuple[Any, ...]) -> None:
        self.write(*rows)
        self.commit()

    def reader(self, start: Any = None, **changes: Any) -> LogReader:
        return LogReader(self.table, self.readable, 2 if self.keyed else 0, start, **changes)

    def steps(self, start: Any = None, normalize: bool | None = None, **asked: Any) -> list[Any]:
        request = StreamRequest(start=start, timeout=0.0, **asked)
        return list(follow(self.table.store, request, normalize=normalize, log=self.readable))


def bucket_of_key(lake: LoggedLake, key: int) -> int:
    """The bucket of the log that has the rows of a key."""
    values, kinds = batch(lake.table, [("+I", "x", key, 0)])
    store = lake.table.store
    ((_, bucket, _),) = routing.route(values.append_column(KIND, kinds), store.schema, store.options)
    return int(bucket)


def rows_of(step: Any) -> Rows:
    return [tuple(r.values()) for r in step.to_arrow().to_pylist()]


def folded(rows: Rows) -> dict[Any, Any]:
    state: dict[Any, Any] = {}
    for kind, p, k, v in rows:
        if kind == "-D":
            state.pop((p, k), None)
        else:
            state[p, k] = (v,)
    return state
