"""A bucket's history as occasions: what one commit flushed, and how its owner was asked to compact.

A writer's commit makes an APPEND and maybe a COMPACT snapshot, which belong together; a compaction job makes
a COMPACT alone. How a commit compacted (`CompactionMode`) is found by carrying it out (`history_replay`), so
that it can be asked the same of other options. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.snapshot import APPEND, COMPACT, OVERWRITE
from tablestore.insight.explain.table_history import BASE, BucketEvent, flushes

Place = tuple[str, int]


class CompactionMode(Enum):
    """How the writer or job of a commit compacts."""

    NEVER = "never"  # a writer that only writes
    SETTLE = "until no rule fires"  # this engine's writers: a stall before a flush, then until it is quiet
    EARLIER = "what earlier commits left"  # `lookup-wait` = false: until quiet, then the flush
    ONCE = "one pick"  # a job, or another engine's writer after its flush
    FULLY = "full compaction"  # asked for, then until no rule fires
    AS_RECORDED = "as it was"  # files replaced by no rule: carried over as they are


@dataclass(slots=True)
class BucketCommit:
    """One commit to one bucket: flushes in order, files taken away by an overwrite, and what a compaction did
    (None: nothing). `mode` is set when it is known."""

    snapshot: int
    now_ms: int
    flushes: list[tuple[DataFileMeta, ...]]
    overwritten: tuple[DataFileMeta, ...] = ()
    base: tuple[DataFileMeta, ...] = ()
    compaction: BucketEvent | None = None
    mode: CompactionMode | None = None
    user: str = ""
    identifier: int = 0
    schema_id: int = 0
    changelog_bytes: int = 0
    everything: bool = False  # an overwrite of all files of the bucket
    left_alone: bool = False  # a rule would have fired after its flush, and none did

    @property
    def kind(self) -> str:
        """APPEND, OVERWRITE, COMPACT of a job, or BASE for what was there before."""
        if self.flushes or self.overwritten:
            return OVERWRITE if self.overwritten else APPEND
        return COMPACT if self.compaction is not None else BASE

    @property
    def last_snapshot(self) -> int:
        """The snapshot after which the bucket is as this occasion left it."""
        return self.compaction.snapshot if self.compaction is not None else self.snapshot


def occasions(events: Iterable[BucketEvent]) -> dict[Place, list[BucketCommit]]:
    """The events of each bucket by commit, in order; rows that wait in postponed buckets are left out."""
    commits: dict[Place, list[BucketCommit]] = defaultdict(list)
    for event in events:
        if event.bucket < 0:
            continue
        before = commits[event.place]
        now = max([before[-1].now_ms if before else 0, *_times(event)])
        if event.kind == COMPACT:
            last = before[-1] if before else None
            if last is not None and _same_commit(last, event):
                last.compaction, last.now_ms = event, now
            else:
                before.append(_occasion(event, now, compaction=event))
        elif event.kind == BASE:
            before.append(_occasion(event, now, base=event.after))
        elif event.flushed or event.before:
            gone = event.before
            before.append(_occasion(event, now, flushed=event.flushed, overwritten=gone))
    return commits


def _occasion(
    event: BucketEvent,
    now: int,
    *,
    flushed: tuple[DataFileMeta, ...] = (),
    overwritten: tuple[DataFileMeta, ...] = (),
    base: tuple[DataFileMeta, ...] = (),
    compaction: BucketEvent | None = None,
) -> BucketCommit:
    return BucketCommit(
        event.snapshot,
        now,
        flushes(flushed),
        overwritten,
        base,
        compaction,
        user=event.user,
        identifier=event.identifier,
        schema_id=event.schema_id,
        changelog_bytes=sum(f.file_size for f in event.changelog),
    )


def _same_commit(last: BucketCommit, event: BucketEvent) -> bool:
    """Whether a COMPACT event is the second half of a writer's commit."""
    same = (last.user, last.identifier) == (event.user, event.identifier)
    return same and bool(last.flushes) and last.compaction is None


def _times(event: BucketEvent) -> list[int]:
    """When its files were made: local wall clock, as picks know it."""
    files = (*event.flushed, *event.after)
    return [f.creation_time_ms for f in files if f.creation_time_ms is not None]
