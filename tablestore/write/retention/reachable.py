"""Which files a snapshot names, and which of them nothing else needs.

A snapshot names manifest lists, manifests, an index manifest with its index files, statistics, live data
files and changelog files. Whatever removes snapshots (expiry, rollback, the end of a tag or branch) asks here
which files go with them: candidates minus all that the remaining snapshots name. Metadata that another
program has removed already is left out where it is only read to be removed. Memory: a path for each file
named. No file is deleted here.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import numpy as np

from tablestore.core.errors import Corrupt, FileMissing, NotFound, SnapshotExpired
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format import checksums
from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.format.manifests.manifest import ADD, APPEND_SOURCE, ManifestEntry
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import inside
from tablestore.meta import changelogs, refs
from tablestore.meta.deltas import Deltas
from tablestore.meta.entries import EMPTY, Entries
from tablestore.meta.store import Store

log = logging.getLogger(__name__)
T = TypeVar("T")
P = ParamSpec("P")
_TRIES = 4


@dataclass
class Files:
    """Paths of data files and of metadata files with their bytes (0: not known). Grows; not thread-safe.

    `changelog`: which of the data files are changelog files.
    """

    data: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, int] = field(default_factory=dict)
    changelog: set[str] = field(default_factory=set)

    def without(self, used: Files) -> Files:
        """The files that are not in `used`."""
        data = {p: n for p, n in self.data.items() if p not in used.data}
        return Files(data, {p: n for p, n in self.metadata.items() if p not in used.metadata}, self.changelog)

    def add(self, more: Files) -> None:
        """Add other files to these."""
        self.data |= more.data
        self.metadata |= more.metadata
        self.changelog |= more.changelog

    @property
    def paths(self) -> tuple[str, ...]:
        """Data files, then metadata, in the order to delete them in."""
        return (*self.data, *sorted(self.metadata))

    @property
    def bytes(self) -> int:
        """The bytes of all files, as far as they are known."""
        return sum(self.data.values()) + sum(self.metadata.values())

    def with_checksums(self, store: Store) -> Files:
        """These files with the checksum files of the data files, as far as there are any."""
        sums: dict[str, int] = {}
        for data_path in self.data:
            path = checksums.sum_path(store.paths.checksums_dir, data_path)
            if path is not None:
                with contextlib.suppress(FileNotFoundError):
                    sums[path] = store.io.size(path)
        return Files(self.data, self.metadata | sums, self.changelog)

    def present(self, store: Store) -> Files:
        """The files that exist, with their sizes: history that is cut off may name files removed earlier."""
        measured = self.measured(store)
        data = {p: n for p, n in measured.data.items() if store.io.exists(p)}
        return Files(data, {p: n for p, n in measured.metadata.items() if store.io.exists(p)}, self.changelog)

    def measured(self, store: Store) -> Files:
        """The files with all sizes: those that metadata does not hold come from the store, 0 for a file that
        is gone.

        Raises Corrupt for a file behind a link, before any is removed.
        """
        for path in self.paths:
            store.io.checked(path, last=False)
        return Files(_measured(store, self.data), _measured(store, self.metadata), self.changelog)


def _measured(store: Store, files: Mapping[str, int]) -> dict[str, int]:
    return {path: size or _size(store, path) for path, size in files.items()}


def _size(store: Store, path: str) -> int:
    try:
        return store.io.size(path)
    except FileNotFoundError:
        return 0


def entry_paths(store: Store, entry: ManifestEntry) -> dict[str, int]:
    """The path of an entry's file with its bytes, and those of the files beside it."""
    path = store.file_path(entry.partition, entry.bucket, entry.file)
    folder = path.rpartition("/")[0]
    extra = (f"{folder}/{inside(name)}" for name in entry.file.extra_files)
    return {path: entry.file.file_size, **dict.fromkeys(extra, 0)}


def _paths(store: Store, entries: Iterable[ManifestEntry]) -> dict[str, int]:
    paths: dict[str, int] = {}
    for e in entries:
        paths |= entry_paths(store, e)
    return paths


def metadata_files(store: Store, snapshot: Snapshot) -> dict[str, int]:
    """Base and delta lists with their manifests, index manifest and index files, statistics; with bytes."""
    base, delta = state_lists(snapshot)
    return list_files(store, *base) | list_files(store, *delta) | index_files(store, snapshot)


def state_lists(snapshot: Snapshot) -> tuple[tuple[str, int | None], tuple[str, int | None]]:
    """Name and bytes of the base list and of the delta list."""
    return (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
    )


