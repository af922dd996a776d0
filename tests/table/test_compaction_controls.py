"""Random tables under random compaction options: what a dry run foretells is done, rows stay, writers wait.

Each table lives by two objects of it: one that writes (and compacts, or not), one that compacts now and then.
Before each compaction its dry run is asked; afterwards bytes and rows must be what it said, in its bounds.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tablestore as ts
from tablestore.table.table import Table
from tests.faults import SimEnv

MOST_STEPS = 12
ENGINES: tuple[dict[str, Any], ...] = (
    {},
    {"merge-engine": "first-row"},
    {"merge-engine": "partial-update"},
    {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.t.aggregate-function": "max",
    },
)
PRODUCERS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction", "full-compaction.delta-commits": 3},
    {"deletion-vectors.enabled": True},
    {"compaction.force-up-level-0": True},
    {"changelog-producer": "lookup", "lookup-compact": "gentle"},
)
RULES: tuple[dict[str, Any], ...] = (
    {"compaction.size-ratio": 30},
    {"compaction.max-size-amplification-percent": 40},
    {"compaction.total-size-threshold": "20 kb"},
    {"compaction.incremental-size-threshold": "20 kb"},
    {"compaction.optimization-interval": "90 s"},
    {
        "compaction.offpeak.start.hour": 22,
        "compaction.offpeak.end.hour": 4,
        "compaction.offpeak-ratio": 100,
    },
    {"num-levels": 3},
    {"num-levels": 8},
    {"target-file-size": "4 kb"},
    {"compaction.small-file-ratio": 0.2, "target-file-size": "8 kb"},
    {"tablestore.compaction.strategy": "leveled", "num-levels": 4}
    | {
        "tablestore.compaction.leveled.level0-file-num-trigger": 2,
        "tablestore.compaction.leveled.max-bytes-for-level-base": "12 kb",
        "tablestore.compaction.leveled.max-bytes-for-level-multiplier": 2,
    },
)


def options_of(chance: random.Random) -> dict[str, Any]:
    trigger = chance.randrange(2, 6)
    options: dict[str, Any] = {
        "bucket": chance.randrange(1, 3),
        "num-sorted-run.compaction-trigger": trigger,
        "num-sorted-run.stop-trigger": trigger + chance.randrange(3),
        "write-buffer-size": chance.choice(["6 kb", "1 mb"]),
        "write-only": chance.random() < 0.4,
        "snapshot.num-retained.min": 1000,
        **chance.choice(ENGINES),
    }
    producer = chance.choice(PRODUCERS)
    if options.get("merge-engine") == "first-row" and producer.get("changelog-producer") != "lookup":
        producer = {}
    options |= producer
    for rule in chance.sample(RULES, chance.randrange(4)):
        options |= rule
    return options


def some_rows(chance: random.Random, rng: np.random.Generator) -> pa.Table:
    low = chance.randrange(0, 3000)
    keys = np.unique(rng.integers(low, low + chance.choice([50, 2000]), chance.choice([5, 60, 250])))
    texts = [rng.bytes(12).hex() for _ in keys]
    return pa.table({"k": keys, "v": rng.integers(0, 1 << 30, len(keys)), "t": texts})


def shown(table: Table) -> list[dict[str, Any]]:
    return table.refresh().scan().to_arrow().sort_by("k").to_pylist()


def compacted(table: Table, chance: random.Random, why: str) -> None:
    """A compaction of the table, or of a part, as its dry run said."""
    choice: dict[str, Any] = {"full": chance.random() < 0.3}
    if chance.random() < 0.3:
        choice["where"] = ts.col("k") < chance.randrange(3000)
    job = table.refresh().with_options({"write-only": False})
    preview = job.compact(dry_run=True, **choice)
    done = job.compact(**choice)
    assert [p.text for p in preview.picks] == [p.text for p in done.picks], why
    for was, now in zip(preview.picks, done.picks, strict=True):
        f, r = was.forecast, now.record
        assert (f is None) == (r is None), why
        if f is None or r is None:
            continue
        assert (f.files_read, f.bytes_read, f.rows_in) == (r.files_read, r.bytes_read, r.rows_in), why
        assert (f.files_moved, f.bytes_moved) == (r.files_moved, r.bytes_moved), why
        assert f.output.rows_min <= r.rows_out <= f.output.rows_max, f"{why}: {f.output} {r.rows_out}"
        assert not f.output.exact or f.output.rows == r.rows_out, why
        assert not f.output.exact or abs(f.output.bytes - r.bytes_written) <= 0.5 * r.bytes_written + 2000, (
            why
        )


def live(path: Path, seed: int) -> None:
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    env, options = SimEnv(seed), options_of(chance)
    why = f"seed {seed}, {options}"
    table = ts.connect(str(path), env=env).create_table(
        "d.t", schema={"k": ts.BIGINT, "v": ts.BIGINT, "t": ts.STRING}, primary_key=["k"], options=options
    )
    deletes = "merge-engine" not in options
    hidden = options.get("deletion-vectors.enabled") or options.get("merge-engine") == "first-row"
    for step in range(MOST_STEPS):
        env.sleep(chance.choice([1, 60, 7200]))
        with table.refresh().writer() as writer:
            for _ in range(chance.choice([1, 1, 4])):
                writer.write(some_rows(chance, rng))
        if deletes and chance.random() < 0.3:
            low = chance.randrange(3000)
            table.refresh().delete(ts.col("k").between(low, low + 300))
        if not options["write-only"]:
            bounded(table, options, f"{why}, step {step}")
        if chance.random() < 0.5:
            before = shown(table)
            compacted(table, chance, f"{why}, step {step}")
            if not hidden:  # rows of level 0 come to be seen by a compaction
                assert shown(table) == before, f"{why}, step {step}"
    before = shown(table) if not hidden else None
    table.refresh().with_options({"write-only": False}).compact(until_quiet=True)
    assert all(p["due"] is None for p in table.refresh().inspect.pressure().to_pylist()), why
    assert before is None or shown(table) == before, why
    assert table.refresh().check() == [], why


def bounded(table: Table, options: dict[str, Any], why: str) -> None:
    """What a commit that compacts leaves: no more runs than its rules bear."""
    leveled = options.get("tablestore.compaction.strategy") == "leveled"
    for row in table.refresh().inspect.pressure().to_pylist():
        backlog = row["level0_files"] if leveled else row["runs"]
        assert backlog <= row["stop_trigger"], why
        assert row["due"] is None or options.get("deletion-vectors.enabled") or deferred(options), why


def deferred(options: dict[str, Any]) -> bool:
    """Whether something may fall due by the clock alone, or waits for more triggers."""
    return "compaction.optimization-interval" in options or options.get("lookup-compact") == "gentle"


def test_the_preview_is_what_is_done_and_rows_stay(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds[::2]:
        live(tmp_path / str(seed), seed)
