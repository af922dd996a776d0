"""A stream's commit and a rollback fail at single I/O operations; then another engine commits and expires.

The stream that goes on with the identifier that failed has its rows in the table exactly once, and what was
rolled back is no position any more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tablestore as ts
from tests.faults import Cases, failed_calls
from tests.write.commit.test_positions import foreign_commits, foreign_expiry, row

EVERY = 3


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("positions") / "lake"
    t = ts.connect(str(root)).create_table("d.t", schema={"k": ts.BIGINT}, options={"write-only": True})
    t.write(row(1), user="stream", identifier=1)
    t.write(row(2), user="stream", identifier=2)
    return root


def share(seeds: tuple[int, ...]) -> Callable[[Cases], Cases]:
    """One failure in some, others with each seed."""
    return lambda cases: cases[seeds[0] % EVERY :: EVERY]


def test_a_replay_is_known_whatever_failed_and_expired(
    start: Path, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    def commit(t: ts.Table) -> None:
        t.write(row(3), user="stream", identifier=3)

    for call in failed_calls(start, tmp_path, lambda lake: commit(lake.table("d.t")), share(seeds)):
        commit(t := call.table)
        foreign_commits(t, 2)
        foreign_expiry(t)
        assert t.position("stream") == (3, None), call.place
        assert t.write(row(3), user="stream", identifier=3).replayed, call.place
        assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3], call.place


def test_what_was_rolled_back_is_no_position(start: Path, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    def back(t: ts.Table) -> None:
        t.rollback(snapshot=1)

    for call in failed_calls(start, tmp_path, lambda lake: back(lake.table("d.t")), share(seeds)):
        back(t := call.table)
        foreign_commits(t, 2)
        foreign_expiry(t)
        assert t.position("stream") == (1, None), call.place
        assert not t.write(row(2), user="stream", identifier=2).replayed, call.place
        assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [1, 2], call.place
