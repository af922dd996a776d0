"""Compaction tasks: which files of one bucket a worker compacts, as a value and as versioned bytes (which
Spark tasks receive). The worker returns a commit message."""

from __future__ import annotations

from dataclasses import dataclass

import fastavro

from tablestore.format import compaction_record, versioned
from tablestore.format.avro import container as avro
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests import index_manifest
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.manifests.manifest import (
    DataFileMeta,
    file_message,
    file_message_schema,
    file_of_message,
)

VERSION = 2


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Files of one (partition, bucket), and the index files with their deletion vectors.

    Of a table with a primary key these are all live files, and the worker picks; with `full` it compacts
    fully. Of an append table they are those to combine, by the decision in `planned`.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    index_files: tuple[IndexFileMeta, ...] = ()
    full: bool = False
    planned: CompactionRecord | None = None
    snapshot: int = 0  # the snapshot with these live files, 0 for the empty table

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(f.file_size for f in self.files)


_SCHEMA = fastavro.parse_schema(
    avro.record(
        "compaction_task",
        "partition bytes, bucket int, total_buckets int, files files, index_files indexes, full boolean, "
        "planned string?, snapshot long",
        files=avro.array(file_message_schema("file")),
        indexes=avro.array(index_manifest.file_message_schema()),
    )
)


def encode(task: CompactionTask) -> bytes:
    """One version byte, then the task as an Avro record."""
    record = {
        "partition": task.partition,
        "bucket": task.bucket,
        "total_buckets": task.total_buckets,
        "files": [file_message(f) for f in task.files],
        "index_files": [index_manifest.file_message(f) for f in task.index_files],
        "full": task.full,
        "planned": None if task.planned is None else compaction_record.to_json(task.planned),
        "snapshot": task.snapshot,
    }
    return versioned.encode(VERSION, _SCHEMA, record)


def decode(data: bytes) -> CompactionTask:
    """The task of `encode`; raises InvalidRequest for other versions or damaged bytes."""
    r = versioned.decode(data, VERSION, _SCHEMA, what="compaction task")
    return CompactionTask(
        r["partition"],
        r["bucket"],
        r["total_buckets"],
        tuple(file_of_message(f) for f in r["files"]),
        tuple(index_manifest.file_of_message(f) for f in r["index_files"]),
        r["full"],
        None if r["planned"] is None else compaction_record.from_json(r["planned"]),
        r["snapshot"],
    )
