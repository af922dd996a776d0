"""A share of the attacks on tiering, and that they find what they are for; wrong answers have tests of their
own in `fluss/test_hostile_answers.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tablestore.tiering.journal import TieringJournal
from tests.campaign import dropped_partitions, held_rounds
from tests.campaign.__main__ import turn
from tests.campaign.kinds import named


@pytest.mark.parametrize("kind", ["held rounds", "dropped"])
@pytest.mark.sample(1)
def test_nothing_breaks(kind: str, seeds: tuple[int, ...]) -> None:
    actual = [turn(named(kind), seed) for seed in seeds]
    assert [(attempt.repeat, attempt.outcome.wrong) for attempt in actual if attempt.outcome.wrong] == []
    assert all(attempt.outcome.cases > 0 for attempt in actual)


@pytest.mark.large
@pytest.mark.parametrize(("kind", "turns"), [("held rounds", 5), ("dropped", 15), ("answers", 2)])
@pytest.mark.sample(1, all=2)
def test_nothing_breaks_in_more_turns(kind: str, turns: int, seeds: tuple[int, ...]) -> None:
    actual = [turn(named(kind), seeds[0] + n) for n in range(turns * len(seeds))]
    assert [(attempt.repeat, attempt.outcome.wrong) for attempt in actual if attempt.outcome.wrong] == []


def test_a_drop_that_nobody_tells_of_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TieringJournal, "note_event", lambda self, event: None)
    wrong = [dropped_partitions.run(seed, tmp_path / str(seed)).wrong for seed in range(3)]
    assert any("nobody told" in text or "nothing told" in text for texts in wrong for text in texts)


def test_a_row_too_many_is_found(tmp_path: Path) -> None:
    life = held_rounds.Life(1, tmp_path)
    life.write()
    life.look()
    for name in held_rounds.KINDS:
        life.acknowledged[name] = life.acknowledged[name][1:]
    with pytest.raises(AssertionError, match=r"d.sums .* lost"):
        life.look()
