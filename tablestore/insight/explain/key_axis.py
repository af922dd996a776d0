"""Serialized keys as places on an axis from 0 to 1, for pictures and estimates of key ranges.

Linear in the first key column in which the keys differ; of texts, in the eight bytes after what all of them
begin with. Pure. Used by inspection and by estimates of merges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tablestore.format import binary_row
from tablestore.format.binary_row import Raw
from tablestore.format.types.arrow_types import DataType

_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME")


Line = tuple[int, Callable[[Raw], float]]


def key_axis(keys: Sequence[bytes], types: Sequence[DataType]) -> Callable[[bytes], float | None]:
    """A map of serialized keys to 0..1, linear in the first column in which `keys` differ."""
    if not types or not keys:
        return lambda key: None
    line = key_line(keys, types)
    if line is None:
        return lambda key: 0.5
    column, place = line
    return lambda key: place(binary_row.decode(key, types)[column])


def key_line(keys: Sequence[bytes], types: Sequence[DataType]) -> Line | None:
    """The first column in which `keys` differ, and the map of its values to 0..1; None without one."""
    line = _line(keys, types)
    if line is None:
        return None
    column, number = line
    numbers = [number(binary_row.decode(k, types)[column]) for k in keys]
    return column, _share(number, min(numbers), max(numbers))


def _line(keys: Sequence[bytes], types: Sequence[DataType]) -> Line | None:
    """The first column in which `keys` differ, and the map of its values to numbers in their order."""
    rows = [binary_row.decode(k, types) for k in keys] if types else []
    for i, t in enumerate(types):
        values = [r[i] for r in rows]
        if len(set(map(repr, values))) > 1:
            number = _number_line([v for v in values if v is not None], t)
            numbers = [number(v) for v in values]
            if max(numbers) > min(numbers):
                return i, number
    return None


def key_numbers(keys: Sequence[bytes], types: Sequence[DataType]) -> tuple[list[float], bool]:
    """A number for each key, of which `key_axis` is the share between the smallest and the largest, and
    whether it is the key's leading number itself: then more keys do not change it."""
    line = _line(keys, types)
    if line is None:
        return [0.5] * len(keys), False
    column, number = line
    plain = column == 0 and not (types[0].is_string or types[0].is_binary)
    return [number(binary_row.decode(k, types)[column]) for k in keys], plain


def _share(number: Callable[[Raw], float], low: float, high: float) -> Callable[[Raw], float]:
    return lambda value: (number(value) - low) / (high - low)


def _number_line(values: Sequence[Raw], t: DataType) -> Callable[[Raw], float]:
    """Numbers in the order of the values; of texts, eight bytes after what all of them begin with."""
    if not (t.is_string or t.is_binary):
        numbers: Sequence[Any] = values
        finite = [float(v) for v in numbers if math.isfinite(v)] or [0.0]
        low, high = min(finite), max(finite)
        return lambda v: low if v is None else high if v != v else min(max(float(v), low), high)
    raw = [_bytes(v) for v in values]
    first, last = min(raw), max(raw)
    shared = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return lambda v: float(int.from_bytes(_bytes(v)[shared : shared + 8].ljust(8, b"\0"), "big"))


def _bytes(value: Raw) -> bytes:
    assert value is None or isinstance(value, str | bytes), "only texts and bytes are compared as bytes"
    return value.encode() if isinstance(value, str) else value or b""


def whole_keys(keys: Sequence[bytes], types: Sequence[DataType]) -> int | None:
    """How many keys there can be from the smallest to the largest of `keys`; None where keys are not single
    whole numbers."""
    if len(types) != 1 or types[0].root not in _WHOLE or not keys:
        return None
    values = [v for (v,) in (binary_row.decode(k, types) for k in keys) if isinstance(v, int)]
    return max(values) - min(values) + 1 if values else None
