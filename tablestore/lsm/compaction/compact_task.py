"""Compaction of one bucket as a task: decide, and carry out. What `table.compact` and Spark tasks run.

One pick a call. `decide` is pure but for the key order of files, so a dry run costs no data I/O.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tablestore.core.options.table_options import TableOptions
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.schema import TableSchema
from tablestore.lsm.compaction import CompactionOptions, PickContext, pick
from tablestore.lsm.compaction import full as full_compaction
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.compaction.read_progress import ReadListener
from tablestore.lsm.compaction.recording import record_of
from tablestore.lsm.compaction.rewriter import Rewriter
from tablestore.lsm.levels import interval
from tablestore.lsm.levels.bucket import Bucket
from tablestore.lsm.levels.bucket_files import BucketFiles
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.lsm.merge.merge_function import in_table
from tablestore.lsm.merge.record_expiry import expired_files

log = logging.getLogger(__name__)


def decide(
    schema: TableSchema,
    options: TableOptions,
    files: Iterable[DataFileMeta],
    *,
    full: bool,
    now_ms: int,
    deletions: BucketDeletions | None = None,
    expired: frozenset[str] = frozenset(),
) -> Decision:
    """What a compaction of these live files would do. `now_ms` is the local wall clock, as in file metadata;
    `expired` names files with rows past their time."""
    must_rewrite = expired | (deletions.names() if deletions is not None else frozenset())
    return _decide(_levels(schema, options, files), options, must_rewrite, full=full, now_ms=now_ms)


def compact_bucket(
    bucket: Bucket, *, full: bool, on_read: ReadListener | None = None
) -> tuple[Decision, CommitMessage | None]:
    """One compaction of a bucket's live files: what was decided, and the message to commit if anything
    changed. `on_read` gets the bytes as they are read."""
    env, levels, deletions = bucket.env, bucket.levels, BucketDeletions.of(bucket)
    must_rewrite = expired_files(bucket, levels.files)
    must_rewrite |= deletions.names() if deletions is not None else frozenset()
    decision = _decide(levels, bucket.options, must_rewrite, full=full, now_ms=env.local_now_ms())
    if decision.unit is None:
        return decision, None
    bucket_files = BucketFiles(bucket)
    started = env.monotonic()
    with in_table(bucket.directory):
        result = Rewriter(bucket_files, deletions=deletions, on_read=on_read).run(decision.unit, levels)
    try:
        new_index, replaced = deletions.flush() if deletions is not None else ((), ())
    except BaseException:
        bucket_files.delete(f.file_name for f in result.written)
        raise
    log.info("compacted %s: %s", bucket.directory, decision.text)
    record = record_of(
        decision,
        strategy=bucket.options.strategy.value,
        bucket=bucket.number,
        before=result.before,
        after=result.after,
        changelog=result.changelog,
        live=len(levels.files),
        millis=int((env.monotonic() - started) * 1000),
    )
    message = bucket.message(
        compact_before=result.before,
        compact_after=result.after,
        compact_changelog=result.changelog,
        compact_new_index=new_index,
        compact_deleted_index=replaced,
        compactions=(record,),
    )
    return decision, None if message.empty else message


def _levels(schema: TableSchema, options: TableOptions, files: Iterable[DataFileMeta]) -> Levels:
    return Levels.of(files, options.num_levels, interval.key_order([f.type for f in schema.key_fields]))


def _decide(
    levels: Levels, options: TableOptions, must_rewrite: frozenset[str], *, full: bool, now_ms: int
) -> Decision:
    wanted = CompactionOptions.of(options)
    if not full:
        return pick(levels, wanted, PickContext.at(now_ms, levels))
    return full_compaction(levels, wanted, must_rewrite=lambda f: f.file_name in must_rewrite)
