"""The HASH index files of a table: which key hashes each dynamic bucket holds.

Used by writers, which give buckets to keys, and by checks.
"""

from __future__ import annotations

import numpy as np

from tablestore.errors import Corrupt, Unsupported
from tablestore.format import hash_index
from tablestore.format.index_manifest import IndexFileMeta
from tablestore.meta.store import Store


def read_hashes(store: Store, file: IndexFileMeta) -> np.ndarray:
    """int32 hashes of one index file; raises Corrupt naming it when it is missing or of another size."""
    if file.external_path is not None:
        raise Unsupported("index files outside the table", file.external_path)
    path = store.paths.index(file.file_name)
    try:
        data = store.io.read(path)
    except FileNotFoundError:
        raise Corrupt(path, "the file is missing") from None
    if len(data) != file.file_size:
        raise Corrupt(path, f"it has {len(data):,} bytes; the index manifest says {file.file_size:,}")
    return hash_index.decode(data, path)
