"""Manifest lists and manifests of one table: reading (cached by name, they never change), writing, and the
live entries.

Names are `manifest-<uuid>-<i>` and `manifest-list-<uuid>-<i>`, one uuid and counter a writer. Filters given
to `live_entries` must
be exact or wider: a dropped DELETE would bring a file back to life, so whole identities pass or fail
together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from tablestore.env import Env
from tablestore.errors import Corrupt
from tablestore.format import index_manifest, manifest_columns
from tablestore.format import manifest as manifest_format
from tablestore.format.index_manifest import IndexEntry
from tablestore.format.manifest import (
    ADD,
    DELETE,
    EMPTY_STATS,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from tablestore.format.partition_stats import partition_stats
from tablestore.format.snapshot import Snapshot
from tablestore.format.types import DataType
from tablestore.io.fileio import FileIO
from tablestore.io.paths import TablePaths
from tablestore.meta.entries import EMPTY, BucketFilter, Entries, PartitionFilter, concatenated
from tablestore.options import TableOptions

_CACHED_ENTRIES = 200_000
_MANY_ENTRIES, _MANY_FILES = 1_000, 100  # from here on decoding by columns pays for its start


class ManifestStore:
    """Reads manifests and lists. Memory is bounded: at most 200,000 entries stay cached, the least recently
    used go first."""

    def __init__(self, io: FileIO, paths: TablePaths) -> None:
        self._io, self._paths = io, paths
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()
        self._cached = 0

    def read_list(self, name: str) -> list[ManifestFileMeta]:
        """The manifests of a list, oldest first; raises Corrupt naming a damaged or missing file."""
        path = self._paths.manifest(name)
        return manifest_format.decode_list(self._bytes(path), path)

    def read_manifest(self, name: str) -> list[ManifestEntry]:
        """The entries of a manifest, in order; the caller must not change the list."""
        path = self._paths.manifest(name)
        if name in self._tables:
            return manifest_columns.entries(self._tables[name])
        found = manifest_format.decode_entries(self._bytes(path), path)
        self._remember(name, manifest_columns.of(found))
        return found

    def read_manifests(self, manifests: Sequence[ManifestFileMeta]) -> Entries:
        """The entries of these manifests, in order; what is not cached is read and decoded together."""
        new = [m for m in manifests if m.file_name not in self._tables]
        read = {m.file_name: t for m, t in zip(new, self._decoded(new), strict=True)}
        parts = [
            read[m.file_name] if m.file_name in read else self._cached_table(m.file_name) for m in manifests
        ]
        for name, table in read.items():
            self._remember(name, table)
        return concatenated(parts)

    def _decoded(self, manifests: Sequence[ManifestFileMeta]) -> list[pa.Table]:
        rows = sum(m.num_added + m.num_deleted for m in manifests)
        paths = [self._paths.manifest(m.file_name) for m in manifests]
        if rows >= _MANY_ENTRIES or len(manifests) >= _MANY_FILES:
            return manifest_columns.decode([(p, self._bytes(p)) for p in paths])
        return [manifest_columns.of(manifest_format.decode_entries(self._bytes(p), p)) for p in paths]

    def _cached_table(self, name: str) -> pa.Table:
        self._tables.move_to_end(name)
        return self._tables[name]

    def _remember(self, name: str, table: pa.Table) -> None:
        self._tables[name] = table
        self._cached += table.num_rows
        while self._cached > _CACHED_ENTRIES and len(self._tables) > 1:
            self._cached -= self._tables.popitem(last=False)[1].num_rows

    def _bytes(self, path: str) -> bytes:
        try:
            return self._io.read(path)
        except FileNotFoundError:
            raise Corrupt(path, "the file is missing") from None

    def manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """All manifests of a snapshot's state: base, then delta."""
        return self.read_list(snapshot.base_manifest_list) + self.read_list(snapshot.delta_manifest_list)

    def delta_entries(self, snapshot: Snapshot) -> Entries:
        """What this snapshot changed, in order."""
        return self.read_manifests(self.read_list(snapshot.delta_manifest_list))

    def changelog_entries(self, snapshot: Snapshot) -> Entries:
        """Changelog files of this snapshot."""
        if snapshot.changelog_manifest_list is None:
            return EMPTY
        return self.read_manifests(self.read_list(snapshot.changelog_manifest_list))

    def index_entries(self, snapshot: Snapshot | None) -> list[IndexEntry]:
        """Live index files of `snapshot`: HASH indexes and deletion vectors."""
        if snapshot is None or snapshot.index_manifest is None:
            return []
        path = self._paths.manifest(snapshot.index_manifest)
        return index_manifest.decode(self._bytes(path), path)

    def live_entries(
        self,
        snapshot: Snapshot | None,
        *,
        partition: PartitionFilter | None = None,
        bucket: BucketFilter | None = None,
        manifest: Callable[[ManifestFileMeta], bool] | None = None,
    ) -> Entries:
        """ADD entries of `snapshot` that no DELETE has cancelled, in manifest order.

        `partition(bytes)`, `bucket(bucket, total_buckets)` keep or drop whole identities; `manifest` may
        skip a manifest only if all its entries would be dropped by the other two.
        """
        if snapshot is None:
            return EMPTY
        found = self.read_manifests([m for m in self.manifests(snapshot) if manifest is None or manifest(m)])
        if partition is not None:
            found = found.of_partitions(partition)
        if bucket is not None:
            found = found.of_buckets(bucket)
        return found.live()


