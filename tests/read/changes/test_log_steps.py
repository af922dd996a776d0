"""What a stream of a table with a log does next, by each rule once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablestore.read.changes.log_steps import (
    BEGINS_WITH_FILES,
    LogPlace,
    LogState,
    LogStep,
    Lost,
    ReadFiles,
    ReadLog,
    WaitForRows,
    next_step,
)

AT = LogPlace({0: 5, 1: 3}, base=4)
NOW = LogState(start={0: 0, 1: 0}, end={0: 9, 1: 3}, newest=6, keyed=True)
RETAINED = "the log of bucket 0 starts at offset 6, this stream is at 5"
CUT_OF_1 = "the log of bucket 1 ends at offset 3, before 5"
CUT_1 = "the log of bucket 1 ends at offset 0, before 1"
NOWHERE = ", and no snapshot has the rows between"
FIRST = "the log of bucket 0 starts at offset 1, this stream is at 0"
CUT = "the log of bucket 0 ends at offset 5, before 9"


@pytest.mark.parametrize(
    ("place", "now", "step"),
    [
        # A stream that begins with files reads them up to the newest snapshot.
        (LogPlace(None), NOW, ReadFiles(1, BEGINS_WITH_FILES)),
        (LogPlace(None, base=5), NOW, ReadFiles(6, BEGINS_WITH_FILES)),
        (LogPlace(None, base=6), NOW, WaitForRows(log=False)),
        # The log has the rows behind the place.
        (AT, NOW, ReadLog({0: 9, 1: 3})),
        (AT, replace(NOW, start={0: 5, 1: 3}), ReadLog({0: 9, 1: 3})),
        (AT, replace(NOW, end={0: 5, 1: 3}), WaitForRows(log=True)),
        (AT, replace(NOW, end={0: 5, 1: 3, 2: 1}), ReadLog({0: 5, 1: 3, 2: 1})),
        (AT, replace(NOW, end={0: 5, 1: 3, 2: 0}), WaitForRows(log=True)),
        (LogPlace({}), replace(NOW, end={0: 1}), ReadLog({0: 1})),
        (LogPlace({}), replace(NOW, start={0: 1}, end={0: 1}, newest=0), Lost(f"{FIRST}{NOWHERE}")),
        # It has rows that are not visible yet: up to what is visible.
        (AT, replace(NOW, has={0: 12, 1: 3}), ReadLog({0: 9, 1: 3})),
        (AT, replace(NOW, end={0: 4, 1: 3}, has={0: 12, 1: 3}), WaitForRows(log=True)),
        (AT, replace(NOW, end={0: 4, 1: 4}, has={0: 12, 1: 4}), ReadLog({0: 5, 1: 4})),
        # Files of it are missing: it ends before what is visible, which the files of snapshots have.
        (AT, replace(NOW, has={0: 7, 1: 3}), ReadLog({0: 7, 1: 3})),
        (AT, replace(NOW, has={0: 5, 1: 3}), ReadFiles(5, CUT)),
        (AT, replace(NOW, has={0: 5}), ReadFiles(5, CUT)),
        (AT, replace(NOW, has={}), ReadFiles(5, "the log of bucket 0 ends at offset 0, before 9")),
        (AT, replace(NOW, has={0: 5, 1: 3}, newest=4), Lost(f"{CUT}{NOWHERE}")),
        (LogPlace({0: 5}, 4), replace(NOW, end={0: 5, 1: 1}, has={0: 5}), ReadFiles(5, CUT_1)),
        (LogPlace({1: 3}, 4), replace(NOW, start={}, end={0: 0, 1: 5}, has={1: 3}), ReadFiles(5, CUT_OF_1)),
        # Neither is what was delivered.
        (AT, replace(NOW, end={0: 4, 1: 3}), Lost("the log of bucket 0 ends at offset 4, before 5")),
        (AT, replace(NOW, end={0: 9}), Lost("the log of bucket 1 ends at offset 0, before 3")),
        (AT, replace(NOW, end={}, has={0: 5}), Lost("the log of bucket 1 ends at offset 0, before 3")),
        (LogPlace({0: 0}), replace(NOW, start={}, end={}), WaitForRows(log=True)),
        # Retention took rows behind the place: the files of the next snapshot have them.
        (AT, replace(NOW, start={0: 6, 1: 3}), ReadFiles(5, RETAINED)),
        (AT, replace(NOW, start={1: 4, 0: 6}), ReadFiles(5, RETAINED)),
        (LogPlace({1: 3}, 4), replace(NOW, start={0: 1}), ReadFiles(5, FIRST)),
        (AT, replace(NOW, start={0: 6, 1: 3}, newest=5), ReadFiles(5, RETAINED)),
        (AT, replace(NOW, start={0: 6, 1: 3}, newest=4), Lost(f"{RETAINED}{NOWHERE}")),
        # Inside a commit its rows come twice, which keys tell.
        (replace(AT, inside=True), replace(NOW, start={0: 6, 1: 3}), ReadFiles(5, RETAINED)),
        (AT, replace(NOW, start={0: 6, 1: 3}, keyed=False), ReadFiles(5, RETAINED)),
        (
            replace(AT, inside=True),
            replace(NOW, start={0: 6, 1: 3}, keyed=False),
            Lost(f"{RETAINED}, inside a commit, and without a primary key its rows cannot be told apart"),
        ),
    ],
)
def test_next_step(place: LogPlace, now: LogState, step: LogStep) -> None:
    created = next_step(place, now)
    assert created == step
    assert getattr(created, "stop", None) == getattr(step, "stop", None), (
        "which does not count where steps compare"
    )
