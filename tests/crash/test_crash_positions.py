"""A stream's commit and a rollback fail at single I/O operations; then another engine commits and expires.

The stream that goes on with the identifier that failed has its rows in the table exactly once, and what was
rolled back is no position any more.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tests.faults import FaultyIO, Killed, failures
from tests.write.commit.test_positions import foreign_commits, foreign_expiry, row

EVERY = 3


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("positions") / "lake"
    t = ts.connect(str(root)).create_table("d.t", schema={"k": ts.BIGINT}, options={"write-only": True})
    t.write(row(1), user="stream", identifier=1)
    t.write(row(2), user="stream", identifier=2)
    return root


def table(root: Path, io: FaultyIO | None = None) -> ts.Table:
    return ts.connect(str(root), io=io).table("d.t")


def tries(
    start: Path, tmp_path: Path, act: Callable[[ts.Table], None], seed: int
) -> Iterator[tuple[ts.Table, str]]:
    """(a fresh table after each failure of `act`, where that was)."""
    counting = FaultyIO()
    shutil.copytree(start, tmp_path / "count")
    act(table(tmp_path / "count", counting))
    for fail_at, mode in failures(counting.log)[seed % EVERY :: EVERY]:
        root = tmp_path / "try"
        shutil.copytree(start, root)
        with contextlib.suppress(TablestoreError, Killed):
            act(table(root, FaultyIO(fail_at, mode)))
        yield table(root), f"{mode} operation {fail_at}: {counting.log[fail_at]}"
        shutil.rmtree(root)


def test_a_replay_is_known_whatever_failed_and_expired(
    start: Path, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    def commit(t: ts.Table) -> None:
        t.write(row(3), user="stream", identifier=3)

    for t, place in tries(start, tmp_path, commit, seeds[0]):
        commit(t)
        foreign_commits(t, 2)
        foreign_expiry(t)
        assert t.position("stream") == (3, None), place
        assert t.write(row(3), user="stream", identifier=3).replayed, place
        assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3], place


def test_what_was_rolled_back_is_no_position(start: Path, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    def back(t: ts.Table) -> None:
        t.rollback(snapshot=1)

    for t, place in tries(start, tmp_path, back, seeds[0]):
        back(t)
        foreign_commits(t, 2)
        foreign_expiry(t)
        assert t.position("stream") == (1, None), place
        assert not t.write(row(2), user="stream", identifier=2).replayed, place
        assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [1, 2], place
