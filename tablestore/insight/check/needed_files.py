"""The part of `check` for data files that are named: who needs each of them, and whether it is there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.snapshot import Snapshot
from tablestore.insight.check.findings import FILE_INDEXES
from tablestore.insight.check.metadata_reader import MetadataReader

_PYTHON_WRITER = "python"  # start of the writerVersion of one that never counts deletes


@dataclass(slots=True)
class NeededFile:
    """A file that was named, and who needs it: snapshots `first` to `last` for their rows, and `others`."""

    entry: ManifestEntry
    first: int | None = None
    last: int | None = None
    others: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        """The names of all who need it."""
        if self.first is not None and self.last is not None:
            yield from (f"snapshot-{i}" for i in range(self.first, self.last + 1))
        yield from self.others

    @property
    def text(self) -> str:
        """Who needs it: the first snapshot, else up to three names."""
        return f"snapshot {self.first}" if self.first is not None else ", ".join(self.others[:3])


@dataclass
class NeededFiles:
    """The files that were named, by path; `lenient` are names of those whose delete counts their writer never
    sets."""

    reader: MetadataReader
    by_path: dict[str, NeededFile] = field(default_factory=dict)
    lenient: set[str] = field(default_factory=set)

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
                needed.last = snapshot.id

    def require_present(self, readable: Container[int]) -> None:
        """I2: every file that a snapshot, tag or changelog names is there, in its size; `readable` are
        the ids of the schemas that can be read."""
        folders: dict[str, dict[str, int]] = {}
        for path, needed in sorted(self.by_path.items()):
            folder, _, name = path.rpartition("/")
            if folder not in folders:
                folders[folder] = {s.name: s.size for s in self.reader.store.io.list(folder)}
            with self.reader.found.about(needed):
                if needed.entry.file.schema_id not in readable:
                    schema = self.reader.store.paths.schema(needed.entry.file.schema_id)
                    self.reader.found.violate("I9", schema, "data files need it, and it cannot be read")
                if name not in folders[folder]:
                    self.reader.found.violate("I2", path, f"is missing; {needed.text} needs it")
                for beside in needed.entry.file.extra_files:
                    if beside not in folders[folder]:
                        with self.reader.found.beside(FILE_INDEXES):
                            text = f"is missing; {name} is read without it"
                            self.reader.found.violate("I2", f"{folder}/{beside}", text)
                size, promised = folders[folder].get(name), needed.entry.file.file_size
                if size is not None and size != promised:
                    self.reader.found.violate("I2", path, f"has {size} bytes, its manifest says {promised}")
