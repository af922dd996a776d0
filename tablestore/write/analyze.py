"""ANALYZE: statistics of the rows and columns of one snapshot, batch by batch (FORMAT.md 20.5).

Of each column: how many NULLs, minimum and maximum, distinct values, lengths. Distinct values are counted
exactly up to 65,536 of them; beyond that HyperLogLog with 2^14 registers estimates them, within about 2 %.
Memory: one batch, and at most that many values or the registers a column. Nested and binary columns have no
bounds, nested ones no distinct count. Called by `Table.analyze`, which reads the rows and commits the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format import binary_row, hashing
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataField, DataType
from tablestore.meta.statistics import ColumnStatistics

EXACT_DISTINCT = 65_536
_BITS = 14
_REGISTERS = 1 << _BITS
_NESTED = ("ARRAY", "MAP", "MULTISET", "ROW", "VARIANT")
_SIZES = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "FLOAT": 4, "DATE": 4, "TIME": 4}


def analyze(
    batches: Iterable[pa.RecordBatch], fields: Sequence[DataField]
) -> tuple[int, Mapping[str, ColumnStatistics]]:
    """Rows of `batches`, and statistics of the columns `fields`, which every batch holds."""
    columns = {f.name: _ColumnTally(f) for f in fields}
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for name, column in columns.items():
            column.add(batch.column(name))
    return rows, {name: column.statistics() for name, column in columns.items()}


class _ColumnTally:
    """Statistics of a column, so far."""

    def __init__(self, field: DataField) -> None:
        self._field, self._type = field, field.type.as_nullable()
        self._rows = self._nulls = self._length = self._longest = 0
        self._bounds: pa.Array | None = None
        nested, binary = self._type.root in _NESTED, self._type.is_binary
        self._bounded = not nested and not binary
        self._distinct = None if nested else DistinctCounter(self._type)

    def add(self, column: pa.Array) -> None:
        """Add values of the column."""
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        self._rows += len(column)
        self._nulls += column.null_count
        if self._type.is_string or self._type.is_binary:
            measure = pc.utf8_length if self._type.is_string else pc.binary_length
            lengths = measure(column)
            self._length += pc.sum(lengths).as_py() or 0
            self._longest = max(self._longest, pc.max(lengths).as_py() or 0)
        if self._bounded and column.null_count < len(column):
            self._widen(column)
        if self._distinct is not None:
            self._distinct.add(column.drop_null())

    def _widen(self, column: pa.Array) -> None:
        ends = pc.min_max(column)
        some = pa.array([ends["min"], ends["max"]], column.type)
        if self._bounds is not None:
            ends = pc.min_max(pa.concat_arrays([self._bounds, some]))
            some = pa.array([ends["min"], ends["max"]], column.type)
        self._bounds = some

    def statistics(self) -> ColumnStatistics:
        """The column's part of a statistics file."""
        low, high = self._texts()
        average, longest = self._lengths()
        distinct = None if self._distinct is None else self._distinct.count()
        return ColumnStatistics(self._field.id, distinct, low, high, self._nulls, average, longest)

    def _texts(self) -> tuple[str | None, str | None]:
        if self._bounds is None:
            return None, None
        low, high = binary_row.raw_values(self._bounds, self._type)
        if self._type.root in ("DATE", "TIME"):
            return str(low), str(high)
        return cast_text(low, self._type), cast_text(high, self._type)

    def _lengths(self) -> tuple[int | None, int | None]:
        """Average and longest length of the values that are not NULL."""
        if self._type.root in _NESTED:
            return None, None
        if self._type.is_string or self._type.is_binary:
            there = self._rows - self._nulls
            return (-(-self._length // there) if there else 0), self._longest
        size = _SIZES.get(self._type.root, 8)
        if self._type.root == "DECIMAL" and self._type.precision > 18:
            size = 16
        return size, size


class DistinctCounter:
    """Counts distinct values: exactly while they are few, by HyperLogLog after that."""

    def __init__(self, data_type: DataType, *, exact: int = EXACT_DISTINCT) -> None:
        self._type, self._exact = data_type, exact
        self._values: pa.Array | None = None
        self._ranks: np.ndarray | None = None
        self._narrow = False  # hashes of 32 bits: collisions are added back

    def add(self, values: pa.Array) -> None:
        """Count values, none of them NULL."""
        some = values.unique()
        if self._ranks is None:
            if self._values is not None:
                some = pa.concat_arrays([self._values, some]).unique()
            if len(some) <= self._exact:
                self._values = some
                return
            self._values, self._ranks = None, np.zeros(_REGISTERS, dtype=np.uint8)
        self._note(some)

    def _note(self, values: pa.Array) -> None:
        assert self._ranks is not None
        hashes = self._hashes(values)
        rest = (hashes << np.uint64(_BITS)) | np.uint64(1 << (_BITS - 1))
        ranks = 65 - np.frexp(rest.astype(np.float64))[1]
        np.maximum.at(self._ranks, (hashes >> np.uint64(64 - _BITS)).astype(np.int64), ranks.astype(np.uint8))

    def _hashes(self, values: pa.Array) -> np.ndarray:
        slots = binary_row.fixed_slots(values, self._type)
        if slots is None:
            self._narrow = True
            slots = hashing.hash_rows([values], [self._type]).astype(np.int64)
        return _mixed(slots.view(np.uint64))

    def count(self) -> int:
        """How many distinct values there are."""
        if self._ranks is None:
            return 0 if self._values is None else len(self._values)
        estimate = (
            _REGISTERS**2 * 0.7213 / (1 + 1.079 / _REGISTERS) / np.exp2(-self._ranks.astype(float)).sum()
        )
        empty = int((self._ranks == 0).sum())
        if estimate <= 2.5 * _REGISTERS and empty:
            estimate = _REGISTERS * np.log(_REGISTERS / empty)
        if self._narrow:
            estimate = -(2.0**32) * np.log1p(-min(estimate, 2.0**32 - 1) / 2.0**32)
        return round(float(estimate))


def _mixed(words: np.ndarray) -> np.ndarray:
    """Words of 64 bits with every bit spread over all others (splitmix64)."""
    z = words + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
