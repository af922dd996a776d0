"""Zero and impossible dates: NULL, or refused, in snapshot and log alike."""

from __future__ import annotations

import datetime

import pytest

from tablestore.core.errors import SchemaMismatch
from tests.cdc.mysql.memory_lake import Source


@pytest.mark.parametrize("kind", ["DATE", "DATETIME(3)", "TIMESTAMP"])
@pytest.mark.parametrize("phase", ["snapshot", "log"])
def test_zero_dates_are_refused_where_that_is_asked_for(source: Source, kind: str, phase: str) -> None:
    source.run(f"CREATE TABLE t (k INT PRIMARY KEY, d {kind} NULL)", "INSERT INTO t VALUES (1, NULL)")
    source.run("INSERT INTO t VALUES (2, '2024-02-29')")
    zero = ("SET sql_mode = 'ALLOW_INVALID_DATES'", "INSERT INTO t VALUES (3, '0000-00-00')")
    if phase == "snapshot":
        source.run(*zero)
    lake = source.lake(zero_dates="fail")
    if phase == "log":
        lake.catch_up()
        assert len(lake.rows["t"]) == 2
        source.run(*zero)
    with pytest.raises(
        SchemaMismatch, match=r"column 'd' .* has 1 zero or impossible dates.*zero_dates='null'"
    ):
        lake.catch_up()
    assert (3,) not in lake.rows.get("t", {})
    lake.source = source.opened(zero_dates="null")
    lake.catch_up()
    assert {k: row["d"] and row["d"].day for (k,), row in lake.rows["t"].items()} == {1: None, 2: 29, 3: None}
    assert isinstance(lake.rows["t"][2,]["d"], datetime.date)
