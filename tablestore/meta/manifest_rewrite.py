"""Rewriting manifests: Avro blocks of which every entry stays are copied unchanged, the rest is encoded again
(FORMAT.md 18).

So the cost of merging is that of the changes: of a manifest of 10,000 entries and 29 small ones only the
small ones are encoded. Blocks may be put in order of their partitions, so that each new manifest covers few
of them and plans of one partition read few manifests. Memory: the bytes and columns of the manifests that are
merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tablestore.core.errors import Corrupt
from tablestore.format.avro import blocks as avro_blocks
from tablestore.format.avro.blocks import AvroBlock
from tablestore.format.manifests.manifest import ManifestFileMeta, schema_of
from tablestore.meta.entries import Entries
from tablestore.meta.manifests import ManifestStore, ManifestWriter

FEW = 32
"""A block of fewer entries is encoded again with its neighbours."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Neighbouring entries; `block` is the Avro block of just these, None if they must be encoded."""

    start: int
    stop: int
    block: AvroBlock | None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block of a new manifest, and the positions of its entries."""

    block: AvroBlock
    rows: np.ndarray


def rewritten(
    manifests: Sequence[ManifestFileMeta],
    entries: Entries,
    keep: np.ndarray,
    store: ManifestStore,
    writer: ManifestWriter,
    *,
    by_partition: bool = False,
) -> list[ManifestFileMeta]:
    """New manifests that hold the entries of `manifests` where `keep` is true; none for no entry. They are in
    order, or with `by_partition` in that of the least partition of each block: for entries of which no two
    match, and tables that do not read files in the order of manifests.

    `entries` are those of the manifests, one after another. Raises Corrupt if the list counts differently.
    """
    listed = sum(m.num_added + m.num_deleted for m in manifests)
    if listed != len(entries):
        names = ", ".join(m.file_name for m in manifests[:3])
        raise Corrupt(names, f"manifests hold {len(entries):,} entries; their list says {listed:,}")
    schema = schema_of(entries.filter(keep).carrying())
    header = avro_blocks.BlockReader().parse(writer.encoded((), schema), "")[0]
    ranks = entries.partition_ranks(writer.partition_types) if by_partition else None
    pieces = list[_Piece]()
    for part in _joined(_parts(manifests, keep, store, header)):
        chosen = np.flatnonzero(keep[part.start : part.stop]) + part.start
        if not len(chosen):
            continue
        if part.block is not None:
            pieces.append(_Piece(part.block, chosen))
            continue
        if ranks is not None:
            chosen = chosen[np.argsort(ranks[chosen], kind="stable")]
        blocks = _encoded(entries.take(chosen), writer, schema)
        ends = np.cumsum([block.rows for block in blocks])[:-1]
        pieces += map(_Piece, blocks, np.split(chosen, ends))
    if ranks is not None:
        pieces.sort(key=lambda piece: int(ranks[piece.rows].min()))
    return _written(pieces, entries, header, writer, schema_id=max(m.schema_id for m in manifests))


def _written(
    pieces: Sequence[_Piece],
    entries: Entries,
    header: avro_blocks.AvroHeader,
    writer: ManifestWriter,
    *,
    schema_id: int,
) -> list[ManifestFileMeta]:
    """Manifests of these pieces, each of about the target size."""
    groups, size = list[list[_Piece]](), writer.target_bytes
    for piece in pieces:
        if size >= writer.target_bytes:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += len(piece.block.data)
    new_manifests = []
    for group in groups:
        data = avro_blocks.container(header.data, [piece.block for piece in group])
        rows = np.concatenate([piece.rows for piece in group])
        new_manifests.append(writer.finished(data, entries.take(rows), schema_id))
    return new_manifests


def _parts(
    manifests: Sequence[ManifestFileMeta],
    keep: np.ndarray,
    store: ManifestStore,
    header: avro_blocks.AvroHeader,
) -> Iterator[_Part]:
    reader, at = avro_blocks.BlockReader(), 0
    for m in manifests:
        count = m.num_added + m.num_deleted
        if count < FEW:
            yield _Part(at, at + count, None)
            at += count
            continue
        own, blocks = reader.parse(store.read_bytes(m.file_name), m.file_name)
        copied = (own.schema, own.codec) == (header.schema, header.codec)
        for block in blocks:
            whole = copied and block.rows >= FEW and bool(keep[at : at + block.rows].all())
            yield _Part(at, at + block.rows, block if whole else None)
            at += block.rows


def _joined(parts: Iterator[_Part]) -> Iterator[_Part]:
    """The parts, with neighbours that must be encoded joined into one."""
    pending: _Part | None = None
    for part in parts:
        if part.block is None and pending is not None:
            pending = _Part(pending.start, part.stop, None)
            continue
        if pending is not None:
            yield pending
            pending = None
        if part.block is None:
            pending = part
        else:
            yield part
    if pending is not None:
        yield pending


def _encoded(entries: Entries, writer: ManifestWriter, schema: Any) -> list[AvroBlock]:
    return avro_blocks.BlockReader().parse(writer.encoded(entries, schema), "")[1]
