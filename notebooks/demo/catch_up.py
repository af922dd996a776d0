"""Waiting for a capture: until it has come to where the binlog of its server ends now."""

from __future__ import annotations

import time
from typing import Any

import tablestore as ts
from notebooks.demo.mariadb import MariaDb
from tablestore.cdc.mysql.events import LogPosition

_LOOK_SECONDS = 0.1


def log_end(server: MariaDb) -> LogPosition:
    """Where the binlog ends now."""
    ((file, offset, *_),) = server.run("SHOW MASTER STATUS")
    return LogPosition(file, int(offset))


def catch_up(job: Any, server: MariaDb, *, seconds: float = 600) -> ts.BatchReport:
    """The first batch after which all rows are read and everything that is committed now is in the lake.
    Raises what ended the job, and Unavailable after so many seconds."""
    end, until = log_end(server), time.monotonic() + seconds
    while time.monotonic() < until:
        newest = job.reports(1)
        if newest and _whole(newest[-1]) and _position(newest[-1]).reaches(end):
            report: ts.BatchReport = newest[-1]
            return report
        if not job.running:
            job.wait()  # raises what ended it
            raise ts.Unavailable("the capture has ended")
        time.sleep(_LOOK_SECONDS)
    raise ts.Unavailable(f"the capture has not come to {end} in {seconds:g} seconds")


def _whole(report: ts.BatchReport) -> bool:
    """Whether all rows are read, and the changes that came meanwhile: the batch that follows chunks."""
    return not report.snapshotting and not report.chunks


def _position(report: ts.BatchReport) -> LogPosition:
    """That of its end: `file:offset`, maybe with a GTID behind it."""
    file, _, offset = report.position.partition(" ")[0].rpartition(":")
    return LogPosition(file, int(offset))
