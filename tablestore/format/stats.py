"""Column statistics of data files: SimpleStats ⇄ minimum, maximum and null count a column
(FORMAT.md 5.1, 5.2)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import InvalidOption
from tablestore.format import binary_row
from tablestore.format.binary_row import Raw
from tablestore.format.manifests.manifest import SimpleStats
from tablestore.format.types.arrow_types import DataType

_TRUNCATE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one column in one file: raw minimum and maximum (None: unknown or all null), nulls (None:
    unknown), rows."""

    min: Raw
    max: Raw
    null_count: int | None
    rows: int

    @property
    def all_null(self) -> bool:
        """Whether every cell is known to be null."""
        return self.null_count is not None and self.null_count == self.rows


@dataclass(frozen=True, slots=True)
class StatsMode:
    """`metadata.stats-mode`: keep counts, keep minimum and maximum, and cut text at `length` characters."""

    counts: bool
    bounds: bool
    length: int | None = None

    @classmethod
    def parse(cls, text: str) -> StatsMode:
        """none, counts, full or truncate(n); raises InvalidOption for others."""
        match = _TRUNCATE.fullmatch(text.replace(" ", ""))
        if match and int(match[1]) > 0:
            return cls(True, True, int(match[1]))
        named = {"none": cls(False, False), "counts": cls(True, False), "full": cls(True, True)}
        if text not in named:
            raise InvalidOption(f"stats mode {text!r} must be none, counts, truncate(n) or full")
        return named[text]


def truncated(low: Raw, high: Raw, length: int) -> tuple[Raw, Raw]:
    """Bounds cut to `length` characters or bytes: the prefix of the minimum, the incremented prefix of the
    maximum; (None, None) if that does not exist."""
    cut_low = low[:length] if isinstance(low, str | bytes) else low
    if not isinstance(high, str | bytes) or len(high) <= length:
        return cut_low, high
    cut_high = _next_text(high[:length]) if isinstance(high, str) else _next_bytes(high[:length])
    return (None, None) if cut_high is None else (cut_low, cut_high)


def _next_text(prefix: str) -> str | None:
    for i in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[i]) + 1
        if 0xD800 <= point <= 0xDFFF:
            point = 0xE000
        if point <= 0x10FFFF:
            return prefix[:i] + chr(point)
    return None


def _next_bytes(prefix: bytes) -> bytes | None:
    for i in range(len(prefix) - 1, -1, -1):
        if prefix[i] < 0xFF:
            return prefix[:i] + bytes([prefix[i] + 1])
    return None


def encode(columns: Sequence[ColumnStats], types: Sequence[DataType], *, counts: bool = True) -> SimpleStats:
    """SimpleStats of one entry a column, in order."""
    return SimpleStats(
        binary_row.encode([c.min for c in columns], types),
        binary_row.encode([c.max for c in columns], types),
        tuple(c.null_count if counts else None for c in columns),
    )


def merged(parts: Sequence[SimpleStats], types: Sequence[DataType], rows: Sequence[int]) -> SimpleStats:
    """The statistics of several files together, which have so many rows; bounds that one of them lacks are
    unknown."""
    columns = zip(*(decode(p, types, n) for p, n in zip(parts, rows, strict=True)), strict=True)
    return encode([together(column, t) for column, t in zip(columns, types, strict=True)], types)


def together(parts: Sequence[ColumnStats], t: DataType) -> ColumnStats:
    """Statistics of one column in several files; bounds that one of them lacks are unknown."""
    rows = sum(p.rows for p in parts)
    counts = [p.null_count for p in parts if p.null_count is not None]
    nulls = sum(counts) if len(counts) == len(parts) else None
    lows: list[Any] = [p.min for p in parts if not p.all_null]
    highs: list[Any] = [p.max for p in parts if not p.all_null]
    if not lows or None in lows or None in highs:
        return ColumnStats(None, None, nulls, rows)
    order = _java_order if t.root in ("FLOAT", "DOUBLE") else None
    return ColumnStats(min(lows, key=order), max(highs, key=order), nulls, rows)


def _java_order(value: float) -> tuple[bool, float, float]:
    """−0.0 below 0.0, NaN above all."""
    nan = math.isnan(value)
    return nan, 0.0 if nan else value, math.copysign(1, value)


def decode(stats: SimpleStats, types: Sequence[DataType], rows: int) -> list[ColumnStats]:
    """One entry a column; raises Corrupt when the rows do not have these columns."""
    lows, highs = binary_row.decode(stats.min_values, types), binary_row.decode(stats.max_values, types)
    nulls = stats.null_counts if stats.null_counts is not None else (None,) * len(types)
    nulls = tuple(nulls) + (None,) * (len(types) - len(nulls))
    return [ColumnStats(lo, hi, n, rows) for lo, hi, n in zip(lows, highs, nulls, strict=False)]
