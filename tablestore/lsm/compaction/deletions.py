"""BucketDeletions: the deletion vectors of one bucket, with the changes that a compaction makes to them
(FORMAT.md 14.3).

A bucket has one container, which is rewritten under a fresh name when anything changed. Vectors are read on
first use, all of a container at once, and kept: memory is 8 bytes a deleted row of the bucket.
Nothing points to the new container until the message that names it is committed. Belongs to one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import numpy as np

from tablestore.core.errors import TablestoreError
from tablestore.format import checksums, deletion_vector
from tablestore.format.deletion_vector import DeletionFile, DeletionVector
from tablestore.format.manifests.index_manifest import DELETION_VECTORS, IndexFileMeta
from tablestore.lsm.levels.bucket import Bucket

log = logging.getLogger(__name__)


class BucketDeletions:
    """The deletion vectors in the bucket's index files, and changes that are not yet written."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._live = tuple(f for f in bucket.index_files if f.index_type == DELETION_VECTORS)
        self._vectors: dict[str, DeletionVector] | None = None
        self._changed = False
        self._uuid = ""
        self._written: list[str] = []

    @classmethod
    def of(cls, bucket: Bucket) -> BucketDeletions | None:
        """The vectors of a bucket of a table with deletion vectors; None for other tables."""
        return cls(bucket) if bucket.options.deletion_vectors else None

    def _loaded(self) -> dict[str, DeletionVector]:
        if self._vectors is None:
            vectors: dict[str, DeletionVector] = {}
            for file in self._live:
                path = self._bucket.index_path(file)
                ranges = file.dv_ranges or ()
                wanted = {r.data_file: DeletionFile(path, r.offset, r.length, r.cardinality) for r in ranges}
                vectors |= deletion_vector.read_many(self._bucket.io, path, wanted) if wanted else {}
            self._vectors = vectors
        return self._vectors

    def names(self) -> frozenset[str]:
        """Data files that have deleted rows."""
        if self._vectors is not None:
            return frozenset(self._vectors)
        return frozenset(r.data_file for f in self._live for r in f.dv_ranges or ())

    def counts(self, rows: Mapping[str, int]) -> dict[str, int]:
        """The number of deleted rows of each of these data files; all its `rows` where the count is
        unknown."""
        ranges = (r for f in self._live for r in f.dv_ranges or () if r.data_file in rows)
        return {r.data_file: rows[r.data_file] if r.cardinality is None else r.cardinality for r in ranges}

    def vector(self, data_file: str) -> DeletionVector | None:
        """The vector of a data file, None if it has none."""
        return self._loaded().get(data_file) if data_file in self.names() else None

    def mark(self, data_file: str, positions: np.ndarray) -> None:
        """Mark these rows of a file as deleted, too."""
        vectors, more = self._loaded(), DeletionVector.of(positions)
        before = vectors.get(data_file)
        joined = more if before is None else before.union(more)
        if joined.cardinality != (before.cardinality if before else 0):
            vectors[data_file] = joined
            self._changed = True

    def drop(self, data_files: Iterable[str]) -> None:
        """Drop the vectors of files that were rewritten without their deleted rows."""
        for name in self.names().intersection(data_files):
            del self._loaded()[name]
            self._changed = True

    def flush(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """(new, replaced) index files; both empty if nothing changed since the last call. Writes the
        container."""
        if not self._changed:
            return (), ()
        bucket, vectors, replaced = self._bucket, self._loaded(), self._live
        new: tuple[IndexFileMeta, ...] = ()
        if vectors:
            bitmap64 = bucket.options.bitmap64
            data, ranges = deletion_vector.container(sorted(vectors.items()), bitmap64=bitmap64)
            self._uuid = self._uuid or bucket.env.uuid()
            name = f"index-{checksums.named(self._uuid, data)}-{len(self._written)}"
            self._written.append(name)
            new = (deletion_vector.index_file(name, len(data), ranges),)
            try:
                bucket.io.write(bucket.index_path(name), data)
            except BaseException:
                self.delete(new)
                raise
        self._live, self._changed = new, False
        return new, replaced

    def delete(self, files: Iterable[IndexFileMeta]) -> None:
        """Delete containers that no snapshot names. One that cannot be deleted is logged and stays as an
        orphan."""
        for file in files:
            try:
                self._bucket.io.delete(self._bucket.index_path(file))
            except (OSError, TablestoreError) as e:
                log.warning("could not delete %s: %s", file.file_name, e)
