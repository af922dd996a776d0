"""What takes long is told: to a callback piece by piece, as a bar on a terminal, now and then in the log."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.write.progress import Progress
from tests.faults import SimEnv

Heard = list[tuple[str, float, float, str]]


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


def test_a_compaction_tells_each_bucket_in_bytes(tmp_path: Path) -> None:
    t = table(tmp_path)
    size = sum(t.inspect.files()["file_size_in_bytes"].to_pylist())
    heard: Heard = []
    t.compact(full=True, tell=lambda *said: heard.append(said))
    assert {said[0] for said in heard} == {"compaction"}
    assert {said[2] for said in heard} == {size}
    assert [said[3] for said in heard] == ["", "p=0/bucket-0", "p=1/bucket-0"]
    done = [said[1] for said in heard]
    assert done == sorted(done)
    assert done[-1] == size


def test_small_files_that_are_combined_are_told_too(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"id": ts.INT})
    for i in range(3):
        t.write(pa.table({"id": pa.array([i], pa.int32())}))
    heard: Heard = []
    t.compact(full=True, tell=lambda *said: heard.append(said))
    assert heard[-1][1] == heard[-1][2] > 0


def test_an_expiry_tells_the_files_that_go(tmp_path: Path) -> None:
    t = table(tmp_path)
    t.compact(full=True)
    heard: Heard = []
    gone = t.expire_snapshots(keep=1, tell=lambda *said: heard.append(said))
    assert heard[-1][:2] == ("expiry", heard[-1][2])
    assert 0 < heard[-1][2] <= len(gone.files)
    assert any(said[3].startswith("data-") for said in heard)


def test_a_bar_is_one_line_that_grows(tmp_path: Path) -> None:
    out = io.StringIO()
    table(tmp_path).compact(full=True, tell=ts.text_bar(out))
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
