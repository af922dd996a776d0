"""The doctor finds what is kept for nothing: snapshots, positions, consumers, tags, manifests, files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from tablestore.format.checksums import unsealed
from tablestore.table.table import Table
from tests.insight.doctor.diagnoses import TABLE, doctor, mended, put, the

# what is kept


def stale(path: Path, options: dict[str, Any] | None = None) -> Table:
    """Six snapshots that the options would let go, and bytes that only they need."""
    t = TABLE.create(path, {"write-only": True, "snapshot.num-retained.min": 1, **(options or {})})
    for i in range(6):
        put(t, range(200), v=str(i))
    t.compact(full=True)
    return t.with_options({"snapshot.time-retained": "1 ms"})


def test_snapshots_that_nobody_expires(tmp_path: Path) -> None:
    t = stale(tmp_path, {"snapshot.time-retained": "1 ms"})
    time.sleep(0.005)
    actual = mended(t, "old snapshots")
    assert actual.evidence["beyond_options"] == 6
    assert actual.evidence["kept_bytes"] > 0
    assert "write-only" in actual.what
    assert t.inspect.snapshots()["snapshot_id"].to_pylist() == [7]


def test_positions_of_streams_that_only_an_old_snapshot_knows(tmp_path: Path) -> None:
    t = TABLE.create(
        tmp_path, {"snapshot.num-retained.min": 1, "snapshot.time-retained": "1 ms", "write-only": True}
    )
    put(t, range(10), user="stream", identifier=7)
    for i in range(4):
        put(t, range(10), v=str(i))
        path = Path(t.location) / "snapshot" / f"snapshot-{i + 2}"
        theirs = unsealed(path.read_bytes()).replace(b'"tablestore-1"', b'"2.0.0"')
        path.write_bytes(theirs)  # as if others had written
    time.sleep(0.005)
    actual = mended(t, "stream positions")
    assert (actual.where, actual.evidence["snapshots_kept"]) == ("snapshot 1", 4)
    assert t.position("stream") == (7, None)
    assert t.inspect.snapshots().num_rows == 1


def test_a_consumer_that_stands_still(tmp_path: Path) -> None:
    t = stale(tmp_path, {"snapshot.time-retained": "1 ms"})
    t.consumers.reset("old", 2)
    t.consumers.reset("new", 7)
    path = Path(t.location) / "consumer" / "consumer-old"
    os.utime(path, (time.time() - 90_000,) * 2)
    actual = mended(t, "stale consumer")
    assert (actual.where, actual.evidence["next_snapshot"]) == ("consumer old", 2)
    assert actual.evidence["kept_bytes"] > 0


def test_a_consumer_that_holds_changelogs_only_is_fine(tmp_path: Path) -> None:
    apart = {"consumer.changelog-only": True, "changelog.num-retained.min": 600}
    t = stale(tmp_path, {"snapshot.time-retained": "1 ms", **apart})
    t.consumers.reset("old", 2)
    os.utime(Path(t.location) / "consumer" / "consumer-old", (time.time() - 90_000,) * 2)
    findings = doctor(t)
    assert "stale consumer" not in findings.kinds
    assert the(findings, "old snapshots").evidence["beyond_options"] == 6


def test_a_tag_that_keeps_what_nothing_else_needs(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    put(t, range(500))
    t.tags.create("first", 1)
    t.overwrite(pa.table({"id": pa.array([1], pa.int32()), "v": ["x"], "n": [1]}))
    assert "tag" not in doctor(t).kinds  # snapshot 1 is still there
    t.expire_snapshots(keep=1)
    actual = mended(t, "tag")
    assert actual.remedy == "table.tags.delete('first')"


def test_many_small_manifests(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    for i in range(5):
        put(t, range(5), v=str(i))
    actual = mended(t, "manifests")
    assert actual.evidence["manifests"] > 3
    assert t.inspect.manifests().num_rows == 1
    assert t.compact_manifests().snapshots == ()  # nothing is left to merge


def test_files_that_nothing_names_are_found_by_a_listing(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    put(t, range(5))
    left = next((Path(t.location) / "bucket-0").iterdir()).with_name("data-gone-0.parquet")
    left.write_bytes(b"x" * 10)
    os.utime(left, (time.time() - 90_000,) * 2)
    assert "left-overs" not in doctor(t).kinds
    actual = mended(t, "left-overs", listing=True)
    assert actual.evidence == {"files": 1, "bytes": 10}
    assert not left.exists()
