"""A round: rows of many commits in a log come into files in one commit, with the positions of their streams.

Who appended is recognised afterwards by the marks in the log, and once the files have the rows by the
positions in the snapshot. A round has the newest watermark of its commits, and of their properties those of
the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tablestore.format.snapshot import BATCH_IDENTIFIER
from tablestore.log.log import Log
from tablestore.log.offsets import Offsets
from tablestore.meta.positions import Position
from tablestore.write.commit.request import CommitRequest, LogRange


@dataclass(frozen=True, slots=True)
class LogRound:
    """The rows of a log from `start` up to `end`, in some buckets, and what their commits say."""

    start: Offsets
    end: Offsets
    positions: Mapping[str, Position] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None

    def request(self, user: str) -> CommitRequest:
        """The commit of the round."""
        return CommitRequest(
            user,
            properties=dict(self.properties) or None,
            watermark=self.watermark,
            log=LogRange(self.start, self.end),
            positions=self.positions,
        )


def round_of(log: Log, start: Offsets, end: Offsets, known: Mapping[str, Position]) -> LogRound | None:
    """The round between two offsets, on top of a snapshot that knows these positions. None where a commit of
    a stream is there that was before: two writers of one name appended it both."""
    positions: dict[str, Position] = {}
    properties: dict[str, str] = {}
    watermark: int | None = None
    for found in log.transactions(start):
        mark = found.mark
        if mark is None or not any(first < end.get(b, 0) for b, first in found.start.items()):
            continue
        properties |= mark.properties
        watermark = mark.watermark if watermark is None else max(watermark, mark.watermark or watermark)
        if mark.identifier == BATCH_IDENTIFIER:
            continue
        before = positions.get(mark.user) or known.get(mark.user)
        if before is not None and mark.identifier <= before[0]:
            return None
        kept = mark.position if mark.position is not None else (before[1] if before else None)
        positions[mark.user] = mark.identifier, kept
    moved = {b: offset for b, offset in end.items() if offset > start.get(b, 0)}
    return LogRound({b: start.get(b, 0) for b in moved}, moved, positions, properties, watermark)
