"""Zero and impossible dates: NULL, or refused, in snapshot and log alike."""

from __future__ import annotations

import datetime

import pytest

from tablestore.cdc.capture.preview import preview
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.core.errors import SchemaMismatch
from tests.cdc.databases.sources import MariaDbSource


@pytest.mark.parametrize("kind", ["DATE", "DATETIME(3)", "TIMESTAMP"])
@pytest.mark.parametrize("phase", ["snapshot", "log"])
@pytest.mark.sample(2)
def test_zero_dates_are_refused_where_that_is_asked_for(source: MariaDbSource, kind: str, phase: str) -> None:
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


def test_dates_that_are_known_before_are_in_the_plan(source: MariaDbSource) -> None:
    source.run(
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "CREATE TABLE a (k INT PRIMARY KEY, d DATE NOT NULL, e DATETIME, f TIMESTAMP NULL, g DATE)",
        "CREATE TABLE b (k INT, d DATE, v DATE DEFAULT '0000-00-00', PRIMARY KEY (k, d))",
        "CREATE TABLE c (k INT PRIMARY KEY, d DATE, e DATETIME(6) NOT NULL, t TIME, y YEAR)",
        "CREATE TABLE n (k INT PRIMARY KEY, d DATE)",
        "INSERT INTO a VALUES (1, '2024-01-01', NULL, NULL, NULL)",
        "INSERT INTO a VALUES (2, '0000-00-00', '2024-02-31', NULL, NULL)",
        "INSERT INTO a VALUES (3, '2024-01-01', NULL, '0000-00-00', '2024-02-29')",
        "INSERT INTO b VALUES (1, '2024-01-01', '2024-01-01'), (2, '2024-00-07', NULL)",
        "INSERT INTO c VALUES (1, NULL, '1970-01-01', '00:00:00', 0)",
        "INSERT INTO c VALUES (2, '9999-12-31', '0001-01-01', NULL, NULL)",
    )
    rules = CaptureRules.of("*", database=source.name, into="ods")
    for policy, words in (("null", "become NULL"), ("fail", "are refused")):
        planned = preview(source.opened(zero_dates=policy), rules)
        warnings = {table.source.table: table.warning.split("; column") for table in planned}
        assert warnings["c"] == warnings["n"] == [""]
        assert [text.split("'")[1] for text in warnings["a"]] == ["d", "e", "f"]
        for text in warnings["a"]:
            assert "has zero or impossible dates" in text
            assert words in text
        key, default = warnings["b"]
        assert key.startswith("column 'd' of the key has zero or impossible dates: such rows are bad rows")
        assert default.startswith(" 'v' has such a date as its default")
