"""Compaction of append tables: which files of a bucket are combined, and doing it.

A task is a commit message whose `new_files` are the files to combine and whose `new_index` are the index
files that mark rows of them, so it travels as bytes like any other. Rows that are marked deleted are left
out, their vectors dropped: an index file is written anew with what it holds of other files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from tablestore.format.commit_message import CommitMessage
from tablestore.format.deletion_vector import DeletionVector
from tablestore.format.manifests.index_manifest import DELETION_VECTORS, IndexFileMeta
from tablestore.lsm.compaction import append_compaction
from tablestore.lsm.compaction.append_compaction import AppendCompaction
from tablestore.lsm.compaction.append_rewriter import combine
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.compaction.read_progress import ReadListener
from tablestore.lsm.compaction.recording import APPEND, completed, planned
from tablestore.lsm.levels.bucket import Bucket
from tablestore.lsm.levels.bucket_files import BucketFiles, FileNames
from tablestore.meta.store import Store
from tablestore.write.buckets import bucket_of
from tablestore.write.routing.bucket_mode import BucketMode

log = logging.getLogger(__name__)


def decide(
    store: Store, bucket: CommitMessage, index: Iterable[IndexFileMeta], *, full: bool
) -> list[tuple[Decision, CommitMessage | None]]:
    """What a compaction of a bucket's live files (`new_files`) would do, each portion with its task; a single
    "no" if it is nothing."""
    ranges = {
        r.data_file: (f, r) for f in index if f.index_type == DELETION_VECTORS for r in f.dv_ranges or ()
    }
    rows = {f.file_name: f.row_count for f in bucket.new_files}
    options = AppendCompaction.of(
        store.options,
        deleted={
            n: rows.get(n, 0) if r.cardinality is None else r.cardinality for n, (_, r) in ranges.items()
        },
        vectors={n: f.file_name for n, (f, _) in ranges.items()},
    )
    files = bucket.new_files
    if BucketMode.of(store.schema, store.options) is BucketMode.UNAWARE:
        decisions = append_compaction.pack(files, options, all_small=full)
    else:
        decisions = [(append_compaction.full if full else append_compaction.pick)(files, options)]
    return [(d, _task(bucket, d, ranges)) for d in decisions]


def _task(
    bucket: CommitMessage, decision: Decision, ranges: Mapping[str, Sequence[object]]
) -> CommitMessage | None:
    if decision.unit is None:
        return None
    files = decision.unit.files
    index = {ranges[f.file_name][0].file_name: ranges[f.file_name][0] for f in files if f.file_name in ranges}
    return CommitMessage(
        bucket.partition,
        bucket.bucket,
        bucket.total_buckets,
        new_files=files,
        new_index=tuple(index.values()),
        compactions=(planned(decision, strategy=APPEND, bucket=bucket.bucket),),
    )


def deletions_of(store: Store, task: CommitMessage) -> BucketDeletions:
    """The deletion vectors of a task's files."""
    return BucketDeletions(_bucket(store, task))


def _bucket(store: Store, task: CommitMessage) -> Bucket:
    return bucket_of(
        store,
        task.partition,
        task.bucket,
        total_buckets=task.total_buckets,
        files=task.new_files,
        index_files=task.new_index,
    )


def run(store: Store, task: CommitMessage, on_read: ReadListener | None = None) -> CommitMessage:
    """Combine the files of a task; the message to commit. Nothing is left behind if it fails. `on_read` gets
    the bytes as they are read."""
    bucket = _bucket(store, task)
    files, deletions = BucketFiles(bucket), BucketDeletions(bucket)
    vectors: dict[str, DeletionVector] = {}
    for file in task.new_files:
        vector = deletions.vector(file.file_name)
        if vector is not None:
            vectors[file.file_name] = vector
    names, started = FileNames(files), store.env.monotonic()
    tracked = store.options.row_tracking
    after = combine(files, names.data, task.new_files, vectors=vectors, tracked=tracked, on_read=on_read)
    try:
        deletions.drop(vectors)
        new_index, replaced = deletions.flush()
    except BaseException:
        files.delete(after)
        raise
    log.info("combined %d files of %s into %d", len(task.new_files), bucket.directory, len(after))
    millis = int((store.env.monotonic() - started) * 1000)
    records = (completed(r, before=task.new_files, after=after, millis=millis) for r in task.compactions)
    return bucket.message(
        compact_before=task.new_files,
        compact_after=after,
        compact_new_index=new_index,
        compact_deleted_index=replaced,
        compactions=tuple(records),
    )
