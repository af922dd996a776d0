"""The newest snapshot of the lake of each table, as services say it, and the files of offsets of Fluss 0.9.

A service of 0.9 has the offsets written down before it commits to its lake, where Fluss's own puts the path;
afterwards it names the snapshot and the path. Offsets of buckets that it does not say stay as they were.

    <directory>/lake/<database>/<table>-<table id>/metadata/<uuid>.offsets    what a commit brings
    <directory>/lake/<database>/<table>-<table id>/metadata/registered        the newest snapshot

Of the files of offsets the newest few stay: a service that was killed before it named its snapshot names it
later. Of a table whose lake is itself, the files of the lake say what they have. Safe to share between
threads.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tablestore.core.env import Env
from tablestore.core.errors import Corrupt, NotFound
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join
from tablestore.read.changes.changed_keys import hides_level_0
from tablestore.tiering.coordinator.served_tables import ServedTable
from tablestore.tiering.lake_offsets import offsets_file, parse_offsets_file

log = logging.getLogger(__name__)
_KEPT = 8
_NAME = re.compile(r"[0-9a-f-]{36}\.offsets")
_REGISTERED = "registered"


@dataclass(frozen=True, slots=True)
class KnownSnapshot:
    """A snapshot of a lake: per bucket the offset behind its last row there."""

    snapshot_id: int
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Registered:
    """The newest snapshot of a table, and the newest of which readers are known to see all rows."""

    tiered: KnownSnapshot
    readable: KnownSnapshot | None = None

    def to_json(self) -> bytes:
        both = {"tiered": self.tiered, "readable": self.readable}
        listed = {
            name: [snapshot.snapshot_id, list(snapshot.offsets.items())]
            for name, snapshot in both.items()
            if snapshot is not None
        }
        return json.dumps(listed).encode()

    @classmethod
    def from_json(cls, data: bytes) -> _Registered:
        """Raises ValueError, TypeError, KeyError for anything else."""
        items = json.loads(data).items()
        snapshots = {name: KnownSnapshot(int(id), dict(offsets)) for name, (id, offsets) in items}
        return cls(snapshots["tiered"], snapshots.get("readable"))


class LakeSnapshots:
    """What is known of the lakes of the tables of one coordinator, whose files are in `directory`."""

    def __init__(self, io: FileIO, directory: str, env: Env) -> None:
        self._io, self._directory, self._env = io, directory, env
        self._lock = threading.Lock()
        self._registered: dict[int, _Registered | None] = {}

    def newest(
        self, table: ServedTable, *, snapshot_id: int | None = None, readable: bool = False
    ) -> KnownSnapshot:
        """The newest snapshot, of `readable` ones where asked. Raises FlussError 53 where there is none, or
        it is not `snapshot_id`."""
        registered = self._known(table)
        snapshot = None if registered is None else registered.tiered
        if registered is not None and readable:
            snapshot = registered.readable
        if snapshot is None or snapshot_id not in (None, snapshot.snapshot_id):
            which = "readable snapshot" if readable else "snapshot"
            number = "" if snapshot_id is None else f" {snapshot_id}"
            text = f"{table.path} has no {which}{number} in the lake that this coordinator knows"
            raise FlussError(ErrorCode.LAKE_SNAPSHOT_NOT_EXIST, text)
        return snapshot

    def prepare(
        self, table: ServedTable, offsets: Mapping[int, int], *, ignores_previous: bool = False
    ) -> str:
        """Where the offsets are that a snapshot will have: these, and for other buckets what is known now,
        unless it `ignores_previous`. Raises FlussError where the log has no such rows."""
        table.require_in_log(offsets)
        path = join(self._place(table), f"{self._env.uuid()}.offsets")
        before = {} if ignores_previous else self._offsets(table)
        self._io.write(path, offsets_file(table.table_id, {**before, **offsets}))
        return path

    def commit_prepared(
        self, table: ServedTable, snapshot_id: int, tiered: str, readable: str | None
    ) -> None:
        """Keep a snapshot whose offsets were prepared. Raises FlussError where it cannot have these rows, or
        a path is none that `prepare` gave."""
        ends = self._read(table, tiered)
        seen = ends if readable == tiered else None if readable is None else self._read(table, readable)
        self._keep(table, snapshot_id, ends, seen)
        self._remove_old(table)

    def commit(self, table: ServedTable, snapshot_id: int, offsets: Mapping[int, int]) -> None:
        """Keep a snapshot as services up to 0.8 say it: with the offsets of some buckets."""
        self._keep(table, snapshot_id, {**self._offsets(table), **offsets}, None)

    def table_ids(self) -> set[int]:
        """The tables that have files."""
        return {table_id for table_id, _ in self._folders()}

    def drop(self, table_id: int) -> None:
        """Remove the files of a table that was dropped: its id never comes again."""
        for folder_id, folder in list(self._folders()):
            if folder_id == table_id:
                self._io.delete_tree(folder)
        with self._lock:
            self._registered.pop(table_id, None)

    def _folders(self) -> Iterator[tuple[int, str]]:
        """The folders of tables, with their ids; a table that was renamed has one by each of its names."""
        lake = join(self._directory, "lake")
        for database in self._io.list(lake):
            for table in self._io.list(join(lake, database.name)):
                table_id = table.name.rpartition("-")[2]
                if table_id.isdecimal():
                    yield int(table_id), join(lake, database.name, table.name)

    def _offsets(self, table: ServedTable) -> Mapping[int, int]:
        registered = self._known(table)
        return {} if registered is None else registered.tiered.offsets

    def _known(self, table: ServedTable) -> _Registered | None:
        """What the table's own files have, where its lake is itself; else what was registered."""
        own = table.in_files() if table.has_files() else None
        if own is not None:
            tiered = KnownSnapshot(*own)
            return _Registered(tiered, None if hides_level_0(table.table.store) else tiered)
        with self._lock:
            return self._of(table)

    def _keep(
        self, table: ServedTable, snapshot_id: int, ends: Mapping[int, int], seen: Mapping[int, int] | None
    ) -> None:
        table.require_snapshot(snapshot_id, ends)
        if table.has_files():
            return  # which say it
        tiered = KnownSnapshot(snapshot_id, ends)
        with self._lock:
            before = self._of(table)
            if seen is not None:
                readable: KnownSnapshot | None = KnownSnapshot(snapshot_id, seen)
            else:
                readable = None if before is None else before.readable
            kept = self._registered[table.table_id] = _Registered(tiered, readable)
            self._io.replace(join(self._place(table), _REGISTERED), kept.to_json())

    def _of(self, table: ServedTable) -> _Registered | None:
        """What was registered, also with a coordinator before. With the lock."""
        if table.table_id not in self._registered:
            path, registered = join(self._place(table), _REGISTERED), None
            try:
                registered = _Registered.from_json(self._io.read(path))
            except FileNotFoundError:
                pass
            except (ValueError, TypeError, KeyError, AttributeError):
                log.warning("%s holds no snapshot of a lake: services say theirs again", path)
            self._registered[table.table_id] = registered
        return self._registered[table.table_id]

    def _read(self, table: ServedTable, path: str) -> dict[int, int]:
        """The offsets of a file that `prepare` made."""
        place, _, name = path.rpartition("/")
        if place != self._place(table) or _NAME.fullmatch(name) is None:
            text = f"{path[:200]!r} is no file of offsets of {table.path}: prepare the snapshot first"
            raise FlussError(ErrorCode.CORRUPT_MESSAGE, text)
        try:
            return {at.bucket: offset for at, offset in parse_offsets_file(self._io.read(path), path).items()}
        except (FileNotFoundError, NotFound, Corrupt) as e:
            text = f"{path} cannot be read any more ({e}): prepare the snapshot anew"
            raise FlussError(ErrorCode.LAKE_SNAPSHOT_NOT_EXIST, text) from None

    def _remove_old(self, table: ServedTable) -> None:
        files = [file for file in self._io.list(self._place(table)) if _NAME.fullmatch(file.name)]
        for file in sorted(files, key=lambda file: file.modified_ms)[:-_KEPT]:
            with contextlib.suppress(FileNotFoundError):
                self._io.delete(join(self._place(table), file.name))

    def _place(self, table: ServedTable) -> str:
        database, _, name = table.path.partition(".")
        return join(self._directory, "lake", database, f"{name}-{table.table_id}", "metadata")
