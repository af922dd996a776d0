"""Row kinds: +I −U +U −D and their stored bytes (`_VALUE_KIND`, FORMAT.md 9.2)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
TEXTS = ("+I", "-U", "+U", "-D")


def retracts(kinds: np.ndarray) -> np.ndarray:
    """Which kinds are retracts: −U and −D."""
    return (kinds == UPDATE_BEFORE) | (kinds == DELETE)


def parse(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """int8 kinds of a column of "+I" "-U" "+U" "-D" (or of the numbers themselves); raises SchemaMismatch
    for others."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_integer(column.type):
        kinds = column.cast(pa.int8())
        valid = pc.and_(pc.greater_equal(kinds, 0), pc.less_equal(kinds, len(TEXTS) - 1))
        kinds = pc.if_else(valid, kinds, None)
    else:
        kinds = pc.index_in(column.cast(pa.string()), value_set=pa.array(TEXTS)).cast(pa.int8())
    if kinds.null_count:
        bad = column.filter(kinds.is_null())[0]
        raise SchemaMismatch(f"row kind {bad.as_py()!r} is not one of {', '.join(TEXTS)}")
    return kinds


def texts(kinds: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The texts "+I", … of stored kinds."""
    if isinstance(kinds, pa.ChunkedArray):
        kinds = kinds.combine_chunks()
    return pa.array(TEXTS).take(kinds)
