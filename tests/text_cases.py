"""Text cases: a decision's input and, below `----`, what comes of it; cases are parted by `====`.

`pytest --rewrite` writes what is below `----` anew, and the diff is reviewed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path


def blocks(path: Path) -> Iterator[tuple[str, str]]:
    """(case, answer) of each block of a file, as they are written there."""
    for block in path.read_text(encoding="utf-8").split("\n====\n"):
        case, _, answer = block.partition("\n----\n")
        yield case, answer.rstrip("\n")


def lines_of(case: str) -> list[str]:
    """The lines of a case without comments and blanks."""
    lines = [line.strip() for line in case.split("\n")]
    return [line for line in lines if line and not line.startswith("#")]


def check(path: Path, outcome: Callable[[list[str]], str], *, rewrite: bool) -> None:
    """Each case of a file has the outcome that it says. `outcome` takes a case as `lines_of` gives it."""
    written = []
    for case, expected in blocks(path):
        actual = outcome(lines_of(case))
        written.append(f"{case}\n----\n{actual}\n")
        assert rewrite or actual == expected, f"{path.name}: {case}\n---- gives\n{actual}"
    if rewrite:
        path.write_text("\n====\n".join(written), encoding="utf-8")


def settings(words: list[str]) -> dict[str, str]:
    """`a=1 b=2` as a mapping."""
    return dict(word.split("=", 1) for word in words)
