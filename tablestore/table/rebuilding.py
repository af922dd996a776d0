"""Making again what a damaged table has beside its rows: indexes of files, hash indexes, snapshots without
statistics. Called by `recovery`.

An index beside a data file is made of its rows, as its writer did: the same bytes, where its name has their
checksum. A hash index is written under a new name, with the hashes of all keys of its bucket in the snapshots
that named it; those snapshots and tags then name the new one. An index manifest that names hash indexes alone
is made again with all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.format import checksums, hashing
from tablestore.format.data_format import FileRequest
from tablestore.format.file_index.writing import FileIndexes, index_specs
from tablestore.format.manifests.index_manifest import HASH, IndexEntry, IndexFileMeta
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.format.snapshot import Snapshot, to_json
from tablestore.io.paths import inside, join
from tablestore.meta import changelogs, refs
from tablestore.meta.manifests import ManifestWriter
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import stored

log = logging.getLogger(__name__)


def file_index(store: Store, path: str) -> str | None:
    """Write the index of a data file at `path` again; why not, if it cannot be made again."""
    entry = next((e for e in _entries(store) if path in _beside(store, e)), None)
    if entry is None:
        return "no file that can be read has this index"
    schema = store.schema_of(entry.file.schema_id)
    indexes = FileIndexes(index_specs(schema))
    names = [f.name for f in schema.fields]
    data_path = store.file_path(entry.partition, entry.bucket, entry.file)
    for batch in stored(store, data_path, entry.file, FileRequest(names, system=False)):
        indexes.update(batch)
    data = indexes.finish()
    try:
        checksums.require_named(path, data)
    except TablestoreError:
        return "its file gives another one now: compact(full=True) writes both anew"
    store.io.replace(path, data)
    return None


def _entries(store: Store) -> Iterator[ManifestEntry]:
    """The files of all snapshots, tags and changelogs that can be read, newest first."""
    seen: set[str] = set()
    for snapshot in _states(store).values():
        for read in (store.manifests.live_entries, store.manifests.changelog_entries):
            try:
                entries = list(read(snapshot))
            except TablestoreError:
                continue
            yield from (e for e in entries if e.file.file_name not in seen)
            seen |= {e.file.file_name for e in entries}
    for changelog in changelogs.all_of(store):
        yield from store.manifests.changelog_entries(changelog)


def _beside(store: Store, entry: ManifestEntry) -> list[str]:
    folder = store.file_path(entry.partition, entry.bucket, entry.file).rpartition("/")[0]
    return [join(folder, inside(name)) for name in entry.file.extra_files]


def _states(store: Store) -> dict[str, Snapshot]:
    """The snapshots, newest first, and those of tags, by the paths of their files, as far as they can be
    read."""
    states: dict[str, Snapshot] = {}
    for number in reversed(store.snapshots.ids()):
        try:
            states[store.paths.snapshot(number)] = store.snapshots.get(number)
        except TablestoreError as e:
            log.debug("passed over: %s", e)
    for name in refs.tag_names(store):
        try:
            states[store.paths.tag(name)] = refs.tagged(store, name)
        except TablestoreError as e:
            log.debug("passed over: %s", e)
    return states


def renamed(store: Store, path: str, snapshot: Snapshot) -> bytes:
    """The bytes of a snapshot's or tag's file at `path` that holds `snapshot` from now on."""
    folder, _, name = path.rpartition("/")
    if folder != store.paths.tag_dir:
        return to_json(snapshot)
    tag = refs.tag(store, name.removeprefix("tag-"))
    kept = None if tag.retained_seconds is None else int(tag.retained_seconds * 1000)
    return refs.tag_bytes(to_json(snapshot), created_ms=tag.created_ms, retained_ms=kept)


def without_statistics(store: Store, names: set[str]) -> dict[str, bytes]:
    """The files of the snapshots and tags of these names (`snapshot-7`, `tag-v1`), without statistics."""
    return {
        path: renamed(store, path, replace(snapshot, statistics=None))
        for path, snapshot in _states(store).items()
        if path.rpartition("/")[2] in names
    }


def with_hash_index(store: Store, path: str) -> dict[str, bytes]:
    """Write the hash index at `path` under a new name; the files of the snapshots and tags that named it,
    which name the new one."""
    naming: dict[str, tuple[Snapshot, list[IndexEntry]]] = {}
    old: IndexEntry | None = None
    for file, snapshot in _states(store).items():
        try:
            entries = store.manifests.index_entries(snapshot)
        except TablestoreError:
            continue
        for e in entries:
            if store.index_path(e.partition, e.bucket, e.file) == path:
                old, naming[file] = e, (snapshot, entries)
    if old is None:
        raise NotFound(f"no snapshot that can be read names {path}")
    new = _written(store, old.partition, old.bucket, [snapshot for snapshot, _ in naming.values()])
    return _naming(
        store,
        {
            file: (snapshot, [new if e == old else e for e in entries])
            for file, (snapshot, entries) in naming.items()
        },
    )


def with_index_manifest(store: Store, path: str) -> dict[str, bytes]:
    """Write the hash indexes of all buckets that the index manifest at `path` was about, and a new manifest;
    the files of the snapshots and tags that named the old one, which name the new one.

    For tables whose index manifests name hash indexes alone.
    """
    name = path.rpartition("/")[2]
    states = {file: s for file, s in _states(store).items() if s.index_manifest == name}
    if not states:
        raise NotFound(f"no snapshot that can be read names {path}")
    snapshots = list(states.values())
    places = {(e.partition, e.bucket): None for s in snapshots for e in store.manifests.live_entries(s)}
    entries = [_written(store, *place, snapshots) for place in places]
    return _naming(store, {file: (snapshot, entries) for file, snapshot in states.items()})


def _written(store: Store, partition: bytes, bucket: int, snapshots: list[Snapshot]) -> IndexEntry:
    """A new hash index of a bucket, with all keys that it has in these snapshots."""
    hashes = _hashes(store, partition, bucket, snapshots)
    data = hashing.encode_index(hashes)
    name = f"index-{checksums.named(store.env.uuid(), data)}-0"
    store.io.write(store.index_path(partition, bucket, name), data)
    return IndexEntry(ADD, partition, bucket, IndexFileMeta(HASH, name, len(data), len(hashes)))


def _naming(store: Store, states: dict[str, tuple[Snapshot, list[IndexEntry]]]) -> dict[str, bytes]:
    """The files of snapshots and tags, by path, with index manifests of these entries, which are written."""
    writer = ManifestWriter(store.io, store.paths, store.options, store.partition_types, store.env)
    return {
        file: renamed(store, file, replace(snapshot, index_manifest=writer.index(entries)))
        for file, (snapshot, entries) in states.items()
    }


def _hashes(store: Store, partition: bytes, bucket: int, snapshots: list[Snapshot]) -> np.ndarray:
    """int32 hashes of all keys that a bucket has in these snapshots."""
    files = {
        e.file.file_name: e
        for snapshot in snapshots
        for e in store.manifests.live_entries(snapshot)
        if (e.partition, e.bucket) == (partition, bucket)
    }
    types = [f.type for f in store.schema.key_fields]
    hashes = [np.empty(0, np.int32)]
    for e in files.values():
        own = store.schema_of(e.file.schema_id)
        names = [own.by_id[f.id].name for f in store.schema.key_fields]
        path = store.file_path(e.partition, e.bucket, e.file)
        for batch in stored(store, path, e.file, FileRequest(names, system=False)):
            hashes.append(hashing.hash_rows(batch.columns, types))
    return np.unique(np.concatenate(hashes))
