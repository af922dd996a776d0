"""What notebook 06 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tablestore as ts


def an_empty_table(on_disk: Callable[..., set[str]]) -> None:
    """An empty table is one file: its schema."""
    assert on_disk() == {"schema/schema-0"}, "an empty table is one file: its schema"


def nothing_was_removed(before: set[str], on_disk: Callable[..., set[str]]) -> None:
    """A commit removes no file."""
    assert before <= on_disk(), "nothing was removed"


def five_files_a_commit(new: Any) -> None:
    """A commit wrote five files."""
    assert len(new) == 5


def the_delta(delta: Any, table: ts.Table) -> None:
    """The delta list names this commit alone."""
    assert [manifest["files_added"] for manifest in delta] == [1], "the delta is this commit alone"
    assert table.inspect.diff(2, 3)["change"].to_pylist().count("added") == 1


def base_then_delta(lists: dict[str, dict[str, Any]], table: ts.Table) -> None:
    """Base and delta lists together name the live files."""
    live: set[str] = set()
    for kind in ("base", "delta"):
        for manifest in table.inspect.list_manifests(lists[kind]["file_name"])["file_name"].to_pylist():
            for entry in table.inspect.entries(manifest).to_pylist():
                (live.add if entry["change"] == "added" else live.discard)(entry["file_name"])
    assert live == set(table.inspect.state()["file_name"].to_pylist()), "base, then delta: the live files"


def removed_is_not_deleted(
    difference: pa.Table,
    table: ts.Table,
    rows_before: pa.Table,
    files_before: set[str],
    on_disk: Callable[..., set[str]],
) -> None:
    """Three files are removed and one is added; all are still on the disk."""
    counts = {
        change: difference["change"].to_pylist().count(change) for change in ("removed", "added", "kept")
    }
    assert counts == {"removed": 3, "added": 1, "kept": 0}
    assert table.scan().to_arrow().sort_by("order_id").equals(rows_before)
    assert files_before < on_disk(below="bucket-0"), "compaction deleted nothing"


def snapshots_by_a_click(table: ts.Table, rows: int, explored: Any) -> None:
    """Old snapshots can be read, and a click shows their files."""
    assert table.at(snapshot=1).scan().count() == rows
    assert explored.snapshot == 2
    assert explored.data().num_rows == 2, "snapshot 2 has two files"


def files_that_expired(
    preview: Any, expired: Any, old: ts.Table, rows: int, rows_before: pa.Table, table: ts.Table
) -> None:
    """One file went, a tag kept its rows, and the tables are sound."""
    assert {kind: files for kind, files, _ in preview.kinds}["data"] == len(expired) == 1
    assert old.inspect.snapshots()["snapshot_id"].to_pylist() == [4]
    assert old.at(tag="before-the-update").scan().count() == rows + rows // 2
    assert old.scan().to_arrow().sort_by("order_id").equals(rows_before), "the newest rows are untouched"
    assert old.check() == table.check() == [], "the table is sound"
