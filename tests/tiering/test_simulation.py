"""Three hundred lives of tiering in CI, more by `./workbench test --campaign 100 --kind tiering`; and that a
service or a lake that is wrong is found out."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import pytest

from tablestore.core.errors import TablestoreError
from tablestore.tiering import committer as committing
from tablestore.tiering.cluster import LakeState
from tests.tiering.simulation.lake import SimCommitter, Wrong
from tests.tiering.simulation.life import Life

LIVES = 40
"""For each seed of `--rounds`, 5 in CI."""


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)  # notes of rounds on what the faults of a life brought about


def test_the_lake_is_the_log_at_the_end_of_every_life(seeds: tuple[int, ...]):
    """Of each kind of fault there is one, in some more lives where a seed is poor in it."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        for number in range(seed * LIVES, (seed + 1) * LIVES):
            counts += Life(number).run().counts
    kinds = {"kills", "stalls", "coordinator restarts", "drops", "clock jumps", "failed rounds"}
    kinds |= {"partition dropped"}
    more = iter(range((seeds[-1] + 1) * LIVES, (seeds[-1] + 11) * LIVES))
    while missing := kinds - counts.keys():
        number = next(more, None)
        assert number is not None, f"{missing}: {counts}"
        counts += Life(number).run().counts


def test_a_life_is_repeated_by_its_seed():
    assert Life(7).run() == Life(7).run()


def found_out(*, conditional: bool = True, lives: int = 200) -> bool:
    """Whether one of these lives ends in words that say how to repeat it."""
    for seed in range(lives):
        try:
            Life(seed, conditional=conditional).run()
        except Wrong as e:
            return str(seed) in e.__notes__[0]
    return False


def test_a_lake_that_takes_any_commit_is_found_out():
    assert found_out(conditional=False)


def test_a_service_that_trusts_the_cluster_s_offsets_is_found_out(monkeypatch: pytest.MonkeyPatch):
    plain = SimCommitter.state

    def offsets_of_the_cluster(self: SimCommitter) -> LakeState:
        state, lake_snapshot = plain(self), self.lake.cluster.known.get(self.table.table_id)
        return replace(state, offsets={} if lake_snapshot is None else lake_snapshot.offsets)

    monkeypatch.setattr(SimCommitter, "state", offsets_of_the_cluster)
    assert found_out()


@pytest.mark.large
def test_a_service_that_does_not_look_for_dropped_partitions_is_found_out(monkeypatch: pytest.MonkeyPatch):
    def unseen(cluster, committer, *args):
        return committer.state(), ()

    monkeypatch.setattr(committing, "without_dropped", unseen)
    assert found_out()


def test_a_service_that_commits_again_what_may_be_there_is_found_out(monkeypatch: pytest.MonkeyPatch):
    plain = SimCommitter.commit

    def twice(self: SimCommitter, committable, commit) -> int:
        try:
            return plain(self, committable, commit)
        except TablestoreError:
            return plain(self, committable, replace(commit, basis=self.state()))

    monkeypatch.setattr(SimCommitter, "commit", twice)
    assert found_out()
