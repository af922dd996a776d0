"""Compaction of one bucket: the decision, its execution, and the commit message.

One pick per call. Run by `Table.compact` and by workers of engines.
"""

from __future__ import annotations

from tablestore.format.commit_message import CommitMessage
from tablestore.lsm.compaction.compact_result import CompactResult, ReadListener, rewrite_and_record
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.compaction.loop import pick
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.compaction.recording import planned
from tablestore.lsm.compaction.rewriter import Rewriter
from tablestore.lsm.compaction.universal import full as full_compaction
from tablestore.lsm.levels.bucket import Bucket, BucketFiles
from tablestore.lsm.merge.merge_function import in_table
from tablestore.lsm.merge.record_expiry import expired_files


def decide(bucket: Bucket, *, full: bool, now_ms: int) -> Decision:
    """The decision about the bucket's files, not carried out. `now_ms` is the local wall clock, as in file
    metadata. Reads metadata only."""
    options = CompactionOptions.of(bucket.options)
    if not full:
        return pick(bucket.levels, options, PickContext.at(now_ms, bucket.levels))
    deletions, must_rewrite = BucketDeletions.of(bucket), expired_files(bucket, bucket.files)
    must_rewrite |= deletions.names() if deletions is not None else frozenset()
    return full_compaction(bucket.levels, must_rewrite=lambda f: f.file_name in must_rewrite)


def compact_bucket(
    bucket: Bucket, *, full: bool, on_read: ReadListener | None = None
) -> tuple[Decision, CommitMessage | None]:
    """One compaction of a bucket of a table with a primary key: the decision, and the message to commit if
    anything changed. No files remain if it fails. `on_read` is called with bytes as they are read."""
    decision = decide(bucket, full=full, now_ms=bucket.env.local_now_ms())
    unit = decision.unit
    if unit is None:
        return decision, None
    files, deletions = BucketFiles(bucket), BucketDeletions.of(bucket)
    rewriter = Rewriter(files, deletions=deletions, on_read=on_read)
    strategy, live = bucket.options.strategy.value, len(bucket.files)
    record = planned(decision, strategy=strategy, bucket=bucket.number, live=live)
    with in_table(bucket.directory):
        result = rewrite_and_record(bucket, record, lambda: rewriter.run(unit, bucket.levels))
    message = message_of(files, result, deletions)
    return decision, None if message.empty else message


def message_of(files: BucketFiles, result: CompactResult, deletions: BucketDeletions | None) -> CommitMessage:
    """The commit message of a compaction, with the deletion vectors that it changed. Writes these; if that
    fails, the compaction's files are deleted too."""
    try:
        new_index, replaced = deletions.flush() if deletions is not None else ((), ())
    except BaseException:
        files.delete(f.file_name for f in result.written)
        raise
    return files.bucket.message(
        compact_before=result.before,
        compact_after=result.after,
        compact_changelog=result.changelog,
        compact_new_index=new_index,
        compact_deleted_index=replaced,
        compactions=result.records,
    )
