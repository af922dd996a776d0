"""Rows for a log that wait for their commit: in memory, above a limit in part files below its directory.

A part file is an Arrow IPC stream of batches with the columns of the table, `_BUCKET` and `_KIND` in front;
order within a bucket is that of writing. `stage` makes everything part files and gives a message that names
them, for a commit in another process. Not thread-safe. Memory: 64 MB of rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Corrupt
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join

_LIMIT_BYTES = 64 << 20
_BUCKET, _KIND = "_BUCKET", "_KIND"
PARTS = "parts"


class StagedRows:
    """The rows of one writer. `rows`: how many of each bucket."""

    def __init__(self, io: FileIO, directory: str, compression: str, env: Env = SYSTEM) -> None:
        self._io, self._directory, self._env = io, directory, env
        self._compression = compression if compression in ("lz4", "zstd") else None
        self._files: list[str] = []
        self._waiting: list[tuple[int, pa.Array, pa.RecordBatch]] = []
        self._bytes = 0
        self.rows: dict[int, int] = {}

    @classmethod
    def staged(cls, io: FileIO, directory: str, message: bytes) -> StagedRows:
        """The rows that a message of `stage` names; raises Corrupt for anything else."""
        made = cls(io, directory, "none")
        try:
            body = json.loads(message)
            made._files = [_plain(name) for name in body["parts"]]
            made.rows = {int(bucket): int(rows) for bucket, rows in body["rows"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Corrupt(directory, f"{message[:80]!r} does not name staged rows of a log") from None
        return made

    def write(self, bucket: int, kinds: pa.Array, rows: pa.RecordBatch) -> None:
        """Take rows of a bucket."""
        if not rows.num_rows:
            return
        self._waiting.append((bucket, kinds, rows))
        self.rows[bucket] = self.rows.get(bucket, 0) + rows.num_rows
        self._bytes += rows.get_total_buffer_size()
        if self._bytes > _LIMIT_BYTES:
            self._spill()

    def batches(self) -> Iterator[tuple[int, pa.Array, pa.RecordBatch]]:
        """(bucket, kinds, rows) in the order of writing."""
        for name in self._files:
            with self._io.open_input(self._path(name)) as file, pa.ipc.open_stream(file) as reader:
                for batch in reader:
                    bucket = batch.column(0)[0].as_py()
                    yield bucket, batch.column(1), batch.select(range(2, batch.num_columns))
        yield from self._waiting

    def stage(self) -> bytes | None:
        """Put everything into part files; a message that names them, None if there are no rows. Empty
        afterwards."""
        self._spill()
        if not self._files:
            return None
        body: dict[str, Any] = {"parts": self._files, "rows": self.rows}
        self._files, self.rows = [], {}
        return json.dumps(body).encode()

    def discard(self) -> None:
        """Forget the rows and remove their part files."""
        files, self._files = self._files, []
        self._waiting, self._bytes, self.rows = [], 0, {}
        for name in files:
            self._io.delete(self._path(name))

    def _spill(self) -> None:
        if not self._waiting:
            return
        name = f"{self._env.uuid()}.arrow"
        options = pa.ipc.IpcWriteOptions(compression=self._compression)
        with self._io.open_output(self._path(name)) as file:
            self._files.append(name)
            bucket, kinds, rows = self._waiting[0]
            schema = _tagged(bucket, kinds, rows).schema
            with pa.ipc.new_stream(file, schema, options=options) as writer:
                for one in self._waiting:
                    writer.write_batch(_tagged(*one))
        self._waiting, self._bytes = [], 0

    def _path(self, name: str) -> str:
        return join(self._directory, PARTS, name)


def _tagged(bucket: int, kinds: pa.Array, rows: pa.RecordBatch) -> pa.RecordBatch:
    buckets = pa.array(np.full(rows.num_rows, bucket, np.int32))
    arrays = [buckets, pc.cast(kinds, pa.int8()), *rows.columns]
    return pa.RecordBatch.from_arrays(arrays, names=[_BUCKET, _KIND, *rows.schema.names])


def _plain(name: Any) -> str:
    if not isinstance(name, str) or "/" in name or name.startswith("."):
        raise ValueError(name)
    return name
