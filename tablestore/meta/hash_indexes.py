"""The HASH index files of a table: which key hashes each dynamic bucket holds (FORMAT.md 15.1).

Used by writers, which assign buckets to keys, and by `check`.
"""

from __future__ import annotations

import numpy as np

from tablestore.core.errors import Corrupt, FileMissing
from tablestore.format import checksums, hashing
from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.meta.store import Store


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
