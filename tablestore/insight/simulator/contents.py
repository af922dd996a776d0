"""Contents of simulated files, merged, joined and cut: drawn keys, each of which stands for one row or for
many, or expected densities of keys. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tablestore.insight.simulator import density
from tablestore.insight.simulator.density import Law, Pieces
from tablestore.insight.simulator.keyset import KeySet, joined, merged

Content = tuple[Any, int, int]  # keys, rows, deletes
Part = tuple[Any, int, int, int, int]  # keys, rows, deletes, smallest and greatest key of a file


class Contents(Protocol):
    """A kind of contents. `exact`: every row is known; else `why` says what the sizes are."""

    exact: bool
    why: str

    def merged(self, newest_first: Sequence[Content], drop: bool) -> Content:
        """The content of files that overlap, merged; with `drop` without deletes."""
        ...

    def joined(self, in_key_order: Sequence[Content], drop: bool) -> Content:
        """The content of files that follow each other in key order; with `drop` without deletes."""
        ...

    def cut(self, content: Content, most_rows: int, ends: tuple[int, int]) -> list[Part]:
        """Files of `most_rows` rows in key order, the last with the rest; `ends`: first and last key."""
        ...


class Drawn:
    """Sampled keys, each of which stands for `weight` rows."""

    def __init__(self, weight: float) -> None:
        self.exact = weight == 1
        self.why = f"each key stands for {weight:,.0f}"

    def merged(self, newest_first: Sequence[Content], drop: bool) -> Content:
        """Each sampled key once."""
        rows = deletes = sampled = 0
        for keys, some, dead in newest_first:
            rows += some
            deletes += dead
            sampled += len(keys.keys)
        return _left(merged([c[0] for c in newest_first]), rows, deletes, sampled, drop)

    def joined(self, in_key_order: Sequence[Content], drop: bool) -> Content:
        """All keys."""
        if not in_key_order:
            return (), 0, 0
        sample = joined([c[0] for c in in_key_order])
        rows, deletes = sum([c[1] for c in in_key_order]), sum([c[2] for c in in_key_order])
        return _left(sample, rows, deletes, len(sample), drop)

    def cut(self, content: Content, most_rows: int, ends: tuple[int, int]) -> list[Part]:
        """Cut between the sampled keys."""
        sample, rows, deletes = content
        count = min(-(-rows // most_rows), len(sample))
        if count <= 1:
            return [(*content, *ends)]
        parts = []
        for i in range(count):
            first, last = i * most_rows, rows if i == count - 1 else (i + 1) * most_rows
            start = max(len(sample) * first // rows, i)
            stop = len(sample) if i == count - 1 else max(len(sample) * last // rows, i + 1)
            keys, many = sample.slice(start, stop), last - first
            dead = keys.deletes if rows == len(sample) else deletes * many // rows or min(deletes, 1)
            low, high = int(keys.keys[0]) if i else ends[0], int(keys.keys[-1])
            parts.append((keys, many, dead, low, high if i < count - 1 else ends[1]))
        return parts


def _left(sample: KeySet, rows: int, deletes: int, sampled: int, drop: bool) -> Content:
    """The content of the sampled keys that remain: rows in the same proportion."""
    whole = rows == sampled
    if drop:
        sample, deletes = sample.without_deletes(), 0
    kept = len(sample.keys)
    if kept == sampled:
        return sample, rows, deletes
    return sample, round(rows * kept / sampled), sample.deletes if whole else deletes * kept // sampled


class Expected:
    """Expected densities by a law."""

    exact, why = False, "rows are expected values"

    def __init__(self, law: Law) -> None:
        self._law = law

    def merged(self, newest_first: Sequence[Content], drop: bool) -> Content:
        """Rows of the keys that are there after all draws."""
        return self._content(density.merged([c[0] for c in newest_first], self._law), drop)

    def joined(self, in_key_order: Sequence[Content], drop: bool) -> Content:
        """All rows, as they were counted."""
        pieces = density.joined([c[0] for c in in_key_order])
        rows, deletes = sum([c[1] for c in in_key_order]), sum([c[2] for c in in_key_order])
        if not drop or not deletes:
            return pieces, rows, deletes
        return density.without_deletes(pieces), rows - deletes, 0

    def _content(self, pieces: Pieces, drop: bool) -> Content:
        if drop:
            pieces = density.without_deletes(pieces)
        rows, deletes = density.rows_of(pieces, self._law)
        return pieces, round(rows), round(deletes)

    def cut(self, content: Content, most_rows: int, ends: tuple[int, int]) -> list[Part]:
        """Cut where the rows before are expected to be that many."""
        pieces, rows, _ = content
        if rows <= most_rows:
            return [(*content, *ends)]
        cut_parts: list[Part] = []
        parts = density.cut(pieces, self._law, rows=rows, every=most_rows)
        for i, part in enumerate(parts):
            many = most_rows if i < len(parts) - 1 else rows - most_rows * (len(parts) - 1)
            _, dead = density.rows_of(part, self._law)
            low, high = density.ends_of(part, self._law)
            low, high = ends[0] if not i else low, ends[1] if i == len(parts) - 1 else high
            cut_parts.append((part, many, min(round(dead), many), low, high))
        return cut_parts
