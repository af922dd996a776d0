"""Changes of a table without a key that has a log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.log.log import FilesBehindLog
from tablestore.write.commit.committer import Committer
from tests.log import held
from tests.table.logged_tables import APPEND, LOG, fails, interleaved, kinds, lake_of
from tests.tables import TableSpec

VALUES = pa.schema(
    {
        "k": pa.int32(),
        "x": pa.float64(),
        "s": pa.string(),
        "n": pa.list_(pa.float64()),
        "at": pa.timestamp("ns"),
    }
)


DELETABLE = TableSpec(VALUES, options={**LOG, "bucket-key": "k", "deletion-vectors.enabled": True})


def values() -> pa.Table:
    """Rows two of which are equal, with NaN and NULL."""
    k, x, s = [1, 2, 2, 3, 4], [0.5, float("nan"), float("nan"), None, -0.0], ["a", "b", "b", None, ""]
    n = [[1.0, None], [float("nan")], [float("nan")], None, []]
    return pa.table({"k": k, "x": x, "s": s, "n": n, "at": [1, 2, 2, None, 5]}, schema=VALUES)


def twice(batch: pa.RecordBatch) -> ts.RowChanges:
    """The first of each row with k = 2 goes, rows with k ≥ 3 get another s."""
    keys = batch["k"].to_pylist()
    deleted, updated = [i for i, k in enumerate(keys) if k == 2][:1], [i for i, k in enumerate(keys) if k > 2]
    rows = batch.take(pa.array(updated, pa.int32()))
    at = rows.schema.get_field_index("s")
    return ts.RowChanges(deleted, updated, rows.set_column(at, "s", pa.array(["new"] * len(updated))))


def test_changes_of_a_table_without_a_key_are_in_its_log(tmp_path: Path) -> None:
    t = DELETABLE.create(tmp_path)
    t.write(values())
    committed = t.change_rows(twice, columns=["s"], inserts=lambda: values().slice(0, 1).to_batches())
    assert not committed.from_log
    assert sorted(kinds(t)) == [0] * 8 + [3] * 3
    t.delete("k = 1")
    assert sorted(kinds(t)) == [0] * 8 + [3] * 5
    assert len(held.rows(t)) == 3
    held.require_prefix(lake_of(tmp_path), t)
    steps = list(t.stream(timeout=0.0, start="earliest"))
    rows = [row for step in steps for row in step.to_arrow().to_pylist()]
    assert sum(1 if row["rowkind"] == "+I" else -1 for row in rows) == 3


def test_a_merge_into_a_table_without_a_key_is_in_its_log(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path, {"deletion-vectors.enabled": True})
    t.write([{"k": k, "v": k} for k in range(3)])
    lake = lake_of(tmp_path)
    lake.create_table("d.s", schema={"k": ts.INT, "v": ts.BIGINT}).write([{"k": k, "v": 9} for k in (2, 3)])
    merge = "MERGE INTO d.t USING d.s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
    lake.sql(merge)
    assert kinds(t) == [0] * 4
    held.require_prefix(lake, t)
    lake.sql(f"{merge} WHEN MATCHED THEN UPDATE SET v = s.v")
    assert sorted(kinds(t)) == [0] * 6 + [3] * 2
    held.require_prefix(lake, t)


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
def test_what_a_kill_left_of_a_change_is_done_from_the_log(
    compacted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = DELETABLE.create(tmp_path)
    t.write(values())
    t.write(values().slice(0, 2))
    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", fails)
        with pytest.raises(FilesBehindLog):
            t.change_rows(twice, columns=["s"])
    assert len(held.rows(t)) == 7
    assert t.log is not None
    if compacted:
        t.compact(full=True)
    assert len(t.log.finish()) == (0 if compacted else 1)
    assert len(held.rows(t)) == 5
    held.require_prefix(lake_of(tmp_path), t)
    assert t.log.finish() == ()


@pytest.mark.parametrize("what", ["insert", "update", "delete", "compact"])
def test_others_change_the_same_table_without_a_key(what: str, tmp_path: Path) -> None:
    t = DELETABLE.create(tmp_path)
    for _ in range(3):
        t.write(values())
    other = lake_of(tmp_path).table("d.t")
    steps: dict[str, Callable[[], object]] = {
        "insert": lambda: other.write(values()),
        "update": lambda: other.update({"s": "other"}, where="k = 3"),
        "delete": lambda: other.delete("k = 3"),
        "compact": lambda: other.compact(full=True),
    }
    with interleaved(steps[what]):
        t.update({"s": "mine"}, where="s = 'b' or k = 3")
    actual = [row["s"] for row in t.scan().to_arrow().to_pylist()]
    assert actual.count("mine") == {"insert": 12, "delete": 6}.get(what, 9)
    held.require_prefix(lake_of(tmp_path), t)


def test_rows_without_a_key_are_removed_only_where_the_log_has_them(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path)
    t.write([{"k": 1, "v": 1}])
    for change in (lambda: t.delete("k = 1"), lambda: t.update({"v": 2}, where="k = 1")):
        with pytest.raises(ts.InvalidRequest, match=r"deletion-vectors\.enabled"):
            change()
    assert kinds(t) == [0]
