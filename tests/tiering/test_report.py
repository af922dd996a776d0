"""Reports of tiering: what they say in words, and that they come back from JSON as they were."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace

import pytest

from tablestore.core.errors import InvalidRequest
from tablestore.tiering import report
from tablestore.tiering.report import (
    BucketMarks,
    Heartbeat,
    ReportedTable,
    RoundReport,
    SplitReport,
    TableError,
    TableState,
)

ORDERS = ReportedTable("shop.orders", 3)
MARKS = (BucketMarks("dt=1", 0, end=100, tiered=80, readable=60, start=10), BucketMarks("dt=1", 1, end=7))
TABLE = TableState("shop.orders", 7, "Failed", 12.5, 3, 5.0, 11.0, 27, "disk full", MARKS)
SPLITS = (
    SplitReport("dt=1", 0, 80, 100, offset=90, rows=10, bytes=400, started=1.0),
    SplitReport("dt=1", 1, 5, 7, snapshot_id=4, offset=7, rows=9, bytes=90, started=1.0, ended=1.5),
)
ROUND = RoundReport(
    1, "shop.orders", 7, 3, 0, 1.0, phase="reading", splits=SPLITS, notes=("told",), seconds={"fetch": 0.25}
)
BEAT = Heartbeat(
    2.0,
    0.01,
    tiering=(ORDERS,),
    failed=(ReportedTable("shop.lines", 1),),
    requests_table=True,
    coordinator_epoch=4,
    assigned=ReportedTable("shop.parts", 1),
    errors=(TableError("shop.orders", 50, "another service holds the table"),),
)


@pytest.mark.parametrize("reported", [TABLE, ROUND, BEAT, Heartbeat(1.0, reason="connection refused")])
def test_a_report_comes_back_from_json_as_it_was(reported: TableState | RoundReport | Heartbeat) -> None:
    assert type(reported).from_json(json.loads(json.dumps(reported.to_json()))) == reported


def test_what_has_another_version_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"no report of this kind \(RoundReport\)"):
        RoundReport.from_json(ROUND.to_json() | {"v": 99})


def test_the_examples_of_reports() -> None:
    assert doctest.testmod(report).failed == 0


def test_a_heartbeat_in_words() -> None:
    assert BEAT.sent == "tiering shop.orders (epoch 3) · failed shop.lines (epoch 1) · asks for a table"
    assert BEAT.received == (
        "shop.orders: another service holds the table (error 50) · tier shop.parts (epoch 1)"
    )
    first = Heartbeat(0.0, coordinator_epoch=4)
    assert (first.sent, first.received) == (
        "asks for the coordinator's epoch",
        "the coordinator's epoch is 4",
    )
    assert first.registers
    assert not BEAT.registers
    assert Heartbeat(0.0, tiering=(ORDERS,), coordinator_epoch=4).received == "all right"


def test_sums_of_a_round_and_its_splits() -> None:
    assert (ROUND.rows, ROUND.bytes) == (19, 490)
    assert [split.kind for split in SPLITS] == ["log", "snapshot"]
    assert [split.seconds for split in SPLITS] == [0.0, 0.5]


def test_the_lag_of_a_bucket_counts_rows_that_the_log_has() -> None:
    assert [mark.lag_rows for mark in MARKS] == [20, 7]
    assert BucketMarks(None, 0, end=100, tiered=None, start=40).lag_rows == 60


def test_what_the_log_keeps_is_said_in_days() -> None:
    state = TableState("db.t", 1, "Tiered", 0.0, marks=(BucketMarks(None, 0, 9, 9, 9),), kept=7 * 86_400.0)
    assert state.where(0.0) == "only in the log 0; in both 9, for 7 days in the log; only in the lake 0"
    assert "for 36:00:00 in the log" in replace(state, kept=129_600.0).where(0.0)
