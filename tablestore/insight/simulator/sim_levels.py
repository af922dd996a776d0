"""What a compaction makes of simulated levels: a run in which files change costs what changes, and its copy.

Keys are comparable as they lie, so files are found by search, and sizes are kept, where `Levels.apply` looks
at every file. Pure. Used by `SimBucket`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from tablestore.lsm.levels.sorted_run import KeyOrder, Levels, SortedRun, byte_order

ByLevel = Mapping[int, Sequence[Any]]  # files
_smallest, _greatest = attrgetter("min_key"), attrgetter("max_key")


class SimRun(SortedRun):
    """A run of simulated files, found by search in the files themselves: no list of their keys is made."""

    @classmethod
    def sized(cls, files: tuple[Any, ...], level: int, size: int) -> SimRun:
        """The run whose files have `size` bytes, which need not be added up."""
        run = cls(files, level)
        run.__dict__["size"] = size
        return run

    def ends(self, position: int, key: KeyOrder) -> tuple[Any, Any]:
        """Smallest and greatest key of one file."""
        file = self.files[position]
        return file.min_key, file.max_key

    def span(self, low: Any, high: Any, key: KeyOrder) -> tuple[int, int]:
        """From where to where the files lie that share a key with `low`..`high`."""
        if self.files and low > self.files[-1].max_key:
            return len(self.files), len(self.files)
        start = bisect_left(self.files, low, key=_greatest)
        return start, bisect_right(self.files, high, lo=start, key=_smallest)


def applied(levels: Levels, gone: ByLevel, come: ByLevel) -> Levels:
    """The levels without the files that are `gone` and with those that have `come`, none of them to level 0:
    what `Levels.apply` gives."""
    level0, upper = levels.level0, list(levels.upper)
    for level in gone.keys() | come.keys():
        if level:
            upper[level - 1] = _changed(upper[level - 1], gone.get(level, ()), come.get(level, ()))
    if 0 in gone:
        names = {f.file_name for f in gone[0]}
        level0 = tuple([f for f in level0 if f.file_name not in names]) if len(names) < len(level0) else ()
    return Levels(level0, tuple(upper), levels.key)


def _changed(run: SortedRun, gone: Sequence[Any], come: Sequence[Any]) -> SortedRun:
    """The run without some files and with others, which stay disjoint."""
    files = run.files
    if len(gone) == len(files):
        start, stop = 0, len(files)
    elif len(gone) + len(come) == 1:
        (file,) = (*gone, *come)
        start, stop = run.span(file.min_key, file.max_key, byte_order)
    else:
        low = min([f.min_key for f in gone] + [f.min_key for f in come])
        high = max([f.max_key for f in gone] + [f.max_key for f in come])
        start, stop = run.span(low, high, byte_order)
    inside = _exchanged(files[start:stop], gone, come, run.level)
    size = run.size + sum([f.file_size for f in come]) - sum([f.file_size for f in gone])
    return SimRun.sized(
        files[:start] + tuple(inside) + files[stop:], run.level, size
    )  # one copy of a long run


def _exchanged(files: Sequence[Any], gone: Sequence[Any], come: Sequence[Any], level: int) -> Sequence[Any]:
    """Files in key order without some, which must be among them, and with others."""
    exchanged: list[Any] = []
    if len(files) > len(gone):
        names = {f.file_name for f in gone}
        exchanged += [f for f in files if f.file_name not in names]
    assert len(exchanged) == len(files) - len(gone), f"I6: not all of {len(gone)} files are live at L{level}"
    exchanged += come
    if len(exchanged) > 1:
        exchanged.sort(key=attrgetter("min_key"))
    return exchanged
