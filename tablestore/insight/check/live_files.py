"""The files that a check walks along: those that are live, which each delta changes and a base list is
compared with; and those that are named, with who needs each of them and whether it is there.

Each entry is kept once, as compressed columns, and has a number; all else is arrays by that number. Entries
are told apart by hashes of 64 bits, which are wrong in one of 30 million checks of a million files. Memory:
about 400 bytes for each file that is named, the entries of one bucket, and the listing of one directory; 250
MB at most for entries that are objects or were just read.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.format.manifests import manifest_columns
from tablestore.format.manifests.manifest import ADD, ManifestEntry, ManifestFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.insight.check.findings import FILE_INDEXES, CheckFindings
from tablestore.insight.check.metadata_reader import MetadataReader, content_hash, in_turn
from tablestore.meta.deletion_files import Place
from tablestore.write.progress import Progress

Identity = tuple[Any, ...]
PlacedFiles = tuple[Place, Sequence[ManifestEntry]]
"""The live files of a bucket."""
_BLOCK, _RECENT = 4_096, 20_000  # entries that are compressed together; newest ones that stay objects
_TABLES = 8  # blocks that are kept as they are when read


@dataclass
class NamedEntries:
    """Every entry that a list named, by number. A path has several where its file changed its level: `before`
    is the number of the one before, −1 for none."""

    newest: dict[int, int] = field(default_factory=dict)  # hash of a path → the last entry of that path
    before: array[int] = field(default_factory=lambda: array("i"))
    identities: array[int] = field(default_factory=lambda: array("q"))
    contents: array[int] = field(default_factory=lambda: array("q"))
    buckets: array[int] = field(default_factory=lambda: array("i"))
    rows: array[int] = field(default_factory=lambda: array("q"))
    by_partition: dict[bytes, array[int]] = field(default_factory=dict)
    _recent: list[ManifestEntry] = field(default_factory=list)
    _blocks: list[pa.Buffer] = field(default_factory=list)
    _tables: dict[int, pa.Table] = field(default_factory=dict)

    def versions(self, identity: Identity) -> Iterator[int]:
        """The entries of the path of that file, newest first."""
        at = self.newest.get(_path_hash(identity), -1)
        while at >= 0:
            yield at
            at = self.before[at]

    def first(self, at: int) -> int:
        """The first entry of the path of an entry."""
        while self.before[at] >= 0:
            at = self.before[at]
        return at

    def number(self, e: ManifestEntry) -> int:
        """The number of an entry, a new one if it is not known."""
        identity, content = e.identity, content_hash(e)
        for at in self.versions(identity):
            if self.contents[at] == content:
                return at
        number, path = len(self.before), _path_hash(identity)
        self.before.append(self.newest.get(path, -1))
        self.newest[path] = number
        self.identities.append(hash(identity))
        self.contents.append(content)
        self.buckets.append(e.bucket)
        self.rows.append(e.file.row_count)
        self.by_partition.setdefault(e.partition, array("i")).append(number)
        self._recent.append(e)
        if len(self._recent) >= _RECENT + _BLOCK:
            self._blocks.append(_packed(self._recent[:_BLOCK]))
            del self._recent[:_BLOCK]
        return number

    def entries(self, numbers: Sequence[int] | np.ndarray) -> Iterator[ManifestEntry]:
        """The entries with these numbers, in this order; `_BLOCK` of them are objects at once."""
        for start in range(0, len(numbers), _BLOCK):
            some = np.asarray(numbers[start : start + _BLOCK], dtype=np.int64)
            objects: dict[int, ManifestEntry] = {}
            for block in np.unique(some // _BLOCK).tolist():
                own = some[some // _BLOCK == block]
                objects |= zip(own.tolist(), self._objects(block, own - block * _BLOCK), strict=True)
            yield from (objects[at] for at in some.tolist())

    def _objects(self, block: int, rows: np.ndarray) -> list[ManifestEntry]:
        if block >= len(self._blocks):
            start = (block - len(self._blocks)) * _BLOCK
            return [self._recent[start + row] for row in rows.tolist()]
        table = self._tables.pop(block, None)
        if table is None:
            table = pa.ipc.open_stream(self._blocks[block]).read_all()
        self._tables[block] = table
        if len(self._tables) > _TABLES:
            del self._tables[next(iter(self._tables))]
        return manifest_columns.entries(table.take(pa.array(rows)))


def _path_hash(identity: Identity) -> int:
    partition, bucket, _, name, _, _, external = identity
    return hash((partition, bucket, name, external))


def _packed(entries: Sequence[ManifestEntry]) -> pa.Buffer:
    compression = "zstd" if pa.Codec.is_available("zstd") else None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, manifest_columns.SCHEMA, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as stream:
        stream.write_table(manifest_columns.of(entries))
    return sink.getvalue()


@dataclass
class LiveEntries:
    """Which of the entries are of live files, and their rows together (deletes and replaced ones included).
    `manifests`: those that give this state, by name; None where two have one name, or entries do not fit,
    which is to be seen in each snapshot."""

    named: NamedEntries = field(default_factory=NamedEntries)
    flags: bytearray = field(default_factory=bytearray)
    rows: int = 0
    manifests: dict[str, ManifestFileMeta] | None = None
    fits: bool = True

    def __iter__(self) -> Iterator[ManifestEntry]:
        return self.of(self.named.by_partition)

    def __contains__(self, identity: Identity) -> bool:
        return self._at(identity) >= 0

    def _at(self, identity: Identity) -> int:
        """The live entry of that file, −1 without one."""
        own = hash(identity)
        for at in self.named.versions(identity):
            if at < len(self.flags) and self.flags[at] and self.named.identities[at] == own:
                return at
        return -1

    def given_by(self, manifests: Sequence[ManifestFileMeta]) -> None:
        """Note which manifests give this state."""
        names = {m.file_name: m for m in manifests}
        self.manifests = names if self.fits and len(names) == len(manifests) else None

    def _numbers(self, partition: bytes) -> np.ndarray:
        """The live entries of a partition."""
        at = np.array(self.named.by_partition.get(partition, ()), dtype=np.int64)
        at = at[at < len(self.flags)]
        return at[np.frombuffer(self.flags, np.bool_)[at]] if len(at) else at

    def of(self, partitions: Iterable[bytes]) -> Iterator[ManifestEntry]:
        """The files of some partitions."""
        return (e for p in partitions for e in self.named.entries(self._numbers(p)))

    def places(self, partitions: Iterable[bytes] | None = None) -> Iterator[PlacedFiles]:
        """The files bucket by bucket, of some partitions or of all."""
        for partition in self.named.by_partition if partitions is None else partitions:
            at = self._numbers(partition)
            buckets = np.frombuffer(self.named.buckets, np.int32)[at]
            for bucket in np.unique(buckets).tolist():
                yield (partition, bucket), list(self.named.entries(at[buckets == bucket]))

    def apply(self, findings: CheckFindings, where: str, entries: Sequence[ManifestEntry]) -> None:
        """I6: an ADD is of a file that is not live, a DELETE of one that is."""
        calls = findings.calls
        for e in in_turn(entries):
            there = self._at(e.identity)
            if (e.kind == ADD) == (there >= 0):
                what = "added twice" if e.kind == ADD else "deleted but not live"
                findings.violate("I6", where, f"{e.file.file_name} at level {e.file.level} is {what}")
            if there >= 0:
                self.flags[there] = False
                self.rows -= self.named.rows[there]
            if e.kind == ADD:
                at = self.named.number(e)
                self.flags.extend(bytes(max(at + 1 - len(self.flags), 0)))
                self.flags[at] = True
                self.rows += e.file.row_count
        self.fits = self.fits and findings.calls == calls

    def beyond(self, other: LiveEntries) -> int:
        """How many of these are not among the other files."""
        own, theirs = (np.frombuffer(bytes(live.flags), np.bool_) for live in (self, other))
        theirs = np.pad(theirs[: len(own)], (0, max(len(own) - len(theirs), 0)))
        only = np.flatnonzero(own & ~theirs)
        return sum(e.identity not in other for e in self.named.entries(only))


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


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file that was named, and who needs it: snapshots `first` to `last` for their rows (−1: none), and
    `others`. `lenient`: its writer never counts deletes."""

    path: str
    entry: ManifestEntry
    first: int
    last: int
    others: tuple[str, ...]
    lenient: bool

    def __iter__(self) -> Iterator[str]:
        """The names of all who need it."""
        if self.first >= 0:
            yield from (f"snapshot-{i}" for i in range(self.first, self.last + 1))
        yield from self.others

    @property
    def text(self) -> str:
        """Who needs it: the first snapshot, else up to three names."""
        return f"snapshot {self.first}" if self.first >= 0 else ", ".join(self.others[:3])


