"""What the doctor prescribes for tables of others, partial compaction, merged manifests: Java reads on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaError, JavaPaimon
from tests.peers.test_golden_goes_on import source

pytestmark = pytest.mark.peer
FIELDS = {"p": "INT NOT NULL", "id": "INT NOT NULL", "v": "STRING"}
SCHEMA = {"p": ts.INT, "id": ts.INT, "v": ts.STRING}
OPTIONS = {"bucket": "2", "snapshot.num-retained.min": "1000"}
ILL = ["java/pk_write_only", "java/pk_levels", "java/pk_postpone", "python/pk_upsert_delete"]
ILL += ["python/pk_first_row", "python/part_pk", "python/pk_changelog_input"]


def rows(start: int, stop: int, v: str) -> list[list[Any]]:
    return [[i % 2, i, v] for i in range(start, stop)]


def arrow(some: list[list[Any]]) -> pa.Table:
    p, ids, v = zip(*some, strict=True)
    return pa.table({"p": pa.array(p, pa.int32()), "id": pa.array(ids, pa.int32()), "v": v})


def ours(t: ts.Table) -> list[list[Any]]:
    rows = t.refresh().scan().to_arrow()
    return in_order(cells(rows, {f.name: f.type for f in t.store.schema.fields}))


@pytest.mark.parametrize("name", ILL)
@pytest.mark.sample(3)
def test_what_is_prescribed_for_tables_of_others_is_read_by_java(
    java: JavaPaimon, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "d.db" / "t"
    shutil.copytree(source(name), path)
    waited = "postpone" in name or "first_row" in name  # rows are not seen before
    before = None if waited else java.rows(str(path))
    mended = []
    for _ in range(6):
        table = ts.open(str(path))
        findings = [f for f in table.inspect.doctor() if f.mends and f.kind not in mended]
        if not findings:
            break
        eval(findings[0].remedy, {"table": table, "ts": ts})
        mended.append(findings[0].kind)
    after = ts.open(str(path))
    assert mended
    assert not [f.kind for f in after.inspect.doctor() if f.mends]
    assert after.check() == []
    assert java.rows(str(path)) == (ours(after) if before is None else before)
    assert ours(after) == java.rows(str(path))


def test_deletes_that_an_engine_refuses_are_found_and_ignored_after_the_call(
    java: JavaPaimon, tmp_path: Path
) -> None:
    path = str(tmp_path / "d.db" / "t")
    java.create(
        path,
        FIELDS,
        primary_keys=["p", "id"],
        partition_keys=["p"],
        options=OPTIONS | {"merge-engine": "partial-update"},
    )
    java.write(path, rows(0, 4, "a"), write_only=True)
    java.write(path, [[0, 2, None]], kinds=["-D"], identifier=1, write_only=True)
    table = ts.open(path)
    with pytest.raises(JavaError, match="can not accept"):
        java.rows(path)
    (actual,) = [f for f in table.inspect.doctor() if f.kind == "refused deletes"]
    assert (actual.severity, actual.evidence["deletes_in_files"]) == ("risk", 1)
    eval(actual.remedy, {"table": table, "ts": ts})
    assert "refused deletes" not in ts.open(path).inspect.doctor().kinds
    assert java.rows(path) == ours(table) == in_order(rows(0, 4, "a"))


def test_a_job_of_its_own_compacts_what_write_only_writers_of_java_left(
    java: JavaPaimon, tmp_path: Path
) -> None:
    path = str(tmp_path / "d.db" / "t")
    options = OPTIONS | {"write-only": "true"}
    java.create(path, FIELDS, primary_keys=["p", "id"], partition_keys=["p"], options=options)
    for i in range(6):
        java.write(path, rows(i, 40, f"java {i}"), identifier=i, write_only=True)
    table = ts.open(path)
    assert {f[1] for f in java.levels(path)} == {0}
    done = table.compact(where=col("p") == 1, full=True)
    assert {p.partition for p in done.picks} == {"p=1"}
    assert java.rows(path) == ours(table)
    table.compact(bucket=[0, 1], where=(col("p") == 0) & (col("id") < 4))
    java.write(path, rows(10, 50, "later"), identifier=6, write_only=True)
    assert java.rows(path) == ours(table)
    table.compact(full=True)
    assert {f[1] for f in java.levels(path)} == {5}
    assert java.rows(path) == ours(table)
    assert table.check() == []


def test_java_compacts_what_our_write_only_writers_left(java: JavaPaimon, tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema=SCHEMA,
        primary_key=["p", "id"],
        partition_by=["p"],
        options=OPTIONS | {"write-only": "true"},
    )
    for i in range(6):
        t.write(arrow(rows(i, 40, f"ours {i}")))
    assert t.inspect.compactions().num_rows == 0
    assert "sorted runs" in t.inspect.doctor().kinds
    java.compact(t.location, user="job", options={"write-only": "false"})
    assert "sorted runs" not in t.inspect.doctor().kinds
    assert t.check() == []
    assert java.rows(t.location) == ours(t) == in_order(cells_of(t))


def cells_of(t: ts.Table) -> list[list[Any]]:
    wanted = {}
    for i in range(6):
        wanted |= {(r[0], r[1]): r for r in rows(i, 40, f"ours {i}")}
    return list(wanted.values())


@pytest.mark.parametrize("force", ["true", "false"])
@pytest.mark.sample(1)
def test_commits_with_force_compact_leave_no_more_runs_than_the_trigger(
    java: JavaPaimon, tmp_path: Path, force: str
) -> None:
    """Ours always waits for its compactions, which is what the option asks of Java."""
    options = OPTIONS | {"commit.force-compact": force, "num-sorted-run.compaction-trigger": "3"}
    theirs = str(tmp_path / "j.db" / "t")
    java.create(theirs, FIELDS, primary_keys=["p", "id"], options=options)
    lake = ts.connect(str(tmp_path))
    t = lake.create_table("d.t", schema=SCHEMA, primary_key=["p", "id"], options=options)
    for i in range(7):
        some = rows(i * 3, 60, f"{i}")
        java.write(theirs, some, identifier=i, wait=True)
        t.write(arrow(some))
        assert most_runs(java.levels(theirs)) <= 3
        assert most_runs(java.levels(t.location)) <= 3
    assert java.rows(theirs) == java.rows(t.location) == ours(t)


def most_runs(levels: list[list[Any]]) -> int:
    """Sorted runs of the fullest bucket."""
    runs = {(b, level, name if level == 0 else "") for b, level, _, _, name in levels}
    return max(sum(r[0] == b for r in runs) for b in (0, 1))


def test_merged_manifests_are_read_by_java_and_javas_by_us(java: JavaPaimon, tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema=SCHEMA, primary_key=["p", "id"], partition_by=["p"], options=OPTIONS
    )
    for i in range(5):
        t.write(arrow(rows(0, 20, f"{i}")))
    before, snapshots = java.rows(t.location), t.inspect.snapshots().num_rows
    t.compact_manifests()
    assert t.inspect.manifests().num_rows == 1
    assert java.snapshot(t.location)["commitKind"] == "COMPACT"
    assert java.rows(t.location) == ours(t) == before
    java.compact_manifests(t.location)
    assert t.inspect.snapshots().num_rows == snapshots + 1, "Java finds nothing left to merge"
    java.write(t.location, rows(0, 3, "java"), identifier=9)
    t.write(arrow(rows(3, 6, "ours")))
    java.compact_manifests(t.location)
    assert t.compact_manifests().snapshots == ()
    assert java.rows(t.location) == ours(t)
    assert t.check() == []
