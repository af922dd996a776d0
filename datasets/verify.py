"""What a table fed from a change stream must hold, and a fingerprint to compare it by.

`expected` computes the final rows from the generator alone: base rows, less deleted keys, plus inserted rows.
It reads neither the log nor any table. `fingerprint` takes batches in any order and cut: each cell is hashed
together with its row's key, and the hashes of a column are added up modulo 2^64; so two sets of rows with
equal fingerprints have, but for chance, the same value in the same column of the same row. Q1 rides along.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datasets import tpch
from datasets.cdc.source import Source
from datasets.errors import DatasetError
from datasets.tpch.pricing import COLUMNS as Q1_COLUMNS
from datasets.tpch.pricing import PricingSummary

LINEITEM_KEY = ("l_orderkey", "l_linenumber")
YEAR_MONTH = ("l_year", "l_month")

_ROWS_AT_ONCE = 1 << 14  # small enough that the arrays of a step stay in the processor's cache
_SEED, _NULL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xA5A55A5A0F0FF0F1)
_FACTORS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_TAIL_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)

Hashes = NDArray[np.uint64]


def expected(
    source: Source, *, table: str = "lineitem", pairs: int | None = None, year_month: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of `table` after the first `pairs` refresh pairs (default: all), in no order, chunk by chunk.

    With `year_month`, the article's two columns l_year and l_month (int64) are added.
    """
    sets = [tpch.refresh(source.scale, n, sizes=source.sizes) for n in range(1, _checked(source, pairs) + 1)]
    key = tpch.PRIMARY_KEYS[table][0]
    gone = pa.concat_arrays([pa.array([], pa.int64()), *(s.delete_keys for s in sets)])
    for chunk in source.chunks:
        if chunk.table == table:
            for batch in tpch.read(chunk.path):
                rows = _without(batch, key, gone)
                yield with_year_month(rows) if year_month else rows
    for pair in sets:
        rows = pair.lineitem if table == "lineitem" else pair.orders
        yield with_year_month(rows) if year_month else rows


def _without(batch: pa.RecordBatch, key: str, gone: pa.Array) -> pa.RecordBatch:
    kept = pc.invert(pc.is_in(batch[key], gone))
    return batch if pc.all(kept).as_py() else batch.filter(kept)


def _checked(source: Source, pairs: int | None) -> int:
    if pairs is None:
        return source.pairs
    if not 0 <= pairs <= source.pairs:
        raise DatasetError(f"pairs {pairs}: the source has {source.pairs}")
    return pairs


