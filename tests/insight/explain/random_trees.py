"""Random tables with runs that wait to be compacted: keys, rows, deletes and values of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import tablestore as ts
from tablestore.table.table import Table

Draw = Callable[[int, int], np.ndarray]  # rows, the number of the write → keys, some of them equal
_WORDS = np.array(["open", "paid", "packed", "sent", "returned", "closed", "lost", "found"])


@dataclass(frozen=True, slots=True)
class RandomTree:
    """A table, and in words what its rows are."""

    table: Table
    what: str

    @property
    def worst(self) -> int:
        """The bucket of most runs."""
        rows = self.table.inspect.amplification("bucket").to_pylist()
        return int(max(rows, key=lambda row: row["runs"])["bucket"])

    @property
    def waits(self) -> bool:
        """Whether a bucket has several runs, something of which is left when they are merged."""
        rows = self.table.inspect.amplification("bucket").to_pylist()
        worst = max(rows, key=lambda row: row["runs"])
        return bool(worst["runs"] > 1 and worst["compacted_bytes"])


def random_tree(path: Path, seed: int, *, most_rows: int = 1_500) -> RandomTree:
    """The tree of a seed: 2 to 12 writes to 1 to 3 buckets, maybe with a merge of the first ones."""
    chance = np.random.default_rng(seed)
    kind, draw = _keys(chance)
    typed, texts, deletes = bool(chance.integers(2)), bool(chance.integers(2)), _some(chance, 0.0, 0.3)
    writes, merged_at = int(chance.integers(2, 13)), int(chance.integers(0, 24))
    buckets = int(chance.choice([1, 1, 2, 3]))
    table = ts.connect(str(path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT if typed else ts.STRING, "n": ts.INT, "s": ts.STRING, "b": ts.BYTES},
        primary_key=["k"],
        options={"bucket": buckets, "write-only": True},
    )
    for number in range(writes):
        rows = int(np.exp(chance.uniform(np.log(20), np.log(most_rows))))
        table.write(
            _rows(chance, np.unique(draw(rows, number)), typed, texts, deletes), row_kind_column="kind"
        )
        if number == merged_at and number < writes - 2:
            table.with_options({"write-only": False}).compact(full=True)
    return RandomTree(
        table, f"seed {seed}: {kind}, {writes} writes, {buckets} buckets, deletes {deletes:.2f}"
    )


def _some(chance: np.random.Generator, low: float, high: float) -> float:
    """A number, half of the time `low`."""
    return low if chance.integers(2) else float(chance.uniform(low, high))


def _keys(chance: np.random.Generator) -> tuple[str, Draw]:
    """How keys are drawn."""
    space = int(np.exp(chance.uniform(np.log(200), np.log(200_000))))
    skew = float(chance.uniform(1.1, 2.0))
    base = chance.choice(1 << 40, space, replace=True)

    def growing(rows: int, number: int) -> np.ndarray:
        new = number * 1_500 + np.arange(rows * 3 // 4 + 1)
        return np.concatenate([new, chance.integers(0, number * 1_500 + 1, rows // 4)])

    def clustered(rows: int, _number: int) -> np.ndarray:
        return chance.integers(0, space) + np.abs(chance.normal(0, rows, rows)).astype(np.int64)

    kinds: dict[str, Draw] = {
        f"even of {space}": lambda rows, _: chance.integers(0, space, rows),
        f"zipf {skew:.2f}": lambda rows, _: np.minimum(chance.zipf(skew, rows), space),
        f"spread {space}": lambda rows, _: chance.choice(base, rows),
        "growing": growing,
        "clustered": clustered,
    }
    name = str(chance.choice(list(kinds)))
    return name, kinds[name]


def _rows(
    chance: np.random.Generator, keys: np.ndarray, typed: bool, texts: bool, deletes: float
) -> pa.Table:
    count = len(keys)
    kinds = np.where(chance.random(count) < deletes, "-D", "+I")
    return pa.table(
        {
            "k": pa.array(keys.astype(np.int64))
            if typed
            else pa.array([f"order-{k}" for k in keys.tolist()]),
            "n": pa.array(chance.integers(0, 1_000, count), pa.int32()),
            "s": pa.array(chance.choice(_WORDS, count)),
            "b": pa.array([chance.bytes(24) if texts else None for _ in range(count)], pa.binary()),
            "kind": pa.array(kinds),
        }
    )
