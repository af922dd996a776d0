"""HASH index files: the key hashes of one dynamic bucket as int32 big-endian, one after another
(FORMAT.md 15.1). Hashes are distinct; their order has no meaning.
"""

from __future__ import annotations

import numpy as np

from tablestore.core.errors import Corrupt


def encode(hashes: np.ndarray) -> bytes:
    """The bytes of an index file."""
    return hashes.astype(">i4").tobytes()


def decode(data: bytes, path: str) -> np.ndarray:
    """int32 hashes; raises Corrupt naming `path` if the size is not a multiple of 4."""
    if len(data) % 4:
        raise Corrupt(path, f"a hash index of {len(data)} bytes: not a multiple of 4")
    return np.frombuffer(data, dtype=">i4").astype(np.int32)
