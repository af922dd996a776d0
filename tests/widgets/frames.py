"""Synthetic metadata for the widget tests: a small seeded table with a history, compactions and their
reasons.

`FakeTable` offers what the views ask of a table (`inspect.commits`, `inspect.levels`, `compact`, `options`)
without an engine; its one rule takes every level-0 run and level 3 once there are more runs than the
trigger.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.insight.inspect.edits import EDITS, with_span

START = datetime(2026, 11, 20, 12, 0, 0)
KEYS = 1_500_000
FILES = pa.schema(
    [
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("level", pa.int32()),
        ("run", pa.int32()),
        ("file_name", pa.string()),
        ("rows", pa.int64()),
        ("deletes", pa.int64()),
        ("bytes", pa.int64()),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
        ("min_key_pos", pa.float64()),
        ("max_key_pos", pa.float64()),
        ("min_sequence", pa.int64()),
        ("max_sequence", pa.int64()),
        ("schema_id", pa.int64()),
        ("creation_time", pa.timestamp("ms")),
        ("file_source", pa.string()),
    ]
)
COMMITS = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("commit_kind", pa.string()),
        ("commit_time", pa.timestamp("ms")),
        ("rows_added", pa.int64()),
        ("rows_removed", pa.int64()),
        ("files_added", pa.int32()),
        ("files_removed", pa.int32()),
        ("bytes_added", pa.int64()),
        ("bytes_removed", pa.int64()),
        ("changelog_rows", pa.int64()),
        ("watermark", pa.int64()),
        ("commit_user", pa.string()),
        ("commit_identifier", pa.int64()),
        ("properties", pa.string()),
    ]
)


def file(
    level: int,
    lo: int,
    hi: int,
    *,
    mib: float,
    name: str,
    partition: str = "",
    bucket: int = 0,
    deletes: float = 0.0,
    minute: int = 0,
) -> dict[str, object]:
    """One live file; its run is set by `files`."""
    rows = round(mib * 25_000)
    return {
        "partition": partition,
        "bucket": bucket,
        "level": level,
        "file_name": name,
        "rows": rows,
        "deletes": round(rows * deletes),
        "bytes": round(mib * 2**20),
        "min_key": str(lo),
        "max_key": str(hi),
        "min_key_pos": lo / KEYS,
        "max_key_pos": hi / KEYS,
        "min_sequence": minute * 1000,
        "max_sequence": minute * 1000 + rows,
        "schema_id": 0,
        "creation_time": START + timedelta(minutes=minute),
        "file_source": "APPEND" if level == 0 else "COMPACT",
    }


def files(rows: list[dict[str, object]]) -> pa.Table:
    """The Arrow table of `inspect.levels()`: level 0 first, newest run first, then a run a level."""
    done = []
    for place in sorted({(str(row["partition"]), row["bucket"]) for row in rows}):
        here = [row for row in rows if (row["partition"], row["bucket"]) == place]
        level0 = sorted((r for r in here if r["level"] == 0), key=lambda r: r["creation_time"], reverse=True)
        runs = {row["file_name"]: run for run, row in enumerate(level0)}
        levels = sorted({r["level"] for r in here if r["level"]})
        for row in here:
            run = runs.get(
                row["file_name"], len(level0) + (levels.index(row["level"]) if row["level"] else 0)
            )
            done.append({**row, "run": run})
    return pa.Table.from_pylist(done, schema=FILES)


def sample_files() -> pa.Table:
    """The bucket of the design's picture: four level-0 runs, levels 3, 4 and 5."""
    rows = [
        file(0, 55_000, 1_420_000, mib=25.6, name="data-412-0.parquet", minute=47),
        file(0, 400_000, 1_120_000, mib=14.5, name="data-411-0.parquet", deletes=0.34, minute=46),
        file(0, 15_000, 640_000, mib=11.1, name="data-410-0.parquet", minute=45),
        file(0, 755_000, 1_490_000, mib=10.4, name="data-409-0.parquet", minute=44),
        file(3, 20_000, 1_370_000, mib=56.3, name="data-400-0.parquet", minute=40),
        file(4, 0, 800_000, mib=128, name="data-390-0.parquet", minute=30),
        file(4, 810_000, 1_475_000, mib=114, name="data-390-1.parquet", minute=30),
    ]
    for at in range(5):
        size = 128 if at < 4 else 48
        rows.append(
            file(5, at * 310_000, min(at * 310_000 + 309_000, KEYS), mib=size, name=f"data-381-{at}.parquet")
        )
    return files(rows)


