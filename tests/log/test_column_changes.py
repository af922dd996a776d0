"""Altered columns of a table with a log: older rows of the log read as the files of those rows do."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Unsupported
from tablestore.format.schema import TableSchema
from tablestore.format.schema_change import Change, apply
from tablestore.log.kafka.topics import require_readable
from tablestore.log.log import CommitMark
from tests.cdc.formats.messages_of import columns
from tests.log import held
from tests.tables import TableSpec

FIELDS = columns(k="BIGINT NOT NULL", v="INT", f="FLOAT", s="VARCHAR(5)", r="ROW<a INT, b STRING>")
FIRST = TableSchema(0, FIELDS, 20, (), ("k",), {}, "", 0)


def altered(*steps: Change) -> list[TableSchema]:
    """The schemas of a table that is altered step by step."""
    actual = [FIRST]
    for step in steps:
        actual.append(apply(actual[-1], [step], has_snapshots=True, time_millis=0))
    return actual


@pytest.mark.parametrize(
    "steps",
    [
        [ts.add("n", ts.INT)],
        [ts.drop("v")],
        [ts.add("n", ts.INT, first=True), ts.drop("n")],
        [ts.retype("v", ts.BIGINT)],
        [ts.retype("s", ts.STRING)],
        [ts.nullable("v")],
        [ts.add(("r", "c"), ts.INT)],
    ],
    ids=str,
)
def test_messages_read_alike_under_columns_that_are_added_dropped_or_widened(steps: list[Change]) -> None:
    *earlier, newest = altered(*steps)
    require_readable(earlier, newest)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([ts.rename("v", "w")], "renaming column v to w"),
        ([ts.rename("v", "w"), ts.rename("w", "v")], "renaming column w to v"),
        ([ts.drop("v"), ts.add("v", ts.INT)], "a new column v"),
        ([ts.retype("v", ts.STRING)], "type STRING of column v"),
        ([ts.retype("f", ts.DOUBLE)], "type DOUBLE of column f"),
        ([ts.retype("v", ts.TINYINT)], "type TINYINT of column v"),
        ([ts.rename(("r", "a"), "c")], r"renaming column r\.a to c"),
    ],
    ids=str,
)
def test_columns_that_messages_do_not_name_rightly_are_refused(steps: list[Change], words: str) -> None:
    *earlier, newest = altered(*steps)
    with pytest.raises(Unsupported, match=words):
        require_readable(earlier, newest)


def rows_of(table: ts.Table, number: int) -> pa.RecordBatch:
    """A row with that number, or its text, in each column."""
    values = {f.name: [str(number) if f.type == pa.string() else number] for f in table.schema}
    return pa.RecordBatch.from_pydict(values, schema=table.schema)


@pytest.mark.parametrize("rolled_up", [False, True], ids=["", "rolled-up"])
@pytest.mark.sample(1)
def test_rows_of_an_embedded_log_have_the_columns_of_today(rolled_up: bool, tmp_path: Path) -> None:
    spec = TableSpec(
        {"k": ts.INT, "v": ts.INT, "x": ts.STRING},
        primary_key=("k",),
        options={"bucket": 1, "log.system": "embedded"},
    )
    t = spec.create(tmp_path)
    lake = ts.connect(str(tmp_path))
    steps = [
        ts.rename("x", "y"),
        ts.add("x", ts.INT),
        ts.retype("v", ts.BIGINT),
        ts.drop("y"),
        ts.rename("v", "y"),
    ]
    for number, step in enumerate(steps):
        for _ in range(14 if rolled_up else 1):
            t.write(rows_of(t, number))
        log = t._handle.log
        assert log is not None
        appender = log.appender()
        appender.write(0, pa.array([0], pa.int8()), rows_of(t, 9))
        appender.commit(CommitMark("killed", number))  # its rows come into files under other columns
        t = t.alter(step)
        assert t.log is not None
        t.log.finish()
        held.require_prefix(lake, t)
    assert t.schema.names == ["k", "y", "x"]
    rows = [r for b in held.logged(t) for r in b.rows.to_pylist()]
    assert all(isinstance(r["y"], int) for r in rows)
    assert {r["x"] for r in rows} == {None, 2, 3, 4, 9}
