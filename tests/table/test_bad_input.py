"""Bad input: one clear error that names the thing and the remedy, and the table is as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, InvalidOption, NotFound, SchemaMismatch, Unavailable
from tablestore.table.lake import Lake
from tests.faults import FaultyIO

FIELDS = {"id": ts.BIGINT, "name": ts.VARCHAR(5), "amount": ts.DECIMAL(10, 2)}
ROWS = pa.table({"id": [1, 2], "name": ["a", "b"], "amount": pa.array([1, 2], pa.int64())})


@pytest.fixture
def table(lake: ts.Lake) -> ts.Table:
    orders = lake.create_table("shop.orders", schema=FIELDS, primary_key=["id"])
    orders.write(ROWS)
    return orders


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"primary_key": ["nope"]},
            SchemaMismatch,
            "primary key 'nope' is not a column; columns: id, name, amount",
        ),
        ({"primary_key": [], "options": {"bucket": 2}}, InvalidOption, "needs 'bucket-key' too"),
        ({"primary_key": ["id"], "partition_by": ["id"]}, ts.InvalidRequest, "partition columns only"),
        ({"primary_key": ["id", "id"]}, SchemaMismatch, "twice"),
        ({"primary_key": "id"}, ts.InvalidRequest, "list of column names"),
        ({"primary_key": ["id"], "options": {"bukcet": 3}}, InvalidOption, "did you mean 'bucket'"),
        ({"primary_key": ["id"], "options": {"bucket": "many"}}, InvalidOption, "'bucket' is 'many'"),
        ({"primary_key": ["id"], "options": {"merge-engine": "magic"}}, InvalidOption, "deduplicate"),
        ({"primary_key": ["id"], "options": {"bucket": 0}}, InvalidOption, "'bucket' is 0"),
        ({"primary_key": [], "options": {"bucket": -2}}, InvalidOption, "postponed"),
        ({"primary_key": ["id"], "options": {"bucket-key": "name"}}, InvalidOption, "'name'"),
        ({"primary_key": ["id"], "options": {"sequence.field": "nope"}}, InvalidOption, "'nope'"),
        (
            {"primary_key": ["id"], "options": {"fields.nope.aggregate-function": "max"}},
            InvalidOption,
            "'nope'",
        ),
    ],
)
def test_create_table_refuses(lake: ts.Lake, arguments: dict, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        lake.create_table("shop.bad", schema=FIELDS, **arguments)
    assert "shop.bad" not in lake


def test_duplicate_column_is_refused(lake: ts.Lake) -> None:
    with pytest.raises(SchemaMismatch, match="duplicate column 'x'"):
        lake.create_table("t", schema=[("x", ts.INT), ("x", ts.INT)], primary_key=["x"])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"id": [1, None], "name": ["a", "b"], "amount": [1, 2]}, "'id' is NOT NULL and row 1"),
        ({"name": ["a"], "amount": [1]}, "'id' is NOT NULL and is missing"),
        (
            {"id": ["x"], "name": ["a"], "amount": [1]},
            "column 'id' is string and the table has BIGINT NOT NULL",
        ),
        ({"id": [1], "nmae": ["a"]}, "column 'nmae' is not in the table; did you mean 'name'"),
        ({"id": [1], "name": ["too long"]}, "VARCHAR(5) and a value has length 8"),
        ({"id": [1.5]}, "column 'id' is double"),
        ({"id": [1], "amount": pa.array([10**12])}, "column 'amount'"),
    ],
)
def test_data_that_do_not_fit_are_refused(table: ts.Table, data: dict, text: str) -> None:
    before = table.store.snapshots.latest_id()
    with pytest.raises(SchemaMismatch, match=re.escape(text)):
        table.write(pa.table(data))
    assert table.store.snapshots.latest_id() == before
    assert table.scan().count() == 2
    assert table.check() == []


def test_a_bad_second_batch_writes_nothing_of_the_first(table: ts.Table) -> None:
    def write_two() -> None:
        with table.writer() as w:
            w.write(pa.table({"id": [7]}))
            w.write(pa.table({"id": ["seven"]}))

    with pytest.raises(SchemaMismatch, match="column 'id' is string"):
        write_two()
    assert table.scan(where=ts.col("id") == 7).count() == 0
    assert len(list(Path(table.location).rglob("data-*"))) == 1


def test_row_kinds_must_be_row_kinds(table: ts.Table) -> None:
    with pytest.raises(SchemaMismatch, match=r"'\+X' is not one of \+I, -U, \+U, -D"):
        table.write(pa.table({"id": [1], "kind": ["+X"]}), row_kind_column="kind")


def test_the_past_is_read_only(table: ts.Table) -> None:
    with pytest.raises(ts.InvalidRequest, match="the past is read-only"):
        table.at(snapshot=1).write(ROWS)
    with pytest.raises(NotFound, match=r"no snapshot 9; have 1\.\.1"):
        table.at(snapshot=9)


def test_a_file_name_in_a_manifest_cannot_leave_the_table(table: ts.Table) -> None:
    entry = table.store.manifests.live_entries(table.store.snapshots.latest())[0]
    moved = type(entry.file)(
        **{**{s: getattr(entry.file, s) for s in entry.file.__slots__}, "file_name": "../../../etc/passwd"}
    )
    with pytest.raises(Corrupt, match="points outside"):
        table.store.file_path(entry.partition, entry.bucket, moved)


def test_a_full_disk_changes_nothing(table: ts.Table) -> None:
    for fail_at in range(40):
        io = FaultyIO(fail_at, "full")
        full = Lake(str(Path(table.location).parents[1]), io=io).table("shop.orders")
        new = ts.col("id") == 100 + fail_at
        outcome = _outcome(lambda full=full, n=fail_at: full.write(pa.table({"id": [100 + n]})))
        assert outcome is None or "No space left" in outcome
        assert table.scan(where=new).count() == (1 if outcome is None else 0)
        assert table.check() == []


def _outcome(act: Callable[[], object]) -> str | None:
    """None if it went well, else what the error said."""
    try:
        act()
    except Unavailable as e:
        return str(e)
    return None


def test_a_stored_sequence_field_that_is_no_column_is_named_and_can_be_reset(table: ts.Table) -> None:
    """As another engine, or a hand, may have written it."""
    table.write(ROWS)
    path = Path(table.location) / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"]["sequence.field"] = "nope"
    path.write_text(json.dumps(schema))
    there = ts.open(table.location)
    calls: list[Callable[[], object]] = [
        lambda: there.scan().to_arrow(),
        lambda: there.get({"id": 1}),
        lambda: there.write(ROWS),
        lambda: there.compact(full=True),
    ]
    for call in calls:
        with pytest.raises(InvalidOption, match=r"'sequence.field' names 'nope', which is not a column"):
            call()
    there.alter(ts.reset_options("sequence.field"))
    assert ts.open(table.location).scan().count() == 2
