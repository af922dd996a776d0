"""The Parquet encoding of each column of a data file, chosen by its first rows (FORMAT.md 3.2). Pure.

Few distinct values: a dictionary. Many: numbers stored as integers are DELTA_BINARY_PACKED (sorted keys and
sequence numbers take almost no bytes, random ones lose their leading zeros), all others are plain. Other
writers try a dictionary of many values, find it too large and discard it, which costs a third more bytes and
time on TPC-H lineitem. Text stays plain although DELTA_LENGTH_BYTE_ARRAY would save a ninth: Paimon 2.0.0
reads that encoding wrongly, mostly without an error.

Small files have no dictionaries, and their values are not sampled: a tenth more bytes, half the time.
Delta-encoded columns of small files are not compressed: a codec gains nothing on so few packed numbers, and
calling it for each column takes longer than encoding them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.parquet.schema import KEY_PREFIX

SAMPLE_ROWS = 2048
_MIN_ROWS, _ONE_IN = (256, 16)  # share of rows that is sampled: choosing must not cost as much as encoding
_STRETCHES = 8
_SMALL_BYTES = 1 << 20  # a file of fewer bytes, and of fewer rows than a sample, is small
_ROWS_PER_NUMBER, _ROWS_PER_TEXT = 4, 2  # minimum sampled rows per distinct value for a dictionary


@dataclass(frozen=True, slots=True)
class Encodings:
    """Columns with a dictionary, and encodings of other columns by name; all others are plain. `compressed`
    are the columns that the codec compresses, None: all."""

    dictionary: tuple[str, ...]
    other: Mapping[str, str]
    compressed: tuple[str, ...] | None = None


def choose(rows: pa.Table, *, whole_bytes: int | None) -> Encodings:
    """Encodings for a file that begins with `rows`; `whole_bytes`: their bytes in memory, if they are all
    rows.

    Columns that come dictionary-encoded stay so; values in nested columns have a dictionary until it grows
    too large, except in small files.
    """
    if whole_bytes is not None and whole_bytes < _SMALL_BYTES and rows.num_rows < SAMPLE_ROWS:
        return _of_small(rows.schema)
    sample = _sample(rows)
    few: dict[str, bool] = {}
    dictionary: list[str] = []
    other: dict[str, str] = {}
    for f in rows.schema:
        if pa.types.is_boolean(f.type):
            continue
        if pa.types.is_nested(f.type):
            dictionary += [leaf for leaf, kind in _leaves(f.name, f.type) if not pa.types.is_boolean(kind)]
            continue
        if not pa.types.is_dictionary(f.type):
            same = f.name.removeprefix(KEY_PREFIX)  # a key column occurs twice
            if same not in few:
                few[same] = _few_values(sample.column(f.name))
            if not few[same]:
                if _stored_as_integer(f.type):
                    other[f.name] = "DELTA_BINARY_PACKED"
                continue
        dictionary.append(f.name)
    return Encodings(tuple(dictionary), other)


@lru_cache(maxsize=64)
def _of_small(schema: pa.Schema) -> Encodings:
    kept = tuple(f.name for f in schema if pa.types.is_dictionary(f.type))
    packed = {f.name: "DELTA_BINARY_PACKED" for f in schema if _stored_as_integer(f.type)}
    rest = (leaf for f in schema if f.name not in packed for leaf, _ in _leaves(f.name, f.type))
    return Encodings(kept, packed, tuple(rest))


def _leaves(path: str, t: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Parquet's paths of the values in a nested column, with their types."""
    if pa.types.is_map(t):
        yield from _leaves(f"{path}.key_value.key", t.key_type)
        yield from _leaves(f"{path}.key_value.value", t.item_type)
    elif pa.types.is_list(t):
        yield from _leaves(f"{path}.list.element", t.value_type)
    elif pa.types.is_struct(t):
        for f in t:
            yield from _leaves(f"{path}.{f.name}", f.type)
    else:
        yield path, t


def _sample(rows: pa.Table) -> pa.Table:
    """A sample of rows, in evenly spread stretches."""
    wanted = min(SAMPLE_ROWS, max(_MIN_ROWS, rows.num_rows // _ONE_IN))
    if rows.num_rows <= wanted:
        return rows
    length = wanted // _STRETCHES
    starts = np.linspace(0, rows.num_rows - length, _STRETCHES).astype(int)
    if all(column.num_chunks == 1 for column in rows.columns):
        places = (starts[:, None] + np.arange(length)).ravel()
        return rows.take(pa.array(places))
    return pa.concat_tables([rows.slice(int(s), length) for s in starts])


def _few_values(column: pa.ChunkedArray) -> bool:
    per_value = _ROWS_PER_TEXT if _is_text(column.type) else _ROWS_PER_NUMBER
    return pc.count_distinct(column, mode="all").as_py() * per_value <= max(len(column), per_value)


def _is_text(t: pa.DataType) -> bool:
    return pa.types.is_string(t) or pa.types.is_binary(t)


def _stored_as_integer(t: pa.DataType) -> bool:
    if pa.types.is_decimal(t):
        return t.precision <= 18
    return pa.types.is_integer(t) or pa.types.is_temporal(t)
