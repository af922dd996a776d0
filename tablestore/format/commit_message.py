"""What processes of one job send each other about a bucket, as values and as versioned bytes: a compaction
task, which files a worker compacts, and a commit message, what a writer or worker did.

One version byte, then an Avro record. Not a file format: both sides run the same code, and another version is
refused. Spark tasks receive and return them.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import fastavro

from tablestore.core.errors import InvalidRequest, brief
from tablestore.format import compaction_record
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

TASK_VERSION = 2
VERSION = 6
_LISTS = ("new_files", "changelog_files", "compact_before", "compact_after", "compact_changelog")
_INDEX_LISTS = ("new_index", "deleted_index", "compact_new_index", "compact_deleted_index")


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """Files of one (partition, bucket): `compact_*` go to the COMPACT snapshot, all others to the one before.

    New index files replace those of the bucket that the message names as deleted; deletion vectors of new or
    remaining files make that first snapshot an OVERWRITE.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    new_index: tuple[IndexFileMeta, ...] = ()
    deleted_index: tuple[IndexFileMeta, ...] = ()
    compact_new_index: tuple[IndexFileMeta, ...] = ()
    compact_deleted_index: tuple[IndexFileMeta, ...] = ()
    compacted_from: int | None = None  # the snapshot that was compacted, 0 for the empty table
    compactions: tuple[CompactionRecord, ...] = ()  # of the compactions
    log: bytes | None = None  # rows of all buckets of a writer, for the table's log; the message has no file

    @property
    def empty(self) -> bool:
        """Whether nothing happened."""
        return self.log is None and not any(getattr(self, name) for name in (*_LISTS, *_INDEX_LISTS))


_SCHEMA = fastavro.parse_schema(
    avro.record(
        "commit_message",
        f"partition bytes, bucket int, total_buckets int, {_LISTS[0]} first_files, "
        + "".join(f"{name} files, " for name in _LISTS[1:])
        + f"{_INDEX_LISTS[0]} first_indexes, "
        + "".join(f"{name} indexes, " for name in _INDEX_LISTS[1:])
        + "seen long?, compactions strings, log bytes?",
        first_files=avro.array(file_message_schema("file")),
        files=avro.array("file"),
        first_indexes=avro.array(index_manifest.file_message_schema()),
        indexes=avro.array("index"),
        strings=avro.array("string"),
    )
)


def encode(message: CommitMessage) -> bytes:
    """One version byte, then the message as an Avro record."""
    record: dict[str, Any] = {
        "partition": message.partition,
        "bucket": message.bucket,
        "total_buckets": message.total_buckets,
        "seen": message.compacted_from,
        "compactions": [compaction_record.to_json(r) for r in message.compactions],
        "log": message.log,
    }
    record |= {name: [file_message(f) for f in getattr(message, name)] for name in _LISTS}
    for name in _INDEX_LISTS:
        record[name] = [index_manifest.file_message(f) for f in getattr(message, name)]
    return _versioned(VERSION, _SCHEMA, record)


def decode(data: bytes) -> CommitMessage:
    """The message of `encode`; raises InvalidRequest for other versions or damaged bytes."""
    r = _unversioned(data, VERSION, _SCHEMA, what="commit message")
    lists: dict[str, Any] = {name: tuple(file_of_message(f) for f in r[name]) for name in _LISTS}
    lists |= {name: tuple(index_manifest.file_of_message(f) for f in r[name]) for name in _INDEX_LISTS}
    records = tuple(compaction_record.from_json(text) for text in r["compactions"])
    return CommitMessage(
        r["partition"],
        r["bucket"],
        r["total_buckets"],
        **lists,
        compacted_from=r["seen"],
        compactions=records,
        log=r["log"],
    )


def _versioned(version: int, schema: Any, record: dict[str, Any]) -> bytes:
    """The bytes of a record under a parsed Avro schema."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return bytes([version]) + out.getvalue()


def _unversioned(data: bytes, version: int, schema: Any, *, what: str) -> Any:
    """The record of `encode`; raises InvalidRequest for other versions or damaged bytes of `what`."""
    if not data or data[0] != version:
        raise InvalidRequest(f"{what} of version {data[:1].hex() or 'none'}; version {version} is known")
    try:
        return fastavro.schemaless_reader(io.BytesIO(data[1:]), schema, None)
    except Exception as e:
        raise InvalidRequest(f"damaged {what}: {brief(e)}") from e


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


_TASK_SCHEMA = fastavro.parse_schema(
    avro.record(
        "compaction_task",
        "partition bytes, bucket int, total_buckets int, files files, index_files indexes, full boolean, "
        "planned string?, snapshot long",
        files=avro.array(file_message_schema("file")),
        indexes=avro.array(index_manifest.file_message_schema()),
    )
)


def encode_task(task: CompactionTask) -> bytes:
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
    return _versioned(TASK_VERSION, _TASK_SCHEMA, record)


def decode_task(data: bytes) -> CompactionTask:
    """The task of `encode`; raises InvalidRequest for other versions or damaged bytes."""
    r = _unversioned(data, TASK_VERSION, _TASK_SCHEMA, what="compaction task")
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
