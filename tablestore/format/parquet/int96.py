"""INT96 timestamps of Parquet files without loss, by a changed footer that declares them as bytes
(FORMAT.md 3.2).

    12 bytes, little-endian: int64 nanoseconds of the day (negative before 1970 in Java's files)
                             int32 Julian day

Arrow converts INT96 to 64-bit nanoseconds and wraps around silently. So schema and column chunks of INT96
columns are declared FIXED_LEN_BYTE_ARRAY(12), which has the same bytes on the pages, and converted here with
a check of the range. Pure.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.core.errors import Unsupported
from tablestore.format.parquet import thrift_compact as thrift

_INT96, _FIXED, _WIDTH, _STATISTICS = 3, 7, 12, 12
_EPOCH_DAY, _DAY_NANOS = 2440588, 86_400 * 10**9
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def has_int96(footer: pq.FileMetaData, name: str) -> bool:
    """Whether a column of the schema has INT96 values, at any depth."""
    leaves = (footer.schema.column(i) for i in range(len(footer.schema)))
    return any(
        c.physical_type == "INT96" and (c.path == name or c.path.startswith(f"{name}.")) for c in leaves
    )


def as_bytes(source: pa.NativeFile) -> pq.FileMetaData:
    """The footer of a file with its INT96 columns declared as 12 bytes; ValueError for damage."""
    tree = thrift.parquet_footer(source)
    for element in thrift.field(tree, 2)[1]:
        if thrift.value(element, 1) == _INT96:
            element[:] = [
                (1, thrift.INT32, _FIXED),
                (2, thrift.INT32, _WIDTH),
                *(f for f in element if f[0] > 2),
            ]
    for group in thrift.field(tree, 4)[1]:
        for chunk in thrift.field(group, 1)[1]:
            meta = thrift.field(chunk, 3)
            if thrift.value(meta, 1) == _INT96:
                meta[:] = [
                    (1, thrift.INT32, _FIXED),
                    *(f for f in meta if f[0] not in (1, 12)),
                ]  # 12: statistics
    return pq.read_metadata(pa.BufferReader(thrift.MAGIC + thrift.footer_bytes(tree)))


def timestamps(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values of 12 bytes as timestamps; raises Unsupported for one outside the range of `wanted`."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    data = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    cells = data[_WIDTH * array.offset : _WIDTH * (array.offset + len(array))].reshape(-1, _WIDTH)
    nanos = np.ascontiguousarray(cells[:, :8]).view("<i8")[:, 0].astype(np.int64)
    days = np.ascontiguousarray(cells[:, 8:]).view("<i4")[:, 0].astype(np.int64) - _EPOCH_DAY
    days, nanos = np.where(valid, days + nanos // _DAY_NANOS, 0), np.where(valid, nanos % _DAY_NANOS, 0)
    per_unit = _UNITS[wanted.unit]
    ticks, per_day = nanos // per_unit, _DAY_NANOS // per_unit
    (low_day, low), (high_day, high) = divmod(-(2**63), per_day), divmod(2**63 - 1, per_day)
    outside = (days < low_day) | ((days == low_day) & (ticks < low))
    outside |= (days > high_day) | ((days == high_day) & (ticks > high))
    if outside.any():
        day = int(days[np.argmax(outside)])
        when = np.datetime64(day, "D")
        raise Unsupported(f"timestamps above microseconds outside 1677-09-21..2262-04-11, such as {when}")
    # a day before the first whole one is computed from the next, so that no product overflows 64 bits
    below = days < 0
    total = (days + below) * per_day + (ticks - np.where(below, per_day, 0))
    return pa.array(total, pa.int64(), mask=~valid).cast(pa.timestamp(wanted.unit)).cast(wanted)
