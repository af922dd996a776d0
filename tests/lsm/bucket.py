"""One bucket on disk for tests: its schema, writers, live files, and its rows read by a merge of all runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tablestore.core.env import Env
from tablestore.core.options.table_options import TableOptions
from tablestore.format.binary_row import comparable_keys
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.schema import TableSchema, create_schema
from tablestore.format.types.arrow_types import BIGINT, STRING, DataField
from tablestore.io.fileio import LocalFileIO
from tablestore.lsm.levels import bucket
from tablestore.lsm.levels.bucket import BucketFiles
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.lsm.merge.groups import plain
from tablestore.lsm.merge.merge_function import merge_function
from tablestore.lsm.merge.merge_reader import merge
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.lsm.writing.writer import MergeTreeWriter

FIELDS = (DataField(0, "id", BIGINT), DataField(1, "v", STRING))


@dataclass
class LiveBucket:
    """Live files of a bucket, as commits would leave them."""

    directory: str
    options: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[DataField, ...] = FIELDS
    primary_key: tuple[str, ...] = ("id",)
    io: Any = field(default_factory=LocalFileIO)
    env: Env = field(default_factory=Env)
    live: list[DataFileMeta] = field(default_factory=list)
    older: dict[int, TableSchema] = field(default_factory=dict)

    @property
    def schema(self) -> TableSchema:
        created = create_schema(
            self.fields,
            primary_key=self.primary_key,
            partition_by=(),
            options=self.options,
            comment=None,
            time_millis=0,
        )
        given = {f.name: f.id for f in self.fields}  # a new table would number them anew
        fields = tuple(replace(f, id=given[f.name]) for f in created.fields)
        return replace(created, id=len(self.older), fields=fields, highest_field_id=max(given.values()))

    @property
    def table_options(self) -> TableOptions:
        return TableOptions.parse(self.options)

    @property
    def levels(self) -> Levels:
        key = comparable_keys([f.type for f in self.schema.key_fields])
        return Levels.of(self.live, self.table_options.num_levels, key)

    @property
    def value(self) -> bucket.Bucket:
        """What the engine works with."""
        return bucket.Bucket(
            self.env,
            self.io,
            b"",
            0,
            1,
            self.directory,
            self.schema,
            self.table_options,
            self.schema_of,
            lambda name: f"{self.directory}/{name}",
            tuple(self.live),
        )

    @property
    def files(self) -> BucketFiles:
        return BucketFiles(self.value)

    def schema_of(self, schema_id: int) -> TableSchema:
        return self.older.get(schema_id, self.schema)

    def writer(self, pool: MemoryPool | None = None, **options: Any) -> MergeTreeWriter:
        settings = {"compact": False, "changelog": False} | options
        return MergeTreeWriter(
            self.value,
            pool=pool or MemoryPool(1 << 30),
            next_sequence=max((f.max_sequence for f in self.live), default=-1) + 1,
            **settings,
        )

    def commit(self, message: CommitMessage) -> None:
        """What a commit of the message makes of the live files; every DELETE must match (I6)."""
        self.live += message.new_files
        for file in message.compact_before:
            self.live.remove(file)
        self.live += message.compact_after

    def write(
        self, rows: Iterable[tuple[Any, ...]], kinds: list[int] | None = None, **options: Any
    ) -> CommitMessage:
        """One batch, one commit."""
        writer = self.writer(**options)
        writer.append(self.batch(rows), None if kinds is None else pa.array(kinds, pa.int8()))
        message = writer.prepare()
        self.commit(message)
        return message

    def batch(self, rows: Iterable[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True))
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema.arrow, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

    def file_rows(self, file: DataFileMeta) -> list[tuple[Any, ...]]:
        """(sequence, kind, columns…) of one file."""
        return [tuple(r.values()) for b in self.files.read(file) for r in plain(b).to_pylist()]

    def rows(self) -> list[tuple[Any, ...]]:
        """The bucket's rows as a reader sees them."""
        readers = [lambda f=f: self.files.read(f) for f in reversed(self.levels.files)]
        merged = merge(readers, self.schema.key_fields, merge_function(self.schema, self.table_options))
        return [tuple(r.values())[2:] for b in merged for r in plain(b).to_pylist()]

    def on_disk(self) -> set[str]:
        """Names of the files that exist."""
        return {p.name for p in Path(self.directory).glob("*")}
