"""Manifest lists and manifests of one table: reading (cached by name, they never change), writing, and the
live entries (FORMAT.md 8.4). Reads of many snapshots prefetch their manifests in groups (`prefetched`).

Names are `manifest-<uuid>-<i>` and `manifest-list-<uuid>-<i>`; the uuid contains the checksum of the file,
which is verified at each read. Filters given to `live_entries` must be exact or wider: a dropped DELETE
would bring a file back to life, so whole identities pass or fail together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import accumulate, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.env import Env
from tablestore.core.errors import Corrupt, FileMissing
from tablestore.core.options.table_options import TableOptions
from tablestore.format import checksums
from tablestore.format.binary_row import DamagedRow
from tablestore.format.manifests import index_manifest, manifest_columns
from tablestore.format.manifests import manifest as manifest_format
from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.format.manifests.manifest import (
    ADD,
    EMPTY_STATS,
    ManifestEntry,
    ManifestFileMeta,
    PartitionBounds,
    holding,
    partition_stats,
)
from tablestore.format.snapshot import Snapshot
from tablestore.format.types.arrow_types import DataType
from tablestore.io.confined import is_local
from tablestore.io.fileio import FileIO
from tablestore.io.paths import TablePaths, join
from tablestore.io.routed import read_together
from tablestore.meta.entries import EMPTY, BucketFilter, Entries, PartitionFilter, concatenated
from tablestore.meta.manifest_cache import LOCAL, MAX_ENTRIES, CachedManifest, ManifestCache
from tablestore.meta.snapshots import raising_expired

_MANY_ENTRIES, _MANY_FILES = (
    1_000,
    100,
)  # from this size on decoding by columns pays although Polars must be loaded
_FEW_ENTRIES = 64  # ... and from this size on once it is loaded
_MANY_SKIPPED, _MOST_SKIPPED = 500, 10_000  # the same two where few of them are made
_LARGE_BYTES = 32 << 10  # size of a manifest of which only the blocks of some partitions are decoded
_FEW_PARTITIONS = 16  # up to which searching for them costs less than decoding a manifest
_DECODED_AT_ONCE = 20_000  # entries of manifests that are decoded together
_AT_ONCE = 500  # snapshots whose manifests are read and decoded together


_Stored = tuple[ManifestFileMeta, str]  # a manifest and its path


def _batches(manifests: Sequence[_Stored]) -> Iterator[Sequence[_Stored]]:
    """The manifests in groups that are decoded together: of not many entries, or one large manifest."""
    some, rows = list[_Stored](), 0
    for m, path in manifests:
        if some and rows + m.num_added + m.num_deleted > _DECODED_AT_ONCE:
            yield some
            some, rows = [], 0
        some.append((m, path))
        rows += m.num_added + m.num_deleted
    if some:
        yield some


class ManifestStore:
    """Reads manifests and lists. Manifests are cached, for all tables of a process where files are local."""

    def __init__(self, io: FileIO, paths: TablePaths, partition_types: Sequence[DataType]) -> None:
        self._io, self._paths, self._partition_types = io, paths, tuple(partition_types)
        self._cache = LOCAL if is_local(io) else ManifestCache()

    def read_list(self, name: str) -> list[ManifestFileMeta]:
        """The manifests of a list, oldest first; raises Corrupt naming a damaged or missing file."""
        cached = self._cache.get_list(self._paths.manifest(name))
        return self.read_lists([name])[0] if cached is None else list(cached)

    def read_lists(self, names: Sequence[str]) -> list[list[ManifestFileMeta]]:
        """The manifests of each of these lists; those that are not cached are read and decoded together."""
        paths = [self._paths.manifest(name) for name in names]
        cached = [self._cache.get_list(p) for p in paths]
        new = [p for p, there in zip(paths, cached, strict=True) if there is None]
        decoded = map(tuple, manifest_columns.decode_lists(self._with_bytes(new)) if new else ())
        lists = dict(zip(new, decoded, strict=True))
        for path, manifests in lists.items():
            self._cache.put_list(path, manifests)
        return [list(lists[p] if there is None else there) for p, there in zip(paths, cached, strict=True)]

    def listed_files(self, names: Sequence[str]) -> dict[str, int]:
        """The paths of all files that these lists name, with their bytes, 0 for those beside a manifest.
        Lists that are not cached are read and decoded together, and not added. Raises Corrupt as
        `read_list`."""
        paths = [self._paths.manifest(name) for name in names]
        cached = [self._cache.get_list(p) for p in paths]
        new = [p for p, there in zip(paths, cached, strict=True) if there is None]
        files = manifest_columns.listed_names(self._with_bytes(new)) if new else {}
        for manifests in filter(None, cached):
            files |= manifest_format.listed_names(manifests)
        return {self._paths.manifest(name): size for name, size in files.items()}

    def prefetched(self, snapshots: Iterable[Snapshot], *, bases: bool = False) -> Iterator[Snapshot]:
        """The same snapshots; when one is yielded its changes (with `bases` also its base lists) are cached.
        `_AT_ONCE` snapshots are read together. Missing or damaged files raise later, when they are read."""
        left = iter(snapshots)
        while some := list(islice(left, _AT_ONCE)):
            names = [s.delta_manifest_list for s in some]
            names += [s.changelog_manifest_list for s in some if s.changelog_manifest_list is not None]
            with suppress(Corrupt):
                lists = self.read_lists(names)
                self._read([m for manifests in lists for m in manifests])
                self.read_lists([s.base_manifest_list for s in some if bases])
            yield from some

    def read_manifest(self, name: str) -> list[ManifestEntry]:
        """The entries of a manifest, in order."""
        path = self._paths.manifest(name)
        cached = self._cache.get(path)
        if cached is not None:
            return manifest_columns.entries(cached.table)
        entries = manifest_format.decode_entries(self._bytes(path), path)
        self._cache.put(path, manifest_columns.of(entries))
        return entries

    def read_manifests(
        self, manifests: Sequence[ManifestFileMeta], chosen: Callable[[Entries], Entries] | None = None
    ) -> Entries:
        """The entries of these manifests, in order; `chosen` filters those of each manifest. Manifests that
        are not cached are read and decoded together."""
        if chosen is None:
            return concatenated(m.table for m in self._read(manifests))
        return concatenated(chosen(Entries(m.table)).table for m in self._each(manifests))

    def each(self, manifests: Sequence[ManifestFileMeta]) -> list[Entries]:
        """The entries of each of these manifests; those not cached are read and decoded together."""
        return [Entries(m.table) for m in self._read(manifests)]

    def uncached(self, manifests: Sequence[ManifestFileMeta]) -> Iterator[pa.Table]:
        """The entries of each of these manifests; those that are not cached are decoded together, and not
        added."""
        return (m.table for m in self._each(manifests, caching=False))

    def in_groups(self, manifests: Sequence[ManifestFileMeta]) -> Iterator[list[Entries]]:
        """The entries of each of these manifests, in groups that are decoded together when they are asked
        for. Where all of them are more than the cache holds, none is added to it."""
        fits = sum(m.num_added + m.num_deleted for m in manifests) <= MAX_ENTRIES
        for group in _batches([(m, self._paths.manifest(m.file_name)) for m in manifests]):
            yield [Entries(read.table) for read in self._each([m for m, _ in group], caching=fits)]

    def read_partitions(
        self, manifests: Sequence[ManifestFileMeta], partitions: Collection[bytes]
    ) -> list[CachedManifest]:
        """The entries of these serialized partitions, of each manifest that can hold one. Of a large manifest
        only the blocks in which they occur are decoded. Without partition columns there is one partition."""
        if not self._partition_types:
            return self._read(manifests)
        bounds = PartitionBounds.of(partitions, self._partition_types)
        chosen = [m for m in manifests if bounds.meets(m.partition_stats)]
        small = iter(self._read([m for m in chosen if m.file_size < _LARGE_BYTES]))
        parts = list[CachedManifest]()
        for m in chosen:
            if m.file_size < _LARGE_BYTES:
                parts.append(next(small).of_partitions(partitions))
            else:
                parts += self._parts(m, partitions)
        return parts

    def _parts(self, m: ManifestFileMeta, partitions: Collection[bytes]) -> list[CachedManifest]:
        """The entries of the partitions in a large manifest: of each alone where they are few."""
        path = self._paths.manifest(m.file_name)
        whole = self._cache.get(path)
        if whole is not None:
            return [whole.of_partitions(partitions)]
        ordered = sorted(partitions)
        cached = [self._cache.get(path, p) for p in ordered]
        new = {p for p, there in zip(ordered, cached, strict=True) if there is None}
        if len(new) > _FEW_PARTITIONS or (new and self._cache.searched(path, m.num_added + m.num_deleted)):
            return [self._read([m])[0].of_partitions(partitions)]
        if new:
            data, rows = holding(self._bytes(path), path, new)
            entries = Entries(self._decoded_bytes([(path, data)], rows)[0])
            some = {p: entries.of_partitions(p.__eq__).table for p in new}
            added = {p: self._cache.put(path, table, p) for p, table in some.items()}
            cached = [added.get(p, there) for p, there in zip(ordered, cached, strict=True)]
        return [part for part in cached if part is not None]

    def max_sequences(
        self, snapshot: Snapshot | None, partitions: Collection[bytes] | None = None
    ) -> list[dict[tuple[bytes, int], int]]:
        """The greatest sequence number of each (partition, bucket), deleted files too, in each manifest of a
        snapshot; `partitions`: only theirs."""
        if snapshot is None:
            return []
        with self.expiring(snapshot):
            manifests = self.manifests(snapshot)
            if partitions is not None:
                return [m.max_sequences for m in self.read_partitions(manifests, partitions)]
            return [m.max_sequences for m in self._each(manifests)]

    def _read(self, manifests: Sequence[ManifestFileMeta]) -> list[CachedManifest]:
        return list(self._each(manifests))

    def _each(
        self, manifests: Sequence[ManifestFileMeta], *, caching: bool = True
    ) -> Iterator[CachedManifest]:
        """The manifests one after another; those that are not cached are read and decoded in groups, and
        cached with `caching`."""
        paths = [self._paths.manifest(m.file_name) for m in manifests]
        cached = [self._cache.get(p) for p in paths]
        new = [(m, p) for m, p, there in zip(manifests, paths, cached, strict=True) if there is None]
        decoded = (each for some in _batches(new) for each in self._decoded(some))
        added = (self._cache.put(p, t) if caching else CachedManifest(t) for p, t in decoded)
        return (next(added) if there is None else there for there in cached)

    def _decoded(self, some: Sequence[_Stored]) -> Iterator[tuple[str, pa.Table]]:
        """(path, entries) of each of these manifests, which are decoded together."""
        files = self._with_bytes([path for _, path in some])
        rows = sum(m.num_added + m.num_deleted for m, _ in some)
        return zip((path for path, _ in files), self._decoded_bytes(files, rows), strict=True)

    def _decoded_bytes(self, files: Sequence[tuple[str, bytes]], rows: int) -> list[pa.Table]:
        """The entries of each (path, bytes); they have so many `rows` together, as their lists say."""
        enough = _FEW_ENTRIES if manifest_columns.started() else _MANY_ENTRIES
        if rows >= enough or len(files) >= _MANY_FILES:
            return manifest_columns.decode(files)
        parts = [manifest_format.decode_entries(data, path) for path, data in files]
        table = manifest_columns.of(e for part in parts for e in part)  # making a table costs more than a row
        ends = accumulate(map(len, parts))
        return [table.slice(end - len(part), len(part)) for part, end in zip(parts, ends, strict=True)]

    def remember(self, name: str, entries: Entries) -> None:
        """Cache the entries of a manifest that was just written."""
        self._cache.put(self._paths.manifest(name), entries.table)

    def remember_list(self, name: str, manifests: Sequence[ManifestFileMeta]) -> None:
        """Cache a list that was just written."""
        self._cache.put_list(self._paths.manifest(name), tuple(manifests))

    def read_bytes(self, name: str) -> bytes:
        """The bytes of a manifest file; raises Corrupt if it is missing."""
        return self._bytes(self._paths.manifest(name))

    @contextmanager
    def naming_rows(self) -> Iterator[None]:
        """A context in which errors about damaged keys, partitions and statistics name their manifest."""
        try:
            yield
        except DamagedRow as e:
            raise Corrupt(self.holder(e.row), e.problem) from e

    def holder(self, value: bytes | str) -> str:
        """The cached manifest that contains this row or name (called after damage was found)."""
        kind = pa.large_string() if isinstance(value, str) else pa.large_binary()
        folder = join(self._paths.root, "manifest")
        for path, table in self._cache.cached_in(folder):
            for column in (c for c in table.columns if c.type == kind):
                if pc.any(pc.equal(column, pa.scalar(value, kind))).as_py():
                    return path
        return folder

    def _bytes(self, path: str) -> bytes:
        try:
            return checksums.require_named(path, self._io.read(path))
        except FileNotFoundError:
            raise FileMissing(path) from None

    def _with_bytes(self, paths: Sequence[str]) -> list[tuple[str, bytes]]:
        """(path, bytes) of each of these files."""
        return list(zip(paths, read_together(self._bytes, paths), strict=True))

    def expiring(self, *snapshots: Snapshot, changes: bool = False) -> AbstractContextManager[None]:
        """A context that raises SnapshotExpired where a file is missing because one of these snapshots
        expired meanwhile; `changes`: also where only the changelogs that they left are read."""
        return raising_expired(self._io, self._paths, [s.id for s in snapshots], changes=changes)

    def manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """All manifests of a snapshot's state: base, then delta."""
        with self.expiring(snapshot):
            base, delta = self.read_lists([snapshot.base_manifest_list, snapshot.delta_manifest_list])
            return base + delta

    def stored_entries(self, snapshot: Snapshot | None) -> Entries:
        """The entries of a snapshot's state as they are stored, those of deletions included."""
        if snapshot is None:
            return EMPTY
        with self.expiring(snapshot):
            return self.read_manifests(self.manifests(snapshot))

    def entries_before(self, snapshot: Snapshot) -> Entries:
        """What was live before a snapshot."""
        with self.expiring(snapshot):
            return self.read_manifests(self.read_list(snapshot.base_manifest_list)).live()

    def delta_entries(self, snapshot: Snapshot) -> Entries:
        """The entries of this snapshot's delta list, in order."""
        with self.expiring(snapshot, changes=snapshot.changelog_manifest_list is None):
            return self.read_manifests(self.read_list(snapshot.delta_manifest_list))

    def changelog_entries(self, snapshot: Snapshot) -> Entries:
        """The entries of this snapshot's changelog files."""
        if snapshot.changelog_manifest_list is None:
            return EMPTY
        with self.expiring(snapshot, changes=True):
            return self.read_manifests(self.read_list(snapshot.changelog_manifest_list))

    def index_entries(self, snapshot: Snapshot | None) -> list[IndexEntry]:
        """Live index files of `snapshot`: HASH indexes and deletion vectors."""
        if snapshot is None or snapshot.index_manifest is None:
            return []
        path = self._paths.manifest(snapshot.index_manifest)
        with self.expiring(snapshot):
            return index_manifest.decode(self._bytes(path), path)

    def live_entries(
        self,
        snapshot: Snapshot | None,
        *,
        partition: PartitionFilter | None = None,
        partitions: Collection[bytes] | None = None,
        bucket: BucketFilter | None = None,
    ) -> Entries:
        """ADD entries of `snapshot` that no DELETE has cancelled, in manifest order.

        `partition(bytes)`, `bucket(bucket, total_buckets)` keep or drop whole identities. `partitions` names
        the serialized partitions instead, so that other parts of large manifests are not decoded; their
        entries come partition by partition.
        """
        if snapshot is None:
            return EMPTY
        partitions = partitions if self._partition_types else None

        def chosen(entries: Entries) -> Entries:
            if partition is not None:
                entries = entries.of_partitions(partition)
            return entries if bucket is None else entries.of_buckets(bucket)

        with self.expiring(snapshot):
            manifests = self.manifests(snapshot)

            def entries(start: int) -> Entries:
                rest = manifests[start:]
                if partitions is not None:
                    parts = (Entries(m.table) for m in self.read_partitions(rest, partitions))
                    return concatenated(chosen(part).table for part in parts)
                return self.read_manifests(rest, chosen if partition or bucket else None)

            if partition or bucket:
                return entries(0).live()
            of = join(self._paths.root, "manifest"), None if partitions is None else frozenset(partitions)
            return self._cache.live(of, [m.file_name for m in manifests], entries)

    def live_in_bucket(self, snapshot: Snapshot, partition: bytes, bucket: int) -> Entries:
        """The live entries of a bucket, perhaps with others of its partition.

        Of manifests that nobody asked for before, only the bucket's entries are made, unless there are so
        many that decoding all of them by columns is faster; nothing is cached then.
        """
        with self.expiring(snapshot):
            bounds = PartitionBounds.of((partition,), self._partition_types)
            listed = self.manifests(snapshot)
            manifests = [m for m in listed if _may_hold(m, bucket) and bounds.meets(m.partition_stats)]
            most = _MANY_SKIPPED if manifest_columns.started() else _MOST_SKIPPED
            paths = [self._paths.manifest(m.file_name) for m in manifests]
            if sum(m.num_added + m.num_deleted for m in manifests) > most or not self._cache.are_new(paths):
                parts = self.read_partitions(manifests, (partition,))
                return concatenated(part.table for part in parts).live()
            place = partition, bucket
            read = (manifest_format.decode_entries(d, p, place) for p, d in self._with_bytes(paths))
            return Entries.of(e for entries in read for e in entries).live()


