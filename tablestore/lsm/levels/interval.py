"""Key-interval partition: data files of one bucket → sections → sorted runs (FORMAT.md 12.3).

Sections do not overlap in keys, so they can be merged one after another. Inside a section the files are
packed into as few sorted runs as possible (I4). Pure: no I/O. Used by compaction rewriting and by split
generation.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from tablestore.format.manifests.data_file import DataFileMeta
from tablestore.lsm.levels.sorted_run import MIXED, SortedRun, newest_first

Section = tuple[SortedRun, ...]


def partition(files: Iterable[DataFileMeta], key: Callable[[bytes], Any]) -> list[Section]:
    """Sections in key order; `key` makes `min_key` and `max_key` comparable."""
    order = enumerate(sorted(files, key=newest_first))  # equal key ranges: by age
    spans = [(key(f.min_key), key(f.max_key), i, f) for i, f in order]
    spans.sort()  # positions differ, so files are never compared
    sections: list[Section] = []
    section: list[tuple[Any, Any, int, DataFileMeta]] = []
    bound: Any = None
    for span in spans:
        if section and span[0] > bound:
            sections.append(_pack(section))
            section = []
        bound = span[1] if not section else max(bound, span[1])
        section.append(span)
    if section:
        sections.append(_pack(section))
    return sections


def _pack(spans: list[tuple[Any, Any, int, DataFileMeta]]) -> Section:
    """Greedy packing: each file goes to the run that ends first, if it begins after that end."""
    runs: list[list[DataFileMeta]] = []
    ends: list[tuple[Any, int]] = []  # heap of (last max key, run)
    for low, high, _, file in spans:
        if ends and low > ends[0][0]:
            run = ends[0][1]
            heapq.heapreplace(ends, (high, run))
            runs[run].append(file)
        else:
            heapq.heappush(ends, (high, len(runs)))
            runs.append([file])
    return tuple(SortedRun(tuple(files), _level(files)) for files in runs)


def _level(files: list[DataFileMeta]) -> int:
    levels = {f.level for f in files}
    return levels.pop() if len(levels) == 1 else MIXED
