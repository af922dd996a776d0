"""Times by Java's patterns."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tablestore.core.errors import InvalidOption
from tablestore.format.time_text import local_millis, pattern_parts


def at(year: int, month: int, day: int, *time: int) -> int:
    return int(datetime(year, month, day, *time, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "pattern", "wanted"),
    [
        ("2024-05-06", None, at(2024, 5, 6)),
        ("2024-5-6 1:2:3.25", None, at(2024, 5, 6, 1, 2, 3) + 250),
        ("2024-13-32", None, at(2025, 2, 1)),
        ("20240506", None, None),
        ("2024-05-06 12:00", None, None),
        ("20240506", "yyyyMMdd", at(2024, 5, 6)),
        ("20240230", "yyyyMMdd", at(2024, 2, 29)),
        ("20241301", "yyyyMMdd", None),
        ("2024050612", "yyyyMMddHH", at(2024, 5, 6, 12)),
        ("2024-05-06T07:08", "yyyy-MM-dd'T'HH:mm", at(2024, 5, 6, 7, 8)),
        ("6.5.24", "d.M.yy", at(2024, 5, 6)),
        ("202405", "yyyyMM", None),
        ("hr=05, day 20240506", "'hr='HH, 'day' yyyyMMdd", at(2024, 5, 6, 5)),
    ],
)
def test_a_text_is_a_time_of_its_pattern(text: str, pattern: str | None, wanted: int | None) -> None:
    assert local_millis(text, pattern) == wanted


@pytest.mark.parametrize("pattern", ["yyyy-ww", "yyyyMMMdd", "yyyy[MM]", "yyyy-MM-dd'T", "dd/MM/yyyy a"])
def test_letters_that_are_not_known_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidOption, match="time pattern"):
        local_millis("2024-05-06", pattern)


def test_the_letter_that_is_not_known_is_named() -> None:
    with pytest.raises(InvalidOption, match="'w' is not known"):
        local_millis("2024", "yyyy-ww-MM")


def test_parts_of_a_pattern_are_letters_texts_and_signs() -> None:
    pattern = "yyyy-MM'T o''clock'[HH]''é'"
    parts = [*pattern_parts(pattern)]
    assert [part.text for part in parts] == ["yyyy", "-", "MM", "T o'clock", "[", "HH", "]", "'", "é", "'"]
    assert [part.letter for part in parts] == ["y", "", "M", "", "", "H", "", "", "", ""]
    assert [part.text for part in parts if part.sign] == ["[", "]", "'"]  # the last quote is not closed
    assert [pattern[part.at] for part in parts] == [*"y-M'[H]'é'"]