@dataclass
class NeededFiles:
    """The files that were named, by the number of the first entry of their path, and who needs them. Files
    that live on from snapshot to snapshot are noted once: −1 − a place in `newest` stands for the snapshot
    there, which moves for all of them."""

    reader: MetadataReader
    named: NamedEntries = field(default_factory=NamedEntries)
    newest: list[int] = field(default_factory=lambda: [0])
    _first: array[int] = field(default_factory=lambda: array("q"))
    _last: array[int] = field(default_factory=lambda: array("q"))
    _others: array[int] = field(default_factory=lambda: array("i"))
    _lenient: bytearray = field(default_factory=bytearray)
    _needed: bytearray = field(default_factory=bytearray)
    _holders: dict[tuple[str, ...], int] = field(default_factory=lambda: {(): 0})

    def __len__(self) -> int:
        return self._needed.count(1)

    def __contains__(self, entry: ManifestEntry) -> bool:
        at = next(self.named.versions(entry.identity), -1)
        first = self.named.first(at) if at >= 0 else len(self._needed)
        return first < len(self._needed) and bool(self._needed[first])

    def __iter__(self) -> Iterator[NeededFile]:
        """The files, partition by partition and bucket by bucket."""
        holders = list(self._holders)
        needed = np.frombuffer(bytes(self._needed), np.bool_)
        buckets = np.array(self.named.buckets, dtype=np.int32)
        for numbers in self.named.by_partition.values():
            at = np.array(numbers, dtype=np.int64)
            at = at[at < len(needed)]
            at = at[needed[at]]
            at = at[np.argsort(buckets[at], kind="stable")]
            for n, e in zip(at.tolist(), self.named.entries(at), strict=True):
                last = self._last[n]
                yield NeededFile(
                    self.reader.store.file_path(e.partition, e.bucket, e.file),
                    e,
                    self._first[n],
                    last if last >= 0 else self.newest[-1 - last],
                    holders[self._others[n]],
                    bool(self._lenient[n]),
                )

    def remember(self, entries: Iterable[ManifestEntry], snapshot: Snapshot, *, by: str = "") -> None:
        """Note the files that a snapshot needs for its rows, or `by` another name."""
        python = (snapshot.writer_version or "").startswith(_PYTHON_WRITER)
        holders, interned = list(self._holders), self._holders
        for e in entries:
            make_path = partial(self.reader.store.file_path, e.partition, e.bucket, e.file)
            if self.reader.guarded(e.file.file_name, make_path) is None:
                continue
            n = self._place(e, python)
            if by:
                others = (*holders[self._others[n]], by)
                self._others[n] = interned.setdefault(others, len(interned))
                if len(holders) < len(interned):
                    holders.append(others)
            else:
                self._first[n] = snapshot.id if self._first[n] < 0 else self._first[n]
                self._last[n] = -len(self.newest)

    def _place(self, e: ManifestEntry, python: bool) -> int:
        """The first entry of the path of an entry, noted as needed."""
        n = self.named.first(self.named.number(e))
        more = n + 1 - len(self._needed)
        if more > 0:
            self._first.extend([-1] * more)
            self._last.extend([0] * more)
            self._others.extend([0] * more)
            self._lenient.extend(bytes(more))
            self._needed.extend(bytes(more))
        if not self._needed[n]:
            self._needed[n], self._lenient[n] = True, python
        return n

    def begin(self, state: Iterable[ManifestEntry], snapshot: Snapshot) -> None:
        """Note the files of a state that is not compared with the one before."""
        self.newest.append(snapshot.id)
        self.remember(state, snapshot)

    def change(self, live: LiveEntries, changed: Sequence[ManifestEntry], snapshot: Snapshot) -> None:
        """Note what a snapshot changed in the state of the one before it, which is `live` now."""
        now = -len(self.newest)
        for e in changed:
            at = next(self.named.versions(e.identity), -1) if e.kind != ADD else -1
            n = self.named.first(at) if at >= 0 else len(self._last)
            if n < len(self._last) and self._last[n] == now:
                self._last[n] = self.newest[-1]
        self.newest[-1] = snapshot.id
        self.remember((e for e in changed if e.kind == ADD and e.identity in live), snapshot)

    def require_present(self, readable: Container[int], progress: Progress) -> None:
        """I2: every file that a snapshot, tag or changelog names is there, in its size; `readable` are
        the ids of the schemas that can be read. The directories of one bucket are listed at a time."""
        place: Place | None = None
        listed: dict[str, dict[str, int]] = {}
        for needed in self:
            e, findings = needed.entry, self.reader.found
            if (e.partition, e.bucket) != place:
                place, listed = (e.partition, e.bucket), {}
            folder, _, name = needed.path.rpartition("/")
            if folder not in listed:
                listed[folder] = {s.name: s.size for s in self.reader.store.io.list(folder)}
            sizes = listed[folder]
            progress.add(1, folder)
            with findings.about(needed):
                if e.file.schema_id not in readable:
                    schema = self.reader.store.paths.schema(e.file.schema_id)
                    findings.violate("I9", schema, "data files need it, and it cannot be read")
                if name not in sizes:
                    findings.violate("I2", needed.path, f"is missing; {needed.text} needs it")
                for beside in e.file.extra_files:
                    if beside not in sizes:
                        with findings.beside(FILE_INDEXES):
                            text = f"is missing; {name} is read without it"
                            findings.violate("I2", f"{folder}/{beside}", text)
                size, promised = sizes.get(name), e.file.file_size
                if size is not None and size != promised:
                    findings.violate("I2", needed.path, f"has {size} bytes, its manifest says {promised}")
