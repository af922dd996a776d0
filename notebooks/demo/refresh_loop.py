"""The refresh loop of the source article: which refresh sets each of its rounds applies."""

from __future__ import annotations


def sets(rounds: int, *, first: int = 1, numbering: str = "linear") -> list[range]:
    """The sets of each round, `first` of them in the first one.

    "linear": 1–100, 101–200, 201–300 for `first` = 100, as the article's comment says. "article": 1–100,
    101–200, 201–400, 401–800, as its script does, whose bounds double.
    """
    if numbering not in ("linear", "article"):
        raise ValueError(f"numbering {numbering!r}: linear or article")
    ranges = [range(1, first + 1)]
    while len(ranges) < rounds:
        end = ranges[-1].stop - 1
        ranges.append(range(end + 1, 2 * end + 1 if numbering == "article" else end + first + 1))
    return ranges[:rounds]
