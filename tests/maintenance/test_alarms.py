"""Alarms of a maintenance service: what failed until it was done, what waits, what could not be looked at."""

from __future__ import annotations

from dataclasses import replace

import tablestore as ts

DONE = ts.WorkDone(10.0, 0.5, "d.t", "compact", "bucket-0", "size ratio", 900, 500, 900, 450, 8, 1)
FAILED = replace(DONE, began=20.0, error="data-1: missing")
WAITING = ts.WorkWaiting("d.t", "compact", "bucket-1", "file number", "its hours, 22:00-06:00", 700)


def report(*done: ts.WorkDone, waiting: tuple[ts.WorkWaiting, ...] = ()) -> ts.MaintenanceReport:
    return ts.MaintenanceReport("maintain", "running", 99.0, done=done, waiting=waiting)


def test_work_that_failed_is_an_alarm_until_it_is_done() -> None:
    again, mended = replace(FAILED, began=30.0, error="disk full"), replace(DONE, began=40.0)
    [alarm] = report(DONE, FAILED, again, mended).alarms
    assert (alarm.began, alarm.ended, alarm.worst) == (20_000, 40_000, 2)
    assert (alarm.finding.where, alarm.finding.what) == ("bucket-0 compact", "disk full")
    assert alarm.points == ((20_000, 1), (30_000, 2), (40_000, 0))
    [holds] = report(DONE, FAILED).alarms
    assert (holds.holds, holds.worst) == (True, 1)
    assert report(DONE, mended).alarms == ()


def test_other_work_ends_no_alarm() -> None:
    elsewhere = replace(DONE, began=30.0, where="bucket-1")
    [alarm] = report(FAILED, elsewhere).alarms
    assert alarm.holds


def test_a_failure_after_work_was_done_is_an_alarm_of_its_own() -> None:
    mended, again = replace(DONE, began=30.0), replace(FAILED, began=40.0)
    newest, over = report(FAILED, mended, again).alarms
    assert (newest.began, newest.ended) == (40_000, None)
    assert (over.began, over.ended) == (20_000, 30_000)


def test_a_queue_and_a_table_in_trouble_hold_without_a_beginning() -> None:
    next_one = replace(WAITING, waits_for="")
    queued = report(waiting=(WAITING, replace(WAITING, where="bucket-2"), next_one))
    [queue] = queued.alarms
    assert queue.finding.what == "2 pieces of work wait for its hours, 22:00-06:00"
    assert queue.finding.evidence == {"pieces": 2, "bytes": 1_400}
    assert (queue.began, queue.holds) == (None, True)
    troubled, _ = replace(queued, troubles=(("d.v", "schema-0: damaged"),)).alarms
    assert (troubled.table, troubled.finding.what) == ("d.v", "schema-0: damaged")
    assert report(waiting=(next_one,)).alarms == ()
