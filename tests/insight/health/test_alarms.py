"""Alarms over a table's history: figures as inspection has them, findings as the doctor has them, when each
began and ended."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.health.alarms import MOMENTS, Alarm, AlarmHistory
from tablestore.read.table_log import log_of
from tests.tables import KEYED, WRITE_ONLY

KEPT = {"snapshot.num-retained.min": 100, "snapshot.num-retained.max": 1000}


def keys(*values: int) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64()), "v": pa.array([f"v{k}" for k in values])})


def of_kind(history: AlarmHistory, kind: str) -> list[Alarm]:
    return [alarm for alarm in history.alarms if alarm.finding.kind == kind]


@pytest.fixture
def busy(tmp_path: Path) -> ts.Table:
    """Eight flushes into two buckets, a compaction as snapshot 9, two more flushes."""
    table = KEYED.with_options(WRITE_ONLY).create(tmp_path, {"bucket": 2, **KEPT})
    for start in range(8):
        table.write(keys(*range(start, start + 50)))
    table.with_options({"write-only": False}).compact(full=True)
    for start in range(2):
        table.write(keys(*range(start, start + 50)))
    return table


def test_the_figures_of_each_snapshot_are_those_of_inspection(busy: ts.Table) -> None:
    history = busy.inspect.alarms()
    assert history.moments.schema == MOMENTS
    *moments, now = history.moments.to_pylist()
    assert [m["snapshot_id"] for m in moments] == list(range(1, 12))
    amplified = {r["snapshot_id"]: r for r in busy.inspect.amplification("snapshot").to_pylist()}
    for moment in moments:
        health = busy.inspect.health(moment["snapshot_id"])
        for name in ("files", "bytes", "rows", "most_runs"):
            assert moment[name] == getattr(health, name)
        assert (moment["due_buckets"], moment["opened_runs"]) == (health.due, health.opened)
        for name in ("write_amplification", "space_amplification"):
            assert moment[name] == amplified[moment["snapshot_id"]][name]
    assert {**now, "at": 0, "age_seconds": 0} == {**moments[-1], "at": 0, "age_seconds": 0}
    assert now["age_seconds"] == pytest.approx((now["at"] - moments[-1]["at"]).total_seconds())


def test_an_alarm_begins_and_ends_with_the_finding_of_the_doctor(busy: ts.Table) -> None:
    history = busy.inspect.alarms()
    [runs] = of_kind(history, "sorted runs")
    there = [s for s in range(1, 12) if "sorted runs" in busy.inspect.doctor(s).kinds]
    assert there, "the table has been ill"
    times = dict(zip(*(history.moments[n].to_pylist() for n in ("snapshot_id", "at")), strict=True))
    row = history.to_arrow().to_pylist()[history.alarms.index(runs)]
    assert (row["began"], row["ended"]) == (times[there[0]], times[there[-1] + 1])
    assert not runs.holds
    assert not runs.earlier
    assert runs.limit == 5
    assert runs.worst == max(busy.inspect.health(s).most_runs for s in there) == 8
    assert runs.finding == busy.inspect.doctor(8).findings[0]
    assert [v for _, v in runs.points] == [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 3]
    assert history.holding == ()
    over = len(history.alarms)
    assert history.summary == f"0 alarms, {over} over; 11 of 11 snapshots looked at"


def test_what_holds_is_mended_by_its_finding(busy: ts.Table) -> None:
    for start in range(6):
        busy.write(keys(start))
    alarm, before = of_kind(busy.inspect.alarms(), "sorted runs")
    assert (alarm.holds, before.holds) == (True, False)
    busy.mend(alarm.finding, dry_run=False)
    after = busy.refresh().inspect.alarms()
    assert after.holding == ()
    assert [a.holds for a in of_kind(after, "sorted runs")] == [False, False]


def test_a_long_history_is_looked_at_evenly(busy: ts.Table) -> None:
    ids = busy.inspect.alarms(moments=4).moments["snapshot_id"].to_pylist()
    assert ids == [1, 4, 8, 11, 11]
    assert "3 of 11 snapshots" in busy.inspect.alarms(moments=3).summary


def test_what_held_at_the_first_snapshot_that_is_left_began_earlier(busy: ts.Table) -> None:
    busy.expire_snapshots(keep=5)
    [alarm] = of_kind(busy.inspect.alarms(), "sorted runs")
    assert alarm.earlier
    assert alarm.began == busy.store.snapshots.earliest().time_millis


def test_figures_beyond_a_limit_are_alarms(busy: ts.Table) -> None:
    history = busy.inspect.alarms(freshness="0 ms", write_amplification=1.01)
    kinds = {a.finding.kind: a for a in history.holding}
    assert set(kinds) == {"freshness", "write amplification"}
    amplified = kinds["write amplification"]
    assert amplified.worst == max(v for _, v in amplified.points)
    assert amplified.finding.remedy.startswith("table.what_if(")
    assert kinds["freshness"].limit == 0
    assert "are allowed" in kinds["freshness"].finding.what
    assert busy.inspect.alarms(freshness="1 d", write_amplification=1000).holding == ()


def test_rows_of_a_log_that_no_file_has(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path, {"log.system": "embedded", "bucket": 1, **KEPT})
    table.write(keys(1, 2, 3))
    assert table.inspect.alarms().moments["log_rows"].to_pylist() == [0, 0]
    log = log_of(table.store)
    assert log is not None
    with closing(log):
        appender = log.appender()
        appender.write(0, pa.array([0, 0], pa.int8()), keys(4, 5).to_batches()[0])
        appender.flush()
    history = table.inspect.alarms(log_rows=1)
    assert history.moments["log_rows"].to_pylist() == [0, 2]
    [lag] = history.holding
    assert (lag.finding.kind, lag.worst) == ("log lag", 2)


def test_rules_about_now_have_no_beginning(busy: ts.Table) -> None:
    table = busy.with_options({"snapshot.num-retained.max": 1, "snapshot.num-retained.min": 1})
    [alarm] = of_kind(table.inspect.alarms(), "old snapshots")
    assert (alarm.began, alarm.ended, alarm.points) == (None, None, ())
    assert alarm.finding in table.inspect.doctor().findings


def test_dead_letters_are_an_alarm_from_the_first(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    letters = lake.create_table("d.cdc_dead_letters", schema={"reason": ts.STRING})
    assert letters.inspect.alarms().alarms == ()
    letters.write([{"reason": "too long"}])
    letters.write([{"reason": "no number"}])
    [alarm] = letters.inspect.alarms().alarms
    assert (alarm.finding.kind, alarm.finding.severity, alarm.worst) == ("dead letters", "risk", 2)
    assert alarm.began == letters.store.snapshots.get(1).time_millis
    assert not alarm.earlier
    assert lake.table("d.cdc_dead_letters").inspect.doctor().kinds == ("dead letters",)


def test_a_table_without_snapshots_has_none(tmp_path: Path) -> None:
    history = KEYED.create(tmp_path).inspect.alarms(freshness="1 s")
    assert (history.alarms, history.moments.num_rows) == ((), 0)
    assert history.to_arrow().num_rows == 0
    assert history.summary == "0 alarms; 0 of 0 snapshots looked at"


@pytest.mark.parametrize(
    "wrong",
    [{"moments": 0}, {"freshness": "soon"}, {"log_rows": "many"}, {"write_amplification": -1}],
    ids=repr,
)
def test_what_is_no_limit_is_refused(busy: ts.Table, wrong: dict[str, Any]) -> None:
    with pytest.raises(ts.InvalidRequest):
        busy.inspect.alarms(**wrong)
