"""Which manifests, and which of their blocks, can hold entries of some partitions.

Statistics over the partitions of a manifest's entries (`_PARTITION_STATS`, FORMAT.md 5.4) say it of a
manifest. An entry contains the bytes of its partition as they are (FORMAT.md 8.2), so a block without them
has no entry of it. The search is wider than exact: what it gives is filtered by the decoded partition. A
manifest of 88,000 entries takes 0.07 s of CPU this way and 0.3 s to decode. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tablestore.core.errors import Corrupt
from tablestore.format import binary_row
from tablestore.format.avro import blocks as avro_blocks
from tablestore.format.manifests.manifest import EMPTY_ROW, SimpleStats
from tablestore.format.types.arrow_types import DataType


def partition_stats(
    partitions: Sequence[bytes], counts: Sequence[int], types: Sequence[DataType]
) -> SimpleStats:
    """Minimum, maximum and null count of each partition column over all entries: distinct partitions, each
    with how many entries it has (a null counts once an entry)."""
    rows = [binary_row.decode(p, types) for p in partitions]
    lows, highs, nulls = [], [], []
    for i, t in enumerate(types):
        values = [r[i] for r in rows if r[i] is not None]
        order = sorted(set(values), key=partial(_order, t))
        lows.append(order[0] if order else None)
        highs.append(order[-1] if order else None)
        nulls.append(sum(n for r, n in zip(rows, counts, strict=True) if r[i] is None))
    nullable = [t.as_nullable() for t in types]
    return SimpleStats(binary_row.encode(lows, nullable), binary_row.encode(highs, nullable), tuple(nulls))


def _order(t: DataType, value: Any) -> Any:
    return binary_row.sort_key([value], [t])


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """The range of some partitions in each column. A column of `lows` is None where its range is not known: a
    partition has NULL in it."""

    types: tuple[DataType, ...]
    lows: tuple[Any, ...]
    highs: tuple[Any, ...]

    @classmethod
    def of(cls, partitions: Iterable[bytes], types: Sequence[DataType]) -> PartitionBounds:
        """The range of these serialized partitions; raises Corrupt for bytes that are no partition."""
        lows, highs = list[Any](), list[Any]()
        nullable = tuple(t.as_nullable() for t in types)
        rows = [binary_row.decode(p, nullable) for p in partitions]
        for i, t in enumerate(nullable):
            keys: list[Any] = [None if row[i] is None else _order(t, row[i]) for row in rows]
            are_known = bool(keys) and None not in keys
            lows.append(min(keys) if are_known else None)
            highs.append(max(keys) if are_known else None)
        return cls(nullable, tuple(lows), tuple(highs))

    def meets(self, about: SimpleStats) -> bool:
        """Whether a manifest with these statistics may hold an entry of the partitions; True where it has
        none."""
        try:
            rows = [binary_row.decode(row, self.types) for row in (about.min_values, about.max_values)]
        except Corrupt:  # written without partition statistics
            return True
        columns = zip(self.types, self.lows, self.highs, *rows, strict=True)
        for t, low, high, least, greatest in columns:
            if low is None or least is None or greatest is None:
                continue
            if high < _order(t, least) or low > _order(t, greatest):
                return False
        return True


def holding(data: bytes, path: str, partitions: Collection[bytes]) -> tuple[bytes, int]:
    """An uncompressed manifest of the blocks in which one of these serialized partitions occurs, and how many
    entries they have. Raises Corrupt naming `path`."""
    header, blocks = avro_blocks.BlockReader().plain(data, path)
    everywhere = any(p in (b"", EMPTY_ROW) for p in partitions)
    some = [b for b in blocks if everywhere or any(p in b.data for p in partitions)]
    return avro_blocks.joined(header.schema, some), sum(b.rows for b in some)
