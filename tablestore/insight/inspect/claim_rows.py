"""Entries of many manifests by columns, and the paths that they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.manifests.manifest import ManifestFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect.claim_book import ClaimIndex
from tablestore.meta.entries import EMPTY
from tablestore.meta.store import Store

COLUMNS = ["kind", "partition", "bucket", "file_name", "file_size", "extra_files", "external_path"]
_NO_ROWS = EMPTY.table.select(COLUMNS)
AT_ONCE = 500  # snapshots whose lists, and manifests that are read together
Manifests = Sequence[ManifestFileMeta]
Lists = tuple[Manifests, Manifests]  # base, delta


def parts(run: Sequence[Snapshot]) -> Iterator[Sequence[Snapshot]]:
    """Snapshots whose lists and manifests are read together."""
    for at in range(0, len(run), AT_ONCE):
        yield run[at : at + AT_ONCE]


def lists_of(store: Store, s: Snapshot) -> Lists:
    """The base and the delta list of a snapshot."""
    base, delta = store.manifests.read_lists([s.base_manifest_list, s.delta_manifest_list])
    return base, delta


def entries_of(store: Store, ids: Sequence[int], lists: Sequence[Manifests]) -> tuple[pa.Table, np.ndarray]:
    """The entries of the manifests of these lists in order, and for each the id that its list is of."""
    manifests = [m for some in lists for m in some]
    owners = np.repeat(np.array(ids, dtype=np.int64), [len(some) for some in lists])
    tables, counts = [_NO_ROWS], list[int]()
    for at in range(0, len(manifests), AT_ONCE):
        read = store.manifests.each(manifests[at : at + AT_ONCE])
        tables.append(pa.concat_tables([e.table.select(COLUMNS) for e in read]))
        counts += map(len, read)
    return pa.concat_tables(tables).combine_chunks(), np.repeat(owners, counts)


def paths_of(book: ClaimIndex, store: Store, rows: pa.Table) -> tuple[np.ndarray, pa.Array]:
    """Place and whole path of each entry."""
    encoded = rows.column("partition").combine_chunks().dictionary_encode()
    partitions, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
    buckets = rows.column("bucket").to_numpy().astype(np.int64)
    pairs, inverse = np.unique(codes << 32 | buckets & 0xFFFFFFFF, return_inverse=True)
    numbers = (pairs & 0xFFFFFFFF).astype(np.uint32).astype(np.int32).tolist()
    pair_places = [book.place(partitions[p], b) for p, b in zip((pairs >> 32).tolist(), numbers, strict=True)]
    places = np.array(pair_places, dtype=np.int32)[inverse] if len(pair_places) else np.zeros(0, np.int32)
    folders = pc.take(pa.array(book.folders, pa.large_string()), pa.array(places))
    slash = pa.scalar("/", pa.large_string())
    paths = pc.binary_join_element_wise(folders, rows.column("file_name").combine_chunks(), slash)
    outside = rows.column("external_path").combine_chunks()
    if outside.null_count < len(outside):
        local = pc.replace_substring_regex(outside, "^file:/*", "/")
        paths = pc.coalesce(local, paths)
    return places, paths


def files_beside(rows: pa.Table, paths: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Of each file beside a data file: the row of that, and the path."""
    extra = rows.column("extra_files").combine_chunks()
    parents = pc.list_parent_indices(extra)
    folders = pc.replace_substring_regex(paths, "[^/]*$", "").take(parents)
    nothing = pa.scalar("", pa.large_string())
    return parents, pc.binary_join_element_wise(folders, pc.list_flatten(extra), nothing)
