"""Who needs which file: every snapshot, tag, branch and long-lived changelog with the paths it names.

A holder names a file over a span of snapshot ids. Spans are found from one full state and the deltas after
it, so a file costs a row a holder, not a row a snapshot; all by columns. A file is written by the snapshot
whose delta adds it, an upgrade writes nothing. What a changelog or a tag lists may be gone already (`sure` is
false then). Memory: a row a named file and holder. Used by `insight/inspect/attribution.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format.data_checksum import FORMATS
from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.format.manifests.manifest import ADD, APPEND_SOURCE, ManifestFileMeta
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.io.paths import join
from tablestore.meta import changelogs, consumers, refs
from tablestore.meta.entries import EMPTY, Entries
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.store import Store

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
SCHEMA = pa.schema(
    {
        "path": pa.large_string(),
        "kind": pa.int8(),
        "holder": pa.int32(),
        "first": pa.int64(),
        "last": pa.int64(),
        "written": pa.int64(),
        "bytes": pa.int64(),
        "place": pa.int32(),
        "sure": pa.bool_(),
    }
)
_COLUMNS = ["kind", "partition", "bucket", "file_name", "file_size", "extra_files", "external_path"]
_NO_ROWS = EMPTY.table.select(_COLUMNS)
_AT_ONCE = 500  # snapshots whose lists, and manifests that are read together
Manifests = Sequence[ManifestFileMeta]
Lists = tuple[Manifests, Manifests]  # base, delta


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


def claims(store: Store) -> Claims:
    """What all holders of the table name, from this branch's point of view."""
    book = _Book(store)
    _branch(book, store, None)
    for other in refs.other_branches(store):
        _branch(book, other, Holder(BRANCH, other.paths.branch))
    return book.closed()


def _branch(book: _Book, store: Store, whole: Holder | None) -> None:
    """All that one branch names, and its own files; `whole` holds all of it, None: each holder its own."""
    paths = store.paths
    snapshots, own = store.snapshots.all(), whole or Holder(SNAPSHOTS)
    for run in _runs(snapshots):
        _state(book, store, run, own)
    ids = [s.id for s in snapshots]
    book.add([paths.snapshot(i) for i in ids], "snapshot", own, first=ids, last=ids, written=ids)
    for tag in refs.all_tags(store):
        holder = whole or Holder(TAG, tag.name)
        _state(book, store, [tag.snapshot], holder, sure=False)
        book.add([paths.tag(tag.name)], "tag", holder)
    for kept in changelogs.all_of(store):
        holder = whole or Holder(CHANGELOG)
        _lasting(book, store, kept, holder)
        book.add([paths.changelog(kept.id)], "snapshot", holder, first=kept.id, last=kept.id)
    decoupled = bool(snapshots) and store.options.changelog_decoupled
    for s in snapshots[:-1] if decoupled and whole is None else ():
        _lasting(book, store, s, Holder(COMING))
    if decoupled and not _has_changelog_files(store):
        first = snapshots[0]
        span = {"first": first.id, "last": first.id, "sure": False}
        _left(book, store, store.manifests.delta_entries(first), whole or Holder(LEFT), span)
    for name in consumers.names(store):
        holder = whole or Holder(CONSUMER, name)
        book.add([join(paths.consumer_dir, f"consumer-{name}")], "consumer", holder)
    held = whole or Holder(TABLE)
    schemas = SchemaStore(store.io, paths).ids()
    book.add([paths.schema(i) for i in schemas], "schema", held)
    hints = [join(d, n) for d in (paths.snapshot_dir, paths.changelog_dir) for n in ("EARLIEST", "LATEST")]
    book.add(hints, "hint", held, sure=False)


@dataclass
class _Book:
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
        given = {"path": paths, "kind": KINDS.index(kind), "holder": code, "sure": True, **columns}
        arrays = [_column(given.get(f.name), f.type, rows) for f in SCHEMA]
        self.parts.append(pa.Table.from_arrays(arrays, schema=SCHEMA))

    def place(self, partition: bytes, bucket: int) -> int:
        """The number of a bucket."""
        found = self.places.get((partition, bucket))
        if found is None:
            found = self.places[partition, bucket] = len(self.places)
            self.folders.append(self.store.bucket_dir(partition, bucket))
        return found

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
    given = {
        "path": pc.binary_join_element_wise(parent, names, nothing),
        "kind": KINDS.index("checksum"),
        "bytes": None,
        "sure": False,
    }
    arrays = [_column(given.get(f.name, some[f.name]), f.type, len(some)) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _column(value: object, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array):
        return value if value.type == kind else value.cast(kind)
    if isinstance(value, np.ndarray | list | tuple):
        return pa.array(value, kind)
    return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)


