"""Who needs which file: every snapshot, tag, branch and long-lived changelog with the paths it names.

A holder names a file over a span of snapshot ids. Spans are found from one full state and the deltas after
it, so a file costs a row a holder, not a row a snapshot; all by columns. A file is written by the snapshot
whose delta adds it, an upgrade writes nothing. Changes are read from changelog files, those of long-lived
changelogs without any from deltas. What a changelog or a tag lists may be gone already (`sure` is false
then). Memory: a row a named file and holder. Used by `insight/inspect/storage.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import FileMissing
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format.manifests.manifest import ADD, APPEND_SOURCE
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.insight.inspect.claim_book import (
    BRANCH,
    CHANGELOG,
    COLUMNS,
    COMING,
    CONSUMER,
    LEFT,
    SNAPSHOTS,
    TABLE,
    TAG,
    ClaimIndex,
    Claims,
    Holder,
    Lists,
    Manifests,
    entries_of,
    files_beside,
    lists_of,
    parts,
    paths_of,
)
from tablestore.io.paths import join
from tablestore.meta import changelogs, consumers, refs
from tablestore.meta.entries import Entries
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.store import Store


def claims(store: Store) -> Claims:
    """What all holders of the table name, from this branch's point of view."""
    book = ClaimIndex(store)
    _branch(book, store, None)
    for other in refs.other_branches(store):
        _branch(book, other, Holder(BRANCH, other.paths.branch))
    return book.closed()


def _branch(book: ClaimIndex, store: Store, whole: Holder | None) -> None:
    """All that one branch names, and its own files; `whole` holds all of it, None: each holder its own."""
    paths = store.paths
    snapshots, own = store.snapshots.all(), whole or Holder(SNAPSHOTS)
    for run in _runs(snapshots):
        with store.manifests.expiring(*run):
            claim_state(book, store, run, own)
    ids = [s.id for s in snapshots]
    book.add([paths.snapshot(i) for i in ids], "snapshot", own, first=ids, last=ids, written=ids)
    for tag in refs.all_tags(store):
        holder = whole or Holder(TAG, tag.name)
        with store.manifests.expiring(tag.snapshot):
            claim_state(book, store, [tag.snapshot], holder, sure=False)
        book.add([paths.tag(tag.name)], "tag", holder)
    for kept in changelogs.all_of(store):
        holder = whole or Holder(CHANGELOG)
        claim_lasting(book, store, kept, holder)
        book.add([paths.changelog(kept.id)], "snapshot", holder, first=kept.id, last=kept.id)
    decoupled = bool(snapshots) and store.options.changelog_decoupled
    for s in snapshots[:-1] if decoupled and whole is None else ():
        claim_lasting(book, store, s, Holder(COMING))
    if decoupled and not has_changelog_files(store):
        first = snapshots[0]
        span = {"first": first.id, "last": first.id, "sure": False}
        claim_left(book, store, store.manifests.delta_entries(first), whole or Holder(LEFT), span)
    for name in consumers.names(store):
        holder = whole or Holder(CONSUMER, name)
        book.add([join(paths.consumer_dir, f"consumer-{name}")], "consumer", holder)
    own_files = whole or Holder(TABLE)
    schemas = SchemaStore(store.io, paths).ids()
    book.add([paths.schema(i) for i in schemas], "schema", own_files)
    hints = [join(d, n) for d in (paths.snapshot_dir, paths.changelog_dir) for n in ("EARLIEST", "LATEST")]
    book.add(hints, "hint", own_files, sure=False)


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


def claim_state(
    book: ClaimIndex, store: Store, run: Sequence[Snapshot], holder: Holder, *, sure: bool = True
) -> None:
    """All that the snapshots of a run read; `sure`: whether their changelog files must be there, else the run
    is of one snapshot."""
    deltas = store.manifests.read_lists([s.delta_manifest_list for s in run])
    _claim_data(book, store, run, deltas, holder)
    _claim_metadata(book, store, run, deltas, holder)
    _claim_indexes(book, store, run, holder)
    for some in parts(run):
        claim_changelogs(book, store, some, holder, sure=sure)


