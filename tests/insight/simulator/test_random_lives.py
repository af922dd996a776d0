"""Lives of random tables, replayed: their own files come out again, and the bytes that are on disk.

Engines, changelog producers, deletion vectors, strategies, stalls, dynamic buckets, jobs, overwrites,
rescales, rollbacks, branches, altered options and expired snapshots, as chance has it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.explain.table_history import events
from tablestore.insight.simulator import ReplayedHistory
from tablestore.table.table import Table
from tablestore.verbs.what_if import history_of
from tests.faults import SimEnv

TRIGGER = "num-sorted-run.compaction-trigger"
STRATEGY = "tablestore.compaction.strategy"
LEVELED = "tablestore.compaction.leveled."
SCHEMA = {"k": ts.BIGINT, "s": ts.BIGINT, "ts": ts.INT, "v": ts.BYTES}
COMMITS = 18
Chosen = dict[str, Any]


def some_options(chance: random.Random) -> Chosen:
    engine = chance.choice(["deduplicate"] * 3 + ["partial-update", "aggregation", "first-row"])
    producer = chance.choice(["none", "none", "lookup"] + ["full-compaction"] * (engine != "first-row"))
    chosen: Chosen = {
        TRIGGER: chance.choice([2, 3, 5]),
        "merge-engine": engine,
        "changelog-producer": producer,
    }
    chosen |= {"file.compression": "none", "bucket": chance.choice([1, 2])}
    chosen |= {"partial-update.remove-record-on-delete": True} if engine == "partial-update" else {}
    chosen |= {"fields.default-aggregate-function": "last_value"} if engine == "aggregation" else {}
    chosen |= {"full-compaction.delta-commits": 3} if producer == "full-compaction" else {}
    chosen |= {"lookup-wait": False} if producer == "lookup" and chance.random() < 0.4 else {}
    return chosen | some_more(chance, chosen)


def some_more(chance: random.Random, chosen: Chosen) -> Chosen:
    deduplicates = chosen["merge-engine"] == "deduplicate"
    may_mark = deduplicates and chosen["changelog-producer"] != "full-compaction"
    maybe: list[tuple[float, Chosen]] = [
        (0.3, {"target-file-size": chance.choice(["10 kb", "60 kb"])}),
        (0.3, {"num-levels": chance.choice([3, 4, 8])}),
        (0.3, {"compaction.size-ratio": chance.choice([0, 50])}),
        (0.4, {"write-buffer-size": "4 kb", "num-sorted-run.stop-trigger": chosen[TRIGGER] + 1}),
        (0.2, {"write-only": True}),
        (0.3 * may_mark, {"deletion-vectors.enabled": True}),
        (0.2 * deduplicates, {"record-level.expire-time": "30 s", "record-level.time-field": "ts"}),
        (0.2 * deduplicates, {"bucket": -1, "dynamic-bucket.target-row-num": 200}),
    ]
    by_key = {key: value for share, some in maybe if chance.random() < share for key, value in some.items()}
    shrinks = (
        chosen["merge-engine"] == "first-row"
    )  # moved files lose rows that are known: told, not foreseen
    if chance.random() < 0.4 and chosen["changelog-producer"] != "full-compaction" and not shrinks:
        by_key |= {STRATEGY: "leveled", f"{LEVELED}max-bytes-for-level-base": "40 kb"}
        by_key |= {f"{LEVELED}level0-file-num-trigger": chance.choice([2, 4]), "num-levels": 4}
    elif chance.random() < 0.3:
        by_key |= {"compaction.optimization-interval": "40 s"}
    return by_key


def some_rows(rows: np.random.Generator, env: SimEnv, *, deletes: bool) -> pa.Table:
    keys = np.unique(rows.integers(0, 500, int(rows.choice([20, 90, 150]))))
    count, now = len(keys), env.now_ms() // 1000
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "s": pa.array(rows.integers(0, 9, count), pa.int64()),
            "ts": pa.array(now - rows.integers(0, 20, count), pa.int32()),
            "v": pa.array([rows.bytes(100) for _ in keys], pa.binary()),
            "_kind": np.where(rows.random(count) < 0.1, "-D", "+I") if deletes else np.full(count, "+I"),
        }
    )


def lived(path: Path, seed: int) -> Table:
    chance, rows, env = random.Random(seed), np.random.default_rng(seed), SimEnv()
    options = some_options(chance)
    table = ts.connect(str(path), env=env).create_table(
        "d.t", schema=SCHEMA, primary_key=["k"], options=options
    )
    deletes = options["merge-engine"] != "first-row"
    for _ in range(COMMITS):
        with table.writer() as writer:
            for _ in range(chance.choice([1, 1, 1, 4])):
                writer.write(some_rows(rows, env, deletes=deletes), row_kind_column="_kind")
        env.sleep(chance.choice([1, 5, 20]))
        table = what_happens(table, chance, some_rows(rows, env, deletes=False).drop_columns(["_kind"]))
    return table


def what_happens(table: Table, chance: random.Random, rows: pa.Table) -> Table:
    """Between two commits: mostly nothing."""
    job, event = table.with_options({"write-only": False}), chance.random()
    if event < 0.1:
        job.compact(full=True)
    elif event < 0.2:
        job.compact(until_quiet=chance.random() < 0.5)
    elif event < 0.23:
        table.overwrite(rows)
    elif event < 0.26 and table.store.options.bucket > 0:
        table.rescale(chance.choice([1, 2, 3]))
    elif event < 0.28:
        table.truncate()
    elif event < 0.31:
        newest = table.store.snapshots.latest_id() or 0
        table.rollback(snapshot=max(1, newest - 2))
        table = table.refresh()
        live = table.store.manifests.live_entries(table.store.snapshots.latest())
        wanted = table.store.options.bucket
        if wanted > 0 and {e.total_buckets for e in live} - {wanted}:  # the schema was not rolled back
            table.rescale(wanted)
    elif event < 0.33:
        name = f"b{table.store.snapshots.latest_id()}"
        table.branches.create(name)
        table.branch(name).write(rows)
    elif event < 0.37:
        table.alter(ts.set_options({TRIGGER: chance.choice([2, 3, 6])}))
    elif event < 0.39:
        table.expire_snapshots(keep=8)
    return table.refresh()


def on_disk(table: Table) -> dict[str, int]:
    """Bytes of every data file below the table's directory."""
    return {f.name: f.stat().st_size for f in Path(table.location.removeprefix("file://")).rglob("data-*")}


