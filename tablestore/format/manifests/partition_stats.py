"""Statistics over the partitions of a manifest's entries (`_PARTITION_STATS`, FORMAT.md 5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tablestore.format import binary_row
from tablestore.format.manifests.manifest import SimpleStats
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
