"""Deletes in append tables: deletion vectors written in new containers, and their commit messages (FORMAT.md
14.3).

In tables without buckets a container holds the vectors of many files, up to
`deletion-vector.index-file.target-size`; containers with vectors of files that change are replaced, their
other vectors are kept. A bucket has one container. Memory: the vectors of one container, 8 bytes a deleted
row. Nothing is visible until the messages are committed; the commit refuses if a file was compacted, or rows
of it deleted, meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.format import checksums, deletion_vector
from tablestore.format.commit_message import CommitMessage
from tablestore.format.deletion_vector import DeletionFile, DeletionVector
from tablestore.format.manifests.index_manifest import (
    DELETION_VECTORS,
    IndexEntry,
    IndexFileMeta,
    VectorRange,
)
from tablestore.meta.store import Store

log = logging.getLogger(__name__)
Place = tuple[bytes, int, int]  # partition, bucket, number of buckets


def require_deletable(store: Store) -> None:
    """Raise InvalidRequest where rows of a table without primary key cannot be marked as deleted."""
    if not store.options.deletion_vectors:
        raise InvalidRequest(
            "rows of a table without primary key are deleted or updated by deletion vectors only: delete "
            "whole partitions, or first t.alter(ts.set_options({'deletion-vectors.modifiable': True, "
            "'deletion-vectors.enabled': True}))"
        )


def with_values(batch: pa.RecordBatch, values: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """The rows with these columns set to values of their types (see `arrow_input.fitted_values`)."""
    columns = [
        pa.repeat(values[f.name], batch.num_rows) if f.name in values else batch.column(f.name)
        for f in batch.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


@dataclass
class _Containers:
    """The containers of one bucket (or of one partition of a table without buckets)."""

    path: Callable[[IndexFileMeta | str], str]
    live: dict[str, IndexFileMeta]  # by data file name
    touched: dict[str, IndexFileMeta] = field(default_factory=dict)  # by index file name
    pending: dict[str, DeletionVector] = field(default_factory=dict)
    pending_bytes: int = 0
    marked: set[str] = field(default_factory=set)
    made: list[IndexFileMeta] = field(default_factory=list)


class DeletionMarks:
    """Deletion vectors, collected by bucket and written in containers. `live` are the index entries of the
    snapshot that the rows were found in."""

    def __init__(self, store: Store, live: Iterable[IndexEntry]) -> None:
        self._store = store
        self._live: dict[tuple[bytes, int], list[IndexEntry]] = {}
        for e in live:
            if e.file.index_type == DELETION_VECTORS:
                self._live.setdefault((e.partition, e.bucket), []).append(e)
        self._places: dict[Place, _Containers] = {}
        self._uuid, self._count = store.env.uuid(), 0
        self._bucketed = store.options.bucket > 0

    def put(self, place: Place, data_file: str, vector: DeletionVector) -> None:
        """Set the deletion vector of a data file."""
        containers = self._places.get(place)
        if containers is None:
            entries = self._live.get(place[:2], [])
            live = {r.data_file: e.file for e in entries for r in e.file.dv_ranges or ()}
            containers = self._places[place] = _Containers(partial(self._store.index_path, *place[:2]), live)
            if self._bucketed:
                containers.touched = {e.file.file_name: e.file for e in entries}
        if data_file in containers.live:
            container = containers.live[data_file]
            containers.touched[container.file_name] = container
        containers.marked.add(data_file)
        self._add(containers, data_file, vector)

    def _add(self, containers: _Containers, data_file: str, vector: DeletionVector) -> None:
        containers.pending[data_file] = vector
        containers.pending_bytes += 20 + min(2 * vector.cardinality, 1 << 13)
        if not self._bucketed and containers.pending_bytes > self._store.options.dv_target_bytes:
            self._write(containers)

    def messages(self) -> list[CommitMessage]:
        """The commit messages; writes what is not yet written, and the other vectors of containers that are
        replaced."""
        messages = []
        for (partition, bucket, total), containers in self._places.items():
            for container in containers.touched.values():
                for data_file, vector in self._kept(containers, container):
                    self._add(containers, data_file, vector)
            self._write(containers)
            gone = tuple(containers.touched.values())
            messages.append(
                CommitMessage(partition, bucket, total, new_index=tuple(containers.made), deleted_index=gone)
            )
        return messages

    def _kept(
        self, containers: _Containers, container: IndexFileMeta
    ) -> Iterator[tuple[str, DeletionVector]]:
        path = containers.path(container)
        kept = [r for r in container.dv_ranges or () if r.data_file not in containers.marked]
        if kept:
            yield from deletion_vector.read_many(
                self._store.io, path, {r.data_file: _file_of(path, r) for r in kept}
            ).items()

    def _write(self, containers: _Containers) -> None:
        if not containers.pending:
            return
        data, ranges = deletion_vector.container(
            containers.pending.items(), bitmap64=self._store.options.bitmap64
        )
        name = f"index-{checksums.named(self._uuid, data)}-{self._count}"
        self._count += 1
        containers.made.append(deletion_vector.index_file(name, len(data), ranges))
        containers.pending, containers.pending_bytes = {}, 0
        self._store.io.write(containers.path(name), data)

    def discard(self) -> None:
        """Delete the containers written so far."""
        for containers in self._places.values():
            for file in containers.made:
                try:
                    self._store.io.delete(containers.path(file))
                except (OSError, TablestoreError) as e:
                    log.warning("could not delete %s: %s", file.file_name, e)


def _file_of(path: str, r: VectorRange) -> DeletionFile:
    return DeletionFile(path, r.offset, r.length, r.cardinality)
