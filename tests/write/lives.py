"""Random lives of tables, for tests that ask what is on disk: writes, deletes, compactions, tags, branches,
consumers, statistics, expiry. Everything a life does follows from its seed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from tests.faults import SimEnv

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"changelog-producer": "input"},
    {"changelog-producer": "lookup"},
    {"deletion-vectors.enabled": True},
    {"changelog-producer": "input", "changelog.num-retained.min": 6, "changelog.num-retained.max": 9},
    {"changelog.num-retained.min": 5, "changelog.num-retained.max": 8},
    {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"},
    {"bucket": -1},
    {
        "deletion-vectors.enabled": True,
        "index-file-in-data-file-dir": True,
        "data-file.path-directory": "d/e",
    },
)
WEIGHTS = {"write": 8, "delete": 2, "compact": 2, "tag": 2, "untag": 1, "branch": 1, "consume": 2, "wait": 2}
WEIGHTS |= {"analyze": 1, "expire": 1, "alter": 1, "overwrite": 1}


@dataclass
class Life:
    """A table, its clock, what it does next, and which commit wrote which file."""

    table: ts.Table
    env: SimEnv
    rng: random.Random
    written: dict[str, tuple[int, ...]] = field(default_factory=dict)
    names: int = 0
    verbs: dict[str, int] = field(default_factory=lambda: dict(WEIGHTS))

    def step(self) -> str:
        """Do something; what."""
        verb = self.rng.choices(list(self.verbs), list(self.verbs.values()))[0]
        before, latest = set(on_disk(self.table)), self.table.store.snapshots.latest_id() or 0
        getattr(self, f"_{verb}")()
        now = self.table.store.snapshots.latest_id() or 0
        created = tuple(range(latest + 1, now + 1))
        self.written |= dict.fromkeys(set(on_disk(self.table)) - before, created)
        self.env.sleep(self.rng.choice([1, 30, 400]))
        return verb

    def _write(self) -> None:
        self.table.write(self._rows())

    def _rows(self) -> pa.Table:
        n, columns = self.rng.randrange(1, 30), {"k": "int64", "p": "int32", "v": "string"}
        values = [(self.rng.randrange(60), self.rng.randrange(2), f"v{self.rng.random()}") for _ in range(n)]
        arrays = {c: pa.array([row[i] for row in values], t) for i, (c, t) in enumerate(columns.items())}
        return pa.table(arrays)

    def _delete(self) -> None:
        self.table.delete(ts.col("k") < self.rng.randrange(10))

    def _compact(self) -> None:
        self.table.compact(full=self.rng.random() < 0.5)

    def _tag(self) -> None:
        ids = self.table.store.snapshots.ids()
        if ids:
            self.names += 1
            kept = self.rng.choice([None, "5 min"])
            self.table.tags.create(f"t{self.names}", self.rng.choice(ids), retain=kept)

    def _untag(self) -> None:
        names = self.table.tags.names()
        if names:
            self.table.tags.delete(self.rng.choice(names))

    def _branch(self) -> None:
        names, branches = self.table.tags.names(), self.table.branches.names()
        if branches and self.rng.random() < 0.3:
            self.table.branches.delete(self.rng.choice(branches))
        elif branches and self.rng.random() < 0.7:
            self.table.branch(self.rng.choice(branches)).write(self._rows())
        elif names:
            self.names += 1
            self.table.branches.create(f"b{self.names}", self.rng.choice(names))

    def _consume(self) -> None:
        names, ids = self.table.consumers.names(), self.table.store.snapshots.ids()
        if names and self.rng.random() < 0.5:
            self.table.consumers.delete(self.rng.choice(names))
        elif ids:
            self.table.consumers.reset(f"c{self.rng.randrange(2)}", self.rng.choice(ids))

    def _wait(self) -> None:
        self.env.sleep(3600)

    def _analyze(self) -> None:
        if self.table.store.snapshots.latest_id():
            self.table.analyze([])

    def _expire(self) -> None:
        self.table.expire_snapshots(keep=self.rng.randrange(2, 8))

    def _alter(self) -> None:
        self.names += 1
        self.table = self.table.alter(ts.add(f"n{self.names}", ts.INT))

    def _overwrite(self) -> None:
        self.table.overwrite(self._rows())


def born(path: Path, seed: int) -> Life:
    """A new table of some kind with the clock and the chance of a seed."""
    rng, env = random.Random(seed), SimEnv(seed)
    own = KINDS[seed % len(KINDS)]
    defaults = {"bucket": rng.choice([1, 2]), "snapshot.num-retained.min": rng.choice([2, 6])}
    defaults |= {"snapshot.time-retained": rng.choice(["10 min", "1 h"]), "manifest.merge-min-count": 4}
    defaults |= {"write-only": rng.random() < 0.3, "num-sorted-run.compaction-trigger": rng.choice([2, 4])}
    table = ts.connect(str(path), env=env).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "p": ts.INT, "v": ts.STRING},
        primary_key=["k", "p"],
        partition_by=["p"] if rng.random() < 0.6 else [],
        options=defaults | own,
    )
    return Life(table, env, rng)


def lived(path: Path, seed: int, *, steps: int = 30, never: tuple[str, ...] = ()) -> Life:
    """A table after so many steps, none of them a verb of `never`."""
    life = born(path, seed)
    life.verbs = {verb: weight for verb, weight in WEIGHTS.items() if verb not in never}
    for _ in range(steps):
        life.step()
    return life


def on_disk(table: ts.Table) -> dict[str, int]:
    """Bytes of every file below the table's directory, by path from there."""
    return dict(_walked(table.location))


def _walked(root: str) -> Iterator[tuple[str, int]]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            yield os.path.relpath(path, root), os.stat(path).st_size