def commits(count: int, *, first: int = 1, seed: int = 7) -> pa.Table:
    """A history of `count` commits: mostly APPEND, a COMPACT after some, rarely OVERWRITE or ANALYZE."""
    random = np.random.default_rng(seed)
    draws = random.random(count)
    kinds = np.where(draws < 0.76, "APPEND", "COMPACT").astype(object)
    kinds[draws > 0.995] = "OVERWRITE"
    kinds[draws > 0.998] = "ANALYZE"
    wave = 1 + 0.6 * np.sin(np.arange(count) / max(count / 60, 4))
    size = np.round(random.uniform(0.4, 1.0, count) * wave * 400_000).astype(np.int64)
    adds = np.isin(kinds, ["APPEND", "OVERWRITE"])
    compacts = kinds == "COMPACT"
    work = np.round(random.gamma(1.2, 40, count) * 2**20).astype(np.int64)
    columns = {
        "snapshot_id": np.arange(first, first + count),
        "commit_kind": kinds.tolist(),
        "commit_time": [START + timedelta(seconds=17 * at) for at in range(count)],
        "rows_added": np.where(adds, size, 0),
        "rows_removed": np.zeros(count, dtype=np.int64),
        "files_added": np.where(adds, 2, np.where(compacts, 1, 0)).astype(np.int32),
        "files_removed": np.where(compacts, 5, 0).astype(np.int32),
        "bytes_added": np.where(adds, size * 40, np.where(compacts, work, 0)),
        "bytes_removed": np.where(compacts, work, 0),
        "changelog_rows": pa.nulls(count, pa.int64()),
        "watermark": pa.nulls(count, pa.int64()),
        "commit_user": ["loader"] * count,
        "commit_identifier": np.arange(count),
        "properties": ["{}"] * count,
    }
    return pa.table(columns, schema=COMMITS)


@dataclass(frozen=True)
class FakeFile:
    """A file of a plan."""

    file_name: str
    level: int
    file_size: int
    row_count: int


@dataclass(frozen=True)
class FakeUnit:
    """The unit of a decision."""

    output_level: int
    files: tuple[FakeFile, ...]


@dataclass(frozen=True)
class FakeTrial:
    """One rule tried."""

    rule: str
    state: str
    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class FakeReason:
    """Why."""

    rule: str
    text: str
    trials: tuple[FakeTrial, ...]


@dataclass(frozen=True)
class FakeDecision:
    """What and why."""

    unit: FakeUnit | None
    reason: FakeReason


@dataclass(frozen=True)
class FakePick:
    """A decision for a bucket."""

    partition: str
    bucket: int
    decision: FakeDecision


@dataclass(frozen=True)
class FakeResult:
    """What `compact` returns."""

    picks: tuple[FakePick, ...]
    text: str


def decide(rows: list[dict[str, object]], *, trigger: int) -> FakeDecision:
    """Take level 0 and level 3 once there are more than `trigger` runs."""
    level0 = [row for row in rows if row["level"] == 0]
    runs = len(level0) + len({row["level"] for row in rows if row["level"]})
    taken = [row for row in rows if row["level"] in (0, 3)]
    fires = runs > trigger and bool(level0)
    first = FakeTrial("early full", "off", "compaction.optimization-interval is not set")
    amp = FakeTrial("size amplification", "no", "359.7 × 100 ≤ 200 × 560.0 MiB")
    lines = ("25.6 ×1.01 ≥ 14.5  L0  take", "40.1 ×1.01 ≥ 11.1  L0  take", "117.9 ×1.01 < 241.8  L4  stop")
    ratio = FakeTrial("size ratio", "fired" if fires else "no", f"{len(taken)} files", lines if fires else ())
    last = FakeTrial("file number", "not reached" if fires else "no", f"{runs} runs, trigger {trigger}")
    trials = (first, amp, ratio, last)
    if not fires:
        return FakeDecision(
            None, FakeReason("none", f"{runs} runs, trigger {trigger}: nothing to do", trials)
        )
    inputs = tuple(FakeFile(r["file_name"], r["level"], r["bytes"], r["rows"]) for r in taken)
    return FakeDecision(
        FakeUnit(3, inputs), FakeReason("size ratio", f"{runs} runs, trigger {trigger}", trials)
    )


class FakeInspect:
    """The metadata of a `FakeTable`."""

    def __init__(self, table: "FakeTable") -> None:
        self._table = table

    def commits(self) -> pa.Table:
        """One row a commit."""
        return pa.Table.from_pylist(self._table.log, schema=COMMITS)

    def levels(
        self, *, snapshot: int | None = None, partition: str | None = None, bucket: int | None = None
    ) -> pa.Table:
        """The live files of a snapshot, of a place or of all."""
        states = self._table.states
        if snapshot is not None and snapshot not in states:
            raise LookupError(f"no snapshot {snapshot}; have 1..{max(states)}")
        actual = files(states[snapshot if snapshot is not None else max(states)])
        for name, wanted in (("partition", partition), ("bucket", bucket)):
            actual = actual if wanted is None else actual.filter(pc.equal(actual[name], wanted))
        return actual

    def edits(self) -> pa.Table:
        """For each file when it came and went, from the states; keys lie on an axis from 0 to 1."""
        states, rows, seen = self._table.states, [], {}
        for snapshot, live in states.items():
            there = {(r["partition"], r["bucket"], r["level"], r["file_name"]): r for r in live}
            for place in [place for place in seen if place not in there]:
                seen.pop(place)["removed"] = snapshot
            for place, row in there.items():
                if place not in seen:
                    number = {"min_key_number": row["min_key_pos"], "max_key_number": row["max_key_pos"]}
                    came = {"added": None if snapshot == 1 and row["level"] else snapshot, "removed": None}
                    seen[place] = {"schema_id": 0, "masked_rows": None} | row | came | number
                    rows.append(seen[place])
        axes = {f"{partition}/{bucket}": (0.0, 1.0) for partition, bucket in self._table.buckets}
        return with_span(pa.Table.from_pylist(rows, schema=EDITS), min(states), max(states), axes=axes)