def _runs(snapshots: Sequence[Snapshot]) -> Iterator[list[Snapshot]]:
    """Snapshots each made on top of the one before; a rollback to an expired one leaves a gap."""
    run: list[Snapshot] = []
    for s in snapshots:
        if run and s.id != run[-1].id + 1:
            yield run
            run = []
        run.append(s)
    if run:
        yield run


def _state(book: _Book, store: Store, run: Sequence[Snapshot], holder: Holder, *, sure: bool = True) -> None:
    """All that the snapshots of a run read; `sure`: whether their changelog files must be there, else the run
    is of one snapshot."""
    deltas = store.manifests.read_lists([s.delta_manifest_list for s in run])
    _data(book, store, run, deltas, holder)
    _metadata(book, store, run, deltas, holder)
    _named_by_index(book, store, run, holder)
    for some in _parts(run):
        _changelogs(book, store, some, holder, sure=sure)


def _parts(run: Sequence[Snapshot]) -> Iterator[Sequence[Snapshot]]:
    """Snapshots whose lists and manifests are read together."""
    for at in range(0, len(run), _AT_ONCE):
        yield run[at : at + _AT_ONCE]


def _lists(store: Store, s: Snapshot) -> Lists:
    base, delta = store.manifests.read_lists([s.base_manifest_list, s.delta_manifest_list])
    return base, delta


def _entries(store: Store, ids: Sequence[int], lists: Sequence[Manifests]) -> tuple[pa.Table, np.ndarray]:
    """The entries of the manifests of these lists in order, and for each the id that its list is of."""
    manifests = [m for some in lists for m in some]
    owners = np.repeat(np.array(ids, dtype=np.int64), [len(some) for some in lists])
    tables, counts = [_NO_ROWS], list[int]()
    for at in range(0, len(manifests), _AT_ONCE):
        read = store.manifests.each(manifests[at : at + _AT_ONCE])
        tables.append(pa.concat_tables([e.table.select(_COLUMNS) for e in read]))
        counts += map(len, read)
    return pa.concat_tables(tables).combine_chunks(), np.repeat(owners, counts)


def _data(
    book: _Book, store: Store, run: Sequence[Snapshot], deltas: Sequence[Manifests], holder: Holder
) -> None:
    """Data files and the files beside them, each over the span of snapshots that read it."""
    first = run[0].id
    base = store.manifests.read_list(run[0].base_manifest_list)
    state = store.manifests.read_manifests([*base, *deltas[0]]).live().table.select(_COLUMNS)
    changes, changed = _entries(store, [s.id for s in run], deltas)
    rows = pa.concat_tables([state, changes]).combine_chunks()
    ids = np.concatenate([np.full(len(state), first, dtype=np.int64), changed])
    from_delta = np.arange(len(rows)) >= len(state)
    adding = rows.column("kind").to_numpy() == ADD
    live = np.where(adding, 1, -1) * ~(from_delta & (ids == first))  # the first state has its own delta in it
    places, names = _paths(book, store, rows)
    found = pa.table(
        {
            "path": names,
            "id": ids,
            "live": live,
            "there": np.where(live > 0, 1, 0),
            "wrote": np.where(from_delta & adding, 1, 0),
            "gone": np.where(from_delta & ~adding, 1, 0),
            "place": places,
            "bytes": rows.column("file_size"),
        }
    )
    _spans(book, found, run[-1].id, "data", holder)
    parents, beside = _beside(rows, names)
    if len(parents):
        found = found.take(parents).set_column(0, "path", beside)
        nothing = pa.nulls(len(parents), pa.int64())
        _spans(book, found.set_column(7, "bytes", nothing), run[-1].id, "file index", holder)


