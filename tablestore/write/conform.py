"""Anything Arrow-like → record batches that fit the table, or one clear error before a byte is written.

Columns match by name, also the fields of a ROW. Extra ones are refused with the nearest name, missing ones
get their default or NULL, an explicit NULL in a column with a default is that default, types are cast where
no value can be lost (whole floats to integers, NaN to NULL, midnights to dates). Key and NOT NULL columns
must hold no NULL, map keys neither, counts of a MULTISET are at least 1, text and bytes must fit CHAR(n) and
BINARY(n) (never filled, never cut). Every NaN of a key becomes the same one. Whole columns at a time; memory
is that of one batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.schema import TableSchema
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import MAX_LENGTH, STRING, DataField, DataType, to_arrow
from tablestore.format.types.nested import Lists, joined, lists, struct_nulls, struct_of

_NOTHING = "; nothing was written"


def as_batches(data: Any, schema: TableSchema | None = None) -> Iterator[pa.RecordBatch]:
    """Record batches of a Table, RecordBatch(es), a reader, pandas, a list of dicts, or anything with an
    Arrow stream.

    `schema` tells what plain Python values of nested columns mean. The index of a pandas frame is left out
    unless it has a name. Raises SchemaMismatch for what is none of these.
    """
    for batch in _batches(data, schema):
        index = unnamed_index(batch.schema)
        if index:
            kept = () if schema is None else schema.names
            batch = batch.drop_columns([n for n in index if n not in kept]).replace_schema_metadata(None)
        yield batch


_INDEX = re.compile(r"__index_level_\d+__")
"""What Arrow calls an index without a name, which pandas has after every filter."""


def unnamed_index(schema: pa.Schema) -> list[str]:
    """The columns of Arrow data out of pandas that are an index without a name."""
    index = [n for n in schema.names if _INDEX.fullmatch(n)]
    return index if b"pandas" in (schema.metadata or {}) else []


def _batches(data: Any, schema: TableSchema | None) -> Iterator[pa.RecordBatch]:
    kind = f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"
    if kind in _ADVICE:
        raise SchemaMismatch(f"a {kind} {_ADVICE[kind]}{_NOTHING}")
    if kind == "pyspark DataFrame":  # comes to this process whole: ts.spark.write_df writes where it is
        data = data.toArrow()
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif isinstance(data, pa.Array | pa.ChunkedArray) and not pa.types.is_struct(data.type):
        raise SchemaMismatch(f"an array of {data.type} has no column names: pass {{column: array}}")
    elif hasattr(data, "__arrow_c_stream__"):
        maps = () if kind != "pandas DataFrame" or schema is None else _maps(data, schema)
        rest = _stream(data.drop(columns=list(maps)) if maps else data)
        if not maps:
            yield from rest
            return
        made, rows = _from_columns({n: [_missing(v) for v in data[n]] for n in maps}, schema), rest.read_all()
        for name in maps:
            rows = rows.append_column(name, made.column(name))
        yield from rows.to_batches()
    elif hasattr(data, "__arrow_c_array__"):
        yield pa.record_batch(data)
    elif isinstance(data, dict):
        yield _from_columns(data, schema)
    elif isinstance(data, list) and not data:
        return
    elif isinstance(data, list) and isinstance(data[0], dict):
        for row in data:
            if not isinstance(row, dict):
                raise SchemaMismatch(f"{row!r} among rows given as dicts is none{_NOTHING}")
        for rows in _runs(data, schema):
            names = dict.fromkeys(name for row in rows for name in row)
            yield _from_columns({n: [row.get(n) for row in rows] for n in names}, schema)
    elif isinstance(data, Iterator | list | tuple):
        for part in data:
            yield from _batches(part, schema)
    else:
        raise SchemaMismatch(
            f"{type(data).__name__} is not Arrow-like: pass a Table, batches, a DataFrame or dicts"
        )


_ADVICE = {
    "pandas Series": "is one column: pass a frame, series.to_frame() or (with its index) .reset_index()",
    "polars Series": "is one column: pass a frame, series.to_frame()",
    "polars LazyFrame": "has no rows yet: pass frame.collect()",
    "tablestore Table": "is read by a scan: pass table.scan()",
}


def _maps(frame: Any, schema: TableSchema) -> tuple[str, ...]:
    """Columns of a pandas frame that are maps in the table: lists of pairs there, of no Arrow type."""
    known = schema.by_name
    if not frame.columns.is_unique:
        return ()
    there = [n for n in frame.columns if n in known and frame[n].dtype == object]
    return tuple(n for n in there if known[n].type.root in ("MAP", "MULTISET"))


def _missing(value: Any) -> Any:
    """None for what pandas has in place of a map that is missing."""
    return value if isinstance(value, Iterable) else None


def _stream(data: Any) -> pa.RecordBatchReader:
    """The Arrow stream of a frame; raises SchemaMismatch where its columns cannot be made Arrow's."""
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (ValueError, TypeError, pa.ArrowException) as e:  # pandas: two columns of a name, mixed objects
        why = " ".join(str(part) for part in e.args)
        raise SchemaMismatch(f"the {type(data).__name__} cannot be read as Arrow: {why}{_NOTHING}") from None


