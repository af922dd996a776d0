"""`check` looks beside the data files: vectors, hash indexes, row ids, branches, statistics, changelogs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.manifests import index_manifest
from tablestore.format.manifests import manifest as manifest_format
from tablestore.format.manifests.index_manifest import IndexEntry, IndexFileMeta
from tablestore.insight.check.findings import CheckFindings
from tablestore.insight.check.index import IndexCheck
from tests.read import golden


def copied(tmp_path: Path, table: str) -> ts.Table:
    where = tmp_path / "j.db" / table
    shutil.copytree(golden.JAVA / "warehouse" / "j.db" / table, where)
    created = ts.open(str(where))
    assert created.check() == []
    return created


def found(table: ts.Table) -> set[str]:
    return {v.invariant for v in ts.open(table.location).check()}


def edit_index(table: ts.Table, change: Callable[[list[IndexEntry]], list[IndexEntry]]) -> None:
    """Rewrite the newest index manifest."""
    snapshot = table.store.snapshots.latest()
    path = Path(table.store.paths.manifest(snapshot.index_manifest))
    entries = change(index_manifest.decode(path.read_bytes(), str(path)))
    path.write_bytes(index_manifest.encode(entries, "none"))


def _foreign(f: IndexFileMeta) -> IndexFileMeta:
    return replace(
        f, dv_ranges=(replace(f.dv_ranges[0], data_file="data-of-nobody.parquet"), *f.dv_ranges[1:])
    )


def _miscounted(f: IndexFileMeta) -> IndexFileMeta:
    return replace(f, dv_ranges=(replace(f.dv_ranges[0], cardinality=10_000), *f.dv_ranges[1:]))


INDEXES = {
    "a vector of a file that is not live": (
        "append_deletion_vectors",
        lambda es: [replace(es[0], file=_foreign(es[0].file)), *es[1:]],
        "I6",
    ),
    "two vectors of one file": ("append_deletion_vectors", lambda es: [*es, es[0]], "I6"),
    "a bucket without index": ("pk_dynamic_bucket", lambda es: es[1:], "I10"),
}


@pytest.mark.parametrize("what", INDEXES)
def test_what_is_wrong_in_an_index_manifest_is_found(tmp_path: Path, what: str) -> None:
    name, change, invariant = INDEXES[what]
    table = copied(tmp_path, name)
    edit_index(table, change)
    assert found(table) == {invariant}


def test_a_vector_of_other_rows_than_promised_is_found(tmp_path: Path) -> None:
    table = copied(tmp_path, "pk_deletion_vectors")
    edit_index(table, lambda es: [replace(es[0], file=_miscounted(es[0].file)), *es[1:]])
    assert "I8" in found(table)


def test_a_flipped_bit_of_a_vector_is_found(tmp_path: Path) -> None:
    table = copied(tmp_path, "pk_deletion_vectors")
    for path in (Path(table.location) / "index").iterdir():
        data = bytearray(path.read_bytes())
        if len(data) < 12:
            continue  # a container without vectors
        data[-6] ^= 1
        path.write_bytes(bytes(data))
    assert found(table) == {"I8"}


@pytest.mark.parametrize("table", ["pk_dynamic_bucket", "pk_deletion_vectors"])
def test_an_index_file_that_is_gone_or_of_another_size_is_found(tmp_path: Path, table: str) -> None:
    created = copied(tmp_path, table)
    entry = created.store.manifests.index_entries(created.store.snapshots.latest())[0]
    path = Path(created.store.paths.index(entry.file.file_name))
    path.write_bytes(path.read_bytes() + bytes(4))
    assert "I2" in found(created)
    path.unlink()
    assert "I2" in found(created)


def test_keys_outside_the_index_of_their_bucket_are_found(tmp_path: Path) -> None:
    table = copied(tmp_path, "pk_dynamic_bucket")
    entry = table.store.manifests.index_entries(table.store.snapshots.latest())[0]
    path = Path(table.store.paths.index(entry.file.file_name))
    path.write_bytes(bytes(len(path.read_bytes())))
    assert found(table) == {"I10"}


def test_row_ids_that_overlap_or_reach_too_far_are_found(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT}, options={"row-tracking.enabled": True}
    )
    for _ in range(2):
        table.write(pa.table({"k": pa.array([1, 2], pa.int32())}))
    assert table.check() == []
    path = Path(table.store.paths.snapshot(2))
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "nextRowId": 3}))
    assert found(table) == {"I8"}


def test_two_files_of_one_first_row_id_are_found(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT}, options={"row-tracking.enabled": True}
    )
    for _ in range(2):
        table.write(pa.table({"k": pa.array([1, 2], pa.int32())}))
    store, snapshot, findings = table.store, table.store.snapshots.latest(), CheckFindings()
    entries = [
        replace(e, file=replace(e.file, first_row_id=0)) for e in store.manifests.live_entries(snapshot)
    ]
    IndexCheck(store, findings).snapshot("snapshot-2", snapshot, entries)
    assert [(v.invariant, v.where) for v in findings.violations] == [("I8", "snapshot-2")]


def test_what_a_branch_misses_is_found_under_its_name(tmp_path: Path) -> None:
    table = copied(tmp_path, "branch_tags")
    side = table.branch("b1")
    snapshot = side.store.snapshots.latest()
    Path(side.store.paths.manifest(snapshot.delta_manifest_list)).unlink()
    violations = [v for v in ts.open(table.location).check() if v.where.startswith("branch b1: ")]
    assert {v.invariant for v in violations} >= {"I2"}


def test_statistics_that_are_gone_are_found(tmp_path: Path) -> None:
    table = copied(tmp_path, "analyzed")
    for path in (Path(table.location) / "statistics").iterdir():
        path.unlink()
    assert found(table) == {"I2"}


def test_a_damaged_key_is_reported_with_its_manifest_and_the_rest_is_checked(tmp_path: Path) -> None:
    table = copied(tmp_path, "pk_levels")
    store = table.store
    meta = store.manifests.manifests(store.snapshots.latest())[0]
    path = Path(store.paths.manifest(meta.file_name))
    entries = manifest_format.decode_entries(path.read_bytes(), str(path))
    entries[0] = replace(entries[0], file=replace(entries[0].file, min_key=b"\0\0\0\7"))
    path.write_bytes(manifest_format.encode_entries(entries, "none"))
    violations = ts.open(table.location).check()
    assert any(v.invariant == "I2" and v.where == str(path) for v in violations)
    assert not any("the check stopped" in v.text for v in violations)
