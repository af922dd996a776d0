"""Names that keep snapshots, files that deletion vectors mask, and looking at a snapshot only a tag keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.table.table import Table
from tests.tables import KEYED, WRITE_ONLY

UNCOMPACTED = KEYED.with_options(WRITE_ONLY)


def write(table: Table, keys: range) -> None:
    table.write({"k": list(keys), "v": ["x"] * len(keys)})


def test_references_name_the_snapshot_of_tags_and_branches(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    for at in range(3):
        write(table, range(at * 10, at * 10 + 10))
    table.tags.create("early", snapshot=1)
    table.branches.create("empty")
    table.branches.create("trial", tag="early")
    write(table.branch("trial"), range(90, 95))
    table.expire_snapshots(keep=2)
    references = table.inspect.references().to_pylist()
    assert [(r["kind"], r["name"], r["snapshot_id"], r["in_history"]) for r in references] == [
        ("tag", "early", 1, False),
        ("branch", "empty", None, False),
        ("branch", "trial", 1, False),
    ]
    assert references[0]["commit_kind"] == "APPEND"
    assert references[0]["record_count"] == 10


def test_a_tagged_snapshot_can_be_inspected_after_it_expired(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    for at in range(3):
        write(table, range(at * 10, at * 10 + 10))
    table.tags.create("early", snapshot=1)
    table.expire_snapshots(keep=1)
    assert table.inspect.levels(1)["rows"].to_pylist() == [10]
    with pytest.raises(ts.NotFound):
        table.inspect.levels(2)


def test_levels_show_how_many_rows_a_deletion_vector_removes(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path, {"deletion-vectors.enabled": True, "write-only": False})
    write(table, range(100))
    table.compact(full=True)
    write(table, range(7))
    masked = {r["level"]: r["masked_rows"] for r in table.inspect.levels().to_pylist()}
    assert masked[max(masked)] == 7
