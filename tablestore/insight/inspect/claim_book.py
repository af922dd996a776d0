"""The claims of holders on files as they are collected: a row a named file and holder, by columns; entries of
many manifests by columns, with the paths that they name; and when expiry may remove a file, as a text for
each combination of its holders.

A file that the newest snapshot reads is live: a later commit must replace it first. Otherwise it goes when
no holder needs it any more: the last snapshot that reads it (by number, age and consumers), tags, branches
and long-lived changelogs. Pure but for what `Releases` looks up when it is made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.options.values import INFINITE
from tablestore.format.checksums import FORMATS
from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.format.manifests.manifest import ManifestFileMeta
from tablestore.format.result_tables import result_schema
from tablestore.format.snapshot import Snapshot
from tablestore.meta import changelogs, expiry_rules, refs
from tablestore.meta.entries import EMPTY
from tablestore.meta.expiry_rules import Bound, ExpirePolicy, moment
from tablestore.meta.store import Store

COLUMNS = ["kind", "partition", "bucket", "file_name", "file_size", "extra_files", "external_path"]
_NO_ROWS = EMPTY.table.select(COLUMNS)
AT_ONCE = 500  # snapshots whose lists, and manifests that are read together
Manifests = Sequence[ManifestFileMeta]
Lists = tuple[Manifests, Manifests]  # base, delta


def parts(run: Sequence[Snapshot]) -> Iterator[Sequence[Snapshot]]:
    """Snapshots whose lists and manifests are read together."""
    for at in range(0, len(run), AT_ONCE):
        yield run[at : at + AT_ONCE]


def lists_of(store: Store, s: Snapshot) -> Lists:
    """The base and the delta list of a snapshot."""
    base, delta = store.manifests.read_lists([s.base_manifest_list, s.delta_manifest_list])
    return base, delta


def entries_of(store: Store, ids: Sequence[int], lists: Sequence[Manifests]) -> tuple[pa.Table, np.ndarray]:
    """The entries of the manifests of these lists in order, and for each the id that its list is of."""
    manifests = [m for some in lists for m in some]
    owners = np.repeat(np.array(ids, dtype=np.int64), [len(some) for some in lists])
    tables, counts = [_NO_ROWS], list[int]()
    for at in range(0, len(manifests), AT_ONCE):
        read = store.manifests.each(manifests[at : at + AT_ONCE])
        tables.append(pa.concat_tables([e.table.select(COLUMNS) for e in read]))
        counts += map(len, read)
    return pa.concat_tables(tables).combine_chunks(), np.repeat(owners, counts)


def paths_of(book: ClaimIndex, rows: pa.Table) -> tuple[np.ndarray, pa.Array]:
    """Place and whole path of each entry."""
    encoded = rows.column("partition").combine_chunks().dictionary_encode()
    partitions, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
    buckets = rows.column("bucket").to_numpy().astype(np.int64)
    pairs, inverse = np.unique(codes << 32 | buckets & 0xFFFFFFFF, return_inverse=True)
    numbers = (pairs & 0xFFFFFFFF).astype(np.uint32).astype(np.int32).tolist()
    pair_places = [book.place(partitions[p], b) for p, b in zip((pairs >> 32).tolist(), numbers, strict=True)]
    places = np.array(pair_places, dtype=np.int32)[inverse] if len(pair_places) else np.zeros(0, np.int32)
    folders = pc.take(pa.array(book.folders, pa.large_string()), pa.array(places))
    slash = pa.scalar("/", pa.large_string())
    paths = pc.binary_join_element_wise(folders, rows.column("file_name").combine_chunks(), slash)
    outside = rows.column("external_path").combine_chunks()
    if outside.null_count < len(outside):
        local = pc.replace_substring_regex(outside, "^file:/*", "/")
        paths = pc.coalesce(local, paths)
    return places, paths


def files_beside(rows: pa.Table, paths: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Of each file beside a data file: the row of that, and the path."""
    extra = rows.column("extra_files").combine_chunks()
    parents = pc.list_parent_indices(extra)
    folders = pc.replace_substring_regex(paths, "[^/]*$", "").take(parents)
    nothing = pa.scalar("", pa.large_string())
    return parents, pc.binary_join_element_wise(folders, pc.list_flatten(extra), nothing)