def _beside(rows: pa.Table, paths: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Of each file beside a data file: the row of that, and the path."""
    extra = rows.column("extra_files").combine_chunks()
    parents = pc.list_parent_indices(extra)
    folders = pc.replace_substring_regex(paths, "[^/]*$", "").take(parents)
    nothing = pa.scalar("", pa.large_string())
    return parents, pc.binary_join_element_wise(folders, pc.list_flatten(extra), nothing)


def _paths(book: _Book, store: Store, rows: pa.Table) -> tuple[np.ndarray, pa.Array]:
    """Place and whole path of each entry."""
    encoded = rows.column("partition").combine_chunks().dictionary_encode()
    partitions, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
    buckets = rows.column("bucket").to_numpy().astype(np.int64)
    pairs, inverse = np.unique(codes << 32 | buckets & 0xFFFFFFFF, return_inverse=True)
    numbers = (pairs & 0xFFFFFFFF).astype(np.uint32).astype(np.int32).tolist()
    known = [book.place(partitions[p], b) for p, b in zip((pairs >> 32).tolist(), numbers, strict=True)]
    places = np.array(known, dtype=np.int32)[inverse] if len(known) else np.zeros(0, np.int32)
    folders = pc.take(pa.array(book.folders, pa.large_string()), pa.array(places))
    slash = pa.scalar("/", pa.large_string())
    paths = pc.binary_join_element_wise(folders, rows.column("file_name").combine_chunks(), slash)
    outside = rows.column("external_path").combine_chunks()
    if outside.null_count < len(outside):
        local = pc.replace_substring_regex(outside, "^file:/*", "/")
        paths = pc.coalesce(local, paths)
    return places, paths


def _spans(book: _Book, found: pa.Table, newest: int, kind: str, holder: Holder) -> None:
    """One claim a path: from the snapshot that added it to the one before its deletion, else to `newest`."""
    sums = [(c, "sum") for c in ("live", "there", "wrote", "gone")]
    each = found.group_by(["path", "id"]).aggregate([*sums, ("place", "min"), ("bytes", "max")])
    ids, nulls = each["id"], pa.scalar(None, pa.int64())
    each = pa.table(
        {
            "path": each["path"],
            "live": each["live_sum"],
            "first": pc.if_else(pc.greater(each["there_sum"], 0), ids, nulls),
            "deleted": pc.if_else(pc.less(each["live_sum"], 0), ids, nulls),
            "written": pc.if_else(
                pc.and_(pc.greater(each["wrote_sum"], 0), pc.equal(each["gone_sum"], 0)), ids, nulls
            ),
            "place": each["place_min"],
            "bytes": each["bytes_max"],
        }
    )
    low, high = ("first", "written", "place"), ("deleted", "bytes")
    made = each.group_by("path").aggregate(
        [("live", "sum"), *((c, "min") for c in low), *((c, "max") for c in high)]
    )
    made = made.filter(pc.is_valid(made["first_min"]))
    until = pc.coalesce(pc.subtract(made["deleted_max"], 1), made["first_min"])
    last = pc.if_else(pc.greater(made["live_sum"], 0), pa.scalar(newest, pa.int64()), until)
    book.add(
        made["path"].combine_chunks(),
        kind,
        holder,
        first=made["first_min"],
        last=last,
        written=made["written_min"],
        bytes=made["bytes_max"],
        place=made["place_min"],
    )


def _metadata(
    book: _Book, store: Store, run: Sequence[Snapshot], deltas: Sequence[Manifests], holder: Holder
) -> None:
    """Manifest lists and manifests. A manifest of a delta was written with it; one that a base list names
    first, with that list (a merge), unless that is the first list of the run."""
    paths, ids = store.paths, [s.id for s in run]
    for names in ([s.base_manifest_list for s in run], [s.delta_manifest_list for s in run]):
        book.add(
            [paths.manifest(n) for n in names], "manifest list", holder, first=ids, last=ids, written=ids
        )
    spans: dict[str, list[int | None]] = {}
    own = iter(deltas)
    for some in _parts(run):
        bases = store.manifests.read_lists([s.base_manifest_list for s in some])
        for s, base in zip(some, bases, strict=True):
            merged = s.id if s.id > run[0].id or s.id == 1 else None
            for m in base:
                spans.setdefault(m.file_name, [s.id, s.id, merged, m.file_size])[1] = s.id
            for m in next(own):
                spans.setdefault(m.file_name, [s.id, s.id, s.id, m.file_size])[1] = s.id
    first, last, written, size = map(list, zip(*spans.values(), strict=True)) if spans else ([], [], [], [])
    named = [paths.manifest(n) for n in spans]
    book.add(named, "manifest", holder, first=first, last=last, written=written, bytes=size)


def _named_by_index(book: _Book, store: Store, run: Sequence[Snapshot], holder: Holder) -> None:
    """Index manifests, index files and statistics."""
    spans: dict[tuple[str, str], list[int | None]] = {}

    def named(path: str, kind: str, s: Snapshot, size: int | None, place: int | None) -> None:
        written = s.id if s.id > run[0].id or s.id == 1 else None
        spans.setdefault((path, kind), [s.id, s.id, written, size, place])[1] = s.id

    for s in run:
        if s.index_manifest is not None:
            named(store.paths.manifest(s.index_manifest), "index manifest", s, None, None)
            for e in book.index_entries(store, s):
                path = store.index_path(e.partition, e.bucket, e.file)
                named(path, "index", s, e.file.file_size, book.place(e.partition, e.bucket))
        if s.statistics is not None:
            named(store.paths.statistics(s.statistics), "statistics", s, None, None)
    for kind in ("index manifest", "index", "statistics"):
        some = {path: span for (path, of), span in spans.items() if of == kind}
        if some:
            first, last, written, size, place = map(list, zip(*some.values(), strict=True))
            columns = {"first": first, "last": last, "written": written, "bytes": size, "place": place}
            book.add(list(some), kind, holder, **columns)


def _changelogs(
    book: _Book, store: Store, run: Sequence[Snapshot], holder: Holder, *, sure: bool = True
) -> None:
    """Changelog files of snapshots with their lists and manifests; unless `sure`, those of one that may be
    gone."""
    lists = {s.id: s.changelog_manifest_list for s in run if s.changelog_manifest_list is not None}
    ids, names = list(lists), list(lists.values())
    try:
        manifests = store.manifests.read_lists(names)
        rows, told = _entries(store, ids, manifests)
    except Corrupt as e:
        if sure or e.problem != "the file is missing":
            raise
        return

    def add(paths: pa.Array | Sequence[str], kind: str, of: object, **columns: object) -> None:
        book.add(paths, kind, holder, first=of, last=of, written=of, sure=sure, **columns)

    add([store.paths.manifest(n) for n in names], "manifest list", ids)
    owners = np.repeat(ids, [len(some) for some in manifests])
    every = [m for some in manifests for m in some]
    add(
        [store.paths.manifest(m.file_name) for m in every],
        "manifest",
        owners,
        bytes=[m.file_size for m in every],
    )
    adding = rows.column("kind").to_numpy() == ADD
    rows, told = rows.filter(pa.array(adding)), told[adding]
    if len(rows):
        places, paths = _paths(book, store, rows)
        add(paths, "changelog", told, bytes=rows.column("file_size"), place=places)


def _lasting(book: _Book, store: Store, s: Snapshot, holder: Holder) -> None:
    """What a long-lived changelog is read from: changelog files, else what its delta added."""
    if s.changelog_manifest_list is not None:
        _changelogs(book, store, [s], holder, sure=False)
    elif not _has_changelog_files(store):
        try:
            base, delta = _lists(store, s)
            _from_delta(book, store, s, (base, delta), holder)
        except Corrupt as e:  # some of it went already
            if e.problem != "the file is missing":
                raise


def _from_delta(book: _Book, store: Store, s: Snapshot, lists: Lists, holder: Holder) -> None:
    span = {"first": s.id, "last": s.id, "sure": False}
    left = Holder(LEFT) if holder.kind == CHANGELOG else holder
    base, delta = ([store.paths.manifest(m.file_name) for m in some] for some in lists)
    named = [store.paths.manifest(n) for n in (s.base_manifest_list, s.delta_manifest_list)]
    book.add(named, "manifest list", holder, written=s.id, **span)
    book.add(delta, "manifest", holder, written=s.id, **span)
    book.add(base, "manifest", left, **span)  # nobody reads them, and they stay as long
    entries = store.manifests.read_manifests(lists[1])
    added = entries.filter((entries.numbers("kind") == ADD) & _by_writers(entries))
    rows = added.table.select(_COLUMNS).combine_chunks()
    written = None if s.commit_kind == COMPACT else s.id  # an upgrade writes nothing
    _files(book, store, rows, holder, {**span, "written": written})
    # of a snapshot that is there still, what compactions made goes with it
    _left(book, store, entries.filter(_by_writers(entries)) if holder.kind == COMING else entries, left, span)


def _by_writers(entries: Entries) -> np.ndarray:
    """Files that no compaction made: what a changelog without files of its own is read from."""
    return pc.fill_null(entries.table.column("file_source"), APPEND_SOURCE).to_numpy() == APPEND_SOURCE


def _files(book: _Book, store: Store, rows: pa.Table, holder: Holder, span: dict[str, object]) -> None:
    """Data files of entries and what lies beside them."""
    if len(rows):
        places, paths = _paths(book, store, rows)
        book.add(paths, "data", holder, **span, bytes=rows.column("file_size"), place=places)
        parents, beside = _beside(rows, paths)
        book.add(beside, "file index", holder, **span, place=places[parents.to_numpy()])


def _has_changelog_files(store: Store) -> bool:
    return bool(store.schema.primary_keys) and store.options.changelog_producer is not ChangelogProducer.NONE


def _left(book: _Book, store: Store, entries: Entries, holder: Holder, span: dict[str, object]) -> None:
    """Files that the delta deleted: where an older changelog kept them, this one's expiry frees them."""
    rows = entries.filter(entries.numbers("kind") != ADD).table.select(_COLUMNS).combine_chunks()
    _files(book, store, rows, holder, span)
