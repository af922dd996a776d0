"""Several stream sources as one, and a batch of what they give: a function of two offsets.

The offset of all holds that of each source, and the snapshot at which each looked-up table is read, so that a
batch that is done again has the same rows. Picklable. A runner (`runner.py`) plans with it and hands out each
`Batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

from tablestore.core.errors import InvalidRequest
from tablestore.flow.source import Changes, Offset, StreamPiece, StreamSource
from tablestore.format.predicates.predicate import Predicate

VERSION = 1
_MOST_PIECES = 16  # of one source in a batch
T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P")


class LookupTable(Protocol):
    """A table that a stream looks rows up in. `place` is what its snapshots go by in an offset."""

    @property
    def place(self) -> str: ...

    def newest(self) -> int:
        """The id of its newest snapshot, 0 for a table without one."""


@dataclass(frozen=True)
class WorkOf(Generic[P]):
    """A piece of a batch: of the source of this number. Of pieces with rows of one key, the later `ordinal`
    has the later changes."""

    source: int
    ordinal: int
    piece: P


Work = WorkOf[StreamPiece]


class WorkPlan(Protocol):
    """What plans batches, offset by offset, and cuts them into work. Picklable."""

    def initial(self) -> Offset:
        """The offset before the first batch."""

    def next(self, start: Offset) -> Offset:
        """Where a batch from `start` ends; `start` itself where nothing is new."""

    def ended(self, offset: Offset) -> bool:
        """Whether nothing can come after this offset, ever."""

    def works(self, start: Offset, end: Offset) -> Sequence[WorkOf[Any]]:
        """The work between two offsets, in order; picklable."""

    def done(self, end: Offset) -> None:
        """What lies before `end` is read and committed."""


class Batch(Protocol):
    """A batch: what its sources give between `start` and `end`, with workers."""

    @property
    def number(self) -> int:
        """From 0 for the first of a checkpoint; the same again for a batch that is done again."""

    @property
    def start(self) -> Offset: ...

    @property
    def end(self) -> Offset: ...

    def works(self) -> Sequence[Any]:
        """Its pieces of work in order, as its plan cuts it."""

    def over(
        self, task: Callable[[T], R], items: Sequence[T], *, count: Callable[[R], int] | None = None
    ) -> list[R]:
        """What a task gives for each item, in order, done by workers; tasks, items, `count` and results are
        picklable. What is counted in the result of an item is in `counted` as soon as the item is done."""

    def counted(self) -> Mapping[int, int]:
        """The counts of the items that are done, by their places. Any thread may ask."""


@dataclass(frozen=True, slots=True)
class PieceSequence:
    """Pieces that one task reads, one after another: a piece."""

    pieces: tuple[StreamPiece, ...]

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        for piece in self.pieces:
            yield from piece.read(columns, where)


def _few(pieces: Sequence[StreamPiece]) -> Sequence[StreamPiece]:
    """The pieces, neighbours together where they are many: of a stream that has fallen behind by hundreds of
    snapshots, each small."""
    if len(pieces) <= _MOST_PIECES:
        return pieces
    cuts = [len(pieces) * i // _MOST_PIECES for i in range(_MOST_PIECES + 1)]
    return [PieceSequence(tuple(pieces[a:b])) for a, b in pairwise(cuts)]


@dataclass(frozen=True, slots=True)
class Streams:
    """The sources of a stream, and the tables that it looks rows up in."""

    sources: tuple[StreamSource, ...]
    lookups: tuple[LookupTable, ...] = ()

    @property
    def variables(self) -> list[str]:
        """The environment variables that hold secrets of the sources."""
        return sorted({name for source in self.sources for name in getattr(source, "variables", ())})

    def initial(self) -> Offset:
        """The offset before the first batch."""
        return self._offset([s.initial() for s in self.sources], {t.place: 0 for t in self.lookups})

    def latest(self) -> Offset | None:
        """The offset at which all that there is now has been read; None where a source has no end."""
        offsets = [s.latest() for s in self.sources]
        return None if any(o is None for o in offsets) else self._offset(offsets, self._pinned())

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        """Where a batch from `start` may end; `start` itself where nothing is new."""
        starts = self.of_sources(start)
        targets = [None] * len(starts) if target is None else self.of_sources(target)
        parts = zip(self.sources, starts, targets, strict=True)
        ends = [source.next(begin, until) for source, begin, until in parts]
        return start if ends == starts else self._offset(ends, self._pinned())

    def ended(self, offset: Offset) -> bool:
        """Whether nothing can come after this offset, ever."""
        parts = zip(self.sources, self.of_sources(offset), strict=True)
        return all(source.ended(part) for source, part in parts)

    def works(self, start: Offset, end: Offset) -> list[Work]:
        """The pieces between two offsets, in order."""
        works: list[Work] = []
        parts = zip(self.sources, self.of_sources(start), self.of_sources(end), strict=True)
        for number, (source, begin, stop) in enumerate(parts):
            for piece in _few(source.pieces(begin, stop)) if begin != stop else ():
                works.append(Work(number, len(works), piece))
        return works

    def done(self, end: Offset) -> None:
        """What lies before `end` is read and committed."""
        for source, part in zip(self.sources, self.of_sources(end), strict=True):
            source.done(part)

    def of_sources(self, offset: Offset) -> list[Offset]:
        """The offset of each source. Raises InvalidRequest for an offset of another stream."""
        offsets = offset.get("sources", [])
        if offset.get("v") != VERSION or len(offsets) != len(self.sources):
            raise InvalidRequest(f"{offset} is no offset of this stream of {len(self.sources)} sources")
        return list(offsets)

    def _pinned(self) -> dict[str, int]:
        return {table.place: table.newest() for table in self.lookups}

    @staticmethod
    def _offset(sources: Sequence[Offset | None], lookups: dict[str, int]) -> Offset:
        return {"v": VERSION, "sources": list(sources), "lookups": lookups}
