"""JSON messages → columns of texts, by DuckDB in this process.

Of what was measured (100,000 Debezium messages of 615 bytes on one core, messages a second) DuckDB's
`from_json` reads 540,000, Arrow's reader 366,000, orjson 159,000; and it answers message by message, so that
one that is broken neither shifts nor ends the others (Arrow's reader dies of a bare `null`). A value comes
as its text: of a JSON text what is between the quotes, of anything else its JSON. Not thread-safe: each
thread has its own connection.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.core.extras import required
from tablestore.format.types.data_type import DataField, DataType

TEXT, JSON = "VARCHAR", "JSON"  # what a place in a shape gives: a value as text, or as JSON with its quotes
_ELEMENTS = "[*]"
_EXACT_DIGITS = 15  # of a decimal that survives a double
_local = threading.local()


def shape(columns: Sequence[DataField]) -> dict[str, Any]:
    """The shape of an object with these columns. Raises Unsupported for names that DuckDB cannot tell
    apart."""
    folded: dict[str, str] = {}
    for f in columns:
        other = folded.setdefault(f.name.casefold(), f.name)
        if other != f.name:
            raise Unsupported(f"columns {other!r} and {f.name!r} in messages", "they differ in case only")
    return {f.name: _shape(f.type) for f in columns}


def _shape(t: DataType) -> Any:
    inexact = [f for f in t.children if f.type.root == "DECIMAL" and f.type.precision > _EXACT_DIGITS]
    if inexact:
        raise Unsupported(f"{inexact[0].type} within {t} in messages", "numbers there are read as doubles")
    if t.root == "ROW":
        return shape(t.children)
    if t.root == "ARRAY":
        return [_shape(t.element)]
    if t.is_nested:
        raise Unsupported(f"{t} columns in messages")
    return JSON if t.root == "DECIMAL" else TEXT


def parsed(texts: pa.Array, wanted: Mapping[str, Any]) -> pa.StructArray:
    """The values at the places of the shape `wanted`, NULL where there is none. Raises SchemaMismatch where
    a text is not one JSON object, or has something else where an object or a list is wanted."""
    if not len(texts):
        return pa.nulls(0, _struct(wanted))
    literal = json.dumps(wanted).replace("'", "''")
    objects = run(f"SELECT from_json(v, '{literal}') FROM texts", texts)
    if objects.null_count > texts.null_count:
        raise SchemaMismatch("the message is not a JSON object")
    _require_shapes(texts, objects, wanted)
    return objects


def _struct(wanted: Mapping[str, Any]) -> pa.DataType:
    return pa.struct([(name, _arrow(value)) for name, value in wanted.items()])


def _arrow(value: Any) -> pa.DataType:
    if isinstance(value, Mapping):
        return _struct(value)
    return pa.list_(_arrow(value[0])) if isinstance(value, list) else pa.string()


def _require_shapes(texts: pa.Array, values: pa.StructArray, wanted: Mapping[str, Any]) -> None:
    """Raise SchemaMismatch, naming the place, for a text that has something else than null where `wanted`
    has an object or a list. DuckDB gives NULL where a list was asked for and something else is there, and an
    object without fields where an object was: rows of NULLs that nobody wrote. Only messages in which that
    may have happened, by their `values`, are looked at again."""
    doubtful = _doubtful(values, wanted, np.ones(len(values), bool))
    if not doubtful.any():
        return
    places = [("$", "OBJECT"), *_places("$", wanted)]
    some = texts.take(pa.array(np.flatnonzero(doubtful)))
    wrong = run(f"SELECT [{', '.join(_test(path, kind) for path, kind in places)}] FROM texts", some)
    flat = pc.list_flatten(wrong).to_numpy(zero_copy_only=False)
    if flat.any():
        path, kind = places[int(np.argmax(flat)) % len(places)]
        what = "a JSON object" if kind == "OBJECT" else "a JSON array"
        raise SchemaMismatch("the message is not a JSON object" if path == "$" else f"{path} is not {what}")


def _doubtful(values: pa.Array, wanted: Any, there: np.ndarray) -> np.ndarray:
    """Which values may have come of another shape; `there`: those whose parents are not NULL."""
    doubtful = np.zeros(len(values), bool)
    valid = values.is_valid().to_numpy(zero_copy_only=False) & there
    if isinstance(wanted, Mapping):
        empty = valid.copy()
        for i, child in enumerate(wanted.values()):
            field = pc.struct_field(values, [i])
            empty &= field.is_null().to_numpy(zero_copy_only=False)
            doubtful |= _doubtful(field, child, valid)
        return doubtful | empty
    if isinstance(wanted, list):
        doubtful = there & ~valid
        if not isinstance(wanted[0], str):
            elements = pc.list_flatten(values)
            of = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
            doubtful[of[_doubtful(elements, wanted[0], np.ones(len(elements), bool))]] = True
    return doubtful


def _places(path: str, wanted: Any) -> Iterator[tuple[str, str]]:
    """(path, type) of the objects and lists in an object or a list."""
    children = (
        [(f'{path}."{_escaped(name)}"', child) for name, child in wanted.items()]
        if isinstance(wanted, Mapping)
        else [(path + _ELEMENTS, wanted[0])]
    )
    for place, child in children:
        if not isinstance(child, str):
            yield place, "OBJECT" if isinstance(child, Mapping) else "ARRAY"
            yield from _places(place, child)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def _test(path: str, kind: str) -> str:
    """The condition that something else is there."""
    literal = "'" + path.replace("'", "''") + "'"
    if path == "$":
        return f"coalesce(json_type(v) <> '{kind}', false)"
    if _ELEMENTS in path:
        return f"len(list_filter(json_type(v, {literal}), lambda t: t NOT IN ('NULL', '{kind}'))) > 0"
    return f"coalesce(json_type(v, {literal}) NOT IN ('NULL', '{kind}'), false)"


def has_fields(objects: pa.Array, names: Sequence[str]) -> list[pa.Array]:
    """Of JSON objects as texts: for each name, whether they have a field of it, be it null."""
    pointers = ("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
    paths = ("'" + pointer.replace("'", "''") + "'" for pointer in pointers)
    tests = ", ".join(f"coalesce(json_exists(v, {path}), false)" for path in paths)
    flags = run(f"SELECT [{tests}] FROM texts", objects)
    flat = pc.list_flatten(flags).to_numpy(zero_copy_only=False).reshape(len(objects), len(names))
    return [pa.array(np.ascontiguousarray(flat[:, i])) for i in range(len(names))]


def run(query: str, texts: pa.Array) -> pa.Array:
    """The only column of a query over `texts(v)`. Raises SchemaMismatch for what is no JSON."""
    duckdb = required("duckdb", by="JSON messages")
    try:
        kept = pa.table({"v": texts.cast(pa.string())})
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"the message is not a text in UTF-8: {e}") from None
    connection = _connection(duckdb)
    connection.register("texts", kept)
    try:
        column = connection.sql(query).to_arrow_table().column(0).combine_chunks()
    except (duckdb.InvalidInputException, duckdb.ConversionException) as e:
        raise SchemaMismatch(f"the message is not JSON: {str(e).splitlines()[0][:200]}") from None
    finally:
        connection.unregister("texts")
    assert len(column) == len(texts), "a row a message"
    return column


def _connection(duckdb: Any) -> Any:
    """The connection of this thread: one core, no files, no extensions."""
    if not hasattr(_local, "connection"):
        config = {"threads": 1, "enable_external_access": False, "preserve_insertion_order": True}
        _local.connection = duckdb.connect(":memory:", config=config)
    return _local.connection


def images(
    objects: pa.StructArray, columns: Sequence[DataField], messages: pa.Array, pick: Callable[[Any, int], Any]
) -> pa.RecordBatch:
    """Objects as rows of texts; decimals keep their quotes, and the digits of those that DuckDB read as
    doubles come from the message itself: `pick` gives the object of a row in the parsed message."""
    arrays = []
    for i, f in enumerate(columns):
        texts = pc.struct_field(objects, [i])
        if f.type.root == "DECIMAL":
            texts = _exact(texts, messages, pick, f.name)
        arrays.append(texts)
    return pa.RecordBatch.from_arrays(arrays, names=[f.name for f in columns])


def _exact(texts: pa.Array, messages: pa.Array, pick: Callable[[Any, int], Any], name: str) -> pa.Array:
    texts = texts.cast(pa.string())
    inexact = _inexact(texts)
    rows = np.flatnonzero(inexact.to_numpy(zero_copy_only=False))
    if not len(rows):
        return texts
    raw = messages.take(pa.array(rows))
    exact_texts = [
        str(pick(json.loads(m.as_py(), parse_float=str), int(row))[name])
        for m, row in zip(raw, rows, strict=True)
    ]
    return pc.replace_with_mask(texts, inexact, pa.array(exact_texts, pa.string()))


def _inexact(texts: pa.Array) -> pa.Array:
    """Which numbers may have lost digits in a double: those with an exponent, or with a fraction and more
    digits than a double keeps. Texts have quotes and are left out."""
    exponents = pc.match_substring(texts, "e")
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= _EXACT_DIGITS and not pc.any(exponents).as_py():
        return pa.array(np.zeros(len(texts), bool))
    number = pc.invert(pc.starts_with(texts, '"'))
    digits = pc.utf8_length(pc.replace_substring_regex(texts, r"[^0-9]", ""))
    long = pc.and_(pc.match_substring(texts, "."), pc.greater(digits, _EXACT_DIGITS))
    return pc.and_(number, pc.or_(long, exponents)).fill_null(False)
