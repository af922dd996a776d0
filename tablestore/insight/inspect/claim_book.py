"""The claims of holders on files as they are collected: a row a named file and holder, by columns; and
entries of many manifests by columns, with the paths that they name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.checksums import FORMATS
from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.format.manifests.manifest import ManifestFileMeta
from tablestore.format.result_tables import result_schema
from tablestore.format.snapshot import Snapshot
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


def paths_of(book: ClaimIndex, rows: pa.Table) -> tuple[np.ndarray, pa.Array]:
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


SNAPSHOTS, TAG, BRANCH, CHANGELOG, COMING = "snapshots", "tag", "branch", "changelog", "coming changelog"
CONSUMER, TABLE, LEFT = "consumer", "table", "left"
KINDS = (
    *("data", "file index", "changelog", "index", "manifest", "manifest list", "index manifest"),
    *(
        "statistics",
        "snapshot",
        "schema",
        "tag",
        "consumer",
        "hint",
        "checksum",
        "history",
        "temporary",
        "unknown",
    ),
)
SCHEMA = result_schema(
    "path large_string, kind int8, holder int32, first int64, last int64, written int64, bytes int64, "
    "place int32, sure bool"
)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who needs files: this branch's snapshots, one of its tags or consumers, its long-lived changelogs,
    another branch, or the table itself. LEFT: nobody, but the expiry of a changelog will remove them; COMING:
    the changelogs that snapshots will leave when they expire."""

    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Claims:
    """Rows of SCHEMA; `holder` is a position in `holders`, `place` in `places`: (partition text, bucket)."""

    table: pa.Table
    holders: tuple[Holder, ...]
    places: tuple[tuple[str, int], ...]


@dataclass
class ClaimIndex:
    """Claims as they are collected. Grows; one thread."""

    store: Store
    holders: dict[Holder, int] = field(default_factory=dict)
    places: dict[tuple[bytes, int], int] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    parts: list[pa.Table] = field(default_factory=list)
    indexes: dict[str, list[IndexEntry]] = field(default_factory=dict)

    def add(self, paths: pa.Array | Sequence[str], kind: str, holder: Holder, **columns: object) -> None:
        """Claims of one kind and holder; `columns` are arrays, or one value for all of them."""
        rows = len(paths)
        if not rows:
            return
        code = self.holders.setdefault(holder, len(self.holders))
        values = {"path": paths, "kind": KINDS.index(kind), "holder": code, "sure": True, **columns}
        arrays = [_column(values.get(f.name), f.type, rows) for f in SCHEMA]
        self.parts.append(pa.Table.from_arrays(arrays, schema=SCHEMA))

    def place(self, partition: bytes, bucket: int) -> int:
        """The number of a bucket."""
        place = self.places.get((partition, bucket))
        if place is None:
            place = self.places[partition, bucket] = len(self.places)
            self.folders.append(self.store.bucket_dir(partition, bucket))
        return place

    def index_entries(self, store: Store, snapshot: Snapshot) -> list[IndexEntry]:
        """The index files of a snapshot; many share one index manifest, which is read once."""
        name = snapshot.index_manifest or ""
        if name not in self.indexes:
            self.indexes[name] = store.manifests.index_entries(snapshot)
        return self.indexes[name]

    def closed(self) -> Claims:
        """All that was collected."""
        table = pa.concat_tables(self.parts) if self.parts else SCHEMA.empty_table()
        table = pa.concat_tables([table, _checksums(table, self.store.paths.checksums_dir)])
        places = tuple((self.store.partition_text(p), b) for p, b in self.places)
        return Claims(table.combine_chunks(), tuple(self.holders), places)


def _checksums(claims: pa.Table, folder: str) -> pa.Table:
    """Claims of the checksum files that data files of some formats may have: who needs those needs these."""
    data = pc.is_in(claims["kind"], pa.array([KINDS.index(k) for k in ("data", "changelog")], pa.int8()))
    some = claims.filter(
        pc.and_(data, pc.match_substring_regex(claims["path"], rf"\.({'|'.join(FORMATS)})$"))
    )
    names = pc.replace_substring_regex(some["path"], "^.*/", "")
    parent, nothing = (pa.scalar(text, pa.large_string()) for text in (f"{folder}/", ""))
    values = {
        "path": pc.binary_join_element_wise(parent, names, nothing),
        "kind": KINDS.index("checksum"),
        "bytes": None,
        "sure": False,
    }
    arrays = [_column(values.get(f.name, some[f.name]), f.type, len(some)) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _column(value: object, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array):
        return value if value.type == kind else value.cast(kind)
    if isinstance(value, np.ndarray | list | tuple):
        return pa.array(value, kind)
    return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)
