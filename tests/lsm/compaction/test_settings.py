"""What compaction turns on, from options as they are stored."""

from __future__ import annotations

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption


def test_defaults_are_filled_in_and_what_was_given_is_marked() -> None:
    actual = ts.compaction_settings({"compaction.size-ratio": 3})
    assert [(s.text, s.given) for s in actual.settings] == [("5", False), ("3", True), ("200", False)]
    assert (actual.strategy, actual.trigger, actual.stop_trigger, actual.num_levels) == ("universal", 5, 8, 6)
    assert not actual.leveled


def test_leveled_has_settings_of_its_own_and_counts_level_0() -> None:
    actual = ts.compaction_settings({"tablestore.compaction.strategy": "leveled"})
    assert actual.leveled
    assert [s.text for s in actual.settings] == ["4", "1 gb", "5"]
    assert actual.trigger == 4
    again = ts.compaction_settings(
        {"tablestore.compaction.strategy": "leveled"} | {s.key: s.text for s in actual.settings}
    )
    assert [s.text for s in again.settings] == ["4", "1 gb", "5"]


def test_bad_values_and_near_misses_are_refused() -> None:
    with pytest.raises(InvalidOption, match="num-sorted-run"):
        ts.compaction_settings({"num-sorted-run.compaction-trigger": "few"})
    with pytest.raises(InvalidOption, match="did you mean"):
        ts.compaction_settings({"num-sorted-run.compaction-triger": 5})
