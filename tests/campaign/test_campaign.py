"""A share of the campaign with fixed seeds, and its budget and page."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from notebooks.cli.places import ROOT
from tablestore.cli.door import ExitCode
from tests.campaign.__main__ import attack, budget, turn
from tests.campaign.kinds import KINDS, named
from tests.campaign.lives import LIVES, LOGGED
from tests.campaign.outcome import AttackKind, Outcome, total
from tests.campaign.races import STUCK_SECONDS, WRITERS, race
from tests.campaign.report import page

SHARE = 3
"""Turns of each kind in the suite; `--rounds` multiplies them by a fifth of itself."""
KILLS = 3
"""In a race; the campaign has more of them in each."""
ATTACKED = ("log attacked", "topic attacked", "held rounds", "dropped", "answers")
"""Kinds whose share is in `test_attacks_on_…`, that of topics in `servers/test_kafka_log_attacked.py`."""
ELSEWHERE = ("races", "power", "bit flips", "hostile", "tiering", "log", "captures", "mutants", *ATTACKED)
"""Kinds that have tests of their own, of about as many cases."""


@pytest.mark.parametrize("kind", [k for k in KINDS if k.name not in ELSEWHERE], ids=lambda kind: kind.name)
@pytest.mark.sample(1)
def test_nothing_breaks(kind: AttackKind, seeds: tuple[int, ...]) -> None:
    turns = max(1, SHARE * len(seeds) // 5)
    actual = [turn(kind, seeds[0] + n) for n in range(turns)]
    assert [
        text for each in actual for text in (each.repeat, *each.outcome.wrong) if each.outcome.wrong
    ] == []
    assert total(each.outcome for each in actual).cases >= turns


@pytest.mark.parametrize("life", [name for name in LIVES if name not in LOGGED])
@pytest.mark.sample(1, all=4)
def test_a_race_with_kills_loses_and_doubles_nothing(
    life: str, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[: max(1, len(seeds) // 5)]:
        (tmp_path / str(seed)).mkdir()
        outcome = race(LIVES[life], seed, tmp_path / str(seed), most_kills=KILLS)
        assert outcome.wrong == ()
        assert outcome.counts["kills"] > 0


@pytest.mark.large
def test_a_race_on_a_table_with_a_log_leaves_log_and_files_with_the_same_rows(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    kills = 0
    for n, seed in enumerate(seeds[: max(2, len(seeds) // 2)]):
        (tmp_path / str(seed)).mkdir()
        outcome = race(LIVES[LOGGED[n % len(LOGGED)]], seed, tmp_path / str(seed), most_kills=KILLS)
        assert outcome.wrong == ()
        kills += outcome.counts["kills"]
    print(f"{kills} kills")
    assert kills >= KILLS


def test_a_budget_is_a_time_or_a_number_of_turns() -> None:
    assert [budget(text) for text in ("90s", "30m", "2h", "5")] == [
        (90, None),
        (1800, None),
        (7200, None),
        (None, 5),
    ]
    with pytest.raises(SystemExit, match="write a time"):
        budget("soon")


def test_kinds_take_turns_and_the_page_says_how_to_repeat_what_broke(tmp_path: Path) -> None:
    def breaks(seed: int, folder: Path) -> Outcome:
        assert os.listdir(folder) == []
        odd = seed % 2 == 1
        return Outcome(2, {"kills": 3}, ("seed is odd",) if odd else (), () if odd else ("seed is even",))

    def raises(seed: int, folder: Path) -> Outcome:
        raise KeyError(seed)

    kinds = AttackKind("races", "nothing", breaks), AttackKind("failures", "nothing", raises)
    done = list(attack(kinds, 7, seconds=None, turns=2))
    assert [(t.kind.name, t.seed) for t in done] == [
        ("races", 7),
        ("failures", 7),
        ("races", 8),
        ("failures", 8),
    ]
    text = page(done, seed=7, commit="abc")
    assert "WRONG: ./workbench test --campaign 1 --kind 'races' --seed 7\n  seed is odd" in text
    assert "\n./workbench test --campaign 1 --kind 'races' --seed 8\n  seed is even" in text
    assert "KeyError: 8" in text
    assert "races: 6 kills" in text
    assert "nothing broke" in page([t for t in done if not t.outcome.wrong], seed=7, commit="abc")


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(KeyError, match="there are races"):
        named("nope")


@pytest.mark.large
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
def test_a_campaign_that_is_asked_to_end_ends_with_all_its_racers() -> None:
    command = [sys.executable, "-P", "-m", "tests.campaign", "3", "--kind", "races", "--seed", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as campaign:
        try:
            racers = list[psutil.Process]()
            while len(racers) < WRITERS + 2:  # the forkserver's children, beside itself and its tracker
                assert campaign.poll() is None
                racers = psutil.Process(campaign.pid).children(recursive=True)
                time.sleep(0.05)
            campaign.terminate()
            said, _ = campaign.communicate(timeout=STUCK_SECONDS)
        finally:
            campaign.kill()
    _, alive = psutil.wait_procs(racers, timeout=60)
    assert (campaign.returncode, alive) == (ExitCode.INTERRUPTED, [])
    assert "campaign of 0.0 min from seed 1" in said
