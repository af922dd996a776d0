"""What a rewrite of a bucket's files reports: bytes as it reads them, then a CompactResult with its record.

A CompactResult holds the changes that one or more compactions made to the files of a bucket. Used by writers,
which compact between flushes, and by compactions of whole buckets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.lsm.compaction.recording import completed, log_text
from tablestore.lsm.levels.bucket import Bucket

ReadListener = Callable[[float], None]  # takes the number of further bytes read


def reporting(
    batches: Iterable[pa.RecordBatch], file: DataFileMeta, on_read: ReadListener | None
) -> Iterator[pa.RecordBatch]:
    """The batches of a file; `on_read` is called with the bytes of each before it is yielded, those of the
    file spread evenly over its rows."""
    if on_read is None:
        yield from batches
        return
    a_row = file.file_size / max(1, file.row_count)
    for batch in batches:
        on_read(a_row * batch.num_rows)
        yield batch


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactResult:
    """Files removed from the levels (`before`) and added to them (`after`), and changelog files. A moved file
    is in both, with its two levels."""

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()
    records: tuple[CompactionRecord, ...] = ()  # of the compactions

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """New files, not the moved ones, with changelog files."""
        moved = {f.file_name for f in self.before}
        return (*(f for f in self.after if f.file_name not in moved), *self.changelog)

    def then(self, later: CompactResult) -> tuple[CompactResult, tuple[DataFileMeta, ...]]:
        """(both results as one, the intermediate files that no snapshot will ever name)."""
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
    """The result of `rewrite` with the completed record of its decision; logs one line."""
    started = bucket.env.monotonic()
    result = rewrite()
    millis = int((bucket.env.monotonic() - started) * 1000)
    log.info("compacted %s: %s", bucket.directory, log_text(record))
    done = completed(
        record, before=result.before, after=result.after, changelog=result.changelog, millis=millis
    )
    return replace(result, records=(done,))
