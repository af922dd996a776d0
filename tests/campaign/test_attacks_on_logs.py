"""A share of the attacks on tables with an embedded log, and that they find what they are for.

Those on a topic are in `servers/test_kafka_log_attacked.py`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tablestore.core.errors import Corrupt, TablestoreError, Unavailable
from tablestore.table.log_view import LogView
from tests.campaign.acknowledged import Acknowledged
from tests.campaign.kinds import ATTACKS
from tests.campaign.log_life import Life, live, require_named
from tests.campaign.log_stores import KINDS, Embedded
from tests.log.soak import TableTruth


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1)
def test_what_was_acknowledged_is_there_or_named(kind: str, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        assert live(Embedded(), kind, tmp_path / str(seed), seed, moments=6).total() >= 6


@pytest.mark.large
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1, all=2)
def test_of_long_lives_too(kind: str, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    counts = Counter[str]()
    for seed in seeds:
        counts += live(Embedded(), kind, tmp_path / str(seed), seed, moments=ATTACKS)
    print(counts)
    assert counts["damage"] + counts["outrun"] + counts["kill_writer"] > 0


def test_a_row_that_vanishes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `finish` that says that all is in files, and does nothing."""
    life = Life(Embedded(), "tiered", tmp_path, seed=1)
    life.write()
    life.look()
    monkeypatch.setattr(LogView, "finish", lambda self: ())
    life.finish()
    with pytest.raises(AssertionError, match=r"a scan has \[\], not"):
        life.look()


def test_the_truth_knows_what_may_be_seen() -> None:
    truth = Acknowledged(TableTruth("keyed").after([("+I", 1, 1)]), tail=[[("+I", 2, 2)]])
    truth.unsure = [("+I", 1, 3), ("-D", 2, 0)]
    both = Counter({(1, 1): 1, (2, 2): 1})
    assert [state.rows for state in truth.possible()] == [both, Counter({(1, 3): 1})]
    truth.whole = False
    assert len(truth.possible()) == 4
    assert Counter({(1, 3): 1, (2, 2): 1}) in [state.rows for state in truth.possible()]
    assert truth.lacking(TableTruth("keyed", both)) == []
    assert truth.lacking(TableTruth("keyed", Counter({(1, 7): 1}))) == [
        "key 1 is 7, in files 1, in the log {3}"
    ]
    added = Acknowledged(TableTruth("append", Counter({(1, 1): 2})), tail=[[("+I", 2, 2)]])
    actual = TableTruth("append", Counter({(1, 1): 1, (2, 2): 2}))
    assert added.lacking(actual) == ["lost (1, 1), which files had", "nobody wrote (2, 2)"]


@pytest.mark.parametrize(
    "error",
    [Unavailable("topic 'x': table.log.repair()"), Corrupt("/t/data-1.parquet", "torn; table.log.repair()")],
)
def test_an_error_that_does_not_name_the_log_is_none_that_is_allowed(error: TablestoreError) -> None:
    with pytest.raises(AssertionError):
        require_named(error)
