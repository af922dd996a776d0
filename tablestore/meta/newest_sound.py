"""The newest sound snapshot, which errors about damage name.

Called only for errors, so it reads everything again without caches, newest snapshot first: the snapshot file,
its schema, its lists, manifests and index manifest. Data files are not opened; a snapshot that needs the file
that was found damaged does not count.
"""

from __future__ import annotations

import re
from typing import Any

from tablestore.core.errors import Corrupt, TablestoreError
from tablestore.core.options.names import UUID
from tablestore.format import schema as schema_format
from tablestore.format import snapshot as snapshot_format
from tablestore.format.manifests import index_manifest
from tablestore.format.manifests import manifest as manifest_format
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot
from tablestore.io.fileio import FileIO
from tablestore.io.paths import TablePaths

_SNAPSHOT = re.compile(r"snapshot-(\d+)")
_MAX_TRIED = 100  # newest snapshots that are tried


def advised(io: FileIO, paths: TablePaths, error: Corrupt) -> Corrupt:
    """The error with the newest snapshot that is sound, and how to use it."""
    if error.remedy:
        return error
    try:
        sound_id = newest_sound(io, paths, without=error.path)
    except (TablestoreError, OSError):
        return error
    if sound_id is None:
        remedy = "no snapshot is sound without it; table.mend() shows what can be done"
    else:
        remedy = f"snapshot {sound_id} is the newest that is sound: table.at(snapshot={sound_id}) reads it, "
        remedy += "table.mend() shows how to mend the table and what is lost"
    return Corrupt(error.path, error.problem, remedy=remedy, sound=sound_id)


def newest_sound(io: FileIO, paths: TablePaths, *, without: str) -> int | None:
    """Id of the newest snapshot whose metadata can be read and which does not need the file `without`."""
    names = (_SNAPSHOT.fullmatch(s.name) for s in io.list(paths.snapshot_dir))
    ids = sorted((int(m[1]) for m in names if m), reverse=True)
    return next((i for i in ids[:_MAX_TRIED] if _is_sound(io, paths, i, without)), None)


def _is_sound(io: FileIO, paths: TablePaths, snapshot_id: int, without: str) -> bool:
    path = paths.snapshot(snapshot_id)
    try:
        snapshot = snapshot_format.from_json(io.read(path), path)
        if snapshot.id != snapshot_id:
            return False
        schema = paths.schema(snapshot.schema_id)
        uuid = schema_format.from_json(io.read(schema), schema).options.get(UUID)
        snapshot_format.require_own(snapshot, uuid, path)
        return without.rpartition("/")[2] not in _names(io, paths, snapshot)
    except (TablestoreError, OSError):
        return False


def _names(io: FileIO, paths: TablePaths, snapshot: Snapshot) -> set[str]:
    """Names of all files that the rows of a snapshot are read from; raises Corrupt, FileNotFoundError."""
    names, added, gone = set[str](), dict[tuple[Any, ...], str](), set[tuple[Any, ...]]()
    for manifest_list in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        path = paths.manifest(manifest_list)
        names.add(manifest_list)
        for meta in manifest_format.decode_list(io.read(path), path):
            path = paths.manifest(meta.file_name)
            names.add(meta.file_name)
            entries = manifest_format.decode_entries(io.read(path), path)
            added |= {e.identity: e.file.file_name for e in entries if e.kind == ADD}
            gone |= {e.identity for e in entries if e.kind != ADD}
    if snapshot.index_manifest is not None:
        path = paths.manifest(snapshot.index_manifest)
        names |= {e.file.file_name for e in index_manifest.decode(io.read(path), path)}
        names.add(snapshot.index_manifest)
    return names | {name for identity, name in added.items() if identity not in gone}