def compacted_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Entries with ADD/DELETE pairs cancelled in order; a DELETE whose ADD is elsewhere stays."""
    kept: dict[tuple[object, ...], ManifestEntry] = {}
    for e in entries:
        before = kept.get(e.identity)
        if e.kind == DELETE and before is not None and before.kind == ADD:
            del kept[e.identity]
        else:
            kept[e.identity] = e
    return list(kept.values())


class ManifestWriter:
    """Writes manifests and lists of one committer under one uuid each; remembers what it wrote so a failed
    try can clean up."""

    def __init__(
        self, io: FileIO, paths: TablePaths, options: TableOptions, types: Sequence[DataType], env: Env
    ) -> None:
        self._io, self._paths, self._options, self._types = io, paths, options, types
        self._uuids = (env.uuid(), env.uuid(), env.uuid())
        self._counts = [0, 0, 0]
        self.written: list[str] = []

    def manifest(self, entries: Sequence[ManifestEntry], schema_id: int) -> list[ManifestFileMeta]:
        """Write `entries` as manifests of about the target size each; [] for none."""
        per_file = max(1, self._options.manifest_target_bytes // _ENTRY_BYTES)
        parts = [entries[i : i + per_file] for i in range(0, len(entries), per_file)]
        return [self._one(part, schema_id) for part in parts]

    def _one(self, entries: Sequence[ManifestEntry], schema_id: int) -> ManifestFileMeta:
        data = manifest_format.encode_entries(entries, self._options.manifest_compression)
        name = self._name("manifest", 0)
        self._write(name, data)
        buckets, levels = [e.bucket for e in entries], [e.file.level for e in entries]
        stats = partition_stats([e.partition for e in entries], self._types) if self._types else SimpleStats()
        return ManifestFileMeta(
            file_name=name,
            file_size=len(data),
            num_added=sum(e.kind == ADD for e in entries),
            num_deleted=sum(e.kind == DELETE for e in entries),
            partition_stats=stats if self._types else EMPTY_STATS,
            schema_id=schema_id,
            min_bucket=min(buckets),
            max_bucket=max(buckets),
            min_level=min(levels),
            max_level=max(levels),
        )

    def list(self, manifests: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list; (name, bytes)."""
        data = manifest_format.encode_list(manifests, self._options.manifest_compression)
        name = self._name("manifest-list", 1)
        self._write(name, data)
        return name, len(data)

    def index(self, entries: Sequence[IndexEntry]) -> str:
        """Write an index manifest; its name."""
        name = self._name("index-manifest", 2)
        self._write(name, index_manifest.encode(entries, self._options.manifest_compression))
        return name

    def discard(self, keep: Iterable[str] = ()) -> None:
        """Delete what was written and is named by no published snapshot."""
        kept = set(keep)
        for name in self.written:
            if name not in kept:
                self._io.delete(self._paths.manifest(name))
        self.written = [n for n in self.written if n in kept]

    def _name(self, prefix: str, i: int) -> str:
        self._counts[i] += 1
        return f"{prefix}-{self._uuids[i]}-{self._counts[i] - 1}"

    def _write(self, name: str, data: bytes) -> None:
        self.written.append(name)
        self._io.write(self._paths.manifest(name), data)


_ENTRY_BYTES = 400  # about what one entry takes after compression; manifests roll by it
