"""Entries: manifest entries as a sequence over columns, made into objects one by one on access.

A plan of 10,000 files decides by columns (`partitions`, `numbers`) and passes a few hundred objects on;
iterating makes them all, about 15 µs each. Immutable; used by meta, read and write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format import binary_row
from tablestore.format.manifests import manifest_columns
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry
from tablestore.format.types.arrow_types import DataType

PartitionFilter = Callable[[bytes], bool]
BucketFilter = Callable[[int, int], bool]
_FEW = 10_000  # entries that are put together at once, about 10 MB
_IDENTITY = ("partition", "bucket", "level", "file_name", "extra_files", "embedded_index", "external_path")


class Entries(Sequence[ManifestEntry]):
    """Entries in manifest order. `table` has the columns of `manifest_columns.SCHEMA`."""

    __slots__ = ("_objects", "table")

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._objects: list[ManifestEntry] | None = None

    @classmethod
    def of(cls, entries: Iterable[ManifestEntry]) -> Entries:
        """The sequence of entries that are objects already."""
        return cls(manifest_columns.of(entries))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, at: int) -> ManifestEntry: ...
    @overload
    def __getitem__(self, at: slice) -> Entries: ...
    def __getitem__(self, at: int | slice) -> ManifestEntry | Entries:
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        if self._objects is not None:
            return self._objects[at]
        rows = len(self)
        if not -rows <= at < rows:
            raise IndexError(at)
        return manifest_columns.entries(self.table.slice(at % rows, 1))[0]

    def __iter__(self) -> Iterator[ManifestEntry]:
        return iter(self.objects)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.objects == list(other)

    def __repr__(self) -> str:
        return f"Entries({len(self):,})"

    @property
    def objects(self) -> list[ManifestEntry]:
        """All entries as objects, made once. The caller must not change the list."""
        if self._objects is None:
            self._objects = manifest_columns.entries(self.table)
        return self._objects

    def take(self, rows: np.ndarray) -> Entries:
        """The entries at these positions, in this order; they share the objects that are made already."""
        taken = Entries(self.table.take(pa.array(rows)))
        if self._objects is not None:
            taken._objects = [self._objects[at] for at in rows.tolist()]
        return taken

    def filter(self, keep: np.ndarray) -> Entries:
        """The entries where the boolean `keep` is true."""
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def carrying(self) -> Entries:
        """Those with fields of later releases."""
        return self.filter(self.table.column("carried").is_valid().to_numpy())

    def numbers(self, column: str, *, null: int = 0) -> np.ndarray:
        """An integer column as int64; NULL as `null`."""
        values = self.table.column(column)
        return (values.fill_null(null) if values.null_count else values).to_numpy().astype(np.int64)

    def partitions(self) -> tuple[list[bytes], np.ndarray]:
        """The distinct partitions in order of appearance, and each entry's index into them."""
        encoded = self.table.column("partition").combine_chunks().dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()

    def partition_ranks(self, types: Sequence[DataType]) -> np.ndarray:
        """The place of each entry's partition among the distinct ones, in the format's order; raises Corrupt
        for bytes that are no partition."""
        distinct, codes = self.partitions()
        nullable = [t.as_nullable() for t in types]
        keys = [binary_row.sort_key(binary_row.decode(p, nullable), nullable) for p in distinct]
        ranks = np.empty(len(distinct), dtype=np.int64)
        ranks[sorted(range(len(distinct)), key=keys.__getitem__)] = np.arange(len(distinct))
        return ranks[codes]

    def of_partitions(self, chosen: PartitionFilter) -> Entries:
        """Entries of the partitions for which `chosen` is true; called once a partition."""
        distinct, codes = self.partitions()
        verdicts = np.array([bool(chosen(p)) for p in distinct], dtype=bool)
        return self.filter(verdicts[codes]) if len(distinct) else self

    def of_buckets(self, chosen: BucketFilter) -> Entries:
        """Entries for whose (bucket, total buckets) `chosen` is true; called once a pair."""
        pairs = self.numbers("bucket") << 32 | self.numbers("total_buckets") & 0xFFFFFFFF
        distinct, codes = np.unique(pairs, return_inverse=True)
        low = (distinct & 0xFFFFFFFF).astype(np.uint32).astype(np.int32).tolist()
        verdicts = [bool(chosen(b, t)) for b, t in zip((distinct >> 32).tolist(), low, strict=True)]
        return self.filter(np.array(verdicts, dtype=bool)[codes]) if len(distinct) else self

    def live(self) -> Entries:
        """ADDs that no DELETE cancels; each file is added once and deleted once per identity (I6)."""
        adding = self.numbers("kind") == ADD
        return self.filter(adding & ~self.cancelled())

    def cancelled(self) -> np.ndarray:
        """Which entries come in pairs: an ADD with a DELETE of the same identity."""
        paired = np.zeros(len(self), dtype=bool)
        deleting = self.numbers("kind") == DELETE
        if not deleting.any():
            return paired
        names = self.table.column("file_name")
        gone_names = names.filter(pa.array(deleting)).combine_chunks()
        added = np.flatnonzero(pc.is_in(names, gone_names).to_numpy() & ~deleting)
        deleted = np.flatnonzero(deleting)
        gone, there = list(self._identities(deleted)), list(self._identities(added))
        both = set(gone) & set(there)
        paired[deleted[np.array([i in both for i in gone], dtype=bool)]] = True
        paired[added[np.array([i in both for i in there], dtype=bool)]] = True
        return paired

    def _identities(self, rows: np.ndarray) -> Iterator[tuple[Any, ...]]:
        some = self.table.select(list(_IDENTITY)).take(pa.array(rows))
        columns = [c.to_pylist() for c in some.columns]
        columns[4] = [tuple(v or ()) for v in columns[4]]
        return zip(*columns, strict=True)


EMPTY = Entries(pa.Table.from_batches([], manifest_columns.SCHEMA))


def concatenated(parts: Iterable[pa.Table]) -> Entries:
    """The entries of all these tables, in order; many of them column after column, so that where nobody else
    keeps the tables their memory is not taken twice."""
    rest = [t for t in parts if t.num_rows]
    if not rest or (len(rest) == 1 and rest[0].column(0).num_chunks == 1):
        return Entries(rest[0]) if rest else EMPTY
    if sum(t.num_rows for t in rest) <= _FEW:
        return Entries(pa.concat_tables(rest).combine_chunks())
    columns = []
    for f in manifest_columns.SCHEMA:
        chunks = [chunk for t in rest for chunk in t.column(0).chunks]
        columns.append(pa.chunked_array(chunks, f.type).combine_chunks())
        del chunks
        rest = [t.remove_column(0) for t in rest]
    return Entries(pa.Table.from_arrays(columns, schema=manifest_columns.SCHEMA))
