"""The life of every data file: which snapshot added it, which removed it. By columns; no object for a file.

Deltas of some hundred snapshots are read and decoded together, and ADDs matched with DELETEs of the same
identity by sorting. What has been read stays, as one row without a gap of snapshots up to the newest: a
commit costs its own delta and the live files, older snapshots are added in front when they are asked for.
Memory: a row a file. Not thread-safe. Behind `inspect.edits()` and `inspect.stays()`; `Origins`, of files of
level 0 alone, behind `inspect.levels()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect.files import masked_rows
from tablestore.meta.store import Store

BEFORE, LIVE = -1, np.iinfo(np.int64).max
"""Added before the first snapshot that was read; not removed yet."""
FILE = (
    *("partition", "bucket", "level", "file_name", "row_count", "delete_count", "file_size"),
    *("min_key", "max_key", "min_sequence", "max_sequence", "schema_id", "creation_time_ms", "file_source"),
)
_AT_ONCE = 500  # snapshots whose manifests are decoded together
Masks = Mapping[str, int | None]


@dataclass(frozen=True, eq=False)
class Lives:
    """Files with the snapshots that added and removed them, from `first` to `last`, in the order in which
    they came.

    `masks` are the rows that deletion vectors take away, by snapshot and file: first all, then what changed.
    """

    first: int
    last: int
    files: pa.Table
    added: np.ndarray
    removed: np.ndarray
    masks: tuple[tuple[int, Masks], ...] = ()
    masked: Masks = field(default_factory=dict)
    index: str | None = None

    def __len__(self) -> int:
        return int(self.files.num_rows)

    def between(self, first: int, last: int) -> Lives:
        """Those that are there after a snapshot from `first` to `last`, or that `first` removes; what was
        before and comes after is left out."""
        if (first, last) == (self.first, self.last):
            return self
        chosen = np.flatnonzero((self.added <= last) & (self.removed >= first))
        added, removed = self.added[chosen], self.removed[chosen]
        begun: dict[str, int | None] = {}
        for at, some in self.masks:
            begun |= some if at <= first else {}
        masks = ((first, begun), *((at, some) for at, some in self.masks if first < at <= last))
        return Lives(
            first,
            last,
            self.files.take(pa.array(chosen)),
            np.where(added < first, BEFORE, added),
            np.where(removed > last, LIVE, removed),
            masks,
            self.masked,
            self.index,
        )


class FileHistory:
    """The lives of the files of one table; each snapshot is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: Lives | None = None
        self._newest: Snapshot | None = None

    def newest(self, most: int) -> Lives | None:
        """At most so many files, of the newest snapshots; all that are live if they alone are more."""
        ids, cached = _without_gap(self._store.snapshots.ids()), self._known
        many = _AT_ONCE if cached is None or not ids else max(_AT_ONCE, ids[-1] + 1 - cached.first)
        lives = self.lives(ids[-many:][0] if ids else None)
        while lives is not None and len(lives) < most and many < len(ids):
            many *= 2
            lives = self.lives(ids[-many:][0])
        if lives is None or len(lives) <= most:
            return lives
        left_out = np.partition(lives.removed, len(lives) - most - 1)[len(lives) - most - 1]
        return lives.between(min(int(left_out), lives.last - 1) + 1, lives.last)

    def lives(self, first: int | None = None, last: int | None = None) -> Lives | None:
        """Files that are there after a snapshot from `first` (None: the oldest) to `last` (None: the newest),
        or that `first` removes, of those whose ids have no gap; None for a table without any."""
        ids: Sequence[int] = ()
        while True:
            before, ids = ids, _without_gap(self._store.snapshots.ids())
            if not ids:
                return None
            begin = ids[0] if first is None else min(max(first, ids[0]), ids[-1])
            end = ids[-1] if last is None else min(max(last, begin), ids[-1])
            try:
                return self._lives(ids, begin, end)
            except NotFound:  # expired meanwhile
                if ids == before:
                    raise

    def _lives(self, ids: Sequence[int], begin: int, end: int) -> Lives:
        if not self._goes_on(ids):
            self._known, self._newest = None, None
        elif self._known is not None and self._known.first < ids[0]:
            self._known = self._known.between(ids[0], self._known.last)
        if self._known is None and end == ids[-1]:
            self._keep(self._read(range(begin, end + 1)))
        lives = self._known
        if lives is not None and lives.last < ids[-1]:
            self._keep(self._read(range(lives.last + 1, ids[-1] + 1), after=lives))
            lives = self._known
        if lives is not None and begin < lives.first <= end + 1:
            self._known = lives = _joined(self._read(range(begin, lives.first)), lives)
        if lives is None or end < lives.first:
            return self._read(range(begin, end + 1))  # far from what is kept: it is not
        return lives.between(begin, end)

    def _goes_on(self, ids: Sequence[int]) -> bool:
        """Whether the newest snapshot that was read is still there, and is the same."""
        newest, lives = self._newest, self._known
        if newest is None or lives is None or not ids[0] <= newest.id <= ids[-1]:
            return False
        try:
            return self._store.snapshots.get(newest.id) == newest
        except NotFound:
            return False

    def _keep(self, lives: Lives) -> None:
        self._known = lives
        self._newest = self._store.snapshots.get(lives.last)

    def _read(self, ids: Sequence[int], *, after: Lives | None = None) -> Lives:
        """The lives over these snapshots, from the state before the first of them or on top of `after`.
        Raises NotFound for one that has expired meanwhile."""
        lives = after
        for at in range(0, len(ids), _AT_ONCE):
            snapshots = [self._store.snapshots.get(i) for i in ids[at : at + _AT_ONCE]]
            if lives is None:
                lives = self._begun(snapshots[0])
            lives = self._grown(lives, snapshots)
        assert lives is not None, "there is at least one snapshot"
        return lives

    def _begun(self, snapshot: Snapshot) -> Lives:
        """The state before a snapshot."""
        base = self._store.manifests.entries_before(snapshot)
        added, removed = np.full(len(base), BEFORE), np.full(len(base), LIVE)
        return Lives(snapshot.id, snapshot.id, base.table.select(FILE), added, removed)

    def _grown(self, lives: Lives, snapshots: Sequence[Snapshot]) -> Lives:
        """The lives after more snapshots, the next ones."""
        manifests = self._store.manifests
        with manifests.expiring(*snapshots):
            lists = manifests.read_lists([s.delta_manifest_list for s in snapshots])
            entries = manifests.read_manifests([m for some in lists for m in some])
        counts = [sum(m.num_added + m.num_deleted for m in some) for some in lists]
        when = np.repeat([s.id for s in snapshots], counts)
        adding = entries.numbers("kind") == ADD
        live = np.flatnonzero(lives.removed == LIVE)
        files = entries.table.select(FILE)
        both = pa.concat_tables([lives.files.take(pa.array(live)), files])
        begins = np.r_[np.ones(len(live), bool), adding]
        ends = _ends(both, begins, np.r_[lives.added[live], when])
        removed = lives.removed.copy()
        removed[live] = ends[: len(live)]
        masks, masked, index = self._masks(lives, snapshots)
        return Lives(
            lives.first,
            snapshots[-1].id,
            pa.concat_tables([lives.files, files.filter(pa.array(adding))]),
            np.r_[lives.added, when[adding]],
            np.r_[removed, ends[len(live) :][adding]],
            masks,
            masked,
            index,
        )

    def _masks(
        self, lives: Lives, snapshots: Sequence[Snapshot]
    ) -> tuple[tuple[tuple[int, Masks], ...], Masks, str | None]:
        """What deletion vectors take away, with the changes of more snapshots."""
        masks, masked, index = list(lives.masks), lives.masked, lives.index
        for snapshot in snapshots:
            if snapshot.index_manifest == index:
                continue
            rows_masked = masked_rows(self._store.manifests.index_entries(snapshot))
            if changes := _changes(masked, rows_masked):
                masks.append((snapshot.id, changes))
            masked, index = rows_masked, snapshot.index_manifest
        return tuple(masks), masked, index


