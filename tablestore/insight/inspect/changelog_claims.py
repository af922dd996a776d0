"""Claims on what changes are read from: changelog files, and of long-lived changelogs without any, deltas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import FileMissing
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format.manifests.manifest import ADD, APPEND_SOURCE
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.insight.inspect.claim_book import (
    CHANGELOG,
    COLUMNS,
    COMING,
    LEFT,
    ClaimIndex,
    Holder,
    Lists,
    entries_of,
    files_beside,
    lists_of,
    paths_of,
)
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store


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
        places, paths = paths_of(book, store, rows)
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
        places, paths = paths_of(book, store, rows)
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