def _runs(rows: list[dict[str, Any]], schema: TableSchema | None) -> Iterator[list[dict[str, Any]]]:
    """Rows in runs that leave out the same columns with defaults, so that each run gets them as a whole."""
    defaults = {f.name for f in schema.fields if f.default is not None} if schema is not None else set()
    if not defaults:
        yield rows
        return
    for _, run in groupby(rows, lambda row: defaults - row.keys()):
        yield list(run)


def _from_columns(columns: Mapping[str, Any], schema: TableSchema | None) -> pa.RecordBatch:
    """Plain Python columns; nested ones are made in the table's type, others in what Arrow sees in them."""
    known = {} if schema is None else schema.by_name
    nested = {n: known[n].type for n in columns if n in known and known[n].type.is_nested}
    arrays = []
    for name, values in columns.items():
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise SchemaMismatch(
                f"column {name!r} is {values!r}, not a list of values: a row alone is [{{…}}]{_NOTHING}"
            )
        if isinstance(values, pa.Array | pa.ChunkedArray):
            arrays.append(values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values)
            continue
        try:
            t = nested.get(name)
            values = _entries(values, t)
            arrays.append(pa.array(values, None if t is None else to_arrow(t)))
            if t is not None:
                _require_exact(values, t, f"column {name!r}")
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as e:
            raise SchemaMismatch(f"column {name!r}: {e}{_NOTHING}") from None
    if len(set(map(len, arrays))) > 1:
        lengths = ", ".join(f"{n!r} has {len(a)}" for n, a in zip(columns, arrays, strict=True))
        raise SchemaMismatch(f"columns are of different lengths: {lengths}{_NOTHING}")
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _require_exact(values: Any, t: DataType, what: str) -> None:
    """Refuse values within nested ones that Arrow, given their type, cuts: 2.5 to 2, a moment to its day."""
    there = [v for v in values if v is not None]
    if t.root == "ARRAY":
        _require_exact([x for v in there for x in v], t.element, f"{what}, element,")
    elif t.root in ("MAP", "MULTISET"):
        pairs = [p for v in there for p in (v.items() if isinstance(v, Mapping) else v)]
        _require_exact([k for k, _ in pairs], t.children[0].type, f"{what}, key,")
        counted = DataType("INT") if t.root == "MULTISET" else t.children[1].type
        _require_exact([x for _, x in pairs], counted, f"{what}, value,")
    elif t.root == "ROW":
        for i, f in enumerate(t.children):
            inner = [v.get(f.name) if isinstance(v, Mapping) else v[i] for v in there]
            _require_exact(inner, f.type, f"{what}, field {f.name!r},")
    elif t.root not in ("VARIANT", "BOOLEAN") and not (t.is_string or t.is_binary):
        _fitted(pa.array(there), t.as_nullable(), what)


def _entries(values: Any, t: DataType | None) -> Any:
    """Maps given as dicts as the lists of pairs that Arrow takes."""
    if t is None or t.root not in ("MAP", "MULTISET") or not isinstance(values, Sequence):
        return values
    return [list(v.items()) if isinstance(v, Mapping) else v for v in values]


