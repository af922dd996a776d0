"""Strict commits (`commit.strict-mode.last-safe-snapshot`): refused by Java Paimon and by us alike.

Two users append to, compact and overwrite partitions at random; then one of them or a third commits strictly,
into a copy of the table for each engine.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict
from tests.peers.java_paimon import JavaError, JavaPaimon

OPTION = "commit.strict-mode.last-safe-snapshot"
USERS = ("a", "b")
SCHEMA = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "INT"}


def history(java: JavaPaimon, path: str, rng: random.Random) -> None:
    """Six commits that Java writes, the first one to partition 0."""
    for number in range(6):
        user = rng.choice(USERS)
        act = rng.choice(["append", "append", "compact", "overwrite"]) if number else "append"
        p = rng.randrange(3) if number else 0
        if act == "compact":
            java.compact(path, user=user, identifier=number)
            continue
        spec = {"p": str(p)} if act == "overwrite" else None
        java.write(path, [(p, number, 0)], user=user, identifier=number, overwrite=spec, write_only=True)


@dataclass(frozen=True)
class Commit:
    """A strict commit to partition `p`; our overwrites have users of their own."""

    last_safe: int
    p: int
    overwrites: bool
    user: str

    @classmethod
    def drawn(cls, rng: random.Random, newest: int) -> Commit:
        overwrites = rng.random() < 0.5
        user = "c" if overwrites else rng.choice([*USERS, "c"])
        return cls(rng.randrange(newest + 1), rng.randrange(3), overwrites, user)

    def ours_refuses(self, path: str) -> bool:
        table, rows = ts.open(path).with_options({OPTION: self.last_safe}), [{"p": self.p, "k": 99, "v": 1}]
        try:
            if self.overwrites:
                table.overwrite(rows, partition={"p": self.p})
            else:
                table.write(rows, user=self.user)
        except CommitConflict as e:
            if OPTION not in str(e):
                raise
            return True
        return False

    def java_refuses(self, java: JavaPaimon, path: str) -> bool:
        spec = {"p": str(self.p)} if self.overwrites else None
        options = {OPTION: self.last_safe, "write-only": True}
        try:
            java.write(
                path, [(self.p, 99, 1)], user=self.user, identifier=99, overwrite=spec, options=options
            )
        except JavaError as e:
            if OPTION not in str(e):
                raise
            return True
        return False


@pytest.mark.peer
def test_the_same_strict_commits_are_refused(java: JavaPaimon, tmp_path: Path, seeds: Sequence[int]) -> None:
    for seed in seeds[:3]:
        rng = random.Random(seed)
        path = tmp_path / f"{seed}.db" / "t"
        options = {"bucket": 1, "write-only": True}
        java.create(str(path), SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options=options)
        history(java, str(path), rng)
        newest = ts.open(str(path)).store.snapshots.latest_id() or 0
        sure = {Commit(0, 0, True, "c"): True, Commit(newest, 0, True, "c"): False}
        for number, commit in enumerate([*sure, *(Commit.drawn(rng, newest) for _ in range(2))]):
            mine, other = (tmp_path / f"{seed}-{number}-{who}.db" / "t" for who in ("ours", "java"))
            for copy in (mine, other):
                shutil.copytree(path, copy)
            actual = commit.ours_refuses(str(mine))
            assert actual == commit.java_refuses(java, str(other)), f"seed {seed}: {commit}"
            assert actual == sure.get(commit, actual)
