"""A share of the soak of tables with a log: `--rounds 210` makes more than 10,000 moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log.soak import SPECS, live

MOMENTS = 12


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.sample(1)
def test_readers_and_union_reads_equal_the_truth_at_random_moments(
    tmp_path: Path, kind: str, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        counts = live(tmp_path / str(seed), kind, seed, MOMENTS)
        assert counts["write"]
