"""Kinds of tables and what writers do to them, such that the end does not depend on who came first.

A writer has a number and does steps 0, 1, 2 …; each is one write under the step's identifier and, on some
tables, one delete that may be repeated. Writers never touch each other's rows, but for `sum` (which adds up)
and `partial-update` (each has a column of its own). So after any race `expected` gives the rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import tablestore as ts

SPAN = 1_000_000  # keys of a writer that shares none: from its number times this
KEYS = 40
Rows = Counter[tuple[object, ...]]


@dataclass(frozen=True)
class Life:
    """A kind of table: the first word of its name says how rows are merged. `lagging`: scans pass over new
    rows until they are compacted."""

    name: str
    options: tuple[tuple[str, object], ...]
    keyed: bool = True
    deletes: bool = False
    lagging: bool = False

    @property
    def merging(self) -> str:
        """How rows of a key are merged."""
        return self.name.split()[0]

    @property
    def logged(self) -> bool:
        """Whether it has a log."""
        return "log.system" in dict(self.options)

    @property
    def streams(self) -> bool:
        """Whether its log is a stream of what its rows are."""
        return self.logged and self.merging in ("deduplicate", "append")

    def create(self, lake: ts.Lake, *, writers: int, seed: int) -> ts.Table:
        """`d.t` with options that make commits, compactions and expiry meet often."""
        draw = random.Random(f"{seed} options")
        options = {
            "bucket": draw.choice([1, 2]) if self.keyed else -1,
            "num-sorted-run.compaction-trigger": draw.choice([2, 3, 5]),
            "manifest.merge-min-count": draw.choice([3, 8]),
            "snapshot.num-retained.min": 3,
            "snapshot.num-retained.max": draw.choice([5, 20]),
            "commit.max-retries": 1000,
            "commit.max-retry-wait": "20 ms",
            **dict(self.options),
        }
        if self.merging == "partial-update":  # without groups, rows of several writers have no order
            options |= {f"fields.s{w}.sequence-group": f"v{w}" for w in range(writers)}
        schema = dict.fromkeys(self.columns(writers), ts.BIGINT) | {"w": ts.INT}
        key = {"primary_key": ["k"]} if self.keyed else {}
        return lake.create_table("d.t", schema=schema, options=options, **key)

    def columns(self, writers: int) -> list[str]:
        """Key, writer, and the values: of `partial-update` a step and a value for each writer."""
        if self.merging != "partial-update":
            return ["k", "w", "v"]
        return ["k", "w", *(f"{of}{w}" for w in range(writers) for of in "sv")]

    def shared(self) -> bool:
        """Whether writers write the same keys."""
        return self.merging in ("sum", "partial-update")

    def step(self, seed: int, writer: int, step: int) -> pa.Table:
        """What a writer writes in a step: up to twenty rows, with row kinds where deletes are applied."""
        draw = random.Random(f"{seed} {writer} {step}")
        keys = draw.sample(range(KEYS), draw.randint(1, 20))
        if not self.shared():
            keys = [writer * SPAN + k for k in keys]
        values = [draw.randint(-50, 50) for _ in keys]
        own = {"v": values}
        if self.merging == "partial-update":
            own = {f"s{writer}": [step] * len(keys), f"v{writer}": values}
        numbers = pa.array([0 if self.shared() else writer] * len(keys), pa.int32())
        rows = pa.table({"k": keys, "w": numbers, **own})
        if not self.deletes or not self.keyed:
            return rows
        kinds = ["-D" if draw.random() < 0.2 else "+U" for _ in keys]
        return rows.append_column("kind", pa.array(kinds))

    def delete(self, seed: int, writer: int, step: int) -> tuple[int, int] | None:
        """The keys (from, to) that the writer deletes after a step, None for none."""
        draw = random.Random(f"{seed} {writer} {step} delete")
        if not self.deletes or draw.random() < 0.7:
            return None
        low = writer * SPAN + draw.randrange(KEYS)
        return low, low + draw.randrange(10)

    def expected(self, seed: int, steps: Sequence[int]) -> Rows:
        """The rows after writer w did `steps[w]` steps."""
        rows: dict[object, dict[str, object]] = {}
        names = self.columns(len(steps))
        for writer, count in enumerate(steps):
            for step in range(count):
                for at, row in enumerate(self.step(seed, writer, step).to_pylist()):
                    self._apply(rows, row, (writer, step, at))
                gone = self.delete(seed, writer, step)
                if gone is not None:
                    rows = {k: r for k, r in rows.items() if not gone[0] <= r["k"] <= gone[1]}
        return Counter(tuple(row.get(name) for name in names) for row in rows.values())

    def _apply(self, rows: dict[object, dict[str, object]], row: dict[str, object], arrival: object) -> None:
        kind, key = row.pop("kind", "+I"), row["k"] if self.keyed else arrival
        before = rows.get(key)
        if kind == "-D":
            rows.pop(key, None)
        elif before is None or self.merging == "deduplicate" or not self.keyed:
            rows[key] = row
        elif self.merging == "sum":
            rows[key] = row | {"v": before["v"] + row["v"]}
        elif self.merging == "partial-update":
            rows[key] = before | row
        elif self.merging != "first-row":
            rows[key] = row


SUM = (
    ("merge-engine", "aggregation"),
    ("fields.v.aggregate-function", "sum"),
    ("fields.w.aggregate-function", "last_value"),
)
LOG = (("log.system", "embedded"),)
LIVES = {
    life.name: life
    for life in (
        Life("sum", SUM),
        Life("deduplicate", (("changelog-producer", "input"),), deletes=True),
        Life("partial-update", (("merge-engine", "partial-update"),)),
        Life("lookup", (("changelog-producer", "lookup"),), deletes=True),
        Life(
            "full-compaction",
            (("changelog-producer", "full-compaction"), ("full-compaction.delta-commits", 3)),
            deletes=True,
        ),
        Life("deletion-vectors", (("deletion-vectors.enabled", True),), deletes=True, lagging=True),
        Life("first-row", (("merge-engine", "first-row"),), lagging=True),
        Life(
            "append",
            (("deletion-vectors.enabled", True), ("compaction.min.file-num", 3)),
            keyed=False,
            deletes=True,
        ),
        Life("deduplicate with a log", LOG, deletes=True),
        Life("deduplicate with an eventual log", (*LOG, ("log.consistency", "eventual")), deletes=True),
        Life("sum with a log", (*SUM, *LOG)),
        Life("append with a log", (*LOG, ("bucket", 2), ("bucket-key", "k")), keyed=False),
    )
}
LOGGED = tuple(name for name, life in LIVES.items() if life.logged)


def rows_of(table: ts.Table, **asked: Any) -> Rows:
    """The rows of a scan, each with how often it came."""
    return Counter(tuple(row.values()) for row in table.scan(**asked).to_arrow().to_pylist())
