"""A writer that has to wait for compaction says so: in its outcome, in the log, in what is kept, before."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.table.table import Table
from tests.tables import TableSpec

BUFFER = "256 kb"


STALLING = TableSpec(
    {"id": ts.INT, "v": ts.STRING},
    primary_key=("id",),
    options={
        "write-buffer-size": BUFFER,
        "num-sorted-run.compaction-trigger": 2,
        "num-sorted-run.stop-trigger": 2,
    },
)


def batch(seed: int, rows: int = 6_000) -> pa.Table:
    """Rows that fill a write buffer."""
    ids = np.random.default_rng(seed).permutation(rows).astype(np.int32)
    return pa.table({"id": ids, "v": [f"{seed} {'x' * 40}"] * rows})


def write(t: Table, batches: int) -> ts.Committed:
    with t.writer() as w:
        for i in range(batches):
            w.write(batch(i))
    assert w.committed is not None
    return w.committed


def test_a_stall_is_reported_by_the_commit_the_log_and_the_compaction_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    t = STALLING.create(tmp_path)
    with caplog.at_level(logging.WARNING, logger="tablestore"):
        done = write(t, 8)
    (stall,) = done.stalls
    assert (stall.partition, stall.bucket, stall.runs) == ("", 0, 3)
    assert stall.waits >= 2
    assert f"bucket-0 waited {stall.waits} times" in repr(done)
    warnings = [r.getMessage() for r in caplog.records if "waited" in r.getMessage()]
    assert len(warnings) == 1
    assert "write-buffer-size" in warnings[0]
    kept = t.inspect.compactions().select(["stalled", "bucket"]).to_pylist()
    assert sum(r["stalled"] for r in kept) == stall.waits
    assert t.check() == []
    assert t.scan().to_arrow().num_rows == 6_000


def test_a_write_that_did_not_wait_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    t = STALLING.create(tmp_path)
    with caplog.at_level(logging.WARNING, logger="tablestore"):
        done = write(t, 2)
    assert done.stalls == ()
    assert "stalls" not in repr(done)
    assert not caplog.records


def test_writers_that_do_not_compact_never_wait(tmp_path: Path) -> None:
    t = STALLING.create(tmp_path, {"write-only": True})
    assert write(t, 8).stalls == ()
    assert t.inspect.pressure()["flushes_until_stall"].to_pylist() == [0]


def test_stalls_travel_with_the_messages_of_engines(tmp_path: Path) -> None:
    t = STALLING.create(tmp_path)
    engine = t.open_writer(compact=True, buffer_bytes=256 << 10)
    for i in range(8):
        for b in batch(i).to_batches():
            engine.write(b)
    done = t.commit(engine.prepare(), user="job", identifier=1)
    assert [s.bucket for s in done.stalls] == [0]


def test_the_doctor_names_the_trigger_that_would_not_have_let_them_wait(tmp_path: Path) -> None:
    t = STALLING.create(tmp_path)
    write(t, 8)
    (actual,) = [f for f in t.inspect.doctor(stalls=2) if f.kind == "write stalls"]
    assert (actual.evidence["runs"], actual.evidence["stop_trigger"]) == (3, 2)
    eval(actual.remedy, {"table": t, "ts": ts})
    after = t.refresh()
    assert "write stalls" not in after.inspect.doctor(stalls=2).kinds
    assert after.options["num-sorted-run.stop-trigger"] == "4"


def test_pressure_counts_the_flushes_that_are_left(tmp_path: Path) -> None:
    t = STALLING.create(tmp_path, {"num-sorted-run.compaction-trigger": 4, "num-sorted-run.stop-trigger": 6})
    left = []
    for i in range(3):
        t.write(batch(i, 10))
        (row,) = t.inspect.pressure().to_pylist()
        left.append((row["runs"], row["flushes_until_compaction"], row["flushes_until_stall"], row["due"]))
    assert left == [(1, 3, 6, None), (2, 2, 5, None), (3, 1, 4, None)]
    assert "runs 3 < trigger 4" in row["reason"]


def test_the_flushes_that_pressure_promises_do_not_wait_and_the_next_one_does(tmp_path: Path) -> None:
    t = STALLING.create(tmp_path, {"num-sorted-run.compaction-trigger": 4, "num-sorted-run.stop-trigger": 4})
    t.write(batch(0, 10))
    left = t.inspect.pressure()["flushes_until_stall"][0].as_py()
    assert write(t, left).stalls == ()
    t2 = STALLING.create(
        tmp_path / "2", {"num-sorted-run.compaction-trigger": 4, "num-sorted-run.stop-trigger": 4}
    )
    t2.write(batch(0, 10))
    assert len(write(t2, left + 2).stalls) == 1


def test_pressure_says_what_is_due(tmp_path: Path) -> None:
    t = STALLING.create(tmp_path, {"bucket": 2, "num-sorted-run.compaction-trigger": 3})
    idle = t.with_options({"write-only": True})
    for i in range(4):
        idle.write(batch(i, 10))
    rows = t.inspect.pressure().to_pylist()
    assert [(r["bucket"], r["runs"], r["flushes_until_compaction"]) for r in rows] == [(0, 4, 0), (1, 4, 0)]
    assert all(r["due"].startswith("L0×4 → L") for r in rows)
    t.compact()
    assert t.inspect.pressure()["due"].to_pylist() == [None, None]


def test_pressure_of_tables_that_look_keys_up_is_one_flush(tmp_path: Path) -> None:
    t = STALLING.create(tmp_path, {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": 5})
    t.write(batch(0, 10))
    assert t.inspect.pressure()["flushes_until_compaction"].to_pylist() == [1]


def test_append_tables_have_no_pressure(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"id": ts.INT})
    assert t.inspect.pressure().num_rows == 0
