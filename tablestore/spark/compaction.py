"""Compaction as Spark tasks: one for each (partition, bucket), one commit for all. Between the batches of a
pipeline, or as a job of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from tablestore.flow.sink import compact_one
from tablestore.flow.writing import commit_messages
from tablestore.format import commit_message
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.predicates.predicate import Predicate
from tablestore.table.bucket_choice import Buckets, PartitionChoice
from tablestore.table.lake import open_table
from tablestore.table.place import TablePlace
from tablestore.table.table import Table

_WORTH_A_TASK = 1 << 20


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction. `snapshot` None: nothing was due. Bytes and rows of files read and written;
    moved files count in neither.
    """

    snapshot: int | None
    buckets: int
    bytes_read: int
    bytes_written: int
    rows_written: int
    seconds: float


def compact(
    spark: SparkSession,
    table: Table | str,
    *,
    full: bool = False,
    partition: PartitionChoice = None,
    bucket: Buckets = None,
    where: Predicate | str | None = None,
    roots: Sequence[str] = (),
) -> Compacted:
    """Compact every bucket of a table, or of that at a path, for which a rule fires (with `full` all that
    hold more than one run), in one COMPACT snapshot. `partition`, `bucket` and `where` choose as for
    `Table.compact`; `roots` as in `open`, of a path. Workers reach the store of a table as it does.

    Raises CommitConflict if somebody else compacted a bucket meanwhile: nothing is changed then.
    """
    started = time.monotonic()
    table = open_table(table, roots=roots) if isinstance(table, str) else table
    tasks = table.buckets_to_compact(full=full, partition=partition, bucket=bucket, where=where)
    if not tasks:
        return Compacted(None, 0, 0, 0, 0, time.monotonic() - started)
    place = TablePlace.of(table)
    items = spark.sparkContext.parallelize([(place, task) for task in tasks], _slices(table, len(tasks)))
    messages = [message for message in items.map(_compacted).collect() if message is not None]
    committed = commit_messages(table, messages, user=table.store.fresh_user())
    before, after = _files(messages, "compact_before"), _files(messages, "compact_after")
    read, new = before.keys() - after.keys(), after.keys() - before.keys()
    return Compacted(
        committed.snapshot,
        len(messages),
        sum(before[n].file_size for n in read),
        sum(after[n].file_size for n in new),
        sum(after[n].row_count for n in new),
        time.monotonic() - started,
    )


def _slices(table: Table, tasks: int) -> int:
    """How many Spark tasks there are: one a bucket, fewer if buckets are tiny, since starting a task costs as
    much as compacting some 100 kB.
    """
    live = sum(e.file.file_size for e in table.store.manifests.live_entries(table.store.snapshots.latest()))
    return min(tasks, max(8, live // _WORTH_A_TASK))


def _files(messages: list[bytes], which: str) -> dict[str, DataFileMeta]:
    return {f.file_name: f for m in messages for f in getattr(commit_message.decode(m), which)}


def _compacted(item: tuple[TablePlace, bytes]) -> bytes | None:
    """The function of a Python worker, for one bucket."""
    pa.set_cpu_count(1)
    return compact_one(item)
