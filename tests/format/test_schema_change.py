"""Changes of schemas: what they make, what they refuse, and that ids are never used again."""

from __future__ import annotations

from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import (
    AlreadyExists,
    InvalidOption,
    InvalidRequest,
    NotFound,
    SchemaMismatch,
    Unsupported,
)
from tablestore.format import schema_change as sc
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField, DataType
from tests.tables import schema_of

COLUMNS = {
    "k": ts.INT,
    "a": ts.INT,
    "r": ts.ROW(x=ts.INT, y=ts.STRING),
    "l": ts.ARRAY(ts.ROW(p=ts.INT)),
    "m": ts.MAP(ts.STRING, ts.ROW(q=ts.INT)),
    "dt": ts.DATE,
}


def table(columns: dict[str, DataType] = COLUMNS, **options: str) -> TableSchema:
    stored = {"bucket": "2", **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}}
    return schema_of(columns, primary_key=("k", "dt"), partition_by=("dt",), options=stored)


def changed(*changes: sc.Change, of: TableSchema | None = None, snapshots: bool = True) -> TableSchema:
    return sc.apply(of or table(), changes, has_snapshots=snapshots, time_millis=7)


def names(schema: TableSchema, *within: str) -> list[str]:
    fields: Any = schema.fields
    for name in within:
        fields = next(f for f in fields if f.name == name).type.children
    return [f.name for f in fields]


def test_a_change_makes_the_next_schema_and_leaves_the_old_one() -> None:
    before = table()
    after = changed(ts.add("c", ts.STRING, comment="new", default="x"), of=before)
    assert (after.id, after.time_millis, after.highest_field_id) == (1, 7, before.highest_field_id + 1)
    assert after.by_name["c"] == DataField(before.highest_field_id + 1, "c", ts.STRING, "new", "x")
    assert before == table()


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({}, ["k", "a", "r", "l", "m", "dt", "c"]),
        ({"last": True}, ["k", "a", "r", "l", "m", "dt", "c"]),
        ({"first": True}, ["c", "k", "a", "r", "l", "m", "dt"]),
        ({"after": "a"}, ["k", "a", "c", "r", "l", "m", "dt"]),
        ({"before": "a"}, ["k", "c", "a", "r", "l", "m", "dt"]),
    ],
)
def test_a_new_column_goes_where_the_change_says(place: dict[str, Any], expected: list[str]) -> None:
    assert names(changed(ts.add("c", ts.INT, **place))) == expected
    moved = changed(ts.add("c", ts.INT), ts.move("c", **(place or {"last": True})))
    assert names(moved) == expected


def test_a_new_column_may_go_before_the_partition_columns_by_option() -> None:
    of = table(add_column_before_partition="true")
    assert names(changed(ts.add("c", ts.INT), of=of)) == ["k", "a", "r", "l", "m", "c", "dt"]


def test_a_new_nested_column_takes_the_next_id_before_its_fields() -> None:
    before = table()
    n = before.highest_field_id
    f = changed(ts.add("c", ts.ARRAY(ts.ROW(u=ts.INT, v=ts.ROW(w=ts.INT)))), of=before).by_name["c"]
    row = f.type.element
    assert (f.id, [g.id for g in row.children], row.children[1].type.children[0].id) == (
        n + 1,
        [n + 2, n + 4],
        n + 3,
    )


def test_fields_within_rows_arrays_and_maps_change_by_their_path() -> None:
    after = changed(
        ts.add("r.z", ts.DATE, before="y"),
        ts.rename("l.element.p", "pp"),
        ts.retype(("m", "value", "q"), ts.BIGINT),
        ts.drop("r.x"),
        ts.comment("r.y", "said"),
        ts.not_null("r.z"),
        of=table(alter_column_null_to_not_null__disabled="false"),
    )
    assert names(after, "r") == ["z", "y"]
    assert names(after, "l", "element") == ["pp"]
    assert after.by_name["m"].type.children[1].type.children[0].type == ts.BIGINT
    assert after.by_name["r"].type.children[1].description == "said"
    assert not after.by_name["r"].type.children[0].type.nullable


