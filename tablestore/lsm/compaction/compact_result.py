"""CompactResult: what compactions of one bucket made of its files, several one after another as one; and a
compaction carried out with a record of it.

Used by writers, which compact between flushes, and by compactions of whole buckets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.lsm.compaction.recording import completed, log_text
from tablestore.lsm.levels.bucket import Bucket

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactResult:
    """Files taken out of the levels and files put in, and those that tell what changed. A moved file is in
    both, with its two levels."""

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()
    records: tuple[CompactionRecord, ...] = ()  # what is kept of it

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """Files that were made, not only moved, changelog files among them."""
        moved = {f.file_name for f in self.before}
        return (*(f for f in self.after if f.file_name not in moved), *self.changelog)

    def then(self, later: CompactResult) -> tuple[CompactResult, tuple[DataFileMeta, ...]]:
        """Both as one result, and the files in between that no snapshot will ever name."""
        before = {f.file_name: f for f in self.before}
        after = {f.file_name: f for f in self.after}
        kept = {f.file_name for f in later.after}
        between = []
        for file in later.before:
            if file.file_name not in after:
                before[file.file_name] = file
                continue
            del after[file.file_name]
            if file.file_name not in before and file.file_name not in kept:
                between.append(file)
        after.update((f.file_name, f) for f in later.after)
        changelog = (*self.changelog, *later.changelog)
        both = CompactResult(
            tuple(before.values()), tuple(after.values()), changelog, (*self.records, *later.records)
        )
        return both, tuple(between)


def rewrite_and_record(
    bucket: Bucket, record: CompactionRecord, rewrite: Callable[[], CompactResult]
) -> CompactResult:
    """The result of `rewrite`, with the `planned` record of its decision completed; logged in one line."""
    started = bucket.env.monotonic()
    result = rewrite()
    millis = int((bucket.env.monotonic() - started) * 1000)
    log.info("compacted %s: %s", bucket.directory, log_text(record))
    done = completed(
        record, before=result.before, after=result.after, changelog=result.changelog, millis=millis
    )
    return replace(result, records=(done,))
