"""Table.change_rows: rows deleted, updated and inserted in one commit, in tables of every kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts

KINDS = {
    "keyed": {"primary_key": ["k"], "options": {"bucket": 2, "changelog-producer": "input"}},
    "append": {"options": {"deletion-vectors.enabled": True}},
    "counted": {"options": {"write-mode": "change-log", "bucket": 1}},
}
ROWS = {"k": [1, 2, 3, 4, 5, 6], "v": [10, 20, 30, 40, 50, 60]}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path) -> ts.Table:
    lake = ts.connect(tmp_path)
    table = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, **KINDS[request.param])
    table.write(ROWS)
    return table


def change(batch: pa.RecordBatch) -> ts.RowChanges:
    """Rows whose key divides by 3 go, the even ones are doubled."""
    keys = np.asarray(batch["k"])
    deleted, updated = np.flatnonzero(keys % 3 == 0), np.flatnonzero((keys % 2 == 0) & (keys % 3 != 0))
    rows = batch.take(pa.array(updated))
    doubled = pa.compute.multiply(rows["v"], 2)
    at = rows.schema.get_field_index("v")
    return ts.RowChanges(deleted, updated, rows.set_column(at, "v", doubled.cast("int32")))


def inserted() -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"k": [7, 8], "v": [70, 80]})


def rows_of(table: ts.Table) -> dict[int, int]:
    rows = table.refresh().scan().to_arrow()
    assert rows.num_rows == len(set(rows["k"].to_pylist()))
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


def test_deletes_updates_and_inserts_are_one_commit(table: ts.Table) -> None:
    committed = table.change_rows(change, columns=["v"], inserts=inserted)
    assert rows_of(table) == {1: 10, 2: 40, 4: 80, 5: 50, 7: 70, 8: 80}
    added = [s["snapshot_id"] for s in table.refresh().inspect.snapshots().to_pylist()][1:]
    assert len(added) == 1
    assert list(committed.snapshots) == added
    assert table.refresh().check() == []


def test_a_condition_chooses_what_is_looked_at(table: ts.Table) -> None:
    seen: list[int] = []

    def note(batch: pa.RecordBatch) -> ts.RowChanges:
        seen.extend(batch["k"].to_pylist())
        return ts.RowChanges(deleted=range(batch.num_rows))

    table.change_rows(note, where="v > 40")
    assert sorted(seen) == [5, 6]
    assert sorted(rows_of(table)) == [1, 2, 3, 4]


def test_no_change_is_no_snapshot(table: ts.Table) -> None:
    assert table.change_rows(lambda batch: ts.RowChanges()).snapshots == ()
    assert rows_of(table) == dict(zip(*ROWS.values(), strict=True))


def test_an_error_of_the_change_leaves_the_table_as_it_was(table: ts.Table) -> None:
    def fail() -> Iterator[pa.RecordBatch]:
        yield from inserted()
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        table.change_rows(change, inserts=fail)
    assert rows_of(table) == dict(zip(*ROWS.values(), strict=True))
    assert table.refresh().remove_orphans(older_than="0s", dry_run=True, force=True).files == ()


def test_a_changelog_says_what_became_of_each_row(tmp_path) -> None:
    lake = ts.connect(tmp_path)
    table = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, **KINDS["keyed"])
    table.write(ROWS)
    table.change_rows(change, columns=["v"], inserts=inserted)
    changes = table.refresh().changes(since=1).to_pylist()
    got = sorted((row["k"], row["rowkind"], row["v"]) for row in changes)
    updates = [(2, "-U", 20), (2, "+U", 40), (4, "-U", 40), (4, "+U", 80)]
    assert got == sorted([(3, "-D", 30), (6, "-D", 60), *updates, (7, "+I", 70), (8, "+I", 80)])


def test_columns_that_cannot_be_set_are_refused(table: ts.Table) -> None:
    with pytest.raises(ts.NotFound, match="column 'w'"):
        table.change_rows(change, columns=["w"])
    if table.primary_key:
        with pytest.raises(ts.InvalidRequest, match="'k' is part of the primary key"):
            table.change_rows(change, columns=["k"])


@pytest.mark.parametrize(
    ("function", "type", "more", "refused"),
    [
        ("sum", ts.INT, {}, False),
        ("last_value", ts.INT, {}, False),
        ("last_non_null_value", ts.INT, {}, False),
        ("product", ts.INT, {}, True),
        ("sum", ts.INT, {"fields.v.ignore-retract": "true"}, True),
        ("max", ts.INT, {"fields.v.ignore-retract": "true"}, True),
        ("collect", ts.ARRAY(ts.INT), {}, True),
        ("merge_map", ts.MAP(ts.INT, ts.INT), {}, True),
    ],
)
def test_an_update_of_what_is_aggregated_is_right_or_refused(
    tmp_path, function: str, type: object, more: dict[str, str], refused: bool
) -> None:
    """Also where another column is set: −U and +U of one commit fold before they meet the stored row."""
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": function, **more}
    table = ts.connect(tmp_path).create_table(
        "d.t", schema={"k": ts.INT, "v": type, "w": ts.INT}, primary_key=["k"], options=options
    )
    value = {"collect": [1], "merge_map": [(1, 1)]}.get(function, 10)
    table.write([{"k": 1, "v": value, "w": 1}])
    if refused:
        for values in ({"w": 2}, {"v": value}):
            with pytest.raises(ts.InvalidRequest, match=f"cannot replace what '{function}' of column 'v'"):
                table.refresh().update(values, where="k = 1")
        assert table.refresh().scan().count() == 1
        return
    table.update({"v": 7}, where="k = 1")
    assert table.get({"k": 1})["v"] == 7
    table.refresh().update({"w": 5}, where="k = 1")
    assert table.get({"k": 1}) == {"k": 1, "v": 7, "w": 5}
    table.compact(full=True)
    assert table.refresh().get({"k": 1}) == {"k": 1, "v": 7, "w": 5}


def test_what_came_meanwhile_is_changed_too(table: ts.Table) -> None:
    other = table.refresh()
    asked: list[int] = []

    def add_one(batch: pa.RecordBatch) -> ts.RowChanges:
        if not asked:
            other.update({"v": 100}, where="k = 2")
        asked.append(batch.num_rows)
        after = batch.set_column(1, "v", pa.compute.add(batch["v"], 1).cast("int32"))
        return ts.RowChanges(updated=range(batch.num_rows), rows=after)

    table.change_rows(add_one, where="k = 2", columns=["v"])
    assert len(asked) == 2
    assert rows_of(table) == {**dict(zip(ROWS["k"], ROWS["v"], strict=True)), 2: 101}
    assert table.check() == []


def test_a_row_that_never_stays_is_a_conflict(table: ts.Table) -> None:
    other = table.refresh()

    def always_late(batch: pa.RecordBatch) -> ts.RowChanges:
        other.write({"k": [2], "v": [7]}) if table.primary_key else other.update({"v": 7}, where="k = 2")
        return ts.RowChanges(deleted=range(batch.num_rows))

    with pytest.raises(ts.CommitConflict, match=r"do it again|deleted meanwhile"):
        table.change_rows(always_late, where="k = 2", columns=["v"])
    assert rows_of(table)[2] == 7
    assert table.check() == []


def test_changes_of_another_bucket_are_no_conflict(tmp_path) -> None:
    lake = ts.connect(tmp_path)
    schema, by_day = (
        {"day": ts.INT, "k": ts.INT, "v": ts.INT},
        {"partition_by": ["day"], "options": {"bucket": 1}},
    )
    t = lake.create_table("d.t", schema=schema, primary_key=["day", "k"], **by_day)
    t.write({"day": [1, 2], "k": [1, 1], "v": [0, 0]})
    asked: list[int] = []

    def change_one(batch: pa.RecordBatch) -> ts.RowChanges:
        asked.append(batch.num_rows)
        t.refresh().write({"day": [2], "k": [1], "v": [5]})
        return ts.RowChanges(deleted=range(batch.num_rows))

    t.change_rows(change_one, where="day = 1", columns=["v"])
    assert asked == [1]
    assert t.refresh().scan().to_arrow().to_pylist() == [{"day": 2, "k": 1, "v": 5}]
