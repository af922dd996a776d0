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
from typing import TypeVar

from tablestore.env import Env
from tablestore.errors import Corrupt
from tablestore.format import index_manifest
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
from tablestore.options import TableOptions

_CACHED_ENTRIES = 200_000
T = TypeVar("T")
PartitionFilter = Callable[[bytes], bool]
BucketFilter = Callable[[int, int], bool]


class ManifestStore:
    """Reads manifests and lists. Memory is bounded: at most 200,000 entries stay cached, the least recently
    used go first."""

    def __init__(self, io: FileIO, paths: TablePaths) -> None:
        self._io, self._paths = io, paths
        self._entries: OrderedDict[str, list[ManifestEntry]] = OrderedDict()
        self._cached = 0

    def read_list(self, name: str) -> list[ManifestFileMeta]:
        """The manifests of a list, oldest first; raises Corrupt naming a damaged or missing file."""
        path = self._paths.manifest(name)
        return manifest_format.decode_list(self._bytes(path), path)

    def read_manifest(self, name: str) -> list[ManifestEntry]:
        """The entries of a manifest, in order; the caller must not change the list."""
        if name in self._entries:
            self._entries.move_to_end(name)
            return self._entries[name]
        path = self._paths.manifest(name)
        found = manifest_format.decode_entries(self._bytes(path), path)
        self._entries[name] = found
        self._cached += len(found)
        while self._cached > _CACHED_ENTRIES and len(self._entries) > 1:
            self._cached -= len(self._entries.popitem(last=False)[1])
        return found

    def _bytes(self, path: str) -> bytes:
        try:
            return self._io.read(path)
        except FileNotFoundError:
            raise Corrupt(path, "the file is missing") from None

    def manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """All manifests of a snapshot's state: base, then delta."""
        return self.read_list(snapshot.base_manifest_list) + self.read_list(snapshot.delta_manifest_list)

    def delta_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """What this snapshot changed, in order."""
        return self._all(self.read_list(snapshot.delta_manifest_list))

    def changelog_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Changelog files of this snapshot."""
        if snapshot.changelog_manifest_list is None:
            return []
        return self._all(self.read_list(snapshot.changelog_manifest_list))

    def index_entries(self, snapshot: Snapshot | None) -> list[IndexEntry]:
        """Live index files of `snapshot`: HASH indexes and deletion vectors."""
        if snapshot is None or snapshot.index_manifest is None:
            return []
        path = self._paths.manifest(snapshot.index_manifest)
        return index_manifest.decode(self._bytes(path), path)

    def _all(self, manifests: Iterable[ManifestFileMeta]) -> list[ManifestEntry]:
        return [e for m in manifests for e in self.read_manifest(m.file_name)]

    def live_entries(
        self,
        snapshot: Snapshot | None,
        *,
        partition: PartitionFilter | None = None,
        bucket: BucketFilter | None = None,
        manifest: Callable[[ManifestFileMeta], bool] | None = None,
    ) -> list[ManifestEntry]:
        """ADD entries of `snapshot` that no DELETE has cancelled, in manifest order.

        `partition(bytes)`, `bucket(bucket, total_buckets)` keep or drop whole identities; `manifest` may
        skip a manifest only if
        all its entries would be dropped by the other two.
        """
        if snapshot is None:
            return []
        chosen = [m for m in self.manifests(snapshot) if manifest is None or manifest(m)]
        entries: Iterable[ManifestEntry] = self._all(chosen)
        if partition is not None:
            verdicts: dict[bytes, bool] = {}
            entries = [e for e in entries if _memo(verdicts, e.partition, partition)]
        if bucket is not None:
            entries = [e for e in entries if bucket(e.bucket, e.total_buckets)]
        return merge_entries(entries)


def _memo(known: dict[bytes, bool], key: bytes, decide: PartitionFilter) -> bool:
    if key not in known:
        known[key] = decide(key)
    return known[key]


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """ADDs without the ones a DELETE cancels; each file is added once and deleted once per identity (I6)."""
    entries = list(entries)
    gone = {e.identity for e in entries if e.kind == DELETE}
    if not gone:
        return entries
    return [e for e in entries if e.kind == ADD and e.identity not in gone]


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