def _may_hold(m: ManifestFileMeta, bucket: int) -> bool:
    """Whether a manifest may have entries of a bucket, by its statistics."""
    return m.min_bucket is None or m.max_bucket is None or m.min_bucket <= bucket <= m.max_bucket


class ManifestWriter:
    """Writes manifests and lists of one commit; remembers what it wrote so that a failed try can clean up."""

    def __init__(
        self,
        io: FileIO,
        paths: TablePaths,
        options: TableOptions,
        types: Sequence[DataType],
        env: Env,
        *,
        readers: ManifestStore | None = None,
    ) -> None:
        self._io, self._paths, self._options, self._types = io, paths, options, types
        self._readers = readers
        self._uuids = (env.uuid(), env.uuid(), env.uuid())
        self._counts = [0, 0, 0]
        self.written: list[str] = []

    @property
    def target_bytes(self) -> int:
        """Size at which a manifest is finished."""
        return self._options.manifest_target_bytes

    @property
    def partition_types(self) -> Sequence[DataType]:
        """Types of the partition columns."""
        return self._types

    def manifest(self, entries: Sequence[ManifestEntry], schema_id: int) -> list[ManifestFileMeta]:
        """Write `entries` as manifests of about the target size each; [] for none."""
        per_file = max(1, self._options.manifest_target_bytes // _ENTRY_BYTES)
        parts = [entries[i : i + per_file] for i in range(0, len(entries), per_file)]
        return [self.finished(self.encoded(part), Entries.of(part), schema_id) for part in parts]

    def encoded(self, entries: Iterable[ManifestEntry], schema: Mapping[str, Any] | None = None) -> bytes:
        """The bytes of a manifest, by its own schema or that of more entries."""
        return manifest_format.encode_entries(entries, self._options.manifest_compression, schema)

    def finished(self, data: bytes, entries: Entries, schema_id: int) -> ManifestFileMeta:
        """Write a manifest whose bytes hold `entries`, at least one."""
        name = self._write("manifest", 0, data)
        if self._readers is not None:
            self._readers.remember(name, entries)
        buckets, levels = entries.numbers("bucket"), entries.numbers("level")
        added = int(np.count_nonzero(entries.numbers("kind") == ADD))
        stats = EMPTY_STATS
        if self._types:
            partitions, codes = entries.partitions()
            stats = partition_stats(partitions, np.bincount(codes).tolist(), self._types)
        return ManifestFileMeta(
            file_name=name,
            file_size=len(data),
            num_added=added,
            num_deleted=len(entries) - added,
            partition_stats=stats,
            schema_id=schema_id,
            min_bucket=int(buckets.min()),
            max_bucket=int(buckets.max()),
            min_level=int(levels.min()),
            max_level=int(levels.max()),
        )

    def list(self, manifests: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list; (name, bytes)."""
        data = manifest_format.encode_list(manifests, self._options.manifest_compression)
        name = self._write("manifest-list", 1, data)
        if self._readers is not None:
            self._readers.remember_list(name, manifests)
        return name, len(data)

    def index(self, entries: Sequence[IndexEntry]) -> str:
        """Write an index manifest; its name."""
        data = index_manifest.encode(entries, self._options.manifest_compression)
        return self._write("index-manifest", 2, data)

    def discard(self, keep: Iterable[str] = ()) -> None:
        """Delete what was written, except `keep`: files that a published snapshot names."""
        kept = set(keep)
        for name in self.written:
            if name not in kept:
                self._io.delete(self._paths.manifest(name))
        self.written = [n for n in self.written if n in kept]

    def _write(self, prefix: str, i: int, data: bytes) -> str:
        """Write a file under a new name, which contains its checksum."""
        name = f"{prefix}-{checksums.named(self._uuids[i], data)}-{self._counts[i]}"
        self._counts[i] += 1
        self.written.append(name)
        self._io.write(self._paths.manifest(name), data)
        return name


_ENTRY_BYTES = 400  # bytes of one compressed entry, by which manifests roll
