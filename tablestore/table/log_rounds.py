"""A round: rows of many commits in a log come into files in one commit, with the positions of their streams.

Who appended is recognised afterwards by the marks in the log, and once the files have the rows by the
positions in the snapshot. A round has the newest watermark of its commits, and of their properties those of
the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tablestore.format.snapshot import BATCH_IDENTIFIER
from tablestore.log.log import Appended, Log
from tablestore.log.offsets import Offsets
from tablestore.log.transaction_id import TransactionId, newest
from tablestore.meta.positions import Position
from tablestore.write.commit.request import CommitRequest, LogRange


@dataclass(frozen=True, slots=True)
class LogRound:
    """The rows of a log from `start` up to `end`, in some buckets, and what their commits say. `repeated`:
    what was appended of commits that are there already, by two writers of one name."""

    start: Offsets
    end: Offsets
    positions: Mapping[str, Position] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    last: TransactionId | None = None
    repeated: Sequence[Appended] = ()

    def request(self, user: str) -> CommitRequest:
        """The commit of the round."""
        return CommitRequest(
            user,
            properties=dict(self.properties) or None,
            watermark=self.watermark,
            log=LogRange(self.start, self.end, self.last),
            positions=self.positions,
        )

    def parts(self) -> list[tuple[Offsets, Offsets]]:
        """Where the rows are that files lack: from the first offsets of each pair up to the others."""
        missing: list[tuple[Offsets, Offsets]] = []
        for bucket, end in self.end.items():
            at = self.start.get(bucket, 0)
            there = (own for part in self.repeated if bucket in part.start for own in _own(part, bucket))
            for own in sorted(there, key=lambda r: r.start):
                if at < own.start:
                    missing.append(({bucket: at}, {bucket: own.start}))
                at = max(at, own.stop)
            if at < end:
                missing.append(({bucket: at}, {bucket: end}))
        return missing


def _own(one: Appended, bucket: int) -> Iterator[range]:
    """Where the rows of a transaction are in a bucket, without those of others among them."""
    at = one.start[bucket]
    for others in one.between.get(bucket, ()):
        yield range(at, others.start)
        at = others.stop
    yield range(at, one.end[bucket])


def round_of(
    log: Log, start: Offsets, end: Offsets, known: Mapping[str, Position], passed: Offsets
) -> LogRound:
    """The round between two offsets, on top of a snapshot that knows these positions; of buckets of which
    rows are lost, behind those that are `passed`."""
    repeated: list[Appended] = []
    positions: dict[str, Position] = {}
    properties: dict[str, str] = {}
    watermark: int | None = None
    last: TransactionId | None = None
    for appended in log.transactions({**start, **passed}):
        mark = appended.mark
        if not any(first < end.get(b, 0) for b, first in appended.start.items()):
            continue
        last = newest(last, appended.last)
        if mark is None:
            continue
        before = positions.get(mark.user) or known.get(mark.user)
        streaming = mark.identifier != BATCH_IDENTIFIER
        if streaming and before is not None and mark.identifier <= before[0]:
            repeated.append(appended)
            continue
        properties |= mark.properties
        watermark = mark.watermark if watermark is None else max(watermark, mark.watermark or watermark)
        if not streaming:
            continue
        kept = mark.position if mark.position is not None else (before[1] if before else None)
        positions[mark.user] = mark.identifier, kept
    moved = {b: offset for b, offset in end.items() if offset > start.get(b, 0)}
    begin = {b: start.get(b, 0) for b in moved}
    return LogRound(begin, moved, positions, properties, watermark, last, tuple(repeated))