def _changes(before: Masks, after: Masks) -> Masks:
    return {n: after.get(n) for n in {*before, *after} if before.get(n) != after.get(n)}


def _ends(files: pa.Table, begins: np.ndarray, when: np.ndarray) -> np.ndarray:
    """For each of these events, in order, the snapshot of the DELETE that comes next to the same identity."""
    code = _identities(files)
    order = np.argsort(code, kind="stable")
    code, gone, when = code[order], ~begins[order], when[order]
    ended = np.r_[(code[1:] == code[:-1]) & gone[1:], False]
    ends = np.full(len(code), LIVE)
    ends[order] = np.where(ended, np.r_[when[1:], LIVE], LIVE)
    return ends


def _identities(files: pa.Table) -> np.ndarray:
    """One number for each partition, bucket, level and name."""
    code = np.zeros(files.num_rows, np.int64)
    for name in ("file_name", "partition", "bucket", "level"):
        values = files.column(name).combine_chunks().dictionary_encode()
        code = code * max(len(values.dictionary), 1) + values.indices.to_numpy()
        if name != "level":  # small numbers again: their product stays within 64 bits
            code = np.unique(code, return_inverse=True)[1].reshape(len(code))
    return code


def _joined(older: Lives, newer: Lives) -> Lives:
    """Two parts of a history that follow each other: files that are there between them are one row."""
    last = np.flatnonzero(older.removed == LIVE)
    begun = np.flatnonzero(newer.added == BEFORE)
    both = pa.concat_tables([older.files.take(pa.array(last)), newer.files.take(pa.array(begun))])
    code = _identities(both)
    mine, theirs = code[: len(last)], code[len(last) :]
    order = np.argsort(mine, kind="stable")
    at = np.minimum(np.searchsorted(mine, theirs, sorter=order), max(len(last) - 1, 0))
    met = mine[order[at]] == theirs if len(last) else np.zeros(len(theirs), bool)
    added = newer.added.copy()
    added[begun[met]] = older.added[last[order[at[met]]]]
    kept = np.ones(len(older), bool)
    kept[last] = False
    files = pa.concat_tables([older.files.filter(pa.array(kept)), newer.files])
    come, gone = np.r_[older.added[kept], added], np.r_[older.removed[kept], newer.removed]
    order = np.argsort(come, kind="stable")
    rest = newer.masks[1:] if newer.masks and newer.masks[0][0] == newer.first else newer.masks
    full = newer.masks[0][1] if len(rest) < len(newer.masks) else {}
    seam = ((newer.first, changes),) if (changes := _changes(older.masked, full)) else ()
    return Lives(
        older.first,
        newer.last,
        files.take(pa.array(order)),
        come[order],
        gone[order],
        (*older.masks, *seam, *rest),
        newer.masked,
        newer.index,
    )


