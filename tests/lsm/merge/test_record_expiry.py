"""Record-level expiry: which rows and files have expired, and what compaction does with them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.types.arrow_types import DataType
from tests.faults import SimEnv
from tests.tables import TableSpec

DAY = 86_400
NOW = 2_000_000_000  # seconds


AGED = TableSpec(
    {"k": ts.INT, "at": ts.INT},
    primary_key=("k",),
    options={"record-level.expire-time": "1 d", "record-level.time-field": "at"},
)


@pytest.mark.parametrize(
    ("t", "per_second"),
    [
        (ts.INT, 1),
        (ts.BIGINT, 1),
        (ts.BIGINT, 1000),
        (ts.TIMESTAMP(0), 1000),
        (ts.TIMESTAMP(3), 1000),
        (ts.TIMESTAMP(6), 10**6),
        (ts.TIMESTAMP(9), 10**9),
        (ts.TIMESTAMP_LTZ(6), 10**6),
    ],
)
def test_compaction_drops_rows_that_are_too_old_and_reads_before_it_show_them(
    tmp_path: Path, t: DataType, per_second: int
) -> None:
    env = SimEnv(now_ms=NOW * 1000)
    table = AGED.create(tmp_path, {"write-only": "true"}, env=env, columns={"k": ts.INT, "at": t})
    ages = [0, DAY, DAY + 1, 40 * DAY, None]
    values = [None if a is None else (NOW - a) * per_second for a in ages]
    column = pa.array(values, pa.int64()).cast(table.schema.field("at").type)
    for _ in range(2):  # files that overlap are rewritten whatever is known of their times
        table.write(pa.table({"k": pa.array(range(5), pa.int32()), "at": column}))
    assert table.scan().to_arrow().num_rows == 5
    table.compact(full=True)
    assert table.scan().to_arrow().column("k").to_pylist() == [0, 1, 4]
    assert table.check() == []


def test_a_file_of_the_top_level_is_rewritten_once_it_holds_an_expired_row(tmp_path: Path) -> None:
    env = SimEnv(now_ms=NOW * 1000)
    table = AGED.create(tmp_path, env=env)
    table.write(pa.table({"k": pa.array([1, 2], pa.int32()), "at": pa.array([NOW, NOW - DAY], pa.int32())}))
    table.compact(full=True)
    before = table.inspect.levels().to_pylist()
    table.compact(full=True)
    assert table.inspect.levels().to_pylist() == before
    env.sleep(1)
    table.compact(full=True)
    assert [f["rows"] for f in table.inspect.levels().to_pylist()] == [1]
    env.sleep(2 * DAY)
    table.compact(full=True)
    assert table.inspect.levels().num_rows == 0
    assert table.check() == []
