"""Words of a statement as text again: what views and computed columns keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Written:
    """A word or sign of a statement: where it stands in the script, and its text."""

    start: int
    end: int
    text: str
    is_parameter: bool = False


_NO_FUNCTIONS = "AND OR NOT IN WHEN THEN ELSE CASE LIKE BETWEEN IS AS OVER DISTINCT".split()


def spaced(words: Sequence[str]) -> str:
    """Words and signs of an expression as one text: `-a * F(b, 'c')`."""
    text, before, sign = "", "", False
    for word in words:
        joins = word in (",", ")", "]", ".", "[", "::") or before in ("(", "[", ".", "::", "")
        joins |= (
            word == "(" and (before[-1:].isalnum() or before[-1:] in "_`") and before not in _NO_FUNCTIONS
        )
        joins |= sign and not word.startswith(("-", "+"))
        text += word if joins else f" {word}"
        # a sign stands at the beginning, or behind what is no operand
        operand = before[-1:] in ")]'`" or (before[-1:].isalnum() and before not in _NO_FUNCTIONS)
        sign = word in ("-", "+") and not operand
        before = word
    return text


def joined(parts: Iterable[Written]) -> str:
    """Words as a text again, with one space where there was any, or a parameter stood."""
    text, end = "", 0
    for part in parts:
        text += (" " if part.start != end or part.is_parameter else "") + part.text
        end = part.end
    return text.strip()
