"""`inspect.edits()` and `inspect.stays()`: the life of a table as edits, one row a file from the snapshot
that adds it to the one that takes it away; both are made of the columns of `FileHistory`.

Deltas of some hundred snapshots are read and decoded together, and ADDs matched with DELETEs of the same
identity by sorting. What has been read stays, as one row without a gap of snapshots up to the newest: a
commit costs its own delta and the live files. Memory: a row a file. Not thread-safe. Files whose deletion
vector changes end and begin again in `edits`. Keys are texts, and numbers on the line of a bucket: those of
`key_axis`, of the first key column in which the keys of a bucket differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import NotFound
from tablestore.format import binary_row
from tablestore.format.manifests.manifest import ADD
from tablestore.format.result_tables import result_schema
from tablestore.format.snapshot import Snapshot
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.key_axis import key_numbers
from tablestore.insight.inspect.columns import LEVELS, SOURCES, key_text
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
        added = np.where(self.added[chosen] < first, BEFORE, self.added[chosen])
        removed = np.where(self.removed[chosen] > last, LIVE, self.removed[chosen])
        begun: dict[str, int | None] = {}
        for at, some in self.masks:
            begun |= some if at <= first else {}
        masks = ((first, begun), *((at, some) for at, some in self.masks if first < at <= last))
        files = self.files.take(pa.array(chosen))
        return replace(self, first=first, last=last, files=files, added=added, removed=removed, masks=masks)


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


EDITS = pa.schema(
    [
        pa.field("added", pa.int64()),
        pa.field("removed", pa.int64()),
        *(f for f in LEVELS if f.name not in ("run", "min_key_pos", "max_key_pos")),
        pa.field("min_key_number", pa.float64()),
        pa.field("max_key_number", pa.float64()),
    ]
)
STAYS = result_schema(
    "partition string, bucket int32, level int32, bytes int64, rows int64, added int64, removed int64"
)
_SAME = {
    "bucket": "bucket",
    "level": "level",
    "file_name": "file_name",
    "rows": "row_count",
    "deletes": "delete_count",
    "bytes": "file_size",
    "min_sequence": "min_sequence",
    "max_sequence": "max_sequence",
    "schema_id": "schema_id",
    "creation_time": "creation_time_ms",
}


def edits(store: Store, lives: Lives | None) -> pa.Table:
    """A row a file and deletion vector. The schema's metadata has the ids of the snapshots that the rows give
    the state after: `first` and `last`."""
    if lives is None:
        return with_span(EDITS.empty_table(), None, None)
    at, added, removed, masked = _masked(lives)
    files = lives.files.take(pa.array(at)).combine_chunks()
    keys, plain = key_columns(files, store.key_types)
    level = files["level"].to_numpy()
    came = lives.added[at]  # the file's, not its deletion vector's
    columns = {new: files[old].cast(EDITS.field(new).type) for new, old in _SAME.items()} | keys
    columns |= {"added": _ids(added, BEFORE), "removed": _ids(removed, LIVE)}
    columns["partition"] = _partitions(store, files)
    columns["file_source"] = _sources(files["file_source"])
    columns["snapshot_id"] = pa.array(came, pa.int64(), mask=(came == BEFORE) | (level != 0))
    columns["masked_rows"] = pa.array(masked, pa.int64(), mask=masked < 0)
    changes = pa.table([columns[f.name] for f in EDITS], schema=EDITS)
    return with_span(changes, lives.first, lives.last, plain=plain)


def stays(store: Store, lives: Lives | None) -> pa.Table:
    """A row a file that any snapshot holds; `added` is NULL for what was there before the oldest one,
    `removed` for what is live."""
    if lives is None:
        return STAYS.empty_table()
    columns = {new: lives.files[old] for new, old in _SAME.items() if new in STAYS.names}
    columns |= {"added": _ids(lives.added, BEFORE), "removed": _ids(lives.removed, LIVE)}
    columns["partition"] = _partitions(store, lives.files)
    return pa.table([columns[f.name].cast(f.type) for f in STAYS], schema=STAYS)


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


def _ids(ids: np.ndarray, absent: int) -> pa.Array:
    return pa.array(ids, pa.int64(), mask=ids == absent)


def _partitions(store: Store, files: pa.Table) -> pa.Array:
    codes = files["partition"].combine_chunks().dictionary_encode()
    texts = [store.partition_text(p) for p in codes.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(codes.indices)


def _sources(source: pa.ChunkedArray) -> pa.Array:
    """APPEND or COMPACT; NULL for what is neither."""
    codes = source.combine_chunks().dictionary_encode()
    texts = [None if code is None else SOURCES.get(code) for code in codes.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(codes.indices)


def _masked(lives: Lives) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows as (file, added, removed, masked rows or −1), in the order in which they came: a file begins again
    with each new deletion vector."""
    count = len(lives)
    everything = np.arange(count), lives.added, lives.removed, np.full(count, -1)
    changes = [(name, at, rows) for at, some in lives.masks for name, rows in some.items()]
    if not changes:
        return everything
    names = lives.files["file_name"].combine_chunks()
    by_name: dict[str, list[tuple[int, int]]] = {}
    for name, at, rows in changes:
        by_name.setdefault(name, []).append((at, -1 if rows is None else rows))
    chosen = np.flatnonzero(pc.is_in(names, pa.array(list(by_name), names.type)).to_numpy(False))
    added, removed, masked = lives.added.copy(), lives.removed.copy(), np.full(count, -1)
    more: list[tuple[int, int, int, int]] = []
    for row, name in zip(chosen.tolist(), names.take(pa.array(chosen)).to_pylist(), strict=True):
        begin, end, before = max(int(added[row]), lives.first), int(removed[row]), len(more)
        for at, rows in by_name[name]:
            if at <= begin:
                masked[row] = rows
            elif at < end:
                if len(more) == before:
                    removed[row] = at
                else:
                    more[-1] = (*more[-1][:2], at, more[-1][3])
                more.append((row, at, end, rows))
    again = np.array(more, np.int64).reshape(-1, 4).T
    parts = [
        np.r_[first, two] for first, two in zip((everything[0], added, removed, masked), again, strict=True)
    ]
    order = np.argsort(parts[1], kind="stable")
    return parts[0][order], parts[1][order], parts[2][order], parts[3][order]


