"""ColumnCast: a CAST that DuckDB does otherwise than Flink SQL, as a function of whole columns that it calls.

Texts are read and written as Java does it: `1.0E7`, `TRUE`, `2024-03-01 04:05:06.000`, `[1, NULL]`, `{a=1}`,
`(1, x)`. A text may have blanks around a number or a date, and leave parts of a date out.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest, SchemaMismatch
from tablestore.format.types import cast_text, casts
from tablestore.format.types.data_type import DataType, time_unit, to_arrow
from tablestore.format.types.nested import lists, struct_nulls
from tablestore.sql.query.numeric_types import NUMBERS

_WHOLE_YEAR = r"^\s*(\d{1,4})\s*$"
_WHOLE_HOUR = r"^\s*(\d{1,2})\s*$"


@dataclass(frozen=True, slots=True)
class ColumnCast:
    """A CAST of one type to another; with `safe` a value that cannot be cast is NULL. Raises InvalidRequest
    for such a value otherwise."""

    source: DataType
    returns: DataType
    safe: bool = False

    @property
    def name(self) -> str:
        return f"{'try_' if self.safe else ''}cast {self.source} to {self.returns}".replace('"', "'")

    @property
    def parameters(self) -> tuple[DataType, ...]:
        return (self.source.as_nullable(),)

    def run(self, *columns: pa.Array) -> pa.Array:
        (column,) = columns
        return self._parts(column) if self.safe else self._whole(column)

    def _whole(self, column: pa.Array) -> pa.Array:
        try:
            return casted(column, self.source.as_nullable(), self.returns.as_nullable())
        except SchemaMismatch as e:
            shown = (
                str(e).partition(" of an older file")[0].removesuffix(f" is not a value of {self.returns}")
            )
            raise InvalidRequest(f"{shown} is no {self.returns.as_nullable()}") from None

    def _parts(self, column: pa.Array) -> pa.Array:
        """The values that can be cast; halves of a column that cannot be are tried by themselves."""
        try:
            return self._whole(column)
        except (InvalidRequest, pa.ArrowInvalid, OverflowError):
            if len(column) == 1:
                return pa.nulls(1, to_arrow(self.returns))
            half = len(column) // 2
            return pa.concat_arrays([self._parts(column[:half]), self._parts(column[half:])])


def casted(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """The column as the other type."""
    if source == target:
        return array
    if target.is_string:
        text = _text(array, source)
        return cast_text.fitted(text, target)
    if source.is_string:
        return _parsed(array, target)
    if source.root == target.root and source.is_nested:
        return _nested(array, source, target)
    return casts.cast(array, source, target)


def _parsed(array: pa.Array, target: DataType) -> pa.Array:
    if target.root in NUMBERS:
        return casts.cast(pc.utf8_trim_whitespace(array), cast_text_type(), target)
    if target.root == "DATE":
        array = pc.replace_substring_regex(array, pattern=_WHOLE_YEAR, replacement=r"\1-01-01")
    if target.root == "TIME":
        array = pc.replace_substring_regex(array, pattern=_WHOLE_HOUR, replacement=r"\1:00")
    if target.root in ("DATE", "TIME", "TIMESTAMP"):
        _refuse_numbers(array, target)
    return casts.cast(array, cast_text_type(), target)


def _refuse_numbers(array: pa.Array, target: DataType) -> None:
    """Where older files are read, a number is one of days or milliseconds; here it is none."""
    cast_text.refuse_where(pc.match_substring_regex(array, r"^-?\d+$"), array, target)


def cast_text_type() -> DataType:
    """The type of texts of any length."""
    return DataType("VARCHAR", precision=2147483647)


def _text(array: pa.Array, t: DataType) -> pa.Array:
    if t.root == "BOOLEAN":
        return pc.utf8_upper(array.cast(pa.string()))
    if t.root == "TIMESTAMP":
        text = array.cast(pa.timestamp(time_unit(t.precision)), safe=False).cast(pa.string())
        return pc.utf8_slice_codeunits(text, 0, 19 + (t.precision + 1 if t.precision else 0))
    if t.is_binary:
        return casts.cast(array, t, cast_text_type())
    if not t.is_nested:
        return cast_text.of(array, t)
    nothing = pa.scalar(None, pa.string())
    if t.root == "ROW":
        cells = [_shown(cell, c.type) for cell, c in zip(array.flatten(), t.children, strict=True)]
        text = pc.binary_join_element_wise("(", pc.binary_join_element_wise(*cells, ", "), ")", "")
        nulls = struct_nulls(array)
        return text if nulls is None else pc.if_else(nulls, nothing, text)
    parts = lists(array)
    shown = [_shown(c, f.type) for c, f in zip(parts.children, t.children, strict=True)]
    entries = shown[0] if t.root == "ARRAY" else pc.binary_join_element_wise(*shown, "=")
    joined = pc.binary_join(pa.ListArray.from_arrays(parts.offsets, entries, mask=parts.nulls), ", ")
    begin, end = ("[", "]") if t.root == "ARRAY" else ("{", "}")
    return pc.binary_join_element_wise(begin, joined, end, "")


def _shown(array: pa.Array, t: DataType) -> pa.Array:
    return _text(array, t).fill_null("NULL")


def _nested(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    pairs = zip(source.children, target.children, strict=True)
    kinds = [(a.type.as_nullable(), b.type.as_nullable()) for a, b in pairs]
    wanted = to_arrow(target)
    if target.root == "ROW":
        cells = [casted(cell, *kind) for cell, kind in zip(array.flatten(), kinds, strict=True)]
        return pa.StructArray.from_arrays(cells, fields=list(wanted), mask=struct_nulls(array))
    parts = lists(array)
    children = [casted(c, *kind) for c, kind in zip(parts.children, kinds, strict=True)]
    if target.root == "ARRAY":
        return pa.ListArray.from_arrays(parts.offsets, children[0], mask=parts.nulls).cast(wanted)
    return pa.MapArray.from_arrays(parts.offsets, *children, mask=parts.nulls).cast(wanted)
