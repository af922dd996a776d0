"""The health of a table: numbers as inspection has them, what is due as the engine decides it, a verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.health import BUCKETS, Health, health
from tests.tables import KEYED, PARTITIONED, WRITE_ONLY


def keys(*values: int) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64()), "v": pa.array([f"v{k}" for k in values])})


@pytest.fixture
def crowded(tmp_path: Path) -> ts.Table:
    """16 buckets; seven flushes to all, then three to two of them."""
    table = KEYED.with_options(WRITE_ONLY).create(tmp_path, {"bucket": 16, "num-sorted-run.stop-trigger": 7})
    for start in range(7):
        table.write(keys(*range(start, start + 200)))
    for key in (3, 4, 5):
        table.write(keys(key))
    return table


def measured(**columns: list[object]) -> pa.Table:
    """Buckets with these numbers, 0 or NULL elsewhere."""
    count = len(next(iter(columns.values())))
    empty = {f.name: [None if pa.types.is_string(f.type) else 0] * count for f in BUCKETS}
    return pa.table({**empty, **columns}, schema=BUCKETS)


@pytest.mark.parametrize(
    ("health", "state", "sentence"),
    [
        (Health(None, True, measured(runs=[])), "empty", "empty: no snapshot yet"),
        (Health(3, True, measured(runs=[])), "empty", "empty: no files"),
        (
            Health(3, True, measured(runs=[]), waiting=2),
            "due",
            "2 files in postponed buckets wait for compaction",
        ),
        (
            Health(3, True, measured(runs=[1] * 168, rows=[5] * 168)),
            "healthy",
            "healthy: 168 buckets, 1 run each, nothing due",
        ),
        (
            Health(3, True, measured(runs=[4, 1])),
            "healthy",
            "healthy: 2 buckets, 1 to 4 runs each, nothing due",
        ),
        (Health(3, False, measured(files=[2])), "healthy", "healthy: 1 bucket, 2 files, nothing due"),
        (
            Health(3, True, measured(runs=[9, 1, 1], rows=[1, 1, 2], due=["L0", None, None])),
            "due",
            "1 of 3 buckets waits for compaction; reads open 3 runs",
        ),
        (
            Health(3, True, measured(runs=[9, 8], rows=[1, 1], due=["L0", "L0"]), complete=False),
            "due",
            "at least 2 of 2 buckets wait for compaction; reads open 8.5 runs",
        ),
        (
            Health(
                3, True, measured(runs=[9, 1], rows=[1, 0], due=["L0", None]), stop=8, stalled=1, waiting=1
            ),
            "risk",
            "writers wait: 1 of 2 buckets above the stop trigger 8; reads open 9 runs; "
            "1 file in postponed buckets",
        ),
        (
            Health(3, True, measured(runs=[1]), waiting=3),
            "due",
            "nothing due in 1 bucket; 3 files in postponed buckets wait for compaction",
        ),
    ],
)
def test_a_verdict_is_one_sentence_with_its_numbers(health: Health, state: str, sentence: str) -> None:
    assert (health.state, health.verdict) == (state, sentence)


def test_numbers_are_those_of_inspection_and_due_is_what_the_engine_decides(crowded: ts.Table) -> None:
    health = crowded.inspect.health()
    amplification = crowded.inspect.amplification().to_pylist()[0]
    assert (health.files, health.bytes) == (amplification["live_files"], amplification["live_bytes"])
    assert health.rows == amplification["live_rows"]
    assert health.opened == pytest.approx(amplification["point_files"])
    columns = ["partition", "bucket", "runs", "level0_files", "bytes", "due"]
    mine, pressed = (
        sorted(tuple(row.values()) for row in rows.select(columns).to_pylist())
        for rows in (health.buckets, crowded.inspect.pressure())
    )
    assert mine == pressed
    planned = crowded.with_options({"write-only": False}).compact(dry_run=True)
    assert health.due == len(planned.busy) == 16
    assert health.due_bytes == sum(p.decision.unit.size for p in planned.busy if p.decision.unit)
    assert health.state == "due", "who only writes does not wait"
    waits = crowded.with_options({"write-only": False}).inspect.health()
    over = int((np.array(waits.buckets["runs"]) > 7).sum())
    assert waits.state == "risk"
    assert waits.stalled == over > 0
    assert waits.buckets["runs"].to_pylist() == sorted(waits.buckets["runs"].to_pylist(), reverse=True)


def test_a_compacted_table_is_healthy_and_its_past_is_not(crowded: ts.Table) -> None:
    before = crowded.inspect.latest_snapshot_id()
    crowded.with_options({"write-only": False}).compact(full=True)
    assert crowded.inspect.health().verdict == "healthy: 16 buckets, 1 run each, nothing due"
    assert crowded.inspect.health(before).due == 16
    assert crowded.at(snapshot=before).inspect.health().snapshot == before


def test_a_table_beyond_the_limit_has_what_is_certain(crowded: ts.Table) -> None:
    whole = health(crowded.store, crowded.store.snapshots.latest())
    some = health(crowded.store, crowded.store.snapshots.latest(), most_files=20)
    assert whole.complete
    assert not some.complete
    assert some.due == whole.due
    assert some.verdict.startswith("at least 16 of 16 buckets wait")
    assert set(some.buckets["reason"].to_pylist()) >= {"7 > trigger 5"}


def test_append_tables_wait_for_small_files_to_be_combined(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    table = lake.create_table("d.a", schema={"k": ts.INT}, options={"compaction.min.file-num": 4})
    table = table.with_options(WRITE_ONLY)
    for k in range(3):
        table.write([{"k": k}])
    assert table.inspect.health().verdict == "healthy: 1 bucket, 3 files, nothing due"
    table.write([{"k": 3}])
    health = table.inspect.health()
    assert health.verdict.startswith("1 of 1 bucket waits for compaction; 4 files of ")
    assert health.buckets["due_files"].to_pylist() == [4]
    assert len(table.compact(dry_run=True).busy) == 1


def test_partitions_are_named_and_waiting_files_counted(tmp_path: Path) -> None:
    table = PARTITIONED.create(tmp_path, {"bucket": -2})
    table.write([{"p": "a", "k": 1, "v": "x"}])
    assert table.inspect.health().verdict == "1 file in postponed buckets wait for compaction"
    table.compact()
    health = table.inspect.health()
    assert health.buckets["partition"].to_pylist() == ["p=a"]
    assert health.state == "healthy"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compaction.optimization-interval": "1 h"},
        {"tablestore.compaction.strategy": "leveled"},
    ],
    ids=lambda options: ",".join(options) or "default",
)
def test_every_bucket_has_its_own_decision_also_after_further_commits(
    options: dict[str, object], tmp_path: Path
) -> None:
    table = KEYED.with_options(WRITE_ONLY).create(tmp_path, {"bucket": 6, **options})
    for start in range(6):
        table.write(keys(*range(start, 60 // (start + 1) + start)))
        for at in (None, table.inspect.latest_snapshot_id()):  # of what is kept, and anew
            buckets = (table if at is None else ts.open(table.location)).inspect.health(at).buckets
            decided = {row["bucket"]: row for row in table.inspect.pressure().to_pylist()}
            for row in buckets.to_pylist():
                own = decided[row["bucket"]]
                assert row["due"] == own["due"]
                assert row["reason"] is None or row["reason"] == own["reason"].removeprefix("none: ")
