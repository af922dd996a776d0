"""Postponed buckets: rows wait in bucket-postpone until a compaction gives them real buckets (FORMAT.md 9.5).

The compaction reads the waiting files in the order of their creation and writes the rows as a writer of fixed
buckets would, which merges them with what is there. One COMPACT snapshot deletes the waiting files and adds
the new ones, so no reader ever sees a row twice or not at all. A partition keeps its number of buckets; a new
one gets `postpone.target-row-num-per-bucket` or `postpone.default-bucket-num`. Memory: one batch and the
write buffers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from tablestore.core import quantities
from tablestore.core.errors import Corrupt, InvalidRequest
from tablestore.core.options.table_options import TableOptions
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import DataFileMeta, ManifestEntry
from tablestore.format.parquet.schema import KIND
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.compaction.decision import CompactUnit, Decision, Reason
from tablestore.lsm.compaction.recording import POSTPONED, completed, planned
from tablestore.lsm.levels.bucket import BucketFiles
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.meta.store import Store
from tablestore.write.buckets import bucket_of
from tablestore.write.commit.changes import as_compaction
from tablestore.write.commit.commit_or_discard import commit_or_discard, discarded_on_error
from tablestore.write.commit.request import CommitRequest, Committed
from tablestore.write.routing.routing import BucketMode
from tablestore.write.table_write import TableWrite, WriteSettings

Waiting = dict[bytes, list[DataFileMeta]]


def waiting(entries: Iterable[ManifestEntry]) -> Waiting:
    """The files of postponed buckets, by partition, oldest first: by creation time, as in Paimon, since
    merged manifests may name them in another order than their commits."""
    by_partition: Waiting = defaultdict(list)
    for e in entries:
        if e.bucket == POSTPONE_BUCKET:
            by_partition[e.partition].append(e.file)
    for files in by_partition.values():
        files.sort(key=lambda f: f.creation_time_ms or 0)
    return by_partition


def require_none_waiting(store: Store) -> None:
    """Raise InvalidRequest if rows wait: a delete or update would not find them."""
    if BucketMode.of(store.schema, store.options) is not BucketMode.POSTPONE:
        return
    entries = store.manifests.live_entries(store.snapshots.latest(), bucket=lambda b, _: b == POSTPONE_BUCKET)
    rows = sum(e.file.row_count for e in entries)
    if rows:
        raise InvalidRequest(
            f"{rows:,} rows wait in postponed buckets, where they are not found: compact() the table first, "
            "or write rows of kind -D and +U"
        )


def totals(store: Store, entries: Iterable[ManifestEntry], files: Waiting) -> dict[bytes, int]:
    """How many buckets each partition with waiting files has or gets. Raises Corrupt where two are known."""
    counts: dict[bytes, int] = {}
    for e in entries:
        if e.bucket != POSTPONE_BUCKET and counts.setdefault(e.partition, e.total_buckets) != e.total_buckets:
            text = f"partition {store.partition_text(e.partition)!r} mixes bucket counts"
            raise Corrupt(store.paths.root, f"{text} {counts[e.partition]} and {e.total_buckets}")
    return {p: counts.get(p) or _first_total(store.options, some) for p, some in files.items()}


def _first_total(options: TableOptions, files: Iterable[DataFileMeta]) -> int:
    """The number of buckets of a new partition: by the rows or bytes that wait, where an option says how many
    a bucket takes."""
    if options.postpone_bucket_rows is not None:
        return max(-(-sum(f.row_count for f in files) // max(options.postpone_bucket_rows, 1)), 1)
    if options.postpone_bucket_bytes is not None:
        return max(-(-sum(f.file_size for f in files) // max(options.postpone_bucket_bytes, 1)), 1)
    return options.postpone_buckets


def decisions(files: Waiting, buckets: dict[bytes, int]) -> list[tuple[bytes, Decision]]:
    """The decisions of a compaction: one for each partition's waiting files."""
    decided = []
    for partition, some in files.items():
        rows = sum(f.row_count for f in some)
        places = quantities.many(buckets[partition], "bucket")
        text = f"{rows:,} {'row waits' if rows == 1 else 'rows wait'} for a place in {places}"
        decided.append((partition, Decision(CompactUnit(0, tuple(some)), Reason("postponed", text))))
    return decided


def compact(
    store: Store, files: Waiting, buckets: dict[bytes, int], pool: MemoryPool
) -> tuple[Committed, list[CommitMessage]]:
    """Write the waiting rows into their buckets, in one commit; its result."""
    messages: list[CommitMessage] = []
    placed: Waiting = defaultdict(list)
    with discarded_on_error(store, messages):
        for total in sorted(set(buckets.values())):
            some = {p: f for p, f in files.items() if buckets[p] == total}
            messages += _placed(store, some, total, pool, placed)
    for partition, decision in decisions(files, buckets):
        record = planned(decision, strategy=POSTPONED, bucket=POSTPONE_BUCKET)
        before = tuple(files[partition])
        record = completed(record, before=before, after=placed[partition], millis=None)
        messages.append(
            CommitMessage(
                partition,
                POSTPONE_BUCKET,
                POSTPONE_BUCKET,
                compact_before=before,
                compactions=(record,),
            )
        )
    return commit_or_discard(store, messages, CommitRequest(store.fresh_user())), messages


def _placed(
    store: Store, files: Waiting, total: int, pool: MemoryPool, placed: Waiting
) -> list[CommitMessage]:
    """The messages of writers of `total` buckets for the waiting rows; `placed` gets the files that they
    wrote, before these were merged with older ones."""
    fixed = store.with_schema(store.schema.with_options({"bucket": str(total), "lookup-wait": "true"}))
    with TableWrite(fixed, WriteSettings(), pool=pool) as target:
        for partition, some in files.items():
            _feed(store, partition, some, target.write_stored)
        prepared = target.prepare()
    messages = []
    for message in prepared:
        placed[message.partition] += message.new_files
        as_compacted, dropped = as_compaction(message)
        for file in dropped:
            store.io.delete(store.file_path(message.partition, message.bucket, file))
        messages.append(as_compacted)
    return messages


def _feed(store: Store, partition: bytes, files: Iterable[DataFileMeta], write: Callable[..., None]) -> None:
    bucket_files = BucketFiles(bucket_of(store, partition, POSTPONE_BUCKET))
    for file in files:
        for batch in bucket_files.read(file):
            write(batch.select(list(store.schema.names)), batch.column(KIND))
