"""Text cases: a decision's input and, below `----`, what comes of it; cases are parted by `====`.

`pytest --rewrite` writes what is below `----` anew, and the diff is reviewed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def check(path: Path, outcome: Callable[[list[str]], str], *, rewrite: bool) -> None:
    """Each case of a file gives what it says. `outcome` is given the lines of a case without comments and
    blanks."""
    written = []
    for block in path.read_text().split("\n====\n"):
        case, _, expected = block.partition("\n----\n")
        lines = [line.strip() for line in case.split("\n")]
        found = outcome([line for line in lines if line and not line.startswith("#")])
        written.append(f"{case}\n----\n{found}\n")
        assert rewrite or found == expected.rstrip("\n"), f"{path.name}: {case}\n---- gives\n{found}"
    if rewrite:
        path.write_text("\n====\n".join(written))


def settings(words: list[str]) -> dict[str, str]:
    """`a=1 b=2` as a mapping."""
    return dict(word.split("=", 1) for word in words)
