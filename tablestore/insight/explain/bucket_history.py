"""Events of a table's buckets, commit by commit: one value for each bucket that a snapshot changed.

Made from delta manifests by `insight.explain.table_history`; added up by `insight.inspect.amplification`;
carried out again, as it was or under other options, by `insight.simulator`. Pure values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.snapshot import COMPACT

BASE = "BASE"  # kind of the event that gives what was live before the first snapshot looked at


@dataclass(frozen=True, slots=True)
class BucketEvent:
    """What one snapshot did to one bucket.

    `kind` is the snapshot's, or BASE. APPEND and OVERWRITE put new files into `flushed` and what they
    replaced into `before`; COMPACT takes `before` away for `after`, a moved file being in both with its two
    levels. `records` are the picks of a COMPACT as the engine kept them, in order; none where others
    compacted.
    """

    snapshot: int
    time_ms: int
    kind: str
    partition: str
    bucket: int
    flushed: tuple[DataFileMeta, ...] = ()
    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()
    records: tuple[CompactionRecord, ...] = ()
    user: str = ""
    identifier: int = 0
    schema_id: int = 0

    @property
    def place(self) -> tuple[str, int]:
        """The bucket: partition as text, number."""
        return self.partition, self.bucket

    @property
    def record(self) -> CompactionRecord | None:
        """The last of `records`, None if there are none."""
        return self.records[-1] if self.records else None

    @property
    def moved(self) -> frozenset[str]:
        """Names of the files of a compaction that only changed their level."""
        return frozenset(f.file_name for f in self.before) & frozenset(f.file_name for f in self.after)

    @property
    def rewritten(self) -> tuple[DataFileMeta, ...]:
        """Files that a compaction read and replaced."""
        moved = self.moved
        return tuple(f for f in self.before if f.file_name not in moved) if self.kind == COMPACT else ()

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """Files that a compaction wrote, moved ones left out."""
        moved = self.moved
        return tuple(f for f in self.after if f.file_name not in moved) if self.kind == COMPACT else ()


def flushes(files: Iterable[DataFileMeta]) -> list[tuple[DataFileMeta, ...]]:
    """The new files of one commit by the flush that wrote them, oldest first: files of one flush share a span
    of sequence numbers, those of the next come after it."""
    groups: list[list[DataFileMeta]] = []
    end = None
    for file in sorted(files, key=lambda f: (f.min_sequence, f.max_sequence)):
        if end is None or file.min_sequence > end:
            groups.append([])
        groups[-1].append(file)
        end = file.max_sequence if end is None else max(end, file.max_sequence)
    return [tuple(files) for files in groups]
