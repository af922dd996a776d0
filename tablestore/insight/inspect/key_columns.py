"""The smallest and largest keys of files as columns: their texts, and their numbers on the line of a bucket.

Keys of whole numbers are decoded by columns; of others each distinct one is decoded once. The numbers are
those of `key_axis`: of the first key column in which the keys of a bucket differ. Pure. Used by `edits`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format import binary_columns
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.key_axis import key_numbers
from tablestore.insight.inspect.levels_table import key_text

_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def key_columns(files: pa.Table, types: Sequence[DataType]) -> tuple[dict[str, pa.Array], bool]:
    """Columns `min_key`, `max_key`, `min_key_number`, `max_key_number` of files, and whether further keys
    would leave the numbers as they are. All are NULL in a table without keys."""
    count = files.num_rows
    if not types or not count:
        texts, numbers = pa.nulls(count, pa.string()), pa.nulls(count, pa.float64())
        return dict(zip(_NAMES, (texts, texts, numbers, numbers), strict=True)), True
    keys = pa.concat_arrays([files[name].combine_chunks() for name in ("min_key", "max_key")])
    columns = binary_columns.integers(keys, types)
    bucket = np.tile(_buckets(files), 2)
    if columns is None:
        texts, (numbers, plain) = _texts(keys, types), _numbers(keys, bucket, types)
    else:
        texts, (numbers, plain) = _whole_texts(columns, types), _whole_numbers(columns, bucket)
    low, high = np.sort(numbers.reshape(2, count), axis=0)  # postponed: any order
    parts = texts.slice(0, count), texts.slice(count), pa.array(low), pa.array(high)
    return dict(zip(_NAMES, parts, strict=True)), plain


_NAMES = ("min_key", "max_key", "min_key_number", "max_key_number")


def _buckets(files: pa.Table) -> np.ndarray:
    """A number for each partition and bucket, from 0 on."""
    partition = files["partition"].combine_chunks().dictionary_encode().indices.to_numpy()
    bucket = files["bucket"].to_numpy().astype(np.int64)
    code = partition.astype(np.int64) * (int(bucket.max()) - int(bucket.min()) + 1) + bucket - bucket.min()
    return np.unique(code, return_inverse=True)[1].reshape(len(code))


def _texts(keys: pa.Array, types: Sequence[DataType]) -> pa.Array:
    codes = keys.dictionary_encode()
    return pa.array([key_text(k, types) for k in codes.dictionary.to_pylist()], pa.string()).take(
        codes.indices
    )


def _whole_texts(columns: Sequence[np.ndarray], types: Sequence[DataType]) -> pa.Array:
    parts = []
    for values, t in zip(columns, types, strict=True):
        if t.root in _WHOLE:
            parts.append(pc.cast(pa.array(values), pa.string()))
            continue
        distinct, codes = np.unique(values, return_inverse=True)
        texts = pa.array([cast_text(v, t) for v in distinct.tolist()], pa.string())
        parts.append(texts.take(pa.array(codes.reshape(len(values)))))
    inner = pc.binary_join_element_wise(*parts, ", ") if len(parts) > 1 else parts[0]
    return pc.binary_join_element_wise("[", inner, "]", "")


def _numbers(keys: pa.Array, bucket: np.ndarray, types: Sequence[DataType]) -> tuple[np.ndarray, bool]:
    numbers_by_row, all_plain = np.empty(len(keys)), True
    order = np.argsort(bucket, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(bucket[order])) + 1):
        codes = keys.take(pa.array(at)).dictionary_encode()
        numbers, plain = key_numbers(codes.dictionary.to_pylist(), types)
        numbers_by_row[at] = np.array(numbers)[codes.indices.to_numpy()]
        all_plain = all_plain and plain
    return numbers_by_row, all_plain


def _whole_numbers(columns: Sequence[np.ndarray], bucket: np.ndarray) -> tuple[np.ndarray, bool]:
    count = int(bucket.max()) + 1
    numbers, chosen = np.full(len(bucket), 0.5), np.full(count, -1)
    for i, values in enumerate(columns):
        low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(low, bucket, values)
        np.maximum.at(high, bucket, values)
        # as numbers of a picture: two that are the same there do not differ
        fresh = (chosen < 0) & (high.astype(float) > low.astype(float))
        chosen[fresh] = i
        numbers = np.where(fresh[bucket], values.astype(float), numbers)
    return numbers, bool((chosen == 0).all())
