"""Serialized BinaryRows → columns: many rows of one type decoded at once (FORMAT.md 4.1).

Only for rows of fixed width, in which every value is in its own 8-byte slot; others are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tablestore.format.types.arrow_types import DataType

_WIDTHS = {"TINYINT": "<i1", "SMALLINT": "<i2", "INT": "<i4", "DATE": "<i4", "TIME": "<i4", "BIGINT": "<i8"}


def integers(rows: pa.Array, types: Sequence[DataType]) -> list[np.ndarray] | None:
    """One int64 array a column, in the order of its values; None if a column is nullable or not stored as an
    integer, or a row has another width. `rows` is a large_binary array without nulls."""
    kinds = [kind for t in types if not t.nullable and (kind := _slot(t)) is not None]
    if not types or len(kinds) < len(types):
        return None
    nulls = (len(types) + 63 + 8) // 64 * 8
    width = 4 + nulls + 8 * len(types)
    offsets = np.frombuffer(rows.buffers()[1], dtype=np.int64)[rows.offset : rows.offset + len(rows) + 1]
    if not len(rows) or (np.diff(offsets) != width).any():
        return None
    flat = np.frombuffer(rows.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    cells = flat.reshape(len(rows), width)
    if cells[:, 5 : 4 + nulls].any() or (cells[:, :4] != _arity(len(types))).any():
        return None
    columns = []
    for i, kind in enumerate(kinds):
        at = 4 + nulls + 8 * i
        slots = np.ascontiguousarray(cells[:, at : at + 8]).view(kind)
        columns.append(slots[:, 0].astype(np.int64))
    return columns


def _slot(t: DataType) -> str | None:
    if t.root == "DECIMAL":
        return "<i8" if t.precision <= 18 else None
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return "<i8" if t.precision <= 3 else None
    return _WIDTHS.get(t.root)


def _arity(columns: int) -> np.ndarray:
    return np.frombuffer(columns.to_bytes(4, "big"), dtype=np.uint8)
