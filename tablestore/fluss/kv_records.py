"""Batches of changes that clients send to keyed tables, whole columns at a time.

batch   int32 length of what follows | int8 magic 0 | uint32 CRC-32C of what follows it | int16 schema id
        | int8 attributes | int64 writer id | int32 batch sequence | int32 records | the records
record  int32 length of what follows | varint length of the key | key | row; without a row a delete
key     of a cluster whose lake is of the format paimon: null bits, 8 bytes a column, texts behind them;
        short texts stand in their 8 bytes, of others these are length and place
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, Unsupported
from tablestore.core.extras import required
from tablestore.fluss.compacted_rows import binary_array, decode_keyed, decode_rows
from tablestore.format.types.arrow_types import to_arrow
from tablestore.format.types.data_type import DataType

_HEAD, _BATCH = struct.Struct("<ibI"), struct.Struct("<hbqii")
_LENGTH = 4
_FIXED = {"BOOLEAN": "<u1", "TINYINT": "<i1", "SMALLINT": "<i2", "INT": "<i4", "BIGINT": "<i8", "DATE": "<i4"}
_FIXED |= {"TIME": "<i4", "FLOAT": "<f4", "DOUBLE": "<f8"}
_SHORT = 0x80
_USER = "changes of a keyed table"


@dataclass(frozen=True, slots=True)
class KvChanges:
    """A batch: change i is of `keys[i]` (binary), to `rows[i]` (binary), which is empty for a delete."""

    schema_id: int
    writer_id: int
    sequence: int
    keys: pa.Array
    rows: pa.Array

    @property
    def deletes(self) -> np.ndarray:
        """Which of the changes are deletes."""
        return pc.binary_length(self.rows).to_numpy(zero_copy_only=False) == 0

    def decoded_rows(self, schema: pa.Schema, types: Sequence[DataType], where: str) -> pa.RecordBatch:
        """The rows of those that are no deletes. Raises Corrupt, naming `where`."""
        there = self.rows.filter(pa.array(~self.deletes))
        return decode_rows(there, schema, types, skip=0, where=where)


def decode_changes(data: bytes, where: str) -> KvChanges:
    """The changes of one batch. Raises Corrupt, naming `where`, for anything else."""
    if len(data) < _HEAD.size + _BATCH.size:
        raise Corrupt(where, f"a batch of changes of {len(data)} bytes")
    length, magic, crc = _HEAD.unpack_from(data)
    if magic != 0 or length != len(data) - _LENGTH:
        raise Corrupt(where, f"a batch of changes of format {magic}, {length} bytes of {len(data) - _LENGTH}")
    if required("google_crc32c", by=_USER).value(data[_HEAD.size :]) != crc:
        raise Corrupt(where, f"a batch of changes that does not fit its CRC {crc:08x}")
    schema_id, _, writer_id, sequence, count = _BATCH.unpack_from(data, _HEAD.size)
    body = data[_HEAD.size + _BATCH.size :]
    keys, rows = decode_keyed(_records(body, count, where), skip=_LENGTH, where=where)
    return KvChanges(schema_id, writer_id, sequence, keys, rows)


def _records(body: bytes, count: int, where: str) -> pa.Array:
    """The records with their lengths. Every byte knows where a record that began there would end; from the
    first one they are followed in steps that double."""
    size = len(body)
    if not 0 < count <= size // _LENGTH:
        raise Corrupt(where, f"{count} changes in {size} bytes")
    data = np.frombuffer(body + bytes(_LENGTH), np.uint8)
    lengths = np.ndarray((size,), "<i4", data, 0, (1,)).astype(np.int64)
    ends = np.append(np.where(lengths < 0, size, np.minimum(np.arange(size) + _LENGTH + lengths, size)), size)
    starts, jump = np.zeros(1, np.int64), ends
    while len(starts) < count:
        starts, jump = np.concatenate([starts, jump[starts]])[:count], jump[jump]
    bounds = np.append(starts, size)
    if (ends[starts] != bounds[1:]).any() or (np.diff(bounds) <= _LENGTH).any():
        raise Corrupt(where, f"a batch of {count} changes whose records end elsewhere than it")
    return binary_array(bounds.astype(np.int32), data)


def key_columns(keys: pa.Array, types: Sequence[DataType], where: str) -> list[pa.Array]:
    """The columns of keys (binary) of a cluster whose lake is of the format paimon, in the Arrow types that
    tables of the engine have. Raises Corrupt, naming `where`, Unsupported for types that are no such keys."""
    head = (len(types) + 63 + 8) // 64 * 8
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1]
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    if (ends - starts < head + 8 * len(types)).any():
        raise Corrupt(where, "a key that is shorter than its columns")
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    columns = []
    for i, t in enumerate(types):
        at = starts + head + 8 * i
        slots = np.ascontiguousarray(data[at[:, None] + np.arange(8)])
        if t.root in _FIXED:
            kind = np.dtype(_FIXED[t.root])
            values = pa.array(np.ascontiguousarray(slots[:, : kind.itemsize]).view(kind)[:, 0])
        elif t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and t.precision <= 3:
            values = pa.array(slots.view("<i8")[:, 0])
        elif t.is_string or t.is_binary:
            words, is_short = slots.view("<u8")[:, 0], slots[:, 7] >= _SHORT
            first = np.where(is_short, at, starts + (words >> np.uint64(32)).astype(np.int64))
            counted = np.where(is_short, slots[:, 7] & (_SHORT - 1), words & np.uint64(0xFFFFFFFF))
            behind = first + counted.astype(np.int64)
            if (first < starts).any() or (behind > ends).any():
                raise Corrupt(where, "a text in a key that ends elsewhere")
            bounds = np.stack([first, behind], axis=1).ravel()
            values = binary_array(bounds, data).take(pa.array(np.arange(0, 2 * len(keys), 2)))
        else:
            raise Unsupported(f"deletes by a key of the type {t}", where)
        columns.append(values.cast(to_arrow(t)))
    return columns
