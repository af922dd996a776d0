"""Embedded logs for tests: a small schema, rows by number, and everything of a log as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.env import Env
from tablestore.core.options.log_store import LogSystem
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import parse_type
from tablestore.format.types.data_type import DataField
from tablestore.io.fileio import FileIO, LocalFileIO
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.log import CommitMark
from tablestore.log.offsets import Offsets
from tablestore.log.settings import LogSettings
from tests.faults import SimEnv

SCHEMA = TableSchema(
    0,
    (DataField(0, "id", parse_type("BIGINT NOT NULL")), DataField(1, "text", parse_type("STRING"))),
    1,
    primary_keys=("id",),
)


class WithoutRollUps(EmbeddedLog):
    """A log whose writers leave all files as they are."""

    def _appended(self, number: int) -> None:
        pass


def open_log(
    path: Path,
    *,
    io: FileIO | None = None,
    buckets: int = 2,
    schema: TableSchema = SCHEMA,
    older: Sequence[TableSchema] = (),
    env: Env | None = None,
    memory_bytes: int = 8 << 20,
    upsert: bool = False,
    kind: type[EmbeddedLog] = EmbeddedLog,
    **more: Any,
) -> EmbeddedLog:
    """A log in a directory, with a clock of its own."""
    schemas = {s.id: s for s in (schema, *older)}
    settings = LogSettings(
        LogSystem.EMBEDDED, str(path), None, schema, buckets, eventual=False, upsert=upsert, **more
    )
    io = io or LocalFileIO()
    env = env or SimEnv()
    return kind(io, settings, schemas=schemas.__getitem__, env=env, memory_bytes=memory_bytes)


def rows(*ids: int, text: str = "row") -> pa.RecordBatch:
    """Rows of the schema."""
    return pa.RecordBatch.from_pydict(
        {"id": list(ids), "text": [f"{text} {i}" for i in ids]}, schema=SCHEMA.arrow
    )


def inserts(count: int) -> pa.Array:
    """Row kinds of so many inserts."""
    return pa.array(np.zeros(count, np.int8))


def append(log: EmbeddedLog, rows_of: dict[int, Sequence[int]], mark: CommitMark | None = None) -> Any:
    """Append rows of these ids by bucket at once."""
    appender = log.appender()
    for bucket, ids in rows_of.items():
        appender.write(bucket, inserts(len(ids)), rows(*ids))
    return appender.flush() if mark is None else appender.commit(mark)


def content(
    log: EmbeddedLog, start: Offsets | None = None, stop: Offsets | None = None
) -> dict[int, list[tuple[int, int]]]:
    """(offset, id) of each row by bucket; text and bounds of batches are checked."""
    collected: dict[int, list[tuple[int, int]]] = {}
    for batch in log.read(start or {}, log.bounds().end if stop is None else stop):
        ids = batch.rows.column("id").to_pylist()
        assert batch.rows.column("text").to_pylist() == [f"row {i}" for i in ids]
        assert len(batch.kinds) == len(batch.timestamps) == len(batch.offsets) == batch.rows.num_rows
        collected.setdefault(batch.bucket, []).extend(zip(batch.offsets.tolist(), ids, strict=True))
        assert batch.end > batch.offsets[-1]
    return collected


def ids(log: EmbeddedLog) -> dict[int, list[int]]:
    """The ids of all rows by bucket, whose offsets are dense from 0 on."""
    actual = content(log)
    for pairs in actual.values():
        assert [offset for offset, _ in pairs] == list(range(len(pairs)))
    return {bucket: [i for _, i in pairs] for bucket, pairs in actual.items()}
