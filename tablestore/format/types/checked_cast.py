"""Casts of whole columns that say which values do not fit, in place of refusing the column or of losing a
part of a value.

A value fits where nothing of it is lost: a text in its whole length, a number with all its digits. Numbers
may lose digits on the way to FLOAT and DOUBLE only. Pure. Serves captures, computed columns and TRY_CAST.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import STRING
from tablestore.format.types.data_type import MAX_LENGTH, DataType, to_arrow

Checked = tuple[
    pa.Array, np.ndarray | None
]  # values, NULL where they do not fit, and where that is (or None)
_EXACT = (*casts.INTEGERS, "DECIMAL", *casts.DATES)
_REFUSALS = (SchemaMismatch, pa.ArrowInvalid, OverflowError)


def checked(array: pa.Array, source: DataType, target: DataType) -> Checked:
    """The column as `target`, and the rows whose value does not fit. Raises Unsupported for types between
    which nothing is cast."""
    if (source.is_string and target.is_string) or (source.is_binary and target.is_binary):
        return _short_enough(array, target)
    if source.as_nullable() == target.as_nullable():
        return array, None
    if target.is_string:
        text, wrong = attempted(lambda a: casts.cast(a, source, STRING), array, pa.string())
        text, longer = _short_enough(text, target)
        return text, either(wrong, longer)
    if target.is_binary and source.is_string:
        return _short_enough(array.cast(pa.binary()), target)
    values, wrong = attempted(lambda a: casts.cast(a, source, target), array, to_arrow(target))
    return without(values, either(wrong, lost(array, values), _changed(array, values, source, target)))


def attempted(action: Callable[[pa.Array], pa.Array], array: pa.Array, kind: pa.DataType) -> Checked:
    """What `action` makes of the column, of this Arrow type, NULL for rows that it refuses, and which these
    are: they are looked for by halves."""
    try:
        return action(array), None
    except _REFUSALS:
        if len(array) == 1:
            return pa.nulls(1, kind), np.ones(1, np.bool_)
    middle = len(array) // 2
    parts = [attempted(action, part, kind) for part in (array.slice(0, middle), array.slice(middle))]
    flags = [np.zeros(len(values), np.bool_) if wrong is None else wrong for values, wrong in parts]
    return pa.concat_arrays([values for values, _ in parts]), np.concatenate(flags)


def lost(array: pa.Array, result: pa.Array) -> np.ndarray | None:
    """Where a value became NULL."""
    if result.null_count == array.null_count:
        return None
    return flags(pc.and_(array.is_valid(), result.is_null()))


def either(*masks: np.ndarray | None) -> np.ndarray | None:
    """Where any of the masks is true; None where none can be."""
    there = [mask for mask in masks if mask is not None and mask.any()]
    return np.logical_or.reduce(there) if there else None


def without(array: pa.Array, wrong: np.ndarray | None) -> Checked:
    """The column with NULL where it is wrong, and where that is."""
    if wrong is None:
        return array, None
    return pc.if_else(pa.array(wrong), pa.scalar(None, array.type), array), wrong


def flags(mask: pa.Array) -> np.ndarray:
    """A mask of Arrow, NULL as false."""
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _short_enough(array: pa.Array, target: DataType) -> Checked:
    if target.precision >= MAX_LENGTH or not _may_exceed(array, target.precision):
        return array, None
    lengths = pc.utf8_length(array) if target.is_string else pc.binary_length(array)
    wrong = flags(pc.greater(lengths, target.precision))
    return without(array, wrong if wrong.any() else None)


def _may_exceed(array: pa.Array, length: int) -> bool:
    """Whether a value has more than so many bytes; characters are never more than these."""
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        return True
    if not len(array):
        return False
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    return bool(np.diff(offsets).max() > length)


def _changed(array: pa.Array, result: pa.Array, source: DataType, target: DataType) -> np.ndarray | None:
    """Where the value is another one when it is cast back."""
    if target.root == "FLOAT" and source.root == "DOUBLE":
        return flags(pc.and_(pc.is_finite(array), pc.invert(pc.is_finite(result))))
    if target.root not in _EXACT or source.root not in (*_EXACT, *casts.FLOATS):
        return None
    if target.root == "DATE" and source.root in casts.TIMES:
        midnight = pc.floor_temporal(array, unit="day")
        return flags(pc.not_equal(array, midnight))
    if not casts.allowed(target, source, explicit=True):
        return None
    back, wrong = attempted(lambda a: casts.cast(a, target, source), result, array.type)
    same = pc.or_kleene(pc.equal(back, array), result.is_null())
    return either(wrong, ~flags(same))
