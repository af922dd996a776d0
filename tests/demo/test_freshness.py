"""Freshness of transactions: by the times that the writer noted, else by those of the binlog."""

from __future__ import annotations

from notebooks.demo.freshness import Distribution, distributions, words
from tablestore.cdc.capture.report import BatchReport


def batch(number: int, ended: float, *commits: tuple[int, int], reading: bool = False) -> BatchReport:
    tables = ("d.t",) if reading else ()
    return BatchReport(number, ended, ended, ended, "binlog.000001:4", commits=commits, snapshotting=tables)


def test_transactions_while_rows_are_read_are_counted_separately():
    reports = [batch(0, 10.5, (9, 2), reading=True), batch(1, 12.0, (10, 1), (11, 1)), batch(2, 13.0)]
    loading, following = distributions(reports)
    assert loading == Distribution(2, 1.5, 1.5, 1.5)
    assert following == Distribution(2, 1.0, 2.0, 2.0)
    assert distributions([]) == (None, None)


def test_times_that_the_writer_noted_are_exact():
    reports = [batch(0, 10.5, (9, 1), reading=True), batch(1, 12.0, (10, 1), (11, 1))]
    before_the_capture, commits = 8.2, [9.9, 10.75, 11.5]
    loading, following = distributions(reports, [before_the_capture, *commits])
    assert loading == Distribution(1, 0.6, 0.6, 0.6)
    assert following == Distribution(2, 0.5, 1.25, 1.25)


def test_times_of_fewer_transactions_than_there_were_are_left_aside():
    _, following = distributions([batch(0, 12.0, (10, 1), (11, 1))], [11.9])
    assert following == Distribution(2, 1.0, 2.0, 2.0)


def test_a_line_of_progress_names_the_median():
    assert words([batch(0, 12.0, (10, 3))]) == "freshness 2.0 s"
    assert words([batch(0, 12.0)]) == ""