def test_a_row_is_retyped_field_by_field() -> None:
    before = table()
    wanted = ts.ROW(y=ts.STRING, z=ts.ROW(w=ts.INT))
    after = changed(ts.retype("r", wanted), ts.retype("l", ts.ARRAY(ts.ROW(p=ts.BIGINT))), of=before)
    y, z = after.by_name["r"].type.children
    assert (y.id, z.id) == (before.by_name["r"].type.children[1].id, before.highest_field_id + 1)
    assert z.type.children[0].id == before.highest_field_id + 2
    assert after.by_name["l"].type.element.children[0] == DataField(
        before.by_name["l"].type.element.children[0].id, "p", ts.BIGINT
    )


def test_values_of_a_map_are_retyped_whether_or_not_its_keys_say_not_null() -> None:
    of = table({"k": ts.INT, "m": ts.MAP(ts.STRING.not_null(), ts.INT), "dt": ts.DATE})
    after = changed(ts.retype("m", ts.MAP(ts.STRING, ts.BIGINT)), of=of)
    assert after.by_name["m"].type == ts.MAP(ts.STRING.not_null(), ts.BIGINT)


def test_a_dropped_name_comes_back_as_another_column() -> None:
    before = table()
    after = changed(ts.drop("a"), ts.add("a", ts.INT), of=before)
    assert after.by_name["a"].id == before.highest_field_id + 1 != before.by_name["a"].id


def test_two_columns_can_change_names() -> None:
    of = table({"k": ts.INT, "a": ts.INT, "b": ts.INT, "dt": ts.DATE})
    after = changed(ts.rename("a", "c"), ts.rename("b", "a"), ts.rename("c", "b"), of=of)
    assert [(f.id, f.name) for f in after.fields] == [(0, "k"), (1, "b"), (2, "a"), (3, "dt")]


def test_keys_and_options_follow_a_rename() -> None:
    options = {
        "bucket-key": "k",
        "sequence.field": "a,s",
        "fields.a.aggregate-function": "max",
        "fields.a,s.sequence-group": "b,a",
        "fields.b.ignore-retract": "true",
        "file-index.bloom-filter.columns": "a, b",
        "file-index.bloom-filter.a.fpp": "0.1",
        "record-level.time-field": "a",
        "other": "a",
    }
    of = table({"k": ts.INT, "a": ts.INT, "b": ts.INT, "s": ts.INT, "dt": ts.DATE}).with_options(options)
    after = changed(ts.rename("a", "z"), ts.rename("k", "id"), of=of)
    assert after.primary_keys == ("id", "dt")
    assert dict(after.options) == {
        "bucket": "2",
        "bucket-key": "id",
        "sequence.field": "z,s",
        "fields.z.aggregate-function": "max",
        "fields.z,s.sequence-group": "b,z",
        "fields.b.ignore-retract": "true",
        "file-index.bloom-filter.columns": "z, b",
        "file-index.bloom-filter.z.fpp": "0.1",
        "record-level.time-field": "z",
        "other": "a",
    }


