"""Sections of many buckets at once: which files overlap which, by columns (FORMAT.md 12.3).

The same sections as `sorted_run.key_sections` makes, for all buckets of a plan in one sort. Objects of files
are made only for sections of more than one, which are packed into runs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.format import binary_row
from tablestore.format.types.arrow_types import DataType
from tablestore.lsm.merge import keys
from tablestore.meta.entries import Entries


def buckets(entries: Entries) -> np.ndarray:
    """A number for each entry's (partition, bucket), rising in order of first appearance."""
    _, codes = entries.partitions()
    pairs = codes.astype(np.int64) << 32 | entries.numbers("bucket") & 0xFFFFFFFF
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def sections(
    entries: Entries, group: np.ndarray, types: tuple[DataType, ...], key: Callable[[bytes], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """(positions of entries by group and key, start of each section in them). `key` makes keys comparable."""
    low, high = _ranks(entries, types, key)
    span = np.int64(2 * len(entries))  # more than any rank
    low, high = low + group * span, high + group * span
    order = np.lexsort((high, low))
    ends = np.maximum.accumulate(high[order])
    starts = np.flatnonzero(np.r_[True, low[order][1:] > ends[:-1]])
    return order, starts


def _ranks(
    entries: Entries, types: tuple[DataType, ...], key: Callable[[bytes], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Dense ranks of all minimum and maximum keys together."""
    columns = [entries.table.column(n).combine_chunks() for n in ("min_key", "max_key")]
    both = pa.concat_arrays(columns)
    parts = binary_row.integers(both, types)
    if parts is not None:
        ranks = np.unique(keys.codes(parts), return_inverse=True)[1]
    else:
        encoded = both.dictionary_encode()
        values = [key(k) for k in encoded.dictionary.to_pylist()]
        order = sorted(range(len(values)), key=values.__getitem__)
        dense = np.empty(len(values), dtype=np.int64)
        dense[order] = np.cumsum([0, *(values[low] != values[high] for low, high in pairwise(order))])
        ranks = dense[encoded.indices.to_numpy()]
    return ranks[: len(entries)].astype(np.int64), ranks[len(entries) :].astype(np.int64)
