"""Lists, maps and structs split into flat children and rebuilt, for arrays with any offset.

Casts, writes and merges of nested values work on one flat child array at a time. NULLs have no children here.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists or maps as offsets, flat children and a mask of NULLs; a map has two children, keys and items."""

    offsets: pa.Array
    children: tuple[pa.Array, ...]
    nulls: pa.Array | None

    @property
    def sizes(self) -> np.ndarray:
        """The number of children of each row; 0 for NULL."""
        return np.diff(self.offsets.to_numpy())

    def owner(self, child: int) -> int:
        """The row of this child."""
        return int(np.searchsorted(self.offsets.to_numpy(), child, side="right")) - 1


def lists(array: pa.Array) -> Lists:
    """The parts of a list of any kind, or of a map."""
    t = array.type
    nulls = array.is_null() if array.null_count else None
    if pa.types.is_map(t):
        flat = array.cast(
            pa.list_(pa.struct([t.key_field.with_name("key"), t.item_field.with_name("value")]))
        )
        entries = flat.flatten()
        return Lists(_offsets(flat), (entries.field(0), entries.field(1)), nulls)
    return Lists(_offsets(array), (array.flatten(),), nulls)


def _offsets(array: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_list(array.type):
        sizes = np.where(array.is_valid().to_numpy(zero_copy_only=False), array.type.list_size, 0)
    else:
        sizes = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return pa.array(offsets.astype(np.int32))


def joined(parts: Lists, t: pa.DataType) -> pa.Array:
    """A list or map of type `t` from its parts."""
    offsets, nulls = parts.offsets, parts.nulls
    if pa.types.is_map(t):
        keys, items = parts.children
        return pa.MapArray.from_arrays(offsets, keys, items, type=t, mask=nulls)
    return pa.ListArray.from_arrays(offsets, parts.children[0], type=t, mask=nulls)


def struct_nulls(array: pa.StructArray) -> pa.Array | None:
    """The mask of NULL structs, None without any."""
    return array.is_null() if array.null_count else None


def struct_of(
    children: list[pa.Array], t: pa.StructType, nulls: pa.Array | None, rows: int
) -> pa.StructArray:
    """A struct of type `t`; `rows` is its length where it has no fields."""
    if not children:
        return pa.array([{}] * rows, t) if nulls is None else pa.nulls(rows, t)
    fields = [t.field(i) for i in range(t.num_fields)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=nulls)


def presentable(array: pa.Array) -> pa.Array:
    """The array with some value in each NOT NULL field of a NULL struct, as file writers require."""
    t = array.type
    if not _requires(t):
        return array
    if not pa.types.is_struct(t):
        parts = lists(array)
        return joined(replace(parts, children=tuple(map(presentable, parts.children))), t)
    children = []
    for i, child in enumerate(array.flatten()):
        filled = presentable(child)
        children.append(filled if t.field(i).nullable or not filled.null_count else _without_nulls(filled))
    return struct_of(children, t, struct_nulls(array), len(array))


def _requires(t: pa.DataType) -> bool:
    """Whether a struct in the type has a NOT NULL field."""
    if pa.types.is_struct(t):
        return any(not t.field(i).nullable or _requires(t.field(i).type) for i in range(t.num_fields))
    if pa.types.is_map(t):
        return _requires(t.key_type) or _requires(t.item_type)
    return pa.types.is_list(t) and _requires(t.value_type)


def _without_nulls(array: pa.Array) -> pa.Array:
    places = np.where(array.is_null().to_numpy(zero_copy_only=False), len(array), np.arange(len(array)))
    return pa.concat_arrays([array, pa.array([_any_value(array.type)], array.type)]).take(pa.array(places))


def _any_value(t: pa.DataType) -> Any:
    if pa.types.is_struct(t):
        fields = (t.field(i) for i in range(t.num_fields))
        return {f.name: None if f.nullable else _any_value(f.type) for f in fields}
    if pa.types.is_list(t) or pa.types.is_map(t):
        return []
    texts = {"string": "", "binary": b"", "bool": False}
    return Decimal(0) if pa.types.is_decimal(t) else texts.get(str(t), 0)
