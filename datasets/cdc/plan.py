"""How a source's refresh pairs are cut into transactions, and when each happens. Pure.

The plan follows from the scale, the sizes and the seed alone, for any pair without its predecessors' rows, so
a killed generator makes the same bytes again. Used by `generate`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.tpch import streams
from datasets.tpch.scale import Scale, Sizes

INSERTS, DELETES = 0, 1
_BEGIN_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_PAIR_MS, _DELETES_AFTER_MS, _HALF_MS = 120_000, 60_000, 50_000
_MEAN_ORDERS = 100


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactions of one half of a pair: orders starts[k]..ends[k]-1, sequence numbers, commit times."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    first_number: int
    ts_ms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, first: int, last: int) -> "Transactions":
        part = slice(first, last)
        return Transactions(self.starts[part], self.ends[part], self.first_number + first, self.ts_ms[part])


def transactions(scale: Scale, sizes: Sizes, seed: int, *, pair: int, half: int) -> Transactions:
    """The transactions of RF1 (half 0) or RF2 (half 1) of `pair`; numbers count from 1 over the whole log."""
    orders = scale.refresh_orders(sizes)
    before = sum(
        len(_ends(orders, seed, p, h)) for p in range(1, pair + 1) for h in (0, 1) if (p, h) < (pair, half)
    )
    ends = _ends(orders, seed, pair, half)
    begin = _BEGIN_MS + (pair - 1) * _PAIR_MS + half * _DELETES_AFTER_MS
    when = begin + np.arange(len(ends)) * _HALF_MS // max(1, len(ends))
    return Transactions(np.concatenate([[0], ends[:-1]])[: len(ends)], ends, before + 1, when)


def _ends(orders: int, seed: int, pair: int, half: int) -> NDArray[np.int64]:
    """Cuts of 0..orders: lengths drawn from 1 to twice the mean less one, the last one shortened."""
    if not orders:
        return np.empty(0, np.int64)
    mean = max(1, min(_MEAN_ORDERS, orders // 10))
    own_seed = 1 + (seed * 2_654_435_761 + pair * 2 + half) % (streams.MODULUS - 1)
    draws = streams.uniform(streams.draws(own_seed, np.arange(1, orders + 1)), 1, 2 * mean - 1)
    ends = np.cumsum(draws)
    return np.append(ends[ends < orders], orders)
