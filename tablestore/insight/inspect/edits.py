"""`inspect.edits()`: the life of a table as edits, one row a file from the snapshot that adds it to the one
that takes it away.

Starts with what was live before the oldest snapshot there is, or before a newer one where the history is
long: at most `MOST` changes of files are read, the newest. The deltas of some hundred snapshots are read and
decoded together; what has been read stays, so that a commit costs its own delta. Files whose deletion vector
changes end and begin again. Memory: a row of numbers and two keys a file. Not thread-safe. Used by `Inspect`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot
from tablestore.insight.explain.key_axis import key_numbers
from tablestore.insight.inspect.columns import made
from tablestore.insight.inspect.files import masked_rows
from tablestore.insight.inspect.levels_table import LEVELS, SOURCES
from tablestore.meta.store import Store

MOST = 200_000
"""Files added and removed that are read at most; older snapshots are left out."""
EDITS = pa.schema(
    [
        pa.field("added", pa.int64()),
        pa.field("removed", pa.int64()),
        *(f for f in LEVELS if f.name not in ("run", "min_key_pos", "max_key_pos")),
        pa.field("min_key_number", pa.float64()),
        pa.field("max_key_number", pa.float64()),
    ]
)
_COLUMNS = (
    *("kind", "partition", "bucket", "level", "file_name", "row_count", "delete_count", "file_size"),
    *("min_key", "max_key", "min_sequence", "max_sequence", "schema_id", "creation_time_ms", "file_source"),
)
_Id = tuple[bytes, int, int, str]  # partition, bucket, level, name


@dataclass(slots=True)
class _Stay:
    """One file from one snapshot to another; `file` are the values of _COLUMNS after its kind."""

    added: int | None
    file: tuple[Any, ...]
    origin: int | None
    masked: int | None = None
    removed: int | None = None


class FileHistory:
    """The edits of one table; each snapshot is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forget()

    def _forget(self) -> None:
        self._stays: list[_Stay] = []
        self._live: dict[_Id, _Stay] = {}
        self._names: dict[str, list[_Id]] = defaultdict(list)
        self._first: int | None = None
        self._last: Snapshot | None = None
        self._masked: dict[str, int | None] = {}
        self._index: str | None = None
        self._made: pa.Table | None = None

    def table(self) -> pa.Table:
        """The edits up to the newest snapshot. The schema's metadata has the ids of the snapshots that they
        give the state after: `first` and `last`."""
        ids = self._store.snapshots.ids()
        known = self._last
        if known is not None and not self._continues(known, ids):
            self._forget()
        new = [i for i in _without_gap(ids) if self._last is None or i > self._last.id]
        snapshots = self._read(new)
        if self._last is None:
            snapshots = self._begin(snapshots)
        if snapshots:
            self._enter(snapshots)
            self._made = None
        if self._made is None:
            self._made = self._table()
        return self._made

    def _continues(self, known: Snapshot, ids: Sequence[int]) -> bool:
        """Whether the snapshot read last is still there, and is the same."""
        assert self._first is not None, "a last snapshot has a first one"
        if known.id not in ids or ids[0] > self._first:
            return False
        try:
            return self._store.snapshots.get(known.id) == known
        except NotFound:
            return False

    def _read(self, ids: Sequence[int]) -> list[Snapshot]:
        found = []
        for snapshot_id in ids:
            try:
                found.append(self._store.snapshots.get(snapshot_id))
            except NotFound:
                found.clear()  # expired meanwhile: what came before, too
        return found

    def _begin(self, snapshots: list[Snapshot]) -> list[Snapshot]:
        """Start with the state before the first snapshot whose changes, with all later ones, are not too
        many."""
        left, start = MOST, len(snapshots)
        manifests = self._store.manifests
        lists = manifests.read_lists([s.delta_manifest_list for s in snapshots])
        while start and (left > 0 or start == len(snapshots)):
            start -= 1
            left -= sum(m.num_added + m.num_deleted for m in lists[start])
        some = snapshots[start:]
        if some:
            self._first = some[0].id
            base = manifests.read_manifests(manifests.read_list(some[0].base_manifest_list)).live()
            for row in _rows(base.table):
                self._add(None, row[1:])
        return some

    def _enter(self, snapshots: Sequence[Snapshot]) -> None:
        for snapshot in self._store.manifests.prefetched(snapshots):
            for row in _rows(self._store.manifests.delta_entries(snapshot).table):
                if row[0] == ADD:
                    self._add(snapshot.id, row[1:])
                else:
                    self._remove(snapshot.id, _id(row[1:]))
            if snapshot.index_manifest != self._index:
                self._mask(snapshot)
            self._last = snapshot

    def _add(self, snapshot: int | None, file: tuple[Any, ...]) -> None:
        place, masked = _id(file), self._masked.get(file[3])
        stay = _Stay(snapshot, file, snapshot if place[2] == 0 else None, masked)
        self._stays.append(stay)
        self._live[place] = stay
        self._names[place[3]].append(place)

    def _remove(self, snapshot: int, place: _Id) -> None:
        """End a file's stay; one that is not there is a damage that `check` names, not a picture."""
        if (stay := self._live.pop(place, None)) is not None:
            stay.removed = snapshot
            self._names[place[3]].remove(place)

    def _mask(self, snapshot: Snapshot) -> None:
        """Files whose deletion vector has changed end, and begin again with the new one."""
        masked = masked_rows(self._store.manifests.index_entries(snapshot))
        for name in {n for n in {*masked, *self._masked} if masked.get(n) != self._masked.get(n)}:
            for place in self._names.get(name, ()):
                old = self._live[place]
                if old.added == snapshot.id or snapshot.id == self._first:
                    old.masked = masked.get(name)
                    continue
                old.removed = snapshot.id
                stay = self._live[place] = _Stay(snapshot.id, old.file, old.origin, masked.get(name))
                self._stays.append(stay)
        self._masked, self._index = masked, snapshot.index_manifest

    def _table(self) -> pa.Table:
        store, stays = self._store, self._stays
        texts: dict[bytes, str] = {}
        places: dict[bytes, str] = {}
        numbers, plain = self._numbers()
        rows = []
        for stay in stays:
            partition, bucket, level, name, count, deletes, size, low, high, *rest = stay.file
            *sequences, schema_id, created, source = rest
            if partition not in places:
                places[partition] = store.partition_text(partition)
            keys: tuple[Any, ...] = (None, None, None, None)
            if store.key_types:
                for key in (low, high):
                    if key not in texts:
                        texts[key] = store.key_text(key)
                at = numbers[partition, bucket]
                first, last = sorted((at[low], at[high]))  # postponed: any order
                keys = (texts[low], texts[high], first, last)
            known = (None if source is None else SOURCES.get(source), stay.origin, stay.masked)
            rows.append(
                (
                    *(stay.added, stay.removed, places[partition], bucket, level, name, count, deletes),
                    *(size, *keys[:2], *sequences, schema_id, created, *known, *keys[2:]),
                )
            )
        return with_span(made(EDITS, rows), self._first, self._last.id if self._last else None, plain=plain)

    def _numbers(self) -> tuple[dict[tuple[bytes, int], dict[bytes, float]], bool]:
        """For each bucket the numbers of its keys; whether further keys would leave them as they are."""
        if not self._store.key_types:
            return {}, True
        keys: dict[tuple[bytes, int], dict[bytes, None]] = defaultdict(dict)
        for stay in self._stays:
            keys[stay.file[0], stay.file[1]] |= {stay.file[7]: None, stay.file[8]: None}
        found, all_plain = {}, True
        for place, some in keys.items():
            numbers, plain = key_numbers(list(some), self._store.key_types)
            found[place] = dict(zip(some, numbers, strict=True))
            all_plain = all_plain and plain
        return found, all_plain


def with_span(
    edits: pa.Table,
    first: int | None,
    last: int | None,
    *,
    plain: bool = True,
    axes: Mapping[str, tuple[float, float]] | None = None,
) -> pa.Table:
    """The table with what its metadata say: the `first` and `last` snapshot that it gives the state after;
    whether the numbers of keys are `plain`, so that further keys leave them as they are; and where the axis
    of a bucket ("day=mon/0") is known whatever is live, its two ends."""
    about = {"first": first, "last": last, "plain": plain, "axes": dict(axes or {})}
    return edits.replace_schema_metadata({"edits": json.dumps(about)})


def _id(file: tuple[Any, ...]) -> _Id:
    return file[:4]


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The values of _COLUMNS, row by row."""
    return list(zip(*(table.column(name).to_pylist() for name in _COLUMNS), strict=True))


def _without_gap(ids: Sequence[int]) -> list[int]:
    """The newest snapshots without a gap, which a rollback to an expired one leaves."""
    gaps = [at for at in range(1, len(ids)) if ids[at] != ids[at - 1] + 1]
    return list(ids[gaps[-1] if gaps else 0 :])
