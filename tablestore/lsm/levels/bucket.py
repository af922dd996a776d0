"""Bucket: one bucket of a table, with its directory, schema, options and live files.

The argument of writers, compactions and lookups of one bucket; `write.buckets.bucket_of` makes it from a
table's store. Safe to share: immutable. What changes during the work (new files, deletion vectors) is in
`BucketFiles` and `BucketDeletions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tablestore.core.env import Env
from tablestore.core.options.table_options import TableOptions
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.schema import TableSchema
from tablestore.io.fileio import FileIO
from tablestore.lsm.levels.key_order import key_order
from tablestore.lsm.levels.sorted_run import KeyOrder, Levels


@dataclass(frozen=True)
class Bucket:
    """One bucket of one partition. New files are written in `schema`; `schema_of` gives a live file's schema
    by its id, `index_path` the path of an index file, or of a new one of that name.

    `files` and `index_files` are the live ones; empty where the work does not need them.
    """

    env: Env
    io: FileIO
    partition: bytes
    number: int
    total_buckets: int
    directory: str
    schema: TableSchema
    options: TableOptions
    schema_of: Callable[[int], TableSchema]
    index_path: Callable[[IndexFileMeta | str], str]
    files: tuple[DataFileMeta, ...] = ()
    index_files: tuple[IndexFileMeta, ...] = ()

    @cached_property
    def key_order(self) -> KeyOrder:
        """A function that makes serialized keys of the bucket comparable."""
        return key_order([f.type for f in self.schema.key_fields])

    @cached_property
    def levels(self) -> Levels:
        """The live files by level."""
        return Levels.of(self.files, self.options.num_levels, self.key_order)

    @property
    def size(self) -> int:
        """Bytes of the live files."""
        return sum(f.file_size for f in self.files)

    def message(self, **changes: Any) -> CommitMessage:
        """The commit message of this bucket with these `changes`, fields of `CommitMessage`."""
        return CommitMessage(self.partition, self.number, self.total_buckets, **changes)
