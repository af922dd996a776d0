"""Metadata files as `check` reads them: anew, manifests once; what is missing or damaged is a violation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from tablestore.core.errors import TablestoreError
from tablestore.format import checksums
from tablestore.format.binary_row import DamagedRow
from tablestore.format.manifests import manifest as manifest_format
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry, ManifestFileMeta
from tablestore.insight.check.findings import Findings
from tablestore.meta.store import Store

T = TypeVar("T")


@dataclass
class MetadataReader:
    """The metadata files of a table or branch; `entries` of manifests by their names."""

    store: Store
    found: Findings
    entries: dict[str, list[ManifestEntry]] = field(default_factory=dict)

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

    def manifest(self, where: str, m: ManifestFileMeta) -> list[ManifestEntry]:
        """A manifest's entries; I2 and I8 when it is not as its list says, for each who names it."""
        if m.file_name in self.entries:
            return self.entries[m.file_name]
        path = self.store.paths.manifest(m.file_name)
        data = self.read(path, lambda data: data, where=where)
        if data is None:
            return []
        found = self.guarded(path, lambda: manifest_format.decode_entries(data, path))
        kinds = Counter(e.kind for e in found or ())
        counts, promised = (kinds[ADD], kinds[DELETE]), (m.num_added, m.num_deleted)
        if len(data) != m.file_size:
            self.found.violate("I2", path, f"has {len(data)} bytes, its list says {m.file_size}")
        if counts != promised:
            text = f"holds {counts[0]} added, {counts[1]} deleted; its list says "
            self.found.violate("I8", path, f"{text}{promised[0]} added, {promised[1]} deleted")
        if found is not None and len(data) == m.file_size and counts == promised:
            self.entries[m.file_name] = found
        return found or []

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
        for name, entries in self.entries.items():
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
