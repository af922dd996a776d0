"""Snapshot files of one table (or branch): numbered, put-if-absent, never changed (I1, FORMAT.md 7.2); and
what is said where a snapshot expired meanwhile or is damaged.

`LATEST` and `EARLIEST` are hints: trusted only after a probe, else the directory is listed. Each is read
anew; only what its bytes mean is kept, of the last one. Snapshots go before the files that they name, so what
is missing of one that is still there is damage. Safe to share between threads.

Errors about damage name the newest sound snapshot. For that everything is read again without caches, newest
snapshot first: the snapshot file, its schema, its lists, manifests and index manifest. Data files are not
opened; a snapshot that needs the file that was found damaged does not count.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tablestore.core.errors import Corrupt, NotFound, SnapshotExpired, TablestoreError, Unavailable
from tablestore.core.options.names import UUID
from tablestore.format import schema as schema_format
from tablestore.format import snapshot as snapshot_format
from tablestore.format.binary_row import DamagedRow
from tablestore.format.manifests import index_manifest
from tablestore.format.manifests import manifest as manifest_format
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot
from tablestore.io import outcomes
from tablestore.io.fileio import FileIO, Sync
from tablestore.io.paths import TablePaths, join

_MAX_TRIED = 100  # newest snapshots that are tried
log = logging.getLogger(__name__)
_FILE = re.compile(r"snapshot-(\d+)")


class SnapshotStore:
    """Reads and publishes snapshots."""

    def __init__(self, io: FileIO, paths: TablePaths, uuid: str | None) -> None:
        """`uuid` is that of the table, None for one that has none."""
        self._io, self._paths, self._uuid = io, paths, uuid
        self._parsed: tuple[bytes, Snapshot] | None = None
        self.last_newest: int | None = None
        """Id of the snapshot that was the newest when it was last looked for, or published, here."""

    def ids(self) -> list[int]:
        """Ids of all existing snapshots, ascending; one listing."""
        return list(self.stamps())

    def stamps(self) -> dict[int, tuple[int, int]]:
        """Bytes and time of change of each snapshot's file by its id, ascending; one listing."""
        matches = ((_FILE.fullmatch(s.name), s) for s in self._io.list(self._paths.snapshot_dir))
        return dict(sorted((int(m[1]), (s.size, s.modified_ms)) for m, s in matches if m))

    def latest_id(self) -> int | None:
        """Id of the newest snapshot, None for a table without any."""
        return self._latest_id(self._hint("LATEST"))

    def _latest_id(self, hint: int | None) -> int | None:
        if hint is not None and self.exists(hint):
            while self.exists(hint + 1):  # a commit whose hint was not written, or not yet
                hint += 1
            return hint
        ids = self.ids()
        return ids[-1] if ids else None

    def _require_none_before(self) -> None:
        """Raise Corrupt where there is no snapshot although a hint or a tag says that there was: the newest
        one never expires."""
        tags = [
            s.name for s in self._io.list(self._paths.tag_dir) if not s.is_dir and s.name.startswith("tag-")
        ]
        hint = self._hint("LATEST")
        if hint is None and not tags:
            return
        who = f"LATEST names snapshot {hint}" if hint is not None else f"{tags[0]} is there"
        if self.ids() or not self._io.exists(self._paths.schema(0)):
            return  # of a commit just now, or of a table that is being dropped
        remedy = "put back a copy of the newest snapshot's file, or call table.mend()"
        raise Corrupt(self._paths.snapshot_dir, f"its snapshots are missing, although {who}", remedy=remedy)

    def earliest_id(self) -> int | None:
        """Id of the oldest snapshot, None for a table without any."""
        return self.oldest()[0]

    def oldest(self) -> tuple[int | None, bool]:
        """The id of the oldest snapshot, None for a table without any; whether EARLIEST names it."""
        hint = self._hint("EARLIEST")
        if hint is not None and self.exists(hint) and not (hint > 1 and self.exists(hint - 1)):
            return hint, True
        ids = self.ids()
        return (ids[0], ids[0] == hint) if ids else (None, False)

    def exists(self, snapshot_id: int) -> bool:
        """Whether that snapshot is there."""
        return self._io.exists(self._paths.snapshot(snapshot_id))

    def get(self, snapshot_id: int) -> Snapshot:
        """One snapshot; raises NotFound naming the existing range, Corrupt naming the newest sound
        snapshot."""
        snapshot = self.find(snapshot_id)
        if snapshot is None:
            raise self.absent(snapshot_id)
        return snapshot

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The same, None where it is not there, or not any more."""
        path = self._paths.snapshot(snapshot_id)
        try:
            snapshot = self._meaning(self._io.read(path), path)
        except FileNotFoundError:
            return None
        except Corrupt as e:
            raise advised(self._io, self._paths, e) from None
        if snapshot.id != snapshot_id:
            raise advised(self._io, self._paths, Corrupt(path, f"holds id {snapshot.id}"))
        return snapshot

    def _meaning(self, data: bytes, path: str) -> Snapshot:
        """The snapshot that a file holds; the same object for the same bytes one after another."""
        parsed = self._parsed
        if parsed is None or parsed[0] != data:
            snapshot = snapshot_format.from_json(data, path)
            parsed = self._parsed = data, snapshot_format.require_own(snapshot, self._uuid, path)
        return parsed[1]

    def absent(self, snapshot_id: int) -> NotFound:
        """The error for an absent snapshot, naming the existing range."""
        ids = self.ids()
        there = f"have {ids[0]}..{ids[-1]}" if ids else "the table has none yet"
        return NotFound(f"no snapshot {snapshot_id}; {there}")

    def latest(self, *, near: int | None = None) -> Snapshot | None:
        """The newest snapshot; if it is gone by the time it is read, the newest at that time. None for a
        table without any; raises Corrupt where there were some. `near`: an id that was the newest a moment
        ago, which saves the read of LATEST where it still is."""
        newest = self._latest(near)
        self.last_newest = newest.id if newest is not None else None
        return newest

    def _latest(self, near: int | None) -> Snapshot | None:
        newest = self._if_newest(near)
        if newest is not None:
            return newest
        hint = self._hint("LATEST")
        if hint != near:
            newest = self._if_newest(hint)
            if newest is not None:
                return newest
        while (latest := self._latest_id(hint)) is not None:
            newest = self.find(latest)
            if newest is not None:
                return newest
            hint = self._hint("LATEST")
        self._require_none_before()
        return None

    def _if_newest(self, hint: int | None) -> Snapshot | None:
        """The snapshot of that id, None if it is not the newest; reading it says whether it is there."""
        return self.find(hint) if hint and not self.exists(hint + 1) else None

    def earliest(self) -> Snapshot | None:
        """The oldest snapshot; if it expires before it is read, the oldest at that time."""
        while (earliest := self.earliest_id()) is not None:
            oldest = self.find(earliest)
            if oldest is not None:
                return oldest
        return None

    def all(self, *, newest: int | None = None) -> list[Snapshot]:
        """Every snapshot, or so many of the newest, ascending, as they were at one moment: where some expire
        meanwhile it is looked again."""
        gone, snapshots = set[int](), dict[int, Snapshot]()
        while True:
            ids = [i for i in self.ids() if i not in gone]
            if newest is not None:
                ids = ids[-newest:] if newest > 0 else []
            if gone and ids and ids[0] < max(gone):
                snapshots.clear()  # rolled back: ids may be used again
            for i in ids:
                snapshot = snapshots.get(i) or self.find(i)
                if snapshot is None:
                    gone.add(i)
                    break
                snapshots[i] = snapshot
            else:
                return [snapshots[i] for i in ids]

    def publish(self, snapshot: Snapshot, *, after: Sync | None = None) -> bool:
        """True iff this snapshot now has its id, also where a retry inside the store wrote it; False iff
        another snapshot has it. With `after` those files are on the disk before, and the snapshot when this
        returns.

        Raises CommitUnknown when the store failed and reading back failed too: then nothing may be deleted.
        """
        path, data = self._paths.snapshot(snapshot.id), snapshot_format.to_json(snapshot)
        # unique: its manifest lists are its own
        return outcomes.put_new(self._io, path, data, unique=True, after=after)

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether the file of this id has exactly the bytes of this snapshot."""
        try:
            return self._io.read(self._paths.snapshot(snapshot.id)) == snapshot_format.to_json(snapshot)
        except FileNotFoundError:
            return False

    def hint_latest(self, snapshot_id: int) -> None:
        """Write the LATEST hint; errors are logged, as hints are optional. It may be behind that of another
        commit: readers look for snapshots after it."""
        self.last_newest = snapshot_id
        self._write_hint("LATEST", snapshot_id)

    def hint_earliest(self, snapshot_id: int) -> None:
        """Write the EARLIEST hint."""
        self._write_hint("EARLIEST", snapshot_id)

    def delete(self, snapshot_id: int) -> None:
        """Remove one snapshot file (expiry and rollback only)."""
        self._io.delete(self._paths.snapshot(snapshot_id))

    def _write_hint(self, name: str, snapshot_id: int) -> None:
        try:
            self._io.replace(join(self._paths.snapshot_dir, name), str(snapshot_id).encode())
        except Unavailable as e:
            log.warning("hint %s not written: %s", name, e)

    def _hint(self, name: str) -> int | None:
        try:
            text = self._io.read(join(self._paths.snapshot_dir, name)).decode().strip()
            return int(text) if text.isdigit() else None
        except (FileNotFoundError, UnicodeDecodeError, Unavailable):
            return None


