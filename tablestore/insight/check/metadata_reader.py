"""Metadata files as `check` reads them: anew, manifests once; what is missing or damaged is a violation.

What the entries of a manifest come to is one number: the sum of their hashes, those of a DELETE negative, so
that an ADD and its DELETE cancel. Lists of one sum give the same state; that is wrong once in 2**64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tablestore.core.errors import TablestoreError
from tablestore.format import checksums
from tablestore.format.binary_row import DamagedRow
from tablestore.format.manifests import manifest as manifest_format
from tablestore.format.manifests import manifest_columns
from tablestore.format.manifests.manifest import ADD, ManifestEntry, ManifestFileMeta
from tablestore.insight.check.findings import CheckFindings
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store

_KEPT = 100_000  # entries of manifests as columns, 50 MB, for the next snapshots that name them
_MANY, _FEW = 1_000, 64  # entries of a manifest from which columns pay; those once Polars is loaded
T = TypeVar("T")


@dataclass
class EntryCache:
    """Entries of manifests by name, at most `_KEPT` unless one manifest has more; the oldest go first."""

    by_name: dict[str, Sequence[ManifestEntry]] = field(default_factory=dict)
    held: int = 0

    def put(self, name: str, entries: Sequence[ManifestEntry]) -> None:
        """Keep the entries of a manifest."""
        if len(entries) >= _FEW:
            entries = Entries.of(entries) if not isinstance(entries, Entries) else Entries(entries.table)
        self.by_name[name] = entries
        self.held += len(entries)
        while self.held > _KEPT and len(self.by_name) > 1:
            self.held -= len(self.by_name.pop(next(iter(self.by_name))))

    def get(self, name: str) -> Sequence[ManifestEntry] | None:
        """The entries of a manifest, None if they are not kept."""
        entries = self.by_name.get(name)
        return Entries(entries.table) if isinstance(entries, Entries) else entries  # without its objects


@dataclass
class MetadataReader:
    """The metadata files of a table or branch, read from the store, never from the cache of manifests.
    `sums`: of the manifests that are as each list says."""

    store: Store
    found: CheckFindings
    entries: EntryCache = field(default_factory=EntryCache)
    sums: dict[str, int] = field(default_factory=dict)

    def read(self, path: str, parse: Callable[[bytes], T], *, where: str = "") -> T | None:
        """A metadata file, or a violation."""
        try:
            data = checksums.require_named(path, self.store.io.read(path))
            self.found.looked_at(path, checksum=checksums.is_named(path) or checksums.is_sealed(data))
            return parse(data)
        except FileNotFoundError:
            self.found.violate("I2", path, f"is missing; {where} needs it" if where else "is missing")
        except (TablestoreError, OSError) as e:
            self.found.violate("I2", path, str(e))
        return None

    def manifests(self, where: str, name: str, size: int | None) -> list[ManifestFileMeta] | None:
        """The manifests that a manifest list names; I2 if it is missing, damaged or of another size."""
        path = self.store.paths.manifest(name)
        data = self.read(path, lambda data: data, where=where)
        if data is None:
            return None
        if size is not None and size != len(data):
            self.found.violate("I2", path, f"has {len(data)} bytes, {where} says {size}")
        return self.guarded(path, lambda: manifest_format.decode_list(data, path))

    def all_entries(self, where: str, manifests: Iterable[ManifestFileMeta]) -> list[ManifestEntry]:
        """The entries of manifests, in their order."""
        return [e for m in manifests for e in self.manifest(where, m)]

    def manifest(self, where: str, m: ManifestFileMeta) -> Sequence[ManifestEntry]:
        """A manifest's entries; I2 and I8 when it is not as its list says, for each who names it."""
        kept = self.entries.get(m.file_name)
        if kept is not None:
            if m.file_name not in self.sums:  # another branch has read it
                self.sums[m.file_name] = _sum(kept)
            return kept
        self.sums.pop(m.file_name, None)
        path = self.store.paths.manifest(m.file_name)
        data = self.read(path, lambda data: data, where=where)
        if data is None:
            return []
        entries = self.guarded(path, lambda: _decoded(data, path, m))
        added = 0 if entries is None else _added(entries)
        counts, promised = (added, len(entries or ()) - added), (m.num_added, m.num_deleted)
        if len(data) != m.file_size:
            self.found.violate("I2", path, f"has {len(data)} bytes, its list says {m.file_size}")
        if counts != promised:
            text = f"holds {counts[0]} added, {counts[1]} deleted; its list says "
            self.found.violate("I8", path, f"{text}{promised[0]} added, {promised[1]} deleted")
        if entries is not None and len(data) == m.file_size and counts == promised:
            self.entries.put(m.file_name, entries)
            self.sums[m.file_name] = _sum(entries)
        return entries or []

    def same_entries(
        self, where: str, listed: Mapping[str, ManifestFileMeta] | None, base: Sequence[ManifestFileMeta]
    ) -> bool:
        """Whether the manifests of a base list give the same entries as those of `listed`: the same ones, or
        others that differ in pairs of an ADD and its DELETE only. False if that cannot be known."""
        names = {m.file_name: m for m in base}
        if listed is None or len(names) < len(base):
            return False
        for m in base:
            if listed.get(m.file_name) != m:
                self.manifest(where, m)
        if not self.sums.keys() >= listed.keys() | names.keys():
            return False
        net = sum(self.sums[name] for name in listed) - sum(self.sums[name] for name in names)
        return net % 2**64 == 0

    def guarded(self, where: str, make: Callable[[], T]) -> T | None:
        """What `make` gives; None, and a violation at `where`, if it meets damage."""
        try:
            return make()
        except DamagedRow as e:
            self.found.violate("I2", self._holder(e.row) or where, e.problem)
        except TablestoreError as e:
            self.found.violate("I2", where, str(e))
        return None

    def _holder(self, row: bytes) -> str | None:
        """The manifest with a damaged key, partition or statistic."""
        for name, entries in self.entries.by_name.items():
            for e in entries:
                f = e.file
                stats = (f.key_stats, f.value_stats)
                rows = (
                    e.partition,
                    f.min_key,
                    f.max_key,
                    *(r for s in stats for r in (s.min_values, s.max_values)),
                )
                if row in rows:
                    return self.store.paths.manifest(name)
        return None


def _decoded(data: bytes, path: str, m: ManifestFileMeta) -> Sequence[ManifestEntry]:
    """The entries, of a large manifest as columns."""
    if m.num_added + m.num_deleted < (_FEW if manifest_columns.started() else _MANY):
        return manifest_format.decode_entries(data, path)
    return Entries(manifest_columns.decode([(path, data)])[0])


def _added(entries: Sequence[ManifestEntry]) -> int:
    if isinstance(entries, Entries):
        return int((entries.numbers("kind") == ADD).sum())
    return sum(e.kind == ADD for e in entries)


def content_hash(e: ManifestEntry) -> int:
    """A hash of an entry, whatever its kind."""
    return hash((e.partition, e.bucket, e.total_buckets, e.file))


def in_turn(entries: Sequence[ManifestEntry]) -> Iterator[ManifestEntry]:
    """The entries; `_MANY` of them are objects at once where they are columns."""
    for start in range(0, len(entries), _MANY):
        yield from entries[start : start + _MANY]


def _sum(entries: Sequence[ManifestEntry]) -> int:
    hashes = (content_hash(e) if e.kind == ADD else -content_hash(e) for e in in_turn(entries))
    return sum(hashes) % 2**64
