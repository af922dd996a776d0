"""Record batches → batches with exactly the table's columns, or one clear error before a byte is written.

Columns match by name. Extra ones are refused with the nearest name, missing ones get their default or NULL,
an explicit NULL in a column with a default is that default; key and NOT NULL columns must hold no NULL. Every
NaN of a key becomes the same one.

Values are cast where no value changes: within a family of types, integers to floats and decimals, whole
floats to integers (NaN to NULL), midnights to dates. Text and bytes must fit CHAR(n) and BINARY(n), and are
never filled or cut. Fields of a ROW match by name as columns do; map keys are never NULL, counts of a
MULTISET at least 1. Every refusal is a SchemaMismatch that names the column, the row and the remedy. Whole
columns at a time; memory: one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.schema import TableSchema
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import MAX_LENGTH, STRING, DataField, DataType, to_arrow
from tablestore.format.types.nested import Lists, joined, lists, struct_nulls, struct_of


def conform(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """`batch` with exactly the table's columns, order and types; raises SchemaMismatch naming column and
    remedy."""
    given = list(batch.schema.names)
    require_names(given, schema.names, "column")
    arrays = [
        fitted(batch.column(given.index(f.name)), f.type, f"column {f.name!r}")
        if f.name in given
        else absent(f, batch.num_rows, f"column {f.name!r}")
        for f in schema.fields
    ]
    for i, f in enumerate(schema.fields):
        require_present(arrays[i], f.type, f"column {f.name!r}")
        arrays[i] = filled(arrays[i], f)
        if f.name in schema.primary_keys:
            arrays[i] = one_nan(arrays[i])
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def conform_keys(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """The key columns of `batch` in the form in which they are written; raises SchemaMismatch naming column
    and row."""
    missing = [f.name for f in fields if f.name not in batch.schema.names]
    if missing:
        raise SchemaMismatch(
            f"the keys lack {', '.join(missing)}; a key holds {', '.join(f.name for f in fields)}"
        )
    arrays = []
    try:
        for f in fields:
            array = fitted(batch.column(f.name), f.type, f"column {f.name!r}")
            require_present(array, f.type, f"column {f.name!r}")
            arrays.append(one_nan(array))
    except SchemaMismatch as e:
        raise SchemaMismatch(f"the keys do not fit: {str(e).removesuffix(NOTHING_WRITTEN)}") from None
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([f.arrow for f in fields]))


def one_nan(key: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A key column whose NaN all have the same bits, since they decide a key's bucket (0/0 gives others)."""
    if not pa.types.is_floating(key.type):
        return key
    return pc.if_else(pc.is_nan(key), pa.scalar(float("nan"), key.type), key)


NOTHING_WRITTEN = "; nothing was written"