def index_files(
    store: Store, snapshot: Snapshot, entries: Sequence[IndexEntry] | None = None
) -> dict[str, int]:
    """Index manifest, index files and statistics, with bytes; `entries`: those of the index manifest, if they
    are read already."""
    files: dict[str, int] = {}
    if snapshot.index_manifest is not None:
        files[store.paths.manifest(snapshot.index_manifest)] = 0
        for e in store.manifests.index_entries(snapshot) if entries is None else entries:
            files[store.index_path(e.partition, e.bucket, e.file)] = e.file.file_size
    if snapshot.statistics is not None:
        files[store.paths.statistics(snapshot.statistics)] = 0
    return files


def list_files(store: Store, name: str | None, size: int | None = None) -> dict[str, int]:
    """A manifest list, of `size` bytes if that is known, and its manifests with their extra files."""
    if name is None:
        return {}
    manifests = store.manifests.read_list(name)
    files = {store.paths.manifest(extra): 0 for m in manifests for extra in m.extra_files}
    files |= {store.paths.manifest(m.file_name): m.file_size for m in manifests}
    return {store.paths.manifest(name): size or 0, **files}


def state_files(store: Store, snapshots: Iterable[Snapshot]) -> dict[str, int]:
    """Base and delta lists of these snapshots with their manifests; lists that are gone already are left
    out."""
    return _all_list_files(store, [named for snapshot in snapshots for named in state_lists(snapshot)])


def _all_list_files(store: Store, lists: Sequence[tuple[str, int | None]]) -> dict[str, int]:
    """`list_files` of these (name, bytes), which are read together; those that are gone are left out."""
    try:
        files = store.manifests.listed_files([name for name, _ in lists])
    except FileMissing:
        return {p: n for named in lists for p, n in lenient({}, list_files, store, *named).items()}
    return {store.paths.manifest(name): size or 0 for name, size in lists} | files


def changelogs_of(store: Store, some: Sequence[Snapshot], logged: Deltas | None) -> Files:
    """Changelog files of these snapshots, with their lists and manifests; those of a snapshot of which some
    are gone are left out. `logged`: their entries, None where each snapshot is to be read alone."""
    files = Files()
    if logged is None:
        for snapshot in some:
            files.add(lenient(Files(), changelog_files, store, snapshot))
        return files
    named = [(s.changelog_manifest_list, s.changelog_manifest_list_size) for s in some]
    files.metadata = _all_list_files(store, [(name, size) for name, size in named if name is not None])
    files.data = _paths(store, (e for e in logged.entries if e.kind == ADD))
    files.changelog = set(files.data)
    return files


def changelog_files(store: Store, snapshot: Snapshot) -> Files:
    """Changelog files of one snapshot, with their list and manifests."""
    entries = (e for e in store.manifests.changelog_entries(snapshot) if e.kind == ADD)
    listed = list_files(store, snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)
    data = _paths(store, entries)
    return Files(data, listed, set(data))


def deleted_by(
    store: Store, some: Sequence[Snapshot], changed: Deltas | None
) -> Iterator[tuple[Snapshot, ManifestEntry]]:
    """The entries of the files that the deltas of these snapshots delete and do not add again, each with its
    snapshot; deltas that are gone already are left out. `changed`: the deltas, None where each is to be read
    alone."""
    if changed is None:
        for snapshot in some:
            yield from ((snapshot, e) for e in lenient([], deleted_files, store, snapshot))
        return
    for at in np.unique(changed.owners[~changed.adding]).tolist():
        yield from ((some[at], e) for e in _deleted(changed.of(at)))


def deleted_files(store: Store, snapshot: Snapshot) -> list[ManifestEntry]:
    """The same of one delta. Raises Corrupt or SnapshotExpired where it is gone."""
    return _deleted(store.manifests.delta_entries(snapshot))


def _deleted(entries: Entries) -> list[ManifestEntry]:
    if not (entries.numbers("kind") != ADD).any():
        return []
    again = {_place(e) for e in entries if e.kind == ADD}
    return [e for e in entries if e.kind != ADD and _place(e) not in again]


def used(
    store: Store,
    histories: Iterable[Sequence[Snapshot]],
    *,
    among: Files | None = None,
    changelogs: Iterable[Snapshot] = (),
) -> Files:
    """The files that remaining snapshots and changelogs need: of each history its first state and what came
    later.

    With `among` only data files of names in it. Raises Corrupt if a file of a state is missing; changelogs
    that are gone already count as empty.
    """
    names = None if among is None else {path.rpartition("/")[2] for path in among.data}
    needed = Files()
    for history in histories:
        with _naming_its_tag(store, history):
            for before, snapshot in zip([None, *history], history, strict=False):
                follows = before is not None and before.id + 1 == snapshot.id
                read = store.manifests.delta_entries if follows else store.manifests.live_entries
                for e in read(snapshot):
                    if e.kind == ADD and (
                        names is None or names.intersection((e.file.file_name, *e.file.extra_files))
                    ):
                        needed.data |= entry_paths(store, e)
                needed.metadata |= metadata_files(store, snapshot)
                needed.add(lenient(Files(), changelog_files, store, snapshot))
    for changelog in changelogs:
        needed.add(_changelog_needs(store, changelog))
    return needed