def _without_gap(ids: Sequence[int]) -> Sequence[int]:
    """The newest ids without a gap, which a rollback to an expired snapshot leaves."""
    numbers = np.array(ids, np.int64)
    gaps = np.flatnonzero(np.diff(numbers) != 1)
    return ids[int(gaps[-1]) + 1 if len(gaps) else 0 :]


class Origins:
    """The snapshots that files came with."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots: dict[str, int | None] = {}  # by name of a level-0 file

    def of(self, snapshot: Snapshot | None, names: set[str], *, back: int | None = None) -> dict[str, int]:
        """The snapshot that added each of these files, up to `snapshot`; those that have expired are left
        out, and with `back` those that lie more snapshots back and are not known yet."""
        at, wanted = snapshot, names - self._snapshots.keys()
        oldest = 0 if back is None or snapshot is None else snapshot.id - back
        while at is not None and wanted and at.id > oldest:
            added = {e.file.file_name for e in self._store.manifests.delta_entries(at) if e.kind == ADD}
            self._snapshots |= dict.fromkeys(added & wanted, at.id)
            wanted -= added
            try:
                at = self._store.snapshots.get(at.id - 1) if at.id > 1 else None
            except NotFound:  # expired
                at = None
        if at is None:  # looked through all
            self._snapshots |= dict.fromkeys(wanted)
        return {name: snapshot_id for name in names if (snapshot_id := self._snapshots.get(name)) is not None}
