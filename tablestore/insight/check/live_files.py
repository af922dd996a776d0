"""The files that a check walks along: those that are live, which each delta changes and a base list is
compared with; and those that are named, with who needs each of them and whether it is there.

Memory: about 2 kB for each live file, so 2 GB for a million.
"""

from __future__ import annotations

import gc
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tablestore.format.manifests.manifest import ADD, ManifestEntry, ManifestFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.insight.check.findings import FILE_INDEXES, CheckFindings
from tablestore.insight.check.metadata_reader import MetadataReader
from tablestore.write.progress import Progress

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

    def apply(self, findings: CheckFindings, where: str, entries: Iterable[ManifestEntry]) -> None:
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


_PYTHON_WRITER = "python"  # start of the writerVersion of one that never counts deletes


@dataclass(slots=True)
class LastSnapshot:
    """The newest snapshot that was looked at, shared by all files that are live in it."""

    id: int


@dataclass(slots=True)
class NeededFile:
    """A file that was named, and who needs it: snapshots `first` to `last` for their rows, and `others`."""

    entry: ManifestEntry
    first: int | None = None
    last: int | LastSnapshot | None = None
    others: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        """The names of all who need it."""
        if self.first is not None and self.last is not None:
            last = self.last.id if isinstance(self.last, LastSnapshot) else self.last
            yield from (f"snapshot-{i}" for i in range(self.first, last + 1))
        yield from self.others

    @property
    def text(self) -> str:
        """Who needs it: the first snapshot, else up to three names."""
        return f"snapshot {self.first}" if self.first is not None else ", ".join(self.others[:3])


@dataclass
class NeededFiles:
    """The files that were named, by path; `lenient` are names of those whose delete counts their writer never
    sets. Files that live on from snapshot to snapshot are noted once: `newest` moves for all of them."""

    reader: MetadataReader
    by_path: dict[str, NeededFile] = field(default_factory=dict)
    lenient: set[str] = field(default_factory=set)
    newest: LastSnapshot = field(default_factory=lambda: LastSnapshot(0))

    def remember(self, entries: Iterable[ManifestEntry], snapshot: Snapshot, *, by: str = "") -> None:
        """Note the files that a snapshot needs for its rows, or `by` another name."""
        python = (snapshot.writer_version or "").startswith(_PYTHON_WRITER)
        for e in entries:
            make_path = partial(self.reader.store.file_path, e.partition, e.bucket, e.file)
            path = self.reader.guarded(e.file.file_name, make_path)
            if path is None:
                continue
            needed = self.by_path.get(path)
            if needed is None:
                needed = self.by_path[path] = NeededFile(e)
                if python:
                    self.lenient.add(e.file.file_name)
            if by:
                needed.others = (*needed.others, by)
            else:
                needed.first = snapshot.id if needed.first is None else needed.first
                needed.last = self.newest

    def begin(self, state: Iterable[ManifestEntry], snapshot: Snapshot) -> None:
        """Note the files of a state that is not compared with the one before."""
        self.newest = LastSnapshot(snapshot.id)
        self.remember(state, snapshot)

    def change(self, live: LiveEntries, changed: Sequence[ManifestEntry], snapshot: Snapshot) -> None:
        """Note what a snapshot changed in the state of the one before it, which is `live` now."""
        for e in changed:
            if e.kind != ADD:
                needed = self.by_path.get(self.reader.store.file_path(e.partition, e.bucket, e.file))
                if needed is not None and needed.last is self.newest:
                    needed.last = self.newest.id
        self.newest.id = snapshot.id
        self.remember((e for e in changed if e.kind == ADD and e in live), snapshot)

    def require_present(self, readable: Container[int], progress: Progress) -> None:
        """I2: every file that a snapshot, tag or changelog names is there, in its size; `readable` are
        the ids of the schemas that can be read. One directory is listed at a time."""
        listed, sizes, files = "", dict[str, int](), 0
        for path in sorted(self.by_path):
            needed = self.by_path[path]
            folder, _, name = path.rpartition("/")
            if folder != listed:
                progress.add(files, listed)
                files = 0
                listed, sizes = folder, {s.name: s.size for s in self.reader.store.io.list(folder)}
            files += 1
            with self.reader.found.about(needed):
                if needed.entry.file.schema_id not in readable:
                    schema = self.reader.store.paths.schema(needed.entry.file.schema_id)
                    self.reader.found.violate("I9", schema, "data files need it, and it cannot be read")
                if name not in sizes:
                    self.reader.found.violate("I2", path, f"is missing; {needed.text} needs it")
                for beside in needed.entry.file.extra_files:
                    if beside not in sizes:
                        with self.reader.found.beside(FILE_INDEXES):
                            text = f"is missing; {name} is read without it"
                            self.reader.found.violate("I2", f"{folder}/{beside}", text)
                size, promised = sizes.get(name), needed.entry.file.file_size
                if size is not None and size != promised:
                    self.reader.found.violate("I2", path, f"has {size} bytes, its manifest says {promised}")
        progress.add(files, listed)