@contextmanager
def raising_expired(
    io: FileIO, paths: TablePaths, ids: Iterable[int], *, changes: bool = False
) -> Iterator[None]:
    """A context that raises SnapshotExpired where a file is missing because one of these snapshots expired
    meanwhile. Its state is read, which a tag keeps, too; with `changes` what a long-lived changelog keeps."""
    try:
        yield
    except (Corrupt, FileNotFoundError) as e:
        if isinstance(e, DamagedRow) or (isinstance(e, Corrupt) and not is_missing(io, e.path)):
            raise
        gone = _first_expired(io, paths, list(ids), changes=changes)
        if gone is None:
            raise
        raise SnapshotExpired(f"snapshot {gone} expired while it was read; read again") from e


def is_missing(io: FileIO, path: str) -> bool:
    """Whether there is no such file; False for a path that no file of the table may have."""
    try:
        return not io.exists(path)
    except Corrupt:
        return False


def _first_expired(io: FileIO, paths: TablePaths, ids: list[int], *, changes: bool) -> int | None:
    """The first of these that nothing keeps any more."""
    gone = [i for i in ids if not io.exists(paths.snapshot(i))]
    if gone and changes:
        gone = [i for i in gone if not io.exists(paths.changelog(i))]
    elif gone:
        kept = set(_tagged(io, paths))
        gone = [i for i in gone if i not in kept]
    return gone[0] if gone else None


def _tagged(io: FileIO, paths: TablePaths) -> Iterator[int]:
    for status in io.list(paths.tag_dir):
        path = join(paths.tag_dir, status.name)
        try:
            yield snapshot_format.from_json(io.read(path), path).id
        except (Corrupt, FileNotFoundError):  # it keeps nothing that could be read
            continue


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
    names = (_FILE.fullmatch(s.name) for s in io.list(paths.snapshot_dir))
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