def conform(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """`batch` with exactly the table's columns, order and types; raises SchemaMismatch naming column and
    remedy."""
    given = list(batch.schema.names)
    _require_names(given, schema.names, "column")
    arrays = [
        _fitted(batch.column(given.index(f.name)), f.type, f"column {f.name!r}")
        if f.name in given
        else _absent(f, batch.num_rows, f"column {f.name!r}")
        for f in schema.fields
    ]
    for i, f in enumerate(schema.fields):
        _require_present(arrays[i], f.type, f"column {f.name!r}")
        arrays[i] = _filled(arrays[i], f)
        if f.name in schema.primary_keys:
            arrays[i] = one_nan(arrays[i])
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def fitted_values(values: Mapping[str, Any], schema: TableSchema) -> dict[str, pa.Scalar]:
    """One value a column, in its type, as a write of a row with it has it; raises SchemaMismatch."""
    row = _from_columns({name: [unwrapped(value)] for name, value in values.items()}, schema)
    fitted = {}
    for name, array in zip(row.schema.names, row.columns, strict=True):
        field = schema.by_name[name]
        found = _fitted(array, field.type, f"column {name!r}")
        _require_present(found, field.type, f"column {name!r}")
        fitted[name] = _filled(found, field)[0]
    return fitted


def conform_keys(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """The key columns of `batch` as a write would have them; raises SchemaMismatch naming column and row."""
    missing = [f.name for f in fields if f.name not in batch.schema.names]
    if missing:
        raise SchemaMismatch(
            f"the keys lack {', '.join(missing)}; a key holds {', '.join(f.name for f in fields)}"
        )
    arrays = []
    try:
        for f in fields:
            array = _fitted(batch.column(f.name), f.type, f"column {f.name!r}")
            _require_present(array, f.type, f"column {f.name!r}")
            arrays.append(one_nan(array))
    except SchemaMismatch as e:
        raise SchemaMismatch(f"the keys do not fit: {str(e).removesuffix(_NOTHING)}") from None
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([f.arrow for f in fields]))


def one_nan(key: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A key column whose NaN all have the same bits, since a key's bucket goes by them (0/0 gives others)."""
    if not pa.types.is_floating(key.type):
        return key
    return pc.if_else(pc.is_nan(key), pa.scalar(float("nan"), key.type), key)


def _require_names(given: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            near = [n for n in known if n.casefold() == name.casefold()]
            near = near or get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; columns: {', '.join(known)}"
            raise SchemaMismatch(f"{what} {name!r} is not in the table{hint}")
        if given.count(name) > 1:
            raise SchemaMismatch(f"{what} {name!r} is there twice")


def _absent(f: DataField, rows: int, what: str) -> pa.Array:
    if f.default is not None:
        return pa.repeat(_default(f, what), rows)
    if not f.type.nullable:
        raise SchemaMismatch(f"{what} is NOT NULL and is missing")
    return pa.nulls(rows, to_arrow(f.type))


def _filled(array: pa.Array, f: DataField) -> pa.Array:
    """A column of the table with its default in place of NULL, as Java Paimon stores it; fields of a ROW have
    theirs only where they are left out."""
    if f.default is None or not array.null_count:
        return array
    return pc.if_else(array.is_null(), _default(f, f"column {f.name!r}"), array)


def _default(f: DataField, what: str) -> pa.Scalar:
    if not f.type.is_scalar:
        raise Unsupported(f"defaults of {f.type.root} columns", f"give {what}")
    return casts.cast(pa.array([f.default]), STRING, f.type)[0]


def _require_present(array: pa.Array, t: DataType, what: str) -> None:
    """Refuse a NULL in a column that takes none."""
    if not t.nullable and array.null_count:
        row = pc.index(array.is_null(), True).as_py()
        raise SchemaMismatch(f"{what} is NOT NULL and row {row} of the batch holds NULL{_NOTHING}")


def _fitted(array: pa.Array, t: DataType, what: str) -> pa.Array:
    """The array in the Arrow type of `t`, its values checked; whether NULL may be there the caller says."""
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
    found = array if array.type == target else _cast(array, t, target, what)
    _check_length(found, t, what)
    return found


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
    _require_names(given, [f.name for f in fields], f"field of {what}")
    nulls, inner = struct_nulls(array), array.flatten()
    children = []
    for f in fields:
        name = f"{what}, field {f.name!r},"
        if f.name not in given:
            child = _absent(f, len(array), name)
        else:
            child = _fitted(inner[given.index(f.name)], f.type, name)
        if not f.type.nullable and child.null_count:  # NULL where the row itself is NULL is none
            within = child if nulls is None else child.filter(pc.invert(nulls))
            _require_present(within, f.type, name)
        children.append(child)
    return struct_of(children, to_arrow(t), nulls, len(array))


def _list(array: pa.Array, t: DataType, what: str) -> pa.Array:
    kinds = pa.ListType | pa.LargeListType | pa.FixedSizeListType
    if not isinstance(array.type, kinds):
        raise SchemaMismatch(f"{_problem(array, t, what)}: give lists")
    parts = lists(array)
    child = _fitted(parts.children[0], t.element, f"{what}, element,")
    _require_present(child, t.element, f"{what}, element,")
    return joined(replace(parts, children=(child,)), to_arrow(t))


def _map(array: pa.Array, t: DataType, what: str) -> pa.Array:
    parts = _entries_of(array, t, what)
    key_type = t.children[0].type
    keys = _fitted(parts.children[0], key_type, f"{what}, key,")
    _require_present(keys, key_type.not_null(), f"{what}, key,")
    value_type = DataType("INT", False) if t.root == "MULTISET" else t.children[1].type
    name = f"{what}, {'count' if t.root == 'MULTISET' else 'value'},"
    values = _fitted(parts.children[1], value_type, name)
    _require_present(values, value_type, name)
    if t.root == "MULTISET" and len(values) and pc.min(values).as_py() < 1:
        raise SchemaMismatch(f"{what} is {t} and a count is {pc.min(values)}; counts start at 1{_NOTHING}")
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
"""Up to which whole number floats of so many bytes hold every one."""


def _whole(array: pa.Array, target: pa.DataType, problem: str) -> pa.Array:
    """Floats that are whole numbers, as pandas has integers where some are missing; NaN becomes NULL."""
    values = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    size = array.type.bit_width // 8
    most = min(_EXACT[size], 2 ** (target.bit_width - 1) - 1)
    wide = pc.cast(values, pa.float64())
    small = pc.and_(pc.less_equal(wide, float(most)), pc.greater_equal(wide, float(-most - (most < 2**31))))
    fits = pc.and_(pc.equal(pc.floor(wide), wide), small)
    _require_all(fits, array, f"{problem}: whole numbers that fit it are taken, up to {_EXACT[size]:,}")
    return values.cast(target)


def _days(array: pa.Array, target: pa.DataType, problem: str) -> pa.Array:
    """Timestamps at midnight, as pandas has dates."""
    days = array.cast(pa.date32(), safe=False)
    midnight = pc.equal(days.cast(array.type), array)
    _require_all(midnight, array, f"{problem}: only midnights are dates")
    return days.cast(target)


def _require_all(fits: pa.Array, array: pa.Array, problem: str) -> None:
    """Refuse the first value that does not fit, naming its row."""
    row = pc.index(fits, False).as_py()
    if row >= 0:
        raise SchemaMismatch(f"{problem}; row {row} of the batch holds {array[row]}{_NOTHING}")


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
    """Casts within a family; ints may become floats or decimals; null columns become anything."""
    if pa.types.is_null(source):
        return True
    if pa.types.is_integer(source) and pa.types.is_floating(target):
        return True
    return any(family(source) and family(target) for family in _FAMILIES)


def _check_length(array: pa.Array, t: DataType, what: str) -> None:
    if not (t.is_string or t.is_binary) or t.precision == MAX_LENGTH or not len(array):
        return
    lengths = pc.utf8_length(array) if t.is_string else pc.binary_length(array)
    longest = pc.max(lengths).as_py() or 0
    if longest > t.precision:
        raise SchemaMismatch(f"{what} is {t} and a value has length {longest}{_NOTHING}")
