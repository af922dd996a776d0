"""Rows for a table with a log, put into the log and into files by hand: for tests of readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tablestore.format import rowkind
from tablestore.log.log import Appender
from tablestore.log.offsets import Offsets
from tablestore.read.table_log import offsets_at
from tablestore.table.logged import LogCommitter
from tablestore.table.table import Table
from tablestore.table.writes import table_write
from tablestore.write.commit.committer import CommitRequest, Committer
from tablestore.write.commit.request import LogRange
from tablestore.write.conform import conform
from tablestore.write.routing import routing
from tests.log.memory_log import MemoryLog

KIND = "rowkind"
LOGGED = {"log.system": "embedded"}


def batch(table: Table, rows: Sequence[tuple[Any, ...]]) -> tuple[pa.RecordBatch, pa.Array]:
    """Rows, each with its row kind first, as a batch and its kinds."""
    schema = table.schema
    columns = [pa.array([r[i + 1] for r in rows], f.type) for i, f in enumerate(schema)]
    kinds = rowkind.parse(pa.array([r[0] for r in rows], pa.string()))
    return conform(pa.RecordBatch.from_arrays(columns, schema=schema), table.store.schema.shown), kinds


def writers_look_away(patch: pytest.MonkeyPatch) -> None:
    """Let writers take the log of tables as it is: it is in memory, and nothing of it in their folder."""
    patch.setattr(LogCommitter, "require_whole", lambda self, latest: None)


def to_log(table: Table, log: MemoryLog, rows: Sequence[tuple[Any, ...]]) -> None:
    """Append rows to the log only: what a writer of an eventual log does before its commit."""
    appender = log.appender()
    into(appender, table, rows)
    appender.flush()


def into(appender: Appender, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Give an appender rows of the table, which are in the log when it flushes or commits."""
    values, kinds = batch(table, rows)
    for _, bucket, some in routing.route(
        values.append_column(KIND, kinds), table.store.schema, table.store.options
    ):
        appender.write(bucket, some.column(KIND), some.select(values.schema.names))


def to_files(table: Table, rows: Sequence[tuple[Any, ...]], end: Offsets) -> None:
    """Commit rows to the files of the table, which have the log up to `end` then."""
    store = table.store
    values, kinds = batch(table, rows)
    with table_write(store) as target:
        target.write(values, kinds)
        messages = target.prepare()
    offsets = offsets_at(store, store.snapshots.latest())
    at = LogRange({bucket: offsets.get(bucket, 0) for bucket in end}, end)
    Committer(store).commit(messages, CommitRequest(store.fresh_user(), log=at))
