"""The log of a table whose newest row of a key is its state: older rows go once every snapshot has them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.log.embedded.directory import SPAN
from tablestore.table.table import Table
from tests.faults import SimEnv
from tests.tables import TableSpec

OPTIONS = {"log.system": "embedded", "log.consistency": "eventual", "bucket": 1}
VISITS = TableSpec({"k": ts.INT, "n": ts.INT}, primary_key=("k",), options=OPTIONS, new_env=SimEnv)
COUNT = SPAN**2 + 2 * SPAN


def filled(path: Path) -> Table:
    """A table of two keys, each written again and again, in its log at first, then in files."""
    table = VISITS.create(path)
    log = table._handle.log
    assert log is not None
    appender = log.appender()
    inserts = pa.array([0], pa.int8())
    for n in range(COUNT):
        values = {"k": pa.array([n % 2], pa.int32()), "n": pa.array([n], pa.int32())}
        appender.write(0, inserts, pa.record_batch(values))
        appender.flush()
    assert table.log is not None
    table.log.finish()
    return table


def rows_in_log(table: Table) -> int:
    assert table.log is not None
    return sum(segment["record_count"] for segment in table.log.segments().to_pylist())


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.sample(1)
def test_the_newest_row_of_a_key_remains_unless_a_consumer_has_not_read_the_others(
    tmp_path: Path, *, follows: bool
) -> None:
    table = filled(tmp_path)
    if follows:
        steps = table.stream(start={"log": {"0": SPAN}}, consumer="c", follow=False)
        next(steps)
        steps.close()
    table.expire_snapshots()
    kept = rows_in_log(table)
    assert kept == COUNT if follows else kept <= 2 * SPAN + 2
    changes = [
        step.to_arrow() for step in table.stream(start={"log": {"0": 0}}, follow=False, normalize=False)
    ]
    assert sum(step.num_rows for step in changes) == kept
    last = {row["k"]: row["n"] for step in changes for row in step.to_pylist()}
    assert last == {0: COUNT - 2, 1: COUNT - 1}
    assert table.check() == []
