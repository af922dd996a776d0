"""Trials of mutants: where the code of one goes, what ends a child, and which mutants are killed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tablestore.meta import expiry_rules
from tests.mutants.faults import Mutant, mutants
from tests.mutants.session import ROOT, Codes, in_child
from tests.mutants.trial import attempt

MODULE = "tablestore/write/full_compaction.py"


@pytest.mark.large
def test_every_fault_in_a_small_module_is_noticed_and_none_is_written(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    before = (ROOT / MODULE).read_bytes()
    tried = attempt(MODULE, seeds[0], tmp_path, most=6)
    assert (tried.tried, tried.killed, tried.survivors, tried.broken) == (6, 6, (), "")
    assert (ROOT / MODULE).read_bytes() == before


def test_a_mutant_is_in_place_in_a_child_and_nowhere_else() -> None:
    path = str(expiry_rules.__file__)
    (hours,) = (
        each for each in mutants(path, Path(path).read_text(encoding="utf-8")) if "3600001)" in each.after
    )
    mutated, _ = in_child(lambda: (_with(path, hours), ""), seconds=600)
    assert mutated == "60 min"
    assert expiry_rules.duration(3_600_000) == "1 h"


def _with(path: str, mutant: Mutant) -> str:
    Codes(path).put(mutant)
    return expiry_rules.duration(3_600_000)


@pytest.mark.parametrize("end", [lambda: os._exit(3), lambda: time.sleep(600), lambda: 1 // 0])
def test_a_child_that_does_not_answer_gives_nothing(end: object) -> None:
    assert callable(end)
    assert in_child(lambda: (end(), ""), seconds=0.2) == (None, "")
