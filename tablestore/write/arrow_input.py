"""Anything Arrow-like → record batches in its own types; `conform.py` makes them those of the table.

Tables, batches, readers, frames of pandas, Polars and Spark, lists of dicts, dicts of columns, and iterables
of these. Nested plain Python values are made in the types of the table's columns, as Arrow cannot tell a map
from a struct. Anything else (a single column, a lazy frame) is refused, with what to pass instead. Memory:
one batch, but for plain Python values all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from tablestore.core.errors import SchemaMismatch
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType, to_arrow
from tablestore.write.conform import NOTHING_WRITTEN, filled, fitted, require_present


def as_batches(data: Any, schema: TableSchema | None = None) -> Iterator[pa.RecordBatch]:
    """Record batches of a Table, RecordBatch(es), a reader, pandas, a list of dicts, or anything with an
    Arrow stream.

    `schema` has the types of plain Python values in nested columns. The index of a pandas frame is left out
    unless it has a name. Raises SchemaMismatch for anything else.
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
    """The columns that are a pandas index without a name."""
    index = [n for n in schema.names if _INDEX.fullmatch(n)]
    return index if b"pandas" in (schema.metadata or {}) else []


def _batches(data: Any, schema: TableSchema | None) -> Iterator[pa.RecordBatch]:
    kind = f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"
    if kind in _ADVICE:
        raise SchemaMismatch(f"a {kind} {_ADVICE[kind]}{NOTHING_WRITTEN}")
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
        map_columns = from_columns({n: [_missing(v) for v in data[n]] for n in maps}, schema)
        rows = rest.read_all()
        for name in maps:
            rows = rows.append_column(name, map_columns.column(name))
        yield from rows.to_batches()
    elif hasattr(data, "__arrow_c_array__"):
        yield pa.record_batch(data)
    elif isinstance(data, dict):
        yield from_columns(data, schema)
    elif isinstance(data, list) and not data:
        return
    elif isinstance(data, list) and isinstance(data[0], dict):
        for row in data:
            if not isinstance(row, dict):
                raise SchemaMismatch(f"{row!r} among rows given as dicts is none{NOTHING_WRITTEN}")
        for rows in _runs(data, schema):
            names = dict.fromkeys(name for row in rows for name in row)
            yield from_columns({n: [row.get(n) for row in rows] for n in names}, schema)
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
    """Columns of a pandas frame that are maps in the table: pandas has lists of pairs, which have no Arrow
    type."""
    fields = schema.by_name
    if not frame.columns.is_unique:
        return ()
    there = [n for n in frame.columns if n in fields and frame[n].dtype == object]
    return tuple(n for n in there if fields[n].type.root in ("MAP", "MULTISET"))


def _missing(value: Any) -> Any:
    """A map, or None for what pandas has in place of a missing one."""
    return value if isinstance(value, Iterable) else None


def _stream(data: Any) -> pa.RecordBatchReader:
    """The Arrow stream of a frame; raises SchemaMismatch where its columns cannot be made Arrow's."""
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (ValueError, TypeError, pa.ArrowException) as e:  # pandas: two columns of a name, mixed objects
        why = " ".join(str(part) for part in e.args)
        raise SchemaMismatch(
            f"the {type(data).__name__} cannot be read as Arrow: {why}{NOTHING_WRITTEN}"
        ) from None


def _runs(rows: list[dict[str, Any]], schema: TableSchema | None) -> Iterator[list[dict[str, Any]]]:
    """Runs of rows that leave out the same columns with defaults, so that a run gets each default as a whole
    column."""
    defaults = {f.name for f in schema.fields if f.default is not None} if schema is not None else set()
    if not defaults:
        yield rows
        return
    for _, run in groupby(rows, lambda row: defaults - row.keys()):
        yield list(run)


def from_columns(columns: Mapping[str, Any], schema: TableSchema | None) -> pa.RecordBatch:
    """One batch of plain Python columns: nested ones in the table's type, others as Arrow infers."""
    fields = {} if schema is None else schema.by_name
    nested = {n: fields[n].type for n in columns if n in fields and fields[n].type.is_nested}
    arrays = []
    for name, values in columns.items():
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            text = f"column {name!r} is {values!r}, not a list of values: a row alone is [{{…}}]"
            raise SchemaMismatch(f"{text}{NOTHING_WRITTEN}")
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
            raise SchemaMismatch(f"column {name!r}: {e}{NOTHING_WRITTEN}") from None
    if len(set(map(len, arrays))) > 1:
        lengths = ", ".join(f"{n!r} has {len(a)}" for n, a in zip(columns, arrays, strict=True))
        raise SchemaMismatch(f"columns are of different lengths: {lengths}{NOTHING_WRITTEN}")
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _require_exact(values: Any, t: DataType, what: str) -> None:
    """Raise SchemaMismatch for nested values that Arrow would cut to their type: 2.5 to 2, a timestamp to its
    day."""
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
        fitted(pa.array(there), t.as_nullable(), what)


def _entries(values: Any, t: DataType | None) -> Any:
    """Maps given as dicts as the lists of pairs that Arrow takes."""
    if t is None or t.root not in ("MAP", "MULTISET") or not isinstance(values, Sequence):
        return values
    return [list(v.items()) if isinstance(v, Mapping) else v for v in values]


def fitted_values(values: Mapping[str, Any], schema: TableSchema) -> dict[str, pa.Scalar]:
    """One value a column, in the type and form in which a row with it is written; raises SchemaMismatch."""
    row = from_columns({name: [unwrapped(value)] for name, value in values.items()}, schema)
    scalars = {}
    for name, array in zip(row.schema.names, row.columns, strict=True):
        field = schema.by_name[name]
        column = fitted(array, field.type, f"column {name!r}")
        require_present(column, field.type, f"column {name!r}")
        scalars[name] = filled(column, field)[0]
    return scalars
