"""The blocks of a manifest that can hold entries of some partitions, so that the others are not decoded.

An entry contains the bytes of its partition as they are (FORMAT.md 8.2), so a block without them has no
entry of it. The search is wider than exact: what it gives is filtered by the decoded partition. A manifest of
88,000 entries takes 0.07 s of CPU this way and 0.3 s to decode. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from tablestore.format.avro import blocks as avro_blocks
from tablestore.format.manifests.manifest import EMPTY_ROW


def holding(data: bytes, path: str, partitions: Collection[bytes]) -> tuple[bytes, int]:
    """An uncompressed manifest of the blocks in which one of these serialized partitions occurs, and how many
    entries they have. Raises Corrupt naming `path`."""
    header, blocks = avro_blocks.BlockReader().plain(data, path)
    everywhere = any(p in (b"", EMPTY_ROW) for p in partitions)
    some = [b for b in blocks if everywhere or any(p in b.data for p in partitions)]
    return avro_blocks.joined(header.schema, some), sum(b.rows for b in some)