def _claim_data(
    book: ClaimIndex, store: Store, run: Sequence[Snapshot], deltas: Sequence[Manifests], holder: Holder
) -> None:
    """Data files and the files beside them, each over the span of snapshots that read it."""
    first = run[0].id
    base = store.manifests.read_list(run[0].base_manifest_list)
    state = store.manifests.read_manifests([*base, *deltas[0]]).live().table.select(COLUMNS)
    changes, changed = entries_of(store, [s.id for s in run], deltas)
    rows = pa.concat_tables([state, changes]).combine_chunks()
    ids = np.concatenate([np.full(len(state), first, dtype=np.int64), changed])
    from_delta = np.arange(len(rows)) >= len(state)
    adding = rows.column("kind").to_numpy() == ADD
    live = np.where(adding, 1, -1) * ~(from_delta & (ids == first))  # the first state has its own delta in it
    places, names = paths_of(book, rows)
    claims = pa.table(
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
    _claim_spans(book, claims, run[-1].id, "data", holder)
    parents, beside = files_beside(rows, names)
    if len(parents):
        claims = claims.take(parents).set_column(0, "path", beside)
        nothing = pa.nulls(len(parents), pa.int64())
        _claim_spans(book, claims.set_column(7, "bytes", nothing), run[-1].id, "file index", holder)


def _claim_spans(book: ClaimIndex, claims: pa.Table, newest: int, kind: str, holder: Holder) -> None:
    """One claim a path: from the snapshot that added it to the one before its deletion, else to `newest`."""
    sums = [(c, "sum") for c in ("live", "there", "wrote", "gone")]
    each = claims.group_by(["path", "id"]).aggregate([*sums, ("place", "min"), ("bytes", "max")])
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
    spans = each.group_by("path").aggregate(
        [("live", "sum"), *((c, "min") for c in low), *((c, "max") for c in high)]
    )
    spans = spans.filter(pc.is_valid(spans["first_min"]))
    until = pc.coalesce(pc.subtract(spans["deleted_max"], 1), spans["first_min"])
    last = pc.if_else(pc.greater(spans["live_sum"], 0), pa.scalar(newest, pa.int64()), until)
    book.add(
        spans["path"].combine_chunks(),
        kind,
        holder,
        first=spans["first_min"],
        last=last,
        written=spans["written_min"],
        bytes=spans["bytes_max"],
        place=spans["place_min"],
    )


def _claim_metadata(
    book: ClaimIndex, store: Store, run: Sequence[Snapshot], deltas: Sequence[Manifests], holder: Holder
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
    for some in parts(run):
        bases = store.manifests.read_lists([s.base_manifest_list for s in some])
        for s, base in zip(some, bases, strict=True):
            merged = s.id if s.id > run[0].id or s.id == 1 else None
            for maker, some_manifests in ((merged, base), (s.id, next(own))):
                for m in some_manifests:
                    spans.setdefault(m.file_name, [s.id, s.id, maker, m.file_size])[1] = s.id
                    for extra in m.extra_files:
                        spans.setdefault(extra, [s.id, s.id, maker, None])[1] = s.id
    first, last, written, size = map(list, zip(*spans.values(), strict=True)) if spans else ([], [], [], [])
    named = [paths.manifest(n) for n in spans]
    book.add(named, "manifest", holder, first=first, last=last, written=written, bytes=size)


def _claim_indexes(book: ClaimIndex, store: Store, run: Sequence[Snapshot], holder: Holder) -> None:
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


def claim_changelogs(
    book: ClaimIndex, store: Store, run: Sequence[Snapshot], holder: Holder, *, sure: bool = True
) -> None:
    """Changelog files of snapshots with their lists and manifests; unless `sure`, those of one that may be
    gone."""
    lists = {s.id: s.changelog_manifest_list for s in run if s.changelog_manifest_list is not None}
    ids, names = list(lists), list(lists.values())
    try:
        manifests = store.manifests.read_lists(names)
        rows, ids_of_rows = entries_of(store, ids, manifests)
    except FileMissing:
        if sure:
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
    for owner, m in zip(owners.tolist(), every, strict=True):
        add([store.paths.manifest(extra) for extra in m.extra_files], "manifest", owner)
    adding = rows.column("kind").to_numpy() == ADD
    rows, ids_of_rows = rows.filter(pa.array(adding)), ids_of_rows[adding]
    if len(rows):
        places, paths = paths_of(book, rows)
        add(paths, "changelog", ids_of_rows, bytes=rows.column("file_size"), place=places)


def claim_lasting(book: ClaimIndex, store: Store, s: Snapshot, holder: Holder) -> None:
    """What a long-lived changelog is read from: changelog files, else what its delta added."""
    if s.changelog_manifest_list is not None:
        claim_changelogs(book, store, [s], holder, sure=False)
    elif not has_changelog_files(store):
        try:
            base, delta = lists_of(store, s)
            _claim_delta(book, store, s, (base, delta), holder)
        except FileMissing:
            return  # some of it went already


def _claim_delta(book: ClaimIndex, store: Store, s: Snapshot, lists: Lists, holder: Holder) -> None:
    span = {"first": s.id, "last": s.id, "sure": False}
    left = Holder(LEFT) if holder.kind == CHANGELOG else holder
    base, delta = ([store.paths.manifest(n) for m in some for n in m.names] for some in lists)
    named = [store.paths.manifest(n) for n in (s.base_manifest_list, s.delta_manifest_list)]
    book.add(named, "manifest list", holder, written=s.id, **span)
    book.add(delta, "manifest", holder, written=s.id, **span)
    book.add(base, "manifest", left, **span)  # nobody reads them, and they stay as long
    entries = store.manifests.read_manifests(lists[1])
    added = entries.filter((entries.numbers("kind") == ADD) & _by_writers(entries))
    rows = added.table.select(COLUMNS).combine_chunks()
    written = None if s.commit_kind == COMPACT else s.id  # an upgrade writes nothing
    _claim_files(book, store, rows, holder, {**span, "written": written})
    # of a snapshot that is there still, what compactions made goes with it
    claim_left(
        book, store, entries.filter(_by_writers(entries)) if holder.kind == COMING else entries, left, span
    )


def _by_writers(entries: Entries) -> np.ndarray:
    """Files that no compaction made: what a changelog without files of its own is read from."""
    return pc.fill_null(entries.table.column("file_source"), APPEND_SOURCE).to_numpy() == APPEND_SOURCE


def _claim_files(
    book: ClaimIndex, store: Store, rows: pa.Table, holder: Holder, span: Mapping[str, int | bool | None]
) -> None:
    """Data files of entries and what lies beside them."""
    if len(rows):
        places, paths = paths_of(book, rows)
        book.add(paths, "data", holder, **span, bytes=rows.column("file_size"), place=places)
        parents, beside = files_beside(rows, paths)
        book.add(beside, "file index", holder, **span, place=places[parents.to_numpy()])


def has_changelog_files(store: Store) -> bool:
    """Whether changes are written as files of their own."""
    return bool(store.schema.primary_keys) and store.options.changelog_producer is not ChangelogProducer.NONE


def claim_left(
    book: ClaimIndex, store: Store, entries: Entries, holder: Holder, span: Mapping[str, int | bool | None]
) -> None:
    """Files that the delta deleted: where an older changelog kept them, this one's expiry frees them."""
    rows = entries.filter(entries.numbers("kind") != ADD).table.select(COLUMNS).combine_chunks()
    _claim_files(book, store, rows, holder, span)
