"""The axis of offsets: where an offset is drawn.

Invariants: it never goes back; between two edges of files it is linear. A file has the width of its offsets,
but `LEAST` at least, so that a commit of ten rows is seen beside a segment of a million. What has expired and
offsets that were skipped have a fixed width. Where there are more files than fit, the oldest are drawn as
one. Pure. Called by the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST, GAP = 10.0, 18.0
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class OffsetGroup:
    """Files that are drawn as one: the first and the last of them, and where they begin and end."""

    first: int
    last: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class OffsetAxis:
    """Offsets and the x of each; `left` and `right` are the ends of the picture's lane."""

    left: float
    right: float
    offsets: tuple[int, ...]
    places: tuple[float, ...]
    groups: tuple[OffsetGroup, ...]
    gaps: tuple[Span, ...]

    def x(self, offset: int) -> float:
        """Where an offset is drawn."""
        return float(np.interp(offset, self.offsets, self.places))


def axis(*, start: int, end: int, spans: Sequence[Span], left: float, right: float) -> OffsetAxis:
    """The axis from offset 0 to `end`, of a log that has the rows from `start` on in files of these spans;
    without any (a topic) the whole is one piece."""
    room = right - left
    gone = min(max(0.12 * room, 64.0), 130.0) if start else 0.0
    groups = _groups(spans, int(0.8 * (room - gone) / LEAST))
    gaps = list[Span]()
    pieces: list[tuple[int, int, float | None]] = [(0, start, gone)] if start else []
    at = start
    for group in groups:
        if group.begin > at:
            pieces.append((at, group.begin, GAP))
            gaps.append((at, group.begin))
        pieces.append((group.begin, group.end, None))
        at = group.end
    if end > at:
        pieces.append((at, end, None if not groups else LEAST))
    return _drawn(pieces, groups, gaps, left, room)


def _drawn(
    pieces: Sequence[tuple[int, int, float | None]],
    groups: Sequence[OffsetGroup],
    gaps: Sequence[Span],
    left: float,
    room: float,
) -> OffsetAxis:
    """Each piece with its width: a fixed one, or its share of the room that is left."""
    free = [i for i, (_, _, fixed) in enumerate(pieces) if fixed is None]
    rest = room - sum(fixed for _, _, fixed in pieces if fixed is not None)
    total = sum(pieces[i][1] - pieces[i][0] for i in free) or 1
    spare = max(rest - LEAST * len(free), 0.0)
    x, offsets, places = left, [0], [left]
    for begin, end, fixed in pieces:
        x += fixed if fixed is not None else LEAST + spare * (end - begin) / total
        offsets.append(end)
        places.append(x)
    return OffsetAxis(left, left + room, tuple(offsets), tuple(places), tuple(groups), tuple(gaps))


def _groups(spans: Sequence[Span], most: int) -> list[OffsetGroup]:
    """At most so many groups: the oldest files together, of the newer ones each alone."""
    alone = len(spans) if len(spans) <= most else max(most - 1, 1)
    cut = len(spans) - alone
    groups = [OffsetGroup(0, cut - 1, spans[0][0], spans[cut - 1][1])] if cut else []
    groups += [OffsetGroup(i, i, begin, end) for i, (begin, end) in enumerate(spans) if i >= cut]
    return groups
