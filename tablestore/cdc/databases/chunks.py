"""Chunks: which ranges of the keys of tables a batch reads, whichever database says where a range ends.

A table is read range by range, in the order of its keys; its last range has no end. Keys are the database's.
The states say how far a captured table is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, replace
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import BatchFacts

READING, SETTLING, FOLLOWED, UNUSABLE, HELD, GONE = (
    "snapshot",  # rows up to `key` are read
    "settling",  # all rows are read, some maybe ahead of the position
    "log",
    "skipped",  # it is not captured; one with a digest was before
    "paused",  # it was captured, and is not until it is asked for
    "dropped",  # its rows stay in the lake
)


_LEAST_SHARE = 1 / 16  # of a chunk, that a small table counts for


class ReadProgress(Protocol):
    """How far a table is: rows up to `key` are read. It has `bounds`, too: the ends of a batch's chunks."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def state(self) -> str: ...
    @property
    def key(self) -> Any: ...


P = TypeVar("P", bound=ReadProgress)


def bounds_above(key: Any, most: float, next_bound: Callable[[Any], Any]) -> tuple[tuple[Any, ...], bool]:
    """(ends of at most so many ranges above `key`, whether the last range of the table comes after them).
    `next_bound` gives the end of the range above a key, None for the last."""
    bounds: list[Any] = []
    while len(bounds) < most:
        high = next_bound(bounds[-1] if bounds else key)
        if high is None:
            return tuple(bounds), True
        bounds.append(high)
    return tuple(bounds), False


def share_of(rows: float, chunk_rows: int) -> float:
    """What the last chunk of a table with about so many rows counts as."""
    return min(1.0, max(_LEAST_SHARE, rows / max(1, chunk_rows)))


def chunk_plan(
    tables: Mapping[SourceName, P],
    chunks: int,
    next_bound: Callable[[P, Any], Any],
    share: Callable[[SourceName], float],
) -> dict[SourceName, P]:
    """The tables whose next rows a batch reads, as they are behind it: up to so many chunks in all, of which
    the last of a table counts as its `share`. `next_bound` gives the end of a table's range above a key."""
    plan: dict[SourceName, P] = {}
    left = float(max(1, chunks))
    for name, progress in tables.items():
        if progress.state != READING:
            continue
        if left <= 0:
            break
        bounds, last = bounds_above(progress.key, left, partial(next_bound, progress))
        left -= len(bounds) + (share(name) if last else 0)
        key = None if last else bounds[-1]
        plan[name] = replace(progress, state=SETTLING if last else READING, key=key, bounds=bounds)
    return plan


def batch_facts(facts: Mapping[str, Any], position: str, tables: Mapping[SourceName, P]) -> BatchFacts:
    """What is known of a batch that ends at a position: by the facts that its offset has, and its tables."""
    reading, held = (tuple(n for n, p in tables.items() if p.state == state) for state in (READING, HELD))
    commits = tuple((at, n) for at, n in facts.get("commits", ()))
    sizes = facts.get("log_bytes", 0), facts.get("bytes_behind", 0)
    return BatchFacts(facts.get("planned", 0.0), position, commits, *sizes, reading, held)


def chunk_ranges(key: Any, bounds: Sequence[Any], *, last: bool) -> list[tuple[Any, Any]]:
    """(above, up to) of each chunk that ends at one of the bounds, and of the `last` of the table."""
    ends = [*bounds, *([None] if last else [])]
    return list(zip([key, *bounds], ends, strict=False))