def require_reproduced(table: Table, history: ReplayedHistory) -> None:
    replay, live = history.replay(), dict[tuple[str, int], set[tuple[int, str]]]()
    for entry in table.store.manifests.live_entries(table.store.snapshots.latest()):
        place = table.store.partition_text(entry.partition), entry.bucket
        live.setdefault(place, set()).add((entry.file.level, entry.file.file_name))
    for place in live.keys() | replay.levels.keys():
        actual = {(f.level, f.file_name) for f in replay.levels[place].files}
        assert actual == live.get(place, set()), place
    sizes, actual = on_disk(table), list(events(table.store))
    flushed = sum(sizes.get(f.file_name, f.file_size) for e in actual for f in e.flushed)
    merged = sum(sizes.get(f.file_name, f.file_size) for e in actual for f in e.written)
    kept = sum(f.file_size for e in actual for f in e.written)
    between = (
        sum(r.bytes_written for e in actual for r in e.records) - kept
    )  # written and replaced by one commit
    if flushed:
        assert replay.write_amplification == pytest.approx((flushed + merged + between) / flushed, rel=0.02)


def test_lives_are_replayed_file_for_file(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        table = lived(tmp_path / str(seed), seed)
        history = history_of(table.store)
        assert history.unexplained == [], seed
        require_reproduced(table, history)
        assert [v for v in table.check() if v.invariant != "I12"] == [], seed