def test_a_column_that_options_name_goes_only_with_them() -> None:
    of = table().with_options({"sequence.field": "a"})
    with pytest.raises(InvalidOption, match=r"'sequence\.field' names 'a'"):
        changed(ts.drop("a"), of=of)
    assert "a" not in changed(ts.drop("a"), ts.reset_options("sequence.field"), of=of).by_name


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (ts.add("c", ts.INT.not_null()), SchemaMismatch, "NOT NULL"),
        (ts.add("a", ts.INT), AlreadyExists, "'a'"),
        (ts.add("r.x", ts.INT), AlreadyExists, r"r\.x"),
        (ts.add("_KEY_a", ts.INT), SchemaMismatch, "reserved"),
        (ts.add("c", ts.INT, after="x"), NotFound, "'x'"),
        (ts.add("c", ts.INT, default="abc"), SchemaMismatch, "abc"),
        (ts.add("l.p", ts.INT), NotFound, "l"),
        (ts.drop("k"), InvalidRequest, "key"),
        (ts.drop("dt"), InvalidRequest, "key"),
        (ts.drop("aa"), NotFound, "mean 'a'|mean a"),
        (ts.drop("l.element.p"), InvalidRequest, "last field"),
        (ts.drop("l.element"), NotFound, "not a ROW"),
        (ts.rename("dt", "day"), InvalidRequest, "partition column"),
        (ts.rename("a", "k"), AlreadyExists, "'k'"),
        (ts.retype("k", ts.BIGINT), InvalidRequest, "key"),
        (ts.retype("dt", ts.STRING), InvalidRequest, "key"),
        (ts.retype("a", ts.DATE), InvalidRequest, "no such cast"),
        (ts.retype("m", ts.MAP(ts.INT, ts.INT)), InvalidRequest, "keys of map"),
        (ts.retype("r", ts.ROW(y=ts.STRING, x=ts.INT)), InvalidRequest, "order"),
        (ts.retype("r", ts.INT), InvalidRequest, "no such cast"),
        (ts.nullable("k"), InvalidRequest, "primary key"),
        (ts.not_null("a"), InvalidRequest, "alter-column-null-to-not-null"),
        (ts.move("a", after="a"), InvalidRequest, "itself"),
        (ts.set_options({"bucket-key": "k"}), InvalidOption, "bucket-key"),
        (ts.set_options({"merge-engine": "first-row"}), InvalidOption, "merge-engine"),
        (ts.set_options({"bucket": -1}), InvalidOption, "bucket"),
        (ts.set_options({"bucket": "many"}), InvalidOption, "whole number"),
        (ts.set_options({"merge-enginee": "x"}), InvalidOption, "merge-engine"),
        (ts.set_options({"primary-key": "a"}), InvalidOption, "primary-key"),
        (ts.set_options({"type": "format-table"}), Unsupported, "type"),
        (ts.set_options({"deletion-vectors.enabled": True}), InvalidOption, "modifiable"),
        (ts.set_options({"write-mode": "append-only"}), InvalidOption, "primary key"),
        (ts.set_options({"partition.default-name": "none"}), InvalidOption, "default-name"),
        (ts.reset_options("bucket"), InvalidOption, "bucket"),
        (ts.comment("nothing", "x"), NotFound, "nothing"),
    ],
    ids=lambda p: repr(p) if isinstance(p, sc.Change) else None,
)
def test_what_a_table_cannot_take_is_refused(change: sc.Change, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        changed(change)


def test_not_every_cast_is_taken_when_only_wider_types_are_allowed() -> None:
    of = table(disable_explicit_type_casting="true")
    assert changed(ts.retype("a", ts.BIGINT), of=of).by_name["a"].type == ts.BIGINT
    with pytest.raises(InvalidRequest, match="disable-explicit-type-casting"):
        changed(ts.retype("a", ts.STRING), of=of)


def test_null_is_allowed_or_not_whatever_the_new_type_says() -> None:
    of = table({"k": ts.INT, "a": ts.INT.not_null(), "dt": ts.DATE})
    assert changed(ts.retype("a", ts.BIGINT), of=of).by_name["a"].type == ts.BIGINT.not_null()
    assert changed(ts.nullable("a"), of=of).by_name["a"].type == ts.INT


def test_options_of_the_layout_can_change_while_there_are_no_snapshots() -> None:
    change = ts.set_options({"merge-engine": "first-row", "bucket": -1})
    assert dict(changed(change, snapshots=False).options) == {"merge-engine": "first-row", "bucket": "-1"}
    assert changed(ts.set_options({"bucket": 5})).options["bucket"] == "5"


def test_what_was_ignored_stays_ignored() -> None:
    of = table(ignore_delete="true")
    with pytest.raises(InvalidOption, match="ignore-delete"):
        changed(ts.set_options({"ignore-delete": False}), of=of)


def test_comments_and_defaults_come_and_go() -> None:
    after = changed(ts.comment(None, "of the table"), ts.comment("a", "of a"), ts.default("a", 5))
    assert (after.comment, after.by_name["a"].description, after.by_name["a"].default) == (
        "of the table",
        "of a",
        "5",
    )
    gone = changed(ts.comment(None, None), ts.comment("a", None), ts.default("a", None), of=after)
    assert (gone.comment, gone.by_name["a"]) == (None, table().by_name["a"])


def test_a_column_with_a_dot_is_found_by_its_whole_name() -> None:
    of = table({"k": ts.INT, "r.x": ts.INT, "r": ts.ROW(x=ts.INT, z=ts.INT), "dt": ts.DATE})
    after = changed(ts.drop("r.x"), of=of)
    assert names(after) == ["k", "r", "dt"]
    assert names(changed(ts.drop(("r", "x")), of=of), "r") == ["z"]


def test_what_is_no_change_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"ts\.add"):
        changed({"add": "c"})  # type: ignore[arg-type]  # what is refused
    with pytest.raises(InvalidRequest, match="say one"):
        ts.add("c", ts.INT, first=True, after="a")
    with pytest.raises(InvalidRequest, match="needs one"):
        ts.move("a")
