"""What the index files of a table say: where the deletion vectors of a snapshot's data files lie, bucket by
bucket, and which key hashes each dynamic bucket holds (FORMAT.md 15.1).

A data file has at most one live vector. Only the index manifest is read for them; the vectors themselves are
read with the file, by scans and compactions. Used by planning, writers, compaction and deletes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tablestore.core.errors import Corrupt, FileMissing
from tablestore.format import checksums, hashing
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.index_manifest import DELETION_VECTORS, IndexEntry
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store

Place = tuple[bytes, int]  # partition, bucket


def deletion_files(
    store: Store, snapshot: Snapshot | None, *, partition: Callable[[bytes], bool] = lambda _: True
) -> dict[Place, dict[str, DeletionFile]]:
    """Deletion files by data file name, for each bucket that has any."""
    by_bucket: dict[Place, dict[str, DeletionFile]] = {}
    for e in store.manifests.index_entries(snapshot):
        if e.file.index_type != DELETION_VECTORS or not partition(e.partition):
            continue
        path = store.index_path(e.partition, e.bucket, e.file)
        files = by_bucket.setdefault((e.partition, e.bucket), {})
        for r in e.file.dv_ranges or ():
            if r.data_file in files:
                raise Corrupt(path, f"{r.data_file} has deletion vectors in two live index files")
            files[r.data_file] = DeletionFile(path, r.offset, r.length, r.cardinality)
    return by_bucket


def read_hashes(store: Store, entry: IndexEntry) -> np.ndarray:
    """int32 hashes of one index file; raises Corrupt naming it when it is missing or of another size."""
    file, path = entry.file, store.index_path(entry.partition, entry.bucket, entry.file)
    try:
        data = store.io.read(path)
    except FileNotFoundError:
        raise FileMissing(path) from None
    if len(data) != file.file_size:
        raise Corrupt(path, f"it has {len(data):,} bytes; the index manifest says {file.file_size:,}")
    return hashing.decode_index(checksums.require_named(path, data), path)
