"""What notebook 07 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import tablestore as ts


def three_snapshots(table: ts.Table) -> None:
    """Three writes are three snapshots."""
    assert table.inspect.snapshots().num_rows == 3


def all_at_once(table: ts.Table, rows_before: int, walk: Any) -> None:
    """The commit is seen at its last step, all at once."""
    assert table.scan().count() == rows_before + 10
    assert [step.commit for step in walk.model.steps if step.commit] == ["APPEND"]
    walk.index = len(walk.model.steps) - 2
    assert walk.snapshot == 3, "one step before the end the table is as it was"
    walk.index += 1
    assert walk.snapshot == 4


def both_appends(b: Any, a: Any, race: Any, table: ts.Table, rows_before: int) -> None:
    """Both writers' rows are there; the later one lost one try and tidied up."""
    assert (b.snapshots, b.lost) == ((5,), 0)
    assert (a.snapshots, a.lost) == ((6,), 1)
    assert "removes 2 files of its own" in [step.title for step in race.steps], "its two manifest lists"
    assert table.scan().count() == rows_before + 30, "both writers' rows are there"


def the_second_compaction(refused: Any, merging: Any, table: ts.Table, before: pa.Table) -> None:
    """It is refused, names who was in the way and leaves nothing behind."""
    assert refused.kind == "refused"
    assert refused.against == merging.outcome("B").snapshots[0]
    assert "deleted twice" in refused.message
    assert table.scan().to_arrow().sort_by("order_id").equals(before), "no row changed"
    assert table.remove_orphans("0 s", force=True).files == (), "A left nothing behind"


def compaction_and_append(busy: Any, read: Any, table: ts.Table) -> None:
    """Both go through, and the newer row wins."""
    assert busy.outcome("A").kind == "committed"
    assert read == "paid twice", "the newer row wins"
    assert sorted(table.inspect.levels()["level"].to_pylist()) == [0, 5]


def compaction_and_delete(marking: Any, events: ts.Table) -> None:
    """The compaction is refused, and what was deleted stays deleted."""
    assert "deleted meanwhile" in marking.outcome("A").message
    assert events.scan().count() == 300 - 9, "what B deleted stays deleted"


def delete_and_compaction(late: Any, events: ts.Table) -> None:
    """The late delete looks again and goes through."""
    assert late.outcome("A").kind == "committed"
    assert events.scan().count() == 300 - 19


def the_overwrite(table: ts.Table) -> None:
    """The overwrite comes last and replaces all."""
    assert table.scan().count() == 10
    commits = table.inspect.commits()["commit_kind"].to_pylist()
    assert commits[-2:] == ["APPEND", "OVERWRITE"]


def sound(table: ts.Table, events: ts.Table) -> None:
    """Both tables are sound."""
    assert table.check() == []
    assert events.check() == []
