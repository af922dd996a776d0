"""Compaction of append tables: decides which files of a bucket are combined, and combines them.

Rows that are marked deleted are left out and their vectors dropped: a new index file has the vectors of other
files.
"""

from __future__ import annotations

from dataclasses import replace

from tablestore.format.commit_message import CommitMessage
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.deletion_vector import DeletionVector
from tablestore.format.manifests.index_manifest import DELETION_VECTORS
from tablestore.lsm.compaction import append_compaction
from tablestore.lsm.compaction.append_compaction import AppendCompaction, combine
from tablestore.lsm.compaction.bucket_compaction import message_of
from tablestore.lsm.compaction.compact_result import ReadListener, rewrite_and_record
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.compaction.recording import APPEND, planned
from tablestore.lsm.levels.bucket import Bucket, BucketFiles, FileNames
from tablestore.write.routing.routing import BucketMode


def decide(bucket: Bucket, *, full: bool) -> list[tuple[Decision, Bucket | None]]:
    """(decision, bucket with its files only) for each group of files to combine; a single "no", without a
    bucket, if there is none."""
    ranges = {
        r.data_file: (f, r)
        for f in bucket.index_files
        if f.index_type == DELETION_VECTORS
        for r in f.dv_ranges or ()
    }
    rows = {f.file_name: f.row_count for f in bucket.files}
    options = AppendCompaction.of(
        bucket.options,
        deleted={
            n: rows.get(n, 0) if r.cardinality is None else r.cardinality for n, (_, r) in ranges.items()
        },
        vectors={n: f.file_name for n, (f, _) in ranges.items()},
    )
    if BucketMode.of(bucket.schema, bucket.options) is BucketMode.UNAWARE:
        decisions = append_compaction.pack(bucket.files, options, all_small=full)
    else:
        decisions = [(append_compaction.full if full else append_compaction.pick)(bucket.files, options)]
    portions: list[tuple[Decision, Bucket | None]] = []
    for decision in decisions:
        files = () if decision.unit is None else decision.unit.files
        index = {f.file_name: f for f, _ in (ranges[n.file_name] for n in files if n.file_name in ranges)}
        portion = replace(bucket, files=files, index_files=tuple(index.values()))
        portions.append((decision, portion if files else None))
    return portions


def record_of(decision: Decision, portion: Bucket) -> CompactionRecord:
    """The record of a decision that is still to be carried out."""
    return planned(decision, strategy=APPEND, bucket=portion.number)


def run(portion: Bucket, record: CompactionRecord, on_read: ReadListener | None = None) -> CommitMessage:
    """Combine the files of one group; the message to commit. New files are deleted if it fails. `on_read`
    gets the bytes as they are read."""
    files, deletions = BucketFiles(portion), BucketDeletions(portion)
    names = FileNames(files)
    vectors: dict[str, DeletionVector] = {}
    for file in portion.files:
        vector = deletions.vector(file.file_name)
        if vector is not None:
            vectors[file.file_name] = vector
    result = rewrite_and_record(
        portion,
        record,
        lambda: combine(files, names.data, portion.files, vectors=vectors, on_read=on_read),
    )
    deletions.drop(vectors)
    return message_of(files, result, deletions)