_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def key_columns(files: pa.Table, types: Sequence[DataType]) -> tuple[dict[str, pa.Array], bool]:
    """Columns `min_key`, `max_key`, `min_key_number`, `max_key_number` of files, and whether further keys
    would leave the numbers as they are. All are NULL in a table without keys."""
    count = files.num_rows
    if not types or not count:
        texts, numbers = pa.nulls(count, pa.string()), pa.nulls(count, pa.float64())
        return dict(zip(_NAMES, (texts, texts, numbers, numbers), strict=True)), True
    keys = pa.concat_arrays([files[name].combine_chunks() for name in ("min_key", "max_key")])
    columns = binary_row.integers(keys, types)
    bucket = np.tile(_buckets(files), 2)
    if columns is None:
        texts, (numbers, plain) = _texts(keys, types), _numbers(keys, bucket, types)
    else:
        texts, (numbers, plain) = _whole_texts(columns, types), _whole_numbers(columns, bucket)
    low, high = np.sort(numbers.reshape(2, count), axis=0)  # postponed: any order
    parts = texts.slice(0, count), texts.slice(count), pa.array(low), pa.array(high)
    return dict(zip(_NAMES, parts, strict=True)), plain


_NAMES = ("min_key", "max_key", "min_key_number", "max_key_number")


def _buckets(files: pa.Table) -> np.ndarray:
    """A number for each partition and bucket, from 0 on."""
    partition = files["partition"].combine_chunks().dictionary_encode().indices.to_numpy()
    bucket = files["bucket"].to_numpy().astype(np.int64)
    code = partition.astype(np.int64) * (int(bucket.max()) - int(bucket.min()) + 1) + bucket - bucket.min()
    return np.unique(code, return_inverse=True)[1].reshape(len(code))


def _texts(keys: pa.Array, types: Sequence[DataType]) -> pa.Array:
    codes = keys.dictionary_encode()
    return pa.array([key_text(k, types) for k in codes.dictionary.to_pylist()], pa.string()).take(
        codes.indices
    )


def _whole_texts(columns: Sequence[np.ndarray], types: Sequence[DataType]) -> pa.Array:
    parts = []
    for values, t in zip(columns, types, strict=True):
        if t.root in _WHOLE:
            parts.append(pc.cast(pa.array(values), pa.string()))
            continue
        distinct, codes = np.unique(values, return_inverse=True)
        texts = pa.array([cast_text(v, t) for v in distinct.tolist()], pa.string())
        parts.append(texts.take(pa.array(codes.reshape(len(values)))))
    inner = pc.binary_join_element_wise(*parts, ", ") if len(parts) > 1 else parts[0]
    return pc.binary_join_element_wise("[", inner, "]", "")


def _numbers(keys: pa.Array, bucket: np.ndarray, types: Sequence[DataType]) -> tuple[np.ndarray, bool]:
    numbers_by_row, all_plain = np.empty(len(keys)), True
    order = np.argsort(bucket, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(bucket[order])) + 1):
        codes = keys.take(pa.array(at)).dictionary_encode()
        numbers, plain = key_numbers(codes.dictionary.to_pylist(), types)
        numbers_by_row[at] = np.array(numbers)[codes.indices.to_numpy()]
        all_plain = all_plain and plain
    return numbers_by_row, all_plain


def _whole_numbers(columns: Sequence[np.ndarray], bucket: np.ndarray) -> tuple[np.ndarray, bool]:
    count = int(bucket.max()) + 1
    numbers, chosen = np.full(len(bucket), 0.5), np.full(count, -1)
    for i, values in enumerate(columns):
        low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(low, bucket, values)
        np.maximum.at(high, bucket, values)
        # as numbers of a picture: two that are the same there do not differ
        fresh = (chosen < 0) & (high.astype(float) > low.astype(float))
        chosen[fresh] = i
        numbers = np.where(fresh[bucket], values.astype(float), numbers)
    return numbers, bool((chosen == 0).all())