class FakeTable:
    """A table in memory only: `buckets` are (partition, bucket) pairs, `appends` its first commits."""

    def __init__(
        self,
        *,
        buckets: tuple[tuple[str, int], ...] = (("", 0),),
        appends: int = 6,
        name: str = "shop.orders",
        seed: int = 3,
    ) -> None:
        self.name = name
        self.options = {"num-sorted-run.compaction-trigger": "5"}
        self.log: list[dict[str, object]] = []
        self.states: dict[int, list[dict[str, object]]] = {}
        self.buckets = buckets
        self.fail_with: Exception | None = None
        self._random = np.random.default_rng(seed)
        self._live = [self._base(partition, bucket) for partition, bucket in buckets]
        self._live = [row for rows in self._live for row in rows]
        self.inspect = FakeInspect(self)
        for _ in range(appends):
            self.append()

    def _base(self, partition: str, bucket: int) -> list[dict[str, object]]:
        ends = np.linspace(0, KEYS, 5).astype(int)
        return [
            file(
                5,
                int(lo),
                int(hi) - 1,
                mib=96,
                name=f"base-{partition}-{bucket}-{at}",
                partition=partition,
                bucket=bucket,
            )
            for at, (lo, hi) in enumerate(pairwise(ends))
        ]

    def _commit(self, kind: str, added: list[dict[str, object]], removed: list[dict[str, object]]) -> int:
        snapshot = len(self.log) + 1
        self.log.append(
            {
                "snapshot_id": snapshot,
                "commit_kind": kind,
                "commit_time": START + timedelta(seconds=20 * snapshot),
                "rows_added": sum(int(r["rows"]) for r in added),
                "rows_removed": sum(int(r["rows"]) for r in removed),
                "files_added": len(added),
                "files_removed": len(removed),
                "bytes_added": sum(int(r["bytes"]) for r in added),
                "bytes_removed": sum(int(r["bytes"]) for r in removed),
                "commit_user": "loader",
                "commit_identifier": snapshot,
                "properties": "{}",
            }
        )
        gone = {row["file_name"] for row in removed}
        self._live = [row for row in self._live if row["file_name"] not in gone] + added
        self.states[snapshot] = list(self._live)
        return snapshot

    def append(self) -> int:
        """One commit with a level-0 file in a share of the buckets."""
        at = len(self.log) + 1
        chosen = [b for b in self.buckets if len(self.buckets) == 1 or self._random.random() < 0.6]
        added = []
        for partition, bucket in chosen or self.buckets[:1]:
            lo, hi = sorted(self._random.integers(0, KEYS, 2).tolist())
            size = float(self._random.uniform(8, 26))
            name = f"data-{at}-{partition}-{bucket}.parquet"
            share = 0.3 if self._random.random() < 0.2 else 0.0
            added.append(
                file(
                    0,
                    lo,
                    max(hi, lo + 9000),
                    mib=size,
                    name=name,
                    partition=partition,
                    bucket=bucket,
                    deletes=share,
                    minute=at,
                )
            )
        return self._commit("APPEND", added, [])

    def compact(
        self,
        *,
        dry_run: bool = False,
        full: bool = False,
        partition: str | None = None,
        bucket: int | None = None,
    ) -> FakeResult:
        """Plan, or plan and do."""
        if self.fail_with is not None and not dry_run:
            raise self.fail_with
        picks = []
        for place in self.buckets:
            if (partition is None or place[0] == partition) and (bucket is None or place[1] == bucket):
                rows = [row for row in self._live if (row["partition"], row["bucket"]) == place]
                picks.append(FakePick(*place, decide(rows, trigger=0 if full else 5)))
        fired = [pick for pick in picks if pick.decision.unit]
        if fired and not dry_run:
            self._rewrite(fired)
        return FakeResult(tuple(picks), f"compacted {len(fired)} buckets" if fired else "nothing to compact")

    def _rewrite(self, fired: list[FakePick]) -> None:
        at, added, removed = len(self.log) + 1, [], []
        for pick in fired:
            names = {f.file_name for f in pick.decision.unit.files}
            rows = [row for row in self._live if row["file_name"] in names]
            removed += rows
            lo = min(int(row["min_key"]) for row in rows)
            hi = max(int(row["max_key"]) for row in rows)
            mib = sum(int(row["bytes"]) for row in rows) / 2**20
            name = f"data-{at}-{pick.partition}-{pick.bucket}.parquet"
            added.append(
                file(3, lo, hi, mib=mib, name=name, partition=pick.partition, bucket=pick.bucket, minute=at)
            )
        self._commit("COMPACT", added, removed)
