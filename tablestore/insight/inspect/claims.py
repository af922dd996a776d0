"""Who needs which file: every snapshot, tag, branch and long-lived changelog with the paths it names.

A holder names a file over a span of snapshot ids. Spans are found from one full state and the deltas after
it, so a file costs a row a holder, not a row a snapshot; all by columns. A file is written by the snapshot
whose delta adds it, an upgrade writes nothing. What a changelog or a tag lists may be gone already (`sure` is
false then). Memory: a row a named file and holder. Used by `insight/inspect/attribution.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect.changelog_claims import claim_lasting, claim_left, has_changelog_files
from tablestore.insight.inspect.claim_book import (
    BRANCH,
    CHANGELOG,
    COMING,
    CONSUMER,
    LEFT,
    SNAPSHOTS,
    TABLE,
    TAG,
    ClaimIndex,
    Claims,
    Holder,
)
from tablestore.insight.inspect.state_claims import claim_state
from tablestore.io.paths import join
from tablestore.meta import changelogs, consumers, refs
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
