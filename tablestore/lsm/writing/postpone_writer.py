"""PostponeWriter: rows of one partition of a table with `bucket` = -2 → files in bucket-postpone → message.

Rows are written in the order of arrival, not sorted or merged, without statistics, in Avro where the types
allow; sequence number −1 means none. All files of one writer share a name prefix, by which a compaction reads
them in order (FORMAT.md 9.5). Belongs to one thread.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tablestore.core.options.table_options import TableOptions
from tablestore.format.binary_row import is_timestamp
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import APPEND_SOURCE
from tablestore.format.parquet.schema import kv_schema
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType
from tablestore.lsm.levels.bucket import Bucket
from tablestore.lsm.levels.bucket_files import BucketFiles, FileNames, RollingWriter
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.lsm.writing.row_stream import BucketRowStream
from tablestore.lsm.writing.workers import Workers

UNNUMBERED = -1


class PostponeWriter:
    """Writes one partition: its postponed bucket, whose options are those of `postponed_options`."""

    def __init__(self, bucket: Bucket, *, pool: MemoryPool, workers: Workers | None = None) -> None:
        self._bucket, self._files = bucket, BucketFiles(bucket)
        self._names = FileNames(self._files)
        self._schema = kv_schema(bucket.schema)
        self._stream = BucketRowStream(self._open, pool=pool, workers=workers)

    def _open(self) -> RollingWriter:
        return RollingWriter(self._files, self._names.data, level=0, source=APPEND_SOURCE)

    def append(
        self, values: pa.RecordBatch, kinds: pa.Array | None = None, sequences: pa.Array | None = None
    ) -> None:
        """Add rows of the table's columns; sequence numbers are ignored."""
        if kinds is None:
            kinds = pa.array(np.zeros(values.num_rows, dtype=np.int8))
        unnumbered = pa.array(np.full(values.num_rows, UNNUMBERED, dtype=np.int64))
        columns = [unnumbered, kinds, *values.columns]
        self._stream.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the buffered rows."""
        return self._stream.bytes

    def prepare(self) -> CommitMessage:
        """The commit message with the finished files; the writer can go on afterwards."""
        files = self._stream.finish()
        self._files.hand_over()
        return self._bucket.message(new_files=files)

    def abort(self) -> None:
        """Drop what is buffered and delete what was not handed over."""
        self._stream.abort()
        self._files.drop()


def postponed_options(schema: TableSchema, options: TableOptions, *, user: str, number: int) -> TableOptions:
    """The options of one writer's files: with its prefix, and in Avro without statistics if Avro holds the
    table's types."""
    prefix = f"{options.data_file_prefix}-u-{user}-s-{number}-w-"
    if not all(_in_avro(f.type) for f in schema.fields):
        return replace(options, data_file_prefix=prefix)
    return replace(
        options,
        data_file_prefix=prefix,
        stats_mode="none",
        stats_mode_per_level=(),
        file_format="avro",
        file_format_per_level=(),
    )


def _in_avro(t: DataType) -> bool:
    """Whether Paimon's Avro files hold the type."""
    if t.root == "VARIANT" or (t.root == "TIME" and t.precision > 3):
        return False
    if is_timestamp(t) and t.precision > 6:
        return False
    if t.root == "MULTISET" and not t.children[0].type.is_string:
        return False
    return all(_in_avro(f.type) for f in t.children)
