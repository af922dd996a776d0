"""Record-level expiry: compaction drops rows that are too old (FORMAT.md 11.7).

`record-level.time-field` is INT (seconds), BIGINT (seconds, or milliseconds from 10¹² on) or a timestamp. As
in Java, reads show expired rows until a compaction drops them, NULL never expires, and a compaction rewrites
a file instead of moving it when its smallest time has expired. Pure. Used by the rewriter and picking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import TableOptions
from tablestore.format import stats
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField, DataType
from tablestore.lsm.levels.bucket import Bucket

_MILLIS_FROM = 1_000_000_000_000
_TIMES = ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ")


@dataclass(frozen=True, slots=True)
class RecordExpire:
    """Rows expire once their `field` is more than `seconds` ago."""

    field: DataField
    seconds: int

    @classmethod
    def of(cls, schema: TableSchema, options: TableOptions) -> RecordExpire | None:
        """The expiry of a table's options, None without; raises InvalidOption for options that do not fit."""
        name = options.record_time_field
        if name is not None:
            if name not in schema.by_name:
                raise InvalidOption(f"option 'record-level.time-field' names {name!r}, which is not a column")
            if schema.by_name[name].type.root not in _TIMES:
                time_type = schema.by_name[name].type
                raise InvalidOption(
                    f"record-level.time-field {name!r} is {time_type}; it must be INT, BIGINT or a timestamp"
                )
        if options.record_expire_ms is None:
            return None
        if name is None:
            raise InvalidOption("option 'record-level.expire-time' needs 'record-level.time-field'")
        return cls(schema.by_name[name], options.record_expire_ms // 1000)

    def kept(self, rows: pa.RecordBatch, now_seconds: int) -> pa.RecordBatch:
        """The rows that have not expired."""
        column = rows.column(self.field.name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        filled = column.fill_null(0) if column.null_count else column
        times = _seconds(filled.to_numpy(zero_copy_only=False).astype(np.int64), self.field.type)
        keep = times + self.seconds >= now_seconds
        if column.null_count:
            keep |= column.is_null().to_numpy(zero_copy_only=False)
        return rows if keep.all() else rows.filter(pa.array(keep))

    def expired(self, file: DataFileMeta, schema_of: Callable[[int], TableSchema], now_seconds: int) -> bool:
        """Whether a file has an expired row, by its statistics."""
        own = schema_of(file.schema_id)
        source = own.by_id.get(self.field.id)
        names = tuple(file.write_cols or own.names)
        names = names if file.value_stats_cols is None else tuple(file.value_stats_cols)
        if source is None or source.name not in names:
            return False
        types = [own.by_name[n].type.as_nullable() for n in names]
        low = stats.decode(file.value_stats, types, file.row_count)[names.index(source.name)].min
        if low is None:
            return False
        return now_seconds - self.seconds > int(_seconds(np.int64(low), source.type))


def expired_files(bucket: Bucket, files: Iterable[DataFileMeta]) -> frozenset[str]:
    """Names of the files that compaction must rewrite: files with an expired row, or all with the option
    'compaction.force-rewrite-all-files'."""
    if bucket.options.compaction_rewrites_all:
        return frozenset(f.file_name for f in files)
    expire = RecordExpire.of(bucket.schema, bucket.options)
    if expire is None:
        return frozenset()
    now = bucket.env.now_ms() // 1000
    return frozenset(f.file_name for f in files if expire.expired(f, bucket.schema_of, now))


def _seconds(values: np.ndarray | np.int64, t: DataType) -> np.ndarray:
    """Seconds since the epoch of raw column values, divided as in Java: towards zero."""
    if t.root == "INT":
        return np.asarray(values)
    if t.root == "BIGINT":
        return np.where(np.asarray(values) >= _MILLIS_FROM, np.asarray(values) // 1000, values)
    per_milli = {3: 1, 6: 1000, 9: 1_000_000}[3 if t.precision <= 3 else 6 if t.precision <= 6 else 9]
    millis = np.asarray(values) // per_milli
    return np.sign(millis) * (np.abs(millis) // 1000)
