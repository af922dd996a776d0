"""Completing a commit where readers wait for its compaction: deletion vectors, first-row, `lookup`.

The rows of such a commit are in the table with its first snapshot, but they, its deletes and changes are
visible only after its COMPACT has looked them up (with the producer full-compaction after a full one). If
that compaction was lost to another commit it is done again from the newest snapshot; a replay does it if the
first attempt was killed in between; a delete or update does it before it reads rows, so that rows deleted
earlier are not found. Where it fails again, the write ends in RowsNotVisible. Nothing is done for tables
whose level 0 others compact (`write-only`, `lookup-wait` = false).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from tablestore.core.errors import CommitConflict, RowsNotVisible, SnapshotExpired, TablestoreError
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format.commit_message import CommitMessage
from tablestore.format.compaction_record import FOLLOWED
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot
from tablestore.meta.open_writers import writing
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import hides_level_0
from tablestore.table import compaction
from tablestore.table.compaction import Place
from tablestore.write.commit.commit_or_discard import commit_or_discard
from tablestore.write.commit.request import CommitRequest, Committed, LostCompaction

log = logging.getLogger(__name__)
_TRIES = 20


def commit(store: Store, messages: Sequence[CommitMessage], request: CommitRequest) -> Committed:
    """Commit messages that nobody else will commit; files that end in no snapshot are deleted. Raises what
    `Committer.commit` does."""
    return finished(store, commit_or_discard(store, messages, request), messages, request)


def finished(
    store: Store, committed: Committed, messages: Sequence[CommitMessage], request: CommitRequest
) -> Committed:
    """`committed` with the compaction that it lacked, or with one that is lost and `awaited`. Raises nothing,
    since the rows are in the table: who answers to a user calls `require_visible`."""
    if not _waited_for(store) or not (committed.replayed or committed.lost_compaction):
        return committed
    places: frozenset[Place] | None = None
    try:
        places = _left_by(store, request) if committed.replayed else _lost(store, messages)
        ids = _looked_up(store, places)
    except (TablestoreError, OSError) as e:
        text = "%s: committed, but readers wait for a compaction that failed; compact() the table: %s"
        log.warning(text, store.paths.root, e)
        lost = committed.lost_compaction or LostCompaction(str(e))
        return replace(committed, lost_compaction=replace(lost, awaited=places is None or bool(places)))
    return replace(committed, snapshots=(*committed.snapshots, *ids), lost_compaction=None)


def require_visible(store: Store, committed: Committed) -> None:
    """Raise RowsNotVisible for a commit whose rows, or their changes, readers do not see."""
    lost = committed.lost_compaction
    if lost is None or not lost.awaited:
        return
    where = f"snapshot {committed.snapshots[0]} has" if committed.snapshots else "the table has"
    call = "compact(full=True)" if _fully(store) else "compact()"
    whose = "streams of changes" if not hides_level_0(store) else "readers"
    raise RowsNotVisible(
        f"{where} the rows, but {whose} see them only after a compaction, which failed: {lost}; table.{call} "
        "shows them, as does this commit again under its identifier; without one do not write them again",
        snapshot=committed.snapshots[0] if committed.snapshots else None,
    )


def look_up_waiting(store: Store) -> tuple[int, ...]:
    """Compact deletes and updates that interrupted commits left at level 0, where readers do not see them.
    The ids of the snapshots made."""
    return _looked_up(store, None) if _waited_for(store) and hides_level_0(store) else ()


def look_up_all(store: Store) -> tuple[int, ...]:
    """Compact whatever interrupted commits left at level 0; the ids of the snapshots made."""
    return _looked_up(store, None)


def _waited_for(store: Store) -> bool:
    options = store.options
    waits = _fully(store) or (options.needs_lookup and options.lookup_wait)
    return waits and not options.write_only and bool(store.schema.primary_keys)


def _fully(store: Store) -> bool:
    return store.options.changelog_producer is ChangelogProducer.FULL_COMPACTION


def _lost(store: Store, messages: Sequence[CommitMessage]) -> frozenset[Place]:
    """The buckets whose lost compaction readers wait for."""
    waited_for = (m for m in messages if store.options.needs_lookup or m.compact_changelog)
    return frozenset((m.partition, m.bucket) for m in waited_for)


def _looked_up(store: Store, places: frozenset[Place] | None) -> tuple[int, ...]:
    """The ids of the snapshots that compacted level 0 of these buckets (None: all)."""
    for attempt in range(_TRIES):
        try:
            with writing(store):
                return compaction.look_up(store, places, full=_fully(store))
        except CommitConflict as e:
            if attempt == _TRIES - 1:
                raise
            log.info("%s: looking up again: %s", store.paths.root, e)
    raise AssertionError("the last try returns or raises")


def _left_by(store: Store, request: CommitRequest) -> frozenset[Place] | None:
    """The buckets of a commit that was killed before its compaction. Where its snapshot has expired these
    are all (None), but of a table that only streams wait for: the next full compaction is for them."""
    unknown = frozenset[Place]() if _fully(store) else None
    snapshot = _first_of(store, request)
    if snapshot is None:
        return unknown
    if FOLLOWED not in (snapshot.properties or {}):
        return frozenset()
    try:
        entries = store.manifests.delta_entries(snapshot)
    except SnapshotExpired:
        return unknown
    return frozenset((e.partition, e.bucket) for e in entries if e.kind == ADD)


def _first_of(store: Store, request: CommitRequest) -> Snapshot | None:
    """The snapshot in which the rows of a commit came; None if it has expired."""
    first, snapshot = None, store.snapshots.latest()
    while snapshot is not None:
        if snapshot.commit_user == request.user and snapshot.commit_identifier <= request.identifier:
            if snapshot.commit_identifier < request.identifier:
                break
            first = snapshot
        elif first is not None:
            break
        snapshot = store.snapshots.find(snapshot.id - 1)
    return first