def fitted(array: pa.Array, t: DataType, what: str) -> pa.Array:
    """The array in the Arrow type of `t`, its values checked. A NULL passes: see `require_present`."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    target = to_arrow(t)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if t.root == "ROW" or t.root == "VARIANT":
        return _row(array, t, what)
    if t.root in ("MAP", "MULTISET"):
        return _map(array, t, what)
    if t.root == "ARRAY":
        return _list(array, t, what)
    converted = array if array.type == target else _cast(array, t, target, what)
    _check_length(converted, t, what)
    return converted


def require_names(names: Sequence[str], columns: Sequence[str], what: str) -> None:
    """Raise SchemaMismatch for a name that is unknown, with the nearest known one, or that comes twice."""
    for name in names:
        if name not in columns:
            near = [n for n in columns if n.casefold() == name.casefold()]
            near = near or get_close_matches(name, columns, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; columns: {', '.join(columns)}"
            raise SchemaMismatch(f"{what} {name!r} is not in the table{hint}")
        if names.count(name) > 1:
            raise SchemaMismatch(f"{what} {name!r} is there twice")


def absent(f: DataField, rows: int, what: str) -> pa.Array:
    """A column that the data do not have: its default or NULL, `rows` times; raises SchemaMismatch if NOT
    NULL."""
    if f.default is not None:
        return pa.repeat(_default(f, what), rows)
    if not f.type.nullable:
        raise SchemaMismatch(f"{what} is NOT NULL and is missing")
    return pa.nulls(rows, to_arrow(f.type))


def filled(array: pa.Array, f: DataField) -> pa.Array:
    """A column of the table with its default in place of NULL, as Java Paimon stores it; fields of a ROW get
    theirs only where they are left out."""
    if f.default is None or not array.null_count:
        return array
    return pc.if_else(array.is_null(), _default(f, f"column {f.name!r}"), array)


def _default(f: DataField, what: str) -> pa.Scalar:
    if not f.type.is_scalar:
        raise Unsupported(f"defaults of {f.type.root} columns", f"give {what}")
    return casts.cast(pa.array([f.default]), STRING, f.type)[0]


def require_present(array: pa.Array, t: DataType, what: str) -> None:
    """Raise SchemaMismatch, naming the row, for a NULL in a column that takes none."""
    if not t.nullable and array.null_count:
        row = pc.index(array.is_null(), True).as_py()
        raise SchemaMismatch(f"{what} is NOT NULL and row {row} of the batch holds NULL{NOTHING_WRITTEN}")


def _problem(array: pa.Array, t: DataType, what: str) -> str:
    return f"{what} is {array.type} and the table has {t}"


def _row(array: pa.Array, t: DataType, what: str) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise SchemaMismatch(f"{_problem(array, t, what)}: give structs")
    if t.root == "VARIANT":
        fields: tuple[DataField, ...] = tuple(
            DataField(i, name, DataType("VARBINARY", False, MAX_LENGTH))
            for i, name in enumerate(("value", "metadata"))
        )
    else:
        fields = t.children
    given = [array.type.field(i).name for i in range(array.type.num_fields)]
    require_names(given, [f.name for f in fields], f"field of {what}")
    nulls, inner = struct_nulls(array), array.flatten()
    children = []
    for f in fields:
        name = f"{what}, field {f.name!r},"
        if f.name not in given:
            child = absent(f, len(array), name)
        else:
            child = fitted(inner[given.index(f.name)], f.type, name)
        if not f.type.nullable and child.null_count:  # NULL where the row itself is NULL is none
            within = child if nulls is None else child.filter(pc.invert(nulls))
            require_present(within, f.type, name)
        children.append(child)
    return struct_of(children, to_arrow(t), nulls, len(array))


def _list(array: pa.Array, t: DataType, what: str) -> pa.Array:
    kinds = pa.ListType | pa.LargeListType | pa.FixedSizeListType
    if not isinstance(array.type, kinds):
        raise SchemaMismatch(f"{_problem(array, t, what)}: give lists")
    parts = lists(array)
    child = fitted(parts.children[0], t.element, f"{what}, element,")
    require_present(child, t.element, f"{what}, element,")
    return joined(replace(parts, children=(child,)), to_arrow(t))


def _map(array: pa.Array, t: DataType, what: str) -> pa.Array:
    parts = _entries_of(array, t, what)
    key_type = t.children[0].type
    keys = fitted(parts.children[0], key_type, f"{what}, key,")
    require_present(keys, key_type.not_null(), f"{what}, key,")
    value_type = DataType("INT", False) if t.root == "MULTISET" else t.children[1].type
    name = f"{what}, {'count' if t.root == 'MULTISET' else 'value'},"
    values = fitted(parts.children[1], value_type, name)
    require_present(values, value_type, name)
    if t.root == "MULTISET" and len(values) and pc.min(values).as_py() < 1:
        raise SchemaMismatch(
            f"{what} is {t} and a count is {pc.min(values)}; counts start at 1{NOTHING_WRITTEN}"
        )
    return joined(replace(parts, children=(keys, values)), to_arrow(t))


def _entries_of(array: pa.Array, t: DataType, what: str) -> Lists:
    """Keys and values of maps, or of lists of two-field structs, which is how some frames have them."""
    kind = array.type
    if pa.types.is_map(kind):
        return lists(array)
    if isinstance(kind, pa.ListType | pa.LargeListType) and pa.types.is_struct(kind.value_type):
        parts = lists(array)
        if kind.value_type.num_fields == 2 and not parts.children[0].null_count:
            return replace(parts, children=tuple(parts.children[0].flatten()))
    raise SchemaMismatch(f"{_problem(array, t, what)}: give maps, or lists of (key, value)")


def _cast(array: pa.Array, t: DataType, target: pa.DataType, what: str) -> pa.Array:
    problem = _problem(array, t, what)
    if pa.types.is_floating(array.type) and pa.types.is_integer(target):
        return _whole(array, target, problem)
    if pa.types.is_timestamp(array.type) and array.type.tz is None and pa.types.is_date(target):
        return _days(array, target, problem)
    if not _castable(array.type, target):
        raise SchemaMismatch(f"{problem}: cast it first")
    try:
        if pa.types.is_timestamp(target) and array.type.tz is None and target.tz is not None:
            raise SchemaMismatch(f"{problem}: give the timestamps a zone first")
        if pa.types.is_integer(array.type) and pa.types.is_decimal(target):
            # Arrow wants room for any integer first
            array = array.cast(pa.decimal128(38, target.scale))
        return array.cast(target)
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"{problem}: {e}") from None


_EXACT = {2: 2**11, 4: 2**24, 8: 2**53}
"""The largest whole number up to which floats of so many bytes hold every one."""


def _whole(array: pa.Array, target: pa.DataType, problem: str) -> pa.Array:
    """Floats as integers: pandas makes floats of integers where some are missing. NaN becomes NULL."""
    values = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    size = array.type.bit_width // 8
    largest = min(_EXACT[size], 2 ** (target.bit_width - 1) - 1)
    wide = pc.cast(values, pa.float64())
    small = pc.and_(
        pc.less_equal(wide, float(largest)), pc.greater_equal(wide, float(-largest - (largest < 2**31)))
    )
    fits = pc.and_(pc.equal(pc.floor(wide), wide), small)
    _require_all(fits, array, f"{problem}: whole numbers that fit it are taken, up to {_EXACT[size]:,}")
    return values.cast(target)


def _days(array: pa.Array, target: pa.DataType, problem: str) -> pa.Array:
    """Timestamps at midnight as dates: pandas has no others."""
    days = array.cast(pa.date32(), safe=False)
    midnight = pc.equal(days.cast(array.type), array)
    _require_all(midnight, array, f"{problem}: only midnights are dates")
    return days.cast(target)


def _require_all(fits: pa.Array, array: pa.Array, problem: str) -> None:
    """Raise SchemaMismatch for the first value that does not fit, naming its row."""
    row = pc.index(fits, False).as_py()
    if row >= 0:
        raise SchemaMismatch(f"{problem}; row {row} of the batch holds {array[row]}{NOTHING_WRITTEN}")


_FAMILIES = (
    lambda t: pa.types.is_integer(t) or pa.types.is_decimal(t),
    pa.types.is_floating,
    lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
    lambda t: (
        pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or pa.types.is_binary_view(t)
        or pa.types.is_fixed_size_binary(t)
    ),
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_boolean,
)


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a type may be cast to another: within a family, integers to floats or decimals, NULL to
    anything."""
    if pa.types.is_null(source):
        return True
    if pa.types.is_integer(source) and pa.types.is_floating(target):
        return True
    return any(family(source) and family(target) for family in _FAMILIES)


def _check_length(array: pa.Array, t: DataType, what: str) -> None:
    if not (t.is_string or t.is_binary) or t.precision == MAX_LENGTH or not len(array):
        return
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    if t.is_string and longest > t.precision:  # text has no more characters than bytes
        longest = pc.max(pc.utf8_length(array)).as_py()
    if longest > t.precision:
        raise SchemaMismatch(f"{what} is {t} and a value has length {longest}{NOTHING_WRITTEN}")
