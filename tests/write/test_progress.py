"""What takes long is told: to a callback piece by piece, as a bar on a terminal, now and then in the log."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.write.progress import Progress
from tests.faults import SimEnv

Reports = list[tuple[str, float, float, str]]


def table(path: Path, **options: object) -> ts.Table:
    t = ts.connect(str(path)).create_table(
        "d.t",
        schema={"p": ts.INT, "id": ts.INT},
        primary_key=["p", "id"],
        partition_by=["p"],
        options={"write-only": True, "snapshot.num-retained.min": 1, **options},
    )
    for i in range(3):
        ids = pa.array(range(i, 20), pa.int32())
        t.write(pa.table({"p": pa.array([k % 2 for k in range(i, 20)], pa.int32()), "id": ids}))
    return t


def test_a_compaction_reports_each_bucket_in_bytes(tmp_path: Path) -> None:
    t = table(tmp_path)
    size = sum(t.inspect.files()["file_size_in_bytes"].to_pylist())
    reports: Reports = []
    t.compact(full=True, progress=lambda *said: reports.append(said))
    assert {said[0] for said in reports} == {"compaction"}
    assert {said[2] for said in reports} == {size}
    assert [said[3] for said in reports] == ["", "p=0/bucket-0", "p=1/bucket-0"]
    done = [said[1] for said in reports]
    assert done == sorted(done)
    assert done[-1] == size


@pytest.mark.parametrize("keyed", [True, False])
def test_a_large_bucket_is_reported_while_it_is_rewritten(tmp_path: Path, keyed: bool) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"id": ts.INT},
        primary_key=["id"] if keyed else [],
        options={"write-only": True, **({"bucket": 1} if keyed else {})},
    )
    chance = np.random.default_rng(1)
    for _ in range(3):
        t.write(pa.table({"id": chance.integers(0, 1 << 30, 500_000).astype(np.int32)}))
    size = sum(t.inspect.files()["file_size_in_bytes"].to_pylist())
    reports: Reports = []
    t.compact(full=True, progress=lambda *said: reports.append(said))
    done = [said[1] for said in reports]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(size)
    assert 5 < len(reports) < 210
    assert sum(0.1 < d / size < 0.9 for d in done) >= 3


def test_what_raises_in_the_midst_of_a_bucket_leaves_nothing(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"id": ts.INT}, primary_key=["id"], options={"bucket": 1, "write-only": True}
    )
    chance = np.random.default_rng(1)
    for _ in range(2):
        t.write(pa.table({"id": chance.integers(0, 1 << 30, 500_000).astype(np.int32)}))
    before = sorted(p.name for p in tmp_path.rglob("data-*"))

    def stop(step: str, done: float, total: float, note: str) -> None:
        if 0 < done < total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        t.compact(full=True, progress=stop)
    assert sorted(p.name for p in tmp_path.rglob("data-*")) == before
    assert t.check() == []


def test_small_files_that_are_combined_are_reported_too(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"id": ts.INT})
    for i in range(3):
        t.write(pa.table({"id": pa.array([i], pa.int32())}))
    reports: Reports = []
    t.compact(full=True, progress=lambda *said: reports.append(said))
    assert reports[-1][1] == reports[-1][2] > 0


def test_an_expiry_reports_the_files_it_deletes(tmp_path: Path) -> None:
    t = table(tmp_path)
    t.compact(full=True)
    reports: Reports = []
    gone = t.expire_snapshots(keep=1, progress=lambda *said: reports.append(said))
    assert reports[-1][:2] == ("expiry", reports[-1][2])
    assert 0 < reports[-1][2] <= len(gone.files)
    assert any(said[3].startswith("data-") for said in reports)


def test_a_bar_is_one_line_that_grows(tmp_path: Path) -> None:
    out = io.StringIO()
    table(tmp_path).compact(full=True, progress=ts.text_bar(out))
    lines = out.getvalue().split("\r")
    assert lines[1].startswith("compaction [                        ]   0%")
    assert "p=0/bucket-0" in lines[2]
    assert lines[-1].rstrip(" ").startswith(f"compaction [{'#' * 24}] 100%")
    assert out.getvalue().endswith("\n")
    assert out.getvalue().count("\n") == 1


def test_a_line_of_the_log_every_two_seconds(caplog: pytest.LogCaptureFixture) -> None:
    env = SimEnv()
    progress = Progress(env, "compaction", 10, None)
    with caplog.at_level(logging.INFO, logger="tablestore"):
        for i in range(10):
            env.sleep(0.5)
            progress.add(1, f"bucket-{i}")
    assert [r.getMessage() for r in caplog.records] == [
        "compaction: 40 %, bucket-3",
        "compaction: 80 %, bucket-7",
    ]