@contextlib.contextmanager
def _naming_its_tag(store: Store, history: Sequence[Snapshot]) -> Iterator[None]:
    """A context whose errors about a missing file name the tag that the history is, and what to do with it:
    a process that was killed when it made the tag may have left one whose snapshot expired meanwhile."""
    try:
        yield
    except FileMissing as e:
        tag = next((t for t in refs.all_tags(store) if [t.snapshot] == list(history)), None)
        if tag is None:
            raise
        text = f"the file is missing, which tag {tag.name!r} of snapshot {tag.snapshot.id} needs"
        raise Corrupt(e.path, text, remedy=f"table.tags.delete({tag.name!r})") from e


def _changelog_needs(store: Store, changelog: Snapshot) -> Files:
    """The files that a long-lived changelog is read from: changelog files, else what writers added."""
    if changelog.changelog_manifest_list is not None:
        return lenient(Files(), changelog_files, store, changelog)
    if has_changelog_files(store):
        return Files()
    needed = Files(metadata=lenient({}, _delta_lists, store, changelog))
    for e in lenient(EMPTY, store.manifests.delta_entries, changelog):
        if e.kind == ADD and e.file.file_source in (None, APPEND_SOURCE):
            needed.data |= entry_paths(store, e)
    return needed


def _delta_lists(store: Store, changelog: Snapshot) -> dict[str, int]:
    (base, size), delta = state_lists(changelog)
    return {store.paths.manifest(base): size or 0, **list_files(store, *delta)}  # Paimon keeps it as long


def has_changelog_files(store: Store) -> bool:
    """Whether changes of this table come from changelog files, not from what commits added."""
    keyed = bool(store.schema.primary_keys)
    return keyed and store.options.changelog_producer is not ChangelogProducer.NONE


def candidates(store: Store, snapshots: Iterable[Snapshot], *, states: bool = False) -> Files:
    """The files that these snapshots added (with `states`: all that they read), for removal; those gone
    already are left out."""
    files = Files()
    for snapshot in snapshots:
        read = store.manifests.live_entries if states else store.manifests.delta_entries
        entries = lenient(EMPTY, read, snapshot)
        files.data |= _paths(store, (e for e in entries if e.kind == ADD))
        for named in state_lists(snapshot):
            files.metadata |= lenient({}, list_files, store, *named)
        files.metadata |= lenient({}, index_files, store, snapshot)
        files.add(lenient(Files(), changelog_files, store, snapshot))
    return files


def unpinned(store: Store, gone: Files, removed: Callable[[int], bool]) -> Files:
    """`gone` without what tags and branches need that were made of the `removed` snapshots after it was
    looked at which files go.

    To be called once those snapshots are removed. Who makes a tag looks after that whether its snapshot is
    there, so one of the two sees the other.
    """
    pins = refs.pinned(store, removed)
    return gone.without(used(store, pins, among=gone)) if pins else gone


def looked_at(store: Store, look: Callable[[], T]) -> T:
    """The result of `look`, which fails where others expire or delete the files that it reads: it is called
    again as long as they remove snapshots, and a few times where they do not (then something is damaged)."""
    tries = 0
    oldest: tuple[int | None, int | None] | None = None
    while True:
        try:
            return look()
        except (Corrupt, NotFound) as e:
            before, oldest = oldest, _oldest(store)  # only here: most commits expire nothing and list nothing
            tries = tries + 1 if oldest == before else 1
            if tries == _TRIES:
                raise
            log.debug("looking again at %s: %s", store.paths.root, e)


def _oldest(store: Store) -> tuple[int | None, int | None]:
    """Ids of the oldest snapshot and the oldest long-lived changelog."""
    return store.snapshots.earliest_id(), min(changelogs.ids(store), default=None)


def lenient(otherwise: T, read: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """The result of `read` with these arguments, or `otherwise` if a metadata file is missing; damaged files
    raise Corrupt."""
    try:
        return read(*args, **named)
    except (FileMissing, SnapshotExpired) as e:
        log.info("passed over: %s", e)
        return otherwise


def _place(e: ManifestEntry) -> tuple[bytes, int, str]:
    return e.partition, e.bucket, e.file.file_name