def with_year_month(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with l_year and l_month (int64) of l_shipdate."""
    shipped = batch["l_shipdate"]
    year, month = pc.year(shipped), pc.month(shipped)
    return batch.append_column(YEAR_MONTH[0], year).append_column(YEAR_MONTH[1], month)


@dataclass
class Fingerprint:
    """Sums over the rows seen. Not thread-safe: one for each thread, then `merge`."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    summary: PricingSummary | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of `batch`, which has at least the columns and the key."""
        self.rows += len(batch)
        for first in range(0, len(batch), _ROWS_AT_ONCE):
            part = batch.slice(first, _ROWS_AT_ONCE)
            key = np.full(len(part), _SEED)
            for name in self.key:
                key = _mix(key + _bits(part[name]))
            for name in self.columns:
                own = np.uint64(crc32(name.encode()) * 2 + 1)
                total = int(_mix(key * own + _bits(part[name])).sum())
                self.sums[name] = (self.sums.get(name, 0) + total) % 2**64
                self.nulls[name] = self.nulls.get(name, 0) + part[name].null_count
        if self.summary:
            self.summary.add(batch)

    def merge(self, other: "Fingerprint") -> None:
        self.rows += other.rows
        for name in other.sums:
            self.sums[name] = (self.sums.get(name, 0) + other.sums[name]) % 2**64
            self.nulls[name] = self.nulls.get(name, 0) + other.nulls[name]
        if self.summary and other.summary:
            self.summary.merge(other.summary)

    def result(self) -> dict[str, Any]:
        """{"rows", "columns": {name: {"checksum", "nulls"}}, "q1": groups as text}; fit for JSON."""
        columns = {
            name: {"checksum": f"{self.sums.get(name, 0):016x}", "nulls": self.nulls.get(name, 0)}
            for name in sorted(self.columns)
        }
        facts: dict[str, Any] = {"rows": self.rows, "columns": columns}
        if self.summary:
            groups = self.summary.result().to_pylist()
            facts["q1"] = [{name: str(value) for name, value in group.items()} for group in groups]
        return facts


def fingerprint(
    batches: Iterable[pa.RecordBatch] | pa.Table,
    *,
    key: Sequence[str] = LINEITEM_KEY,
    columns: Sequence[str] | None = None,
    with_q1: bool = True,
    threads: int = 2,
) -> dict[str, Any]:
    """Rows, a checksum and a count of nulls for each column, and the groups of Q1, of `batches` in any order.

    `columns` defaults to those of the first batch. `with_q1` needs the columns of lineitem.
    """
    stream = iter(batches.to_batches() if isinstance(batches, pa.Table) else batches)
    first = next(stream, None)
    if first is None:
        return _empty((), key, with_q1).result()
    names = tuple(columns or first.schema.names)
    needed = {*names, *key, *(Q1_COLUMNS if with_q1 else ())}
    if missing := sorted(needed - set(first.schema.names)):
        raise DatasetError(f"rows to fingerprint lack the columns {', '.join(missing)}")
    total = _empty(names, key, with_q1)
    pending: list[Future[Fingerprint]] = []
    with ThreadPoolExecutor(threads) as pool:
        for batch in chain([first], stream):
            pending.append(pool.submit(_of_batch, names, key, with_q1, batch))
            while len(pending) > 2 * threads:
                total.merge(pending.pop(0).result())
        for last in pending:
            total.merge(last.result())
    return total.result()


def _empty(columns: Sequence[str], key: Sequence[str], with_q1: bool) -> Fingerprint:
    return Fingerprint(tuple(columns), tuple(key), summary=PricingSummary() if with_q1 else None)


def _of_batch(
    columns: Sequence[str], key: Sequence[str], with_q1: bool, batch: pa.RecordBatch
) -> Fingerprint:
    own = _empty(columns, key, with_q1)
    own.add(batch)
    return own


def _mix(x: Hashes) -> Hashes:
    """Spread every bit over all others, in place: two rounds of shift, multiply."""
    for factor in _FACTORS:
        x ^= x >> _SHIFT
        x *= factor
    x ^= x >> _SHIFT
    return x


def _bits(values: pa.Array) -> Hashes:
    """64 bits for each value, equal for equal values whatever the width of their type."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    bits = _plain_bits(values.fill_null(_zero(values.type)) if values.null_count else values)
    if values.null_count:
        bits = np.where(values.is_null().to_numpy(zero_copy_only=False), _NULL, bits)
    return bits


def _zero(type_: pa.DataType) -> pa.Scalar:
    text = pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    return pa.scalar("" if text else 0).cast(type_)


def _plain_bits(values: pa.Array) -> Hashes:
    type_ = values.type
    if pa.types.is_string_view(type_) or pa.types.is_large_string(type_):
        return _text_bits(values.cast(pa.string()))
    if pa.types.is_string(type_):
        return _text_bits(values)
    if pa.types.is_decimal128(type_):
        return _decimal_bits(values)
    if pa.types.is_floating(type_):
        return (values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0).view(np.uint64)
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        values = values.cast(pa.int32())
    elif pa.types.is_temporal(type_):
        values = values.cast(pa.int64())
    elif not (pa.types.is_integer(type_) or pa.types.is_boolean(type_)):
        raise DatasetError(f"no fingerprint for columns of type {type_}")
    return values.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)


def _decimal_bits(values: pa.Array) -> Hashes:
    """The unscaled value if it fits in 64 bits, else both halves mixed."""
    both = np.frombuffer(values.buffers()[1], "<i8")[2 * values.offset : 2 * (values.offset + len(values))]
    low, high = both[::2], both[1::2]
    bits = low.copy().view(np.uint64)
    wide = np.flatnonzero(high != low >> 63)
    if len(wide):
        bits[wide] = _mix(bits[wide]) + high[wide].view(np.uint64)
    return bits


def _text_bits(values: pa.StringArray) -> Hashes:
    """A hash of the UTF-8 bytes, eight at a time for all rows that have as many."""
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, np.int32)[values.offset : values.offset + len(values) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    text = np.zeros(last - first + 8, np.uint8)
    if last > first:
        text[:-8] = np.frombuffer(data, np.uint8)[first:last]
    words = np.ndarray(last - first + 1, "<u8", text, strides=(1,))  # the eight bytes from each byte on
    start, length = (offsets[:-1] - first).astype(np.int64), np.diff(offsets)
    bits = _mix(length.astype(np.uint64) + _SEED)
    for at in range(0, int(length.max(initial=0)), 8):
        rows = np.flatnonzero(length > at)
        word = words[start[rows] + at] & _TAIL_MASKS[np.minimum(length[rows] - at, 8)]
        bits[rows] = _mix(bits[rows] * _FACTORS[0] + word)
    return bits
