"""Single flipped bits in every kind of file: no wrong rows in silence (`tests/hostile/flips.py` says how)."""

from __future__ import annotations

import pytest

from tests.hostile.flips import KINDS, SILENT, run

FLIPS = 6 * len(KINDS)  # a seed


@pytest.mark.large
def test_no_flipped_bit_gives_wrong_rows_in_silence(seeds: tuple[int, ...]) -> None:
    report = run(seeds[0], FLIPS * len(seeds) // 5 or 1)
    assert report.wrong == [], report.summary()
    assert report.of(SILENT) == 0