SNAPSHOTS, TAG, BRANCH, CHANGELOG, COMING = "snapshots", "tag", "branch", "changelog", "coming changelog"
CONSUMER, TABLE, LEFT = "consumer", "table", "left"
KINDS = (
    *("data", "file index", "changelog", "index", "manifest", "manifest list", "index manifest"),
    *(
        "statistics",
        "snapshot",
        "schema",
        "tag",
        "consumer",
        "hint",
        "checksum",
        "history",
        "temporary",
        "unknown",
    ),
)
SCHEMA = result_schema(
    "path large_string, kind int8, holder int32, first int64, last int64, written int64, bytes int64, "
    "place int32, sure bool"
)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who needs files: this branch's snapshots, one of its tags or consumers, its long-lived changelogs,
    another branch, or the table itself. LEFT: nobody, but the expiry of a changelog will remove them; COMING:
    the changelogs that snapshots will leave when they expire."""

    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Claims:
    """Rows of SCHEMA; `holder` is a position in `holders`, `place` in `places`: (partition text, bucket)."""

    table: pa.Table
    holders: tuple[Holder, ...]
    places: tuple[tuple[str, int], ...]


@dataclass
class ClaimIndex:
    """Claims as they are collected. Grows; one thread."""

    store: Store
    holders: dict[Holder, int] = field(default_factory=dict)
    places: dict[tuple[bytes, int], int] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    parts: list[pa.Table] = field(default_factory=list)
    indexes: dict[str, list[IndexEntry]] = field(default_factory=dict)

    def add(self, paths: pa.Array | Sequence[str], kind: str, holder: Holder, **columns: object) -> None:
        """Claims of one kind and holder; `columns` are arrays, or one value for all of them."""
        rows = len(paths)
        if not rows:
            return
        code = self.holders.setdefault(holder, len(self.holders))
        values = {"path": paths, "kind": KINDS.index(kind), "holder": code, "sure": True, **columns}
        arrays = [_column(values.get(f.name), f.type, rows) for f in SCHEMA]
        self.parts.append(pa.Table.from_arrays(arrays, schema=SCHEMA))

    def place(self, partition: bytes, bucket: int) -> int:
        """The number of a bucket."""
        place = self.places.get((partition, bucket))
        if place is None:
            place = self.places[partition, bucket] = len(self.places)
            self.folders.append(self.store.bucket_dir(partition, bucket))
        return place

    def index_entries(self, store: Store, snapshot: Snapshot) -> list[IndexEntry]:
        """The index files of a snapshot; many share one index manifest, which is read once."""
        name = snapshot.index_manifest or ""
        if name not in self.indexes:
            self.indexes[name] = store.manifests.index_entries(snapshot)
        return self.indexes[name]

    def closed(self) -> Claims:
        """All that was collected."""
        table = pa.concat_tables(self.parts) if self.parts else SCHEMA.empty_table()
        table = pa.concat_tables([table, _checksums(table, self.store.paths.checksums_dir)])
        places = tuple((self.store.partition_text(p), b) for p, b in self.places)
        return Claims(table.combine_chunks(), tuple(self.holders), places)


def _checksums(claims: pa.Table, folder: str) -> pa.Table:
    """Claims of the checksum files that data files of some formats may have: who needs those needs these."""
    data = pc.is_in(claims["kind"], pa.array([KINDS.index(k) for k in ("data", "changelog")], pa.int8()))
    some = claims.filter(
        pc.and_(data, pc.match_substring_regex(claims["path"], rf"\.({'|'.join(FORMATS)})$"))
    )
    names = pc.replace_substring_regex(some["path"], "^.*/", "")
    parent, nothing = (pa.scalar(text, pa.large_string()) for text in (f"{folder}/", ""))
    values = {
        "path": pc.binary_join_element_wise(parent, names, nothing),
        "kind": KINDS.index("checksum"),
        "bytes": None,
        "sure": False,
    }
    arrays = [_column(values.get(f.name, some[f.name]), f.type, len(some)) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _column(value: object, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array):
        return value if value.type == kind else value.cast(kind)
    if isinstance(value, np.ndarray | list | tuple):
        return pa.array(value, kind)
    return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)


LIVE, KEPT, FREE, FOREIGN, MISSING = "live", "kept", "free", "foreign", "missing"
STATES = (LIVE, KEPT, FREE, FOREIGN, MISSING)


@dataclass(frozen=True, slots=True)
class Needs:
    """Who needs a file: the last of this branch's snapshots and of its long-lived changelogs that read it,
    the last snapshot whose changelog will, once that has expired, and the other holders."""

    snapshot: int | None
    changelog: int | None
    coming: int | None
    others: tuple[Holder, ...]

    def names(self, kind: str) -> list[str]:
        """Names of the holders of one kind."""
        return [h.name for h in self.others if h.kind == kind]


@dataclass(frozen=True, slots=True)
class Release:
    """When a file goes. `after_ms` (epoch): no earlier than that; `after_snapshot`: no earlier than this
    snapshot is there; None if it is not a matter of time, or of commits, alone."""

    state: str
    text: str
    consumers: tuple[str, ...] = ()
    after_ms: int | None = None
    after_snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class _Wait:
    """One of the things that must happen, and what of them is a matter of time or of commits alone."""

    text: str
    after_ms: int | None = None
    after_snapshot: int | None = None
    consumers: tuple[str, ...] = ()


class Releases:
    """The table's retention as it is now. Immutable once made."""

    def __init__(self, store: Store) -> None:
        snapshots = store.snapshots.all()
        self._times = {s.id: s.time_millis for s in snapshots}
        self._ids = sorted(self._times)
        self._policy = ExpirePolicy.of(store)
        latest = snapshots[-1] if snapshots else None
        self._lasting_policy = ExpirePolicy.of_changelogs(store)
        self._lasting = {c.id: c.time_millis for c in changelogs.all_of(store)}
        self._lasting_holds = expiry_rules.consumer_bounds(store, changelogs=True)
        self._holds = [*expiry_rules.consumer_bounds(store), *expiry_rules.position_bounds(store, latest)]
        self._write_only, self._now = store.options.write_only, store.env.now_ms()
        self._tags = {t.name: t for t in refs.all_tags(store)}
        self._tags_end = store.options.tag_expire_enabled
        self._local_now = store.env.local_now_ms()
        self._age = store.options.consumer_expiration_ms

    @property
    def newest(self) -> int | None:
        """Id of the newest snapshot."""
        return self._ids[-1] if self._ids else None

    def of(self, needs: Needs) -> Release:
        """What must happen before a file with these needs is freed."""
        if any(h.kind == TABLE for h in needs.others):
            return Release(LIVE, "with the table")
        if needs.snapshot is not None and needs.snapshot == self.newest:
            return Release(LIVE, f"live: snapshot {needs.snapshot}, the newest, reads it")
        for name in needs.names(CONSUMER):
            return Release(KEPT, self._consumer(name))
        waits = list[_Wait]()
        if needs.snapshot is not None:
            waits.append(self._snapshot(needs.snapshot))
        waits += [self._tag(name) for name in needs.names(TAG)]
        waits += [_Wait(f"branch {name} is deleted or lets it go") for name in needs.names(BRANCH)]
        lasting = max((i for i in (needs.changelog, needs.coming) if i is not None), default=None)
        if lasting is not None:
            waits.append(self._changelog(lasting))
        times = [w.after_ms for w in waits]
        return Release(
            KEPT,
            "when " + " and ".join(w.text for w in waits),
            tuple(dict.fromkeys(name for w in waits for name in w.consumers)),
            None if None in times else max((t for t in times if t is not None), default=None),
            max((w.after_snapshot for w in waits if w.after_snapshot is not None), default=None),
        )

    def _snapshot(self, snapshot_id: int) -> _Wait:
        """What decides when this snapshot expires."""
        after = bisect_right(self._ids, snapshot_id)
        successor = self._times[self._ids[after]] if after < len(self._ids) else self._now
        return self._expires(f"snapshot {snapshot_id}", snapshot_id, self._policy, successor, self._holds)

    def _changelog(self, snapshot_id: int) -> _Wait:
        """What decides when this long-lived changelog expires, or the one that the snapshot will leave. The
        newest one stays, so the snapshot after it must have expired, too."""
        created = self._times.get(snapshot_id, self._lasting.get(snapshot_id, self._now))
        what = f"long-lived changelog {snapshot_id}"
        own = self._expires(what, snapshot_id, self._lasting_policy, created, self._lasting_holds)
        if snapshot_id + 1 not in self._times:
            return own
        after = self._snapshot(snapshot_id + 1)
        ends = None if own.after_ms is None or after.after_ms is None else max(own.after_ms, after.after_ms)
        enough = max(own.after_snapshot or 0, after.after_snapshot or 0)
        return replace(own, after_ms=ends, after_snapshot=enough)

    def _expires(
        self, what: str, snapshot_id: int, policy: ExpirePolicy, since_ms: int, bounds: list[Bound]
    ) -> _Wait:
        """When a snapshot that is as old as `since_ms`, or its changelog, expires by a policy."""
        newest, old_at, enough = self._ids[-1], since_ms + policy.age_ms, snapshot_id + policy.keep_min
        limit = snapshot_id + max(policy.keep_max, policy.keep_min)
        waits = []
        if newest >= limit:  # one too many, whatever its age
            old_at = self._now
        elif old_at > self._now:
            early = f" (or once snapshot {limit} is there)" if policy.keep_max < INFINITE else ""
            waits.append(f"not before {moment(old_at)}{early}")
        if newest < enough:
            waits.append(f"once snapshot {enough} is there")
        holding = [b for b in bounds if b.first <= snapshot_id]
        waits += [f"once {b.text} moved on" for b in holding]  # of a stream: with its next commit
        call = "with expire_snapshots()" if self._write_only else "with a commit"
        if waits:
            call = f"{', '.join(waits)}, {call}"
        names = tuple(b.name for b in holding if b.name)
        return _Wait(f"{what} expires: {call}", None if holding else old_at, enough, names)

    def _tag(self, name: str) -> _Wait:
        ends = self._tags[name].ends_ms if name in self._tags else None
        if ends is None or not self._tags_end or self._write_only:
            return _Wait(f"tag {name} is deleted")
        return _Wait(f"tag {name} ends: with a commit", self._now + (ends - self._local_now))

    def _consumer(self, name: str) -> str:
        later = "" if self._age is None else f", or has not moved for {expiry_rules.duration(self._age)}"
        return f"when consumer {name} is deleted{later}"
