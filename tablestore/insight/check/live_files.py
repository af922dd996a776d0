"""The live files that a check walks along: each delta changes them, and a base list is compared with them.

Memory: about 2 kB for each live file, so 2 GB for a million.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tablestore.format.manifests.manifest import ADD, ManifestEntry, ManifestFileMeta
from tablestore.insight.check.findings import Findings

Identity = tuple[Any, ...]


@dataclass
class LiveEntries:
    """Entries of live files by partition and identity, and their rows together (deletes and replaced ones
    included). `manifests`: those that give this state, by name; None where two have one name, or entries do
    not fit, which is to be seen in each snapshot."""

    by_partition: dict[bytes, dict[Identity, ManifestEntry]] = field(default_factory=dict)
    rows: int = 0
    manifests: dict[str, ManifestFileMeta] | None = None
    fits: bool = True

    def __iter__(self) -> Iterator[ManifestEntry]:
        return (e for files in self.by_partition.values() for e in files.values())

    def __contains__(self, entry: ManifestEntry) -> bool:
        return entry.identity in self.by_partition.get(entry.partition, {})

    def named(self, manifests: Iterable[ManifestFileMeta]) -> None:
        """Note which manifests give this state."""
        some = list(manifests)
        names = {m.file_name: m for m in some}
        self.manifests = names if self.fits and len(names) == len(some) else None

    def of(self, partitions: Iterable[bytes]) -> Iterator[ManifestEntry]:
        """The files of some partitions."""
        return (e for p in partitions for e in self.by_partition.get(p, {}).values())

    def apply(self, findings: Findings, where: str, entries: Iterable[ManifestEntry]) -> None:
        """I6: an ADD is of a file that is not live, a DELETE of one that is."""
        calls = findings.calls
        for e in entries:
            files = self.by_partition.setdefault(e.partition, {})
            if e.kind == ADD:
                if e.identity in files:
                    text = f"{e.file.file_name} at level {e.file.level} is added twice"
                    findings.violate("I6", where, text)
                    self.rows -= files[e.identity].file.row_count
                files[e.identity] = e
                self.rows += e.file.row_count
                continue
            gone = files.pop(e.identity, None)
            if gone is None:
                findings.violate(
                    "I6", where, f"{e.file.file_name} at level {e.file.level} is deleted but not live"
                )
            else:
                self.rows -= gone.file.row_count
        self.fits = self.fits and findings.calls == calls

    def beyond(self, other: LiveEntries) -> int:
        """How many of these are not among the other files."""
        theirs = other.by_partition
        return sum(len(files.keys() - theirs.get(p, {}).keys()) for p, files in self.by_partition.items())


@contextmanager
def uncollected() -> Iterator[None]:
    """A context in which no garbage is looked for: of what a walk over snapshots makes most stays, and
    looking at a million files again and again takes a quarter of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
