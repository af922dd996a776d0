"""The benchmark of merge functions at its smallest size. No time is asserted."""

from __future__ import annotations

import pytest

from notebooks.bench import merge
from tests.peers.merge_space import FUNCTIONS


def test_merge_measures_every_engine_and_function(capsys: pytest.CaptureFixture[str]) -> None:
    assert merge.main(["--rows", "200", "--rounds", "1"]) == 0
    lines = capsys.readouterr().out.split("---\n")[-1].splitlines()
    assert [line.split()[0] for line in lines] == [
        *(name.split()[0] for name in merge.ENGINES),
        *(function.name for function in FUNCTIONS),
    ]
