"""Committer: commit messages → snapshots, all or nothing (FORMAT.md 17.1, 17.2).

One call makes up to two snapshots with one identifier: APPEND (new files, input changelog, indexes), then
COMPACT (what compaction replaced). An append that deletes rows (deletion vectors) is an OVERWRITE. Once the
first is published nothing is raised: a lost compaction is reported in `Committed`. Manifests are written
under fresh names, then `snapshots.publish` takes the next id if it is free. If another commit took it, this
one reads that snapshot, checks for conflicts and tries again; while an outcome is unknown nothing is deleted.
A replay of (user, identifier) adds nothing (I11). Not thread-safe; one per call is cheap. `COUNTER` counts
the commits of this process, and what they lost to others that were first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tablestore.core.errors import CommitConflict, CommitUnknown, Corrupt, NotFound, TablestoreError
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry, ManifestFileMeta
from tablestore.format.snapshot import ANALYZE, APPEND, COMPACT, OVERWRITE, LostRaces, Snapshot
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.compaction import recording
from tablestore.lsm.compaction.recording import Stall
from tablestore.meta import positions
from tablestore.meta.manifests import ManifestWriter
from tablestore.meta.refs import MAIN
from tablestore.meta.reused_ids import is_made_from
from tablestore.meta.store import Newest, Store, remove_made_anew
from tablestore.write.commit import conflict_check, synced
from tablestore.write.commit.changes import (
    SnapshotChanges,
    appended,
    compacted,
    overwriting,
    without_duplicates,
)
from tablestore.write.commit.next_snapshot import NextSnapshot
from tablestore.write.commit.request import CommitRequest, Committed, LostCompaction

log = logging.getLogger(__name__)
__all__ = ["CommitRequest", "Committed", "Committer"]


@dataclass(frozen=True, slots=True)
class CommitCounts:
    """`snapshots` made; of these the `retries`, and the `retry_seconds` from first tries to those that
    succeeded; `conflicts`: commits that were refused since others had changed what they build on, or were
    first too often."""

    snapshots: int = 0
    retries: int = 0
    retry_seconds: float = 0.0
    conflicts: int = 0


class CommitCounter:
    """Counts commits. Safe to share between threads."""

    def __init__(self) -> None:
        self._counts, self._lock = CommitCounts(), threading.Lock()

    @property
    def counts(self) -> CommitCounts:
        """What there was so far."""
        with self._lock:
            return self._counts

    def published(self, races: LostRaces) -> None:
        """A snapshot was made."""
        with self._lock:
            c = self._counts
            seconds = c.retry_seconds + races.millis / 1000
            self._counts = replace(
                c, snapshots=c.snapshots + 1, retries=c.retries + races.retries, retry_seconds=seconds
            )

    def refused(self) -> None:
        """A commit was refused by a conflict."""
        with self._lock:
            self._counts = replace(self._counts, conflicts=self._counts.conflicts + 1)


COUNTER = CommitCounter()
"""All commits of this process."""

_FRESH_SECONDS = 1.0
"""So long what was seen of a table is taken to be so still; whether it was is looked at after publishing."""


class _PublishedElsewhere(TablestoreError):
    """Another process with the same user and identifier published first: this call is a replay."""


ChangesProvider = Callable[[Snapshot | None], SnapshotChanges]


class Committer:
    """Puts commit messages on top of a table."""

    def __init__(self, store: Store) -> None:
        self._store, self._safe = store, store.options.commit_last_safe
        self._published: int | None = None
        parts = store.io, store.paths, store.options, store.partition_types, store.env
        self._writer = ManifestWriter(*parts, readers=store.manifests)

    def commit(self, messages: Sequence[CommitMessage], request: CommitRequest) -> Committed:
        """Add the messages' files to the table. Raises CommitConflict or Unavailable, then none of their rows
        is in the table, and CommitUnknown where that is not known."""
        first, second, ids = appended(messages), compacted(messages), list[int]()
        if not first.empty or (second.empty and self._publishes_empty(request)):
            first = replace(first, followed=self._hidden_until_compacted(second))
            kind = OVERWRITE if first.replaces_rows else APPEND
            provide, rebuild = self._changes_provider(first, request)
            try:
                ids.append(self._publish(kind, provide, request, rebuild=rebuild))
            except _PublishedElsewhere:
                return Committed(replayed=True)
        elif self.knows(request):
            return Committed(replayed=True)
        lost = None
        if not second.empty:
            try:
                ids.append(self._publish(COMPACT, lambda _: second, request))
            except (TablestoreError, OSError) as e:
                if not ids:
                    raise
                lost = LostCompaction(str(e), unknown=isinstance(e, CommitUnknown))
                raced = isinstance(e, CommitConflict)
                text = "%s: snapshot %d with the new rows is published, its compaction is lost: %s"
                log.log(logging.INFO if raced else logging.WARNING, text, self._store.paths.root, ids[0], e)
        return Committed(tuple(ids), _rows(first), stalls=self._stalls(messages), lost_compaction=lost)

    def _hidden_until_compacted(self, second: SnapshotChanges) -> bool:
        """Whether readers see what a commit adds, or streams its changes, only with its compaction."""
        hidden = bool(second.changelog) or (not second.empty and self._store.options.needs_lookup)
        return hidden and bool(self._store.schema.primary_keys)

    def _publishes_empty(self, request: CommitRequest) -> bool:
        """Whether a commit of nothing makes a snapshot: it has a position, or the options ask for one."""
        options = self._store.options
        if request.log is not None:
            return True
        if request.streaming:
            return request.position is not None or options.commit_always
        return request.position is not None or options.ignore_empty_commit is False

    def _changes_provider(
        self, changes: SnapshotChanges, request: CommitRequest
    ) -> tuple[ChangesProvider, bool]:
        """A function that gives the changes, and whether to call it again on each newer snapshot: files
        written elsewhere may be in the table already. They are refused or, with
        `commit.discard-duplicate-files`, left out."""
        discards = self._store.options.commit_discards_duplicates
        added = {e.file.file_name for e in changes.entries if e.kind == ADD}
        if not added or changes.replaces_rows or not (discards or request.handed_over):
            return lambda _: changes, False

        def provide(latest: Snapshot | None) -> SnapshotChanges:
            live = self._store.manifests.live_entries(latest, partitions=changes.partitions)
            present = sorted(added.intersection(e.file.file_name for e in live))
            if not present:
                return changes
            if not discards:
                text = f"{', '.join(present[:3])}: in the table already; these messages were committed before"
                raise CommitConflict(text, files=tuple(present), snapshot=latest.id if latest else 0)
            fresh = without_duplicates(changes, present)
            if fresh.empty:
                raise _PublishedElsewhere("every file of this commit is in the table already")
            return fresh

        return provide, True

    def _stalls(self, messages: Sequence[CommitMessage]) -> tuple[Stall, ...]:
        """Buckets whose writer had to wait for compaction; logged once a commit."""
        store = self._store
        waits = recording.of(
            replace(r, partition=store.partition_text(m.partition)) for m in messages for r in m.compactions
        )
        if waits:
            text = "%s: %s; a larger write-buffer-size or num-sorted-run.stop-trigger makes writers wait less"
            log.warning(text, store.paths.root, recording.summary(waits))
        return waits

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        request: CommitRequest,
        replaced: Callable[[bytes], bool],
        operation: str | None = None,
    ) -> Committed:
        """Replace every live file of the partitions that `replaced` chooses by the messages' new files: one
        OVERWRITE snapshot."""
        store, new = self._store, appended(messages)
        postponed = store.options.bucket == POSTPONE_BUCKET

        gone: set[bytes] = set()

        def delta(latest: Snapshot | None) -> SnapshotChanges:
            changes = overwriting(new, latest, store.manifests, replaced, postponed=postponed)
            gone.clear()
            gone.update(e.partition for e in changes.entries if e.kind == DELETE)
            return changes

        try:
            snapshot_id = self._publish(OVERWRITE, delta, request, operation=operation, rebuild=True)
        except _PublishedElsewhere:
            return Committed(replayed=True)
        return Committed(
            (snapshot_id,), _rows(new), stalls=self._stalls(messages), replaced_partitions=len(gone)
        )

    def commit_statistics(self, name: str, request: CommitRequest) -> Committed:
        """An ANALYZE snapshot that names a file of statistics; rows and files stay as they are."""
        changes = SnapshotChanges(statistics=name)
        return Committed((self._publish(ANALYZE, lambda _: changes, request),))

    def merge_manifests(self, request: CommitRequest) -> Committed:
        """A COMPACT snapshot of the same files, whose manifests are merged as the options say."""
        return Committed((self._publish(COMPACT, lambda _: SnapshotChanges(), request),))

    def knows(self, request: CommitRequest) -> bool:
        """Whether the table has the commit of this user and identifier already."""
        return request.streaming and self._overtaken(self._store.snapshots.latest(), request)

    def _overtaken(self, latest: Snapshot | None, request: CommitRequest) -> bool:
        """Whether this identifier, or a later one, of the same user is committed at `latest`
        (FORMAT.md 17.5); if so, what a kill interrupted in that attempt is completed."""
        if not request.streaming:
            return False
        last = positions.known(self._store, latest).get(request.user)
        if last is None or request.identifier > last[0]:
            return False
        positions.keep_again(self._store, latest)
        return True

    def _publish(
        self,
        kind: str,
        provide: ChangesProvider,
        request: CommitRequest,
        *,
        operation: str | None = None,
        rebuild: bool = False,
    ) -> int:
        """Publish one snapshot of `kind`; its id. `rebuild`: the changes depend on the snapshot before."""
        started, races = self._store.env.monotonic(), LostRaces()
        following = NextSnapshot(self._store, self._writer, kind, request, operation)
        changes: SnapshotChanges | None = None
        try:
            while True:
                newest = self._newest(request if not races.retries else None)
                latest = newest.snapshot
                if kind != COMPACT and self._overtaken(latest, request):
                    raise _PublishedElsewhere(
                        f"identifier {request.identifier} of {request.user} was published meanwhile"
                    )
                if rebuild or changes is None:
                    changes = provide(latest)
                self._require_basis(kind, latest, changes, request)
                snapshot = self._attempt(kind, latest, changes, following, races)
                if not (self._store.is_named_by(latest) and self._is_fresh(newest)):
                    self._store.require_same()
                conflict_check.require_present(self._store, changes)
                if snapshot is not None and self._publish_durably(snapshot, newest, changes):
                    if self._is_untouched(latest):
                        break
                    self._require_same_table(snapshot)
                    if not reuses_id(self._store, snapshot, latest, following.delta):
                        break
                    self._withdraw(snapshot)
                    following.begin_anew()
                following.discard_try(rebuild=rebuild)
                self._wait_for_a_try(races.retries + 1, started, latest)
                races = LostRaces(races.retries + 1, self._millis_since(started))
        except CommitUnknown:
            raise
        except TablestoreError as e:
            if isinstance(e, CommitConflict):
                COUNTER.refused()
            self._discard_manifests()
            raise
        self._writer.written.clear()
        self._published = snapshot.id
        COUNTER.published(races)
        synced.published(self._store, snapshot)
        self._store.snapshots.hint_latest(snapshot.id)
        positions.keep(self._store, snapshot)
        _log(self._store, snapshot, changes.entries, races.retries, self._millis_since(started))
        return snapshot.id

    def _require_basis(
        self, kind: str, latest: Snapshot | None, changes: SnapshotChanges, request: CommitRequest
    ) -> None:
        """Raise CommitConflict if what these changes were made from does not hold on `latest`."""
        if kind != COMPACT and request.basis is not None:
            conflict_check.require_basis(self._store, latest, request.basis, changes)
        if kind != COMPACT and request.log is not None:
            conflict_check.require_log_range(self._store, latest, request.log)
        if kind == COMPACT and request.compacted_from is not None:
            conflict_check.require_compaction_basis(self._store, latest, request.compacted_from, changes)
        self._require_strict_mode(kind, latest, changes, request.user)

    def _wait_for_a_try(self, tries: int, started: float, latest: Snapshot | None) -> None:
        """Wait until it is worth trying again; raise CommitConflict after too many tries, or too long."""
        options, env = self._store.options, self._store.env
        millis, limit = self._millis_since(started), options.commit_timeout_ms
        if tries > options.commit_max_retries or (limit is not None and millis > limit):
            after = latest.id if latest else 0
            text = f"others were first {tries} times in {millis} ms, last after snapshot {after}"
            raise CommitConflict(f"{text}; retry later", snapshot=after)
        wait = min(options.commit_max_wait_ms, options.commit_min_wait_ms * 2**tries) / 1000
        env.sleep(wait * (0.5 + env.jitter() / 2))

    def _newest(self, request: CommitRequest | None) -> Newest:
        """The newest snapshot, looked for after the one that this commit published or is made from. Raises
        NotFound where the table is another one by now.

        What the writer saw a moment ago counts where nobody else commits: if somebody does, the id is taken.
        """
        seen, made_from = (None, None) if request is None else (request.newest, request.compacted_from)
        if seen is not None and seen.alone and self._published is None and self._is_fresh(seen):
            return seen
        at = self._store.env.monotonic()
        try:
            return Newest(self._store.snapshots.latest(near=self._published or made_from), at)
        except Corrupt:
            self._store.require_same()
            raise

    def _is_untouched(self, latest: Snapshot | None) -> bool:
        """Whether the snapshot before the one just published is still there and names its table: then this is
        the same table, and no other snapshot had the id. A branch may be gone although its snapshots are
        there."""
        if latest is None or not self._store.is_named_by(latest) or self._store.paths.branch != MAIN:
            return False
        try:
            return self._store.snapshots.find(latest.id) == latest
        except TablestoreError:  # that of another table, or no answer
            return False

    def _require_same_table(self, snapshot: Snapshot) -> None:
        """Raise NotFound if the table was dropped, renamed or created again just before `snapshot` was
        published; the snapshot is then removed."""
        try:
            self._store.require_same()
        except NotFound:
            self._withdraw(snapshot)
            raise
        except (TablestoreError, OSError) as e:
            log.warning("could not look whether %s is still the same table: %s", self._store.paths.root, e)

    def _withdraw(self, snapshot: Snapshot) -> None:
        """Remove a snapshot that does not belong to the table; raises CommitUnknown if it may still be
        there."""
        try:
            if self._store.snapshots.holds(snapshot):
                self._store.snapshots.delete(snapshot.id)
        except (TablestoreError, OSError) as e:
            text = f"snapshot {snapshot.id} was published behind a rollback and could not be taken back: {e}"
            raise CommitUnknown(text) from e

    def _publish_durably(self, snapshot: Snapshot, newest: Newest, changes: SnapshotChanges) -> bool:
        """Publish a snapshot, on the disk first if its table wants that; False if its id is taken, or was and
        is free again, since the snapshot that this one is made from has expired: who stood still looks."""
        latest, publish = newest.snapshot, self._store.snapshots.publish
        after = synced.before_publishing(self._store, latest, changes, self._writer.written)
        if latest is not None and not self._is_fresh(newest) and not self._store.snapshots.exists(latest.id):
            return False
        return publish(snapshot) if after is None else publish(snapshot, after=after)

    def _is_fresh(self, newest: Newest) -> bool:
        return self._store.env.monotonic() - newest.at < _FRESH_SECONDS

    def _millis_since(self, started: float) -> int:
        return int((self._store.env.monotonic() - started) * 1000)

    def _require_strict_mode(
        self, kind: str, latest: Snapshot | None, changes: SnapshotChanges, user: str
    ) -> None:
        """`commit.strict-mode.last-safe-snapshot`: raise CommitConflict if another user has committed
        since."""
        if self._safe is None:
            return
        newest = latest.id if latest else 0
        if self._safe >= 0:
            since = range(self._safe + 1, newest + 1)
            conflict_check.require_no_other_user(
                self._store, since, user, changes.partitions, overwrites=kind == OVERWRITE
            )
        self._safe = newest

    def _attempt(
        self,
        kind: str,
        latest: Snapshot | None,
        changes: SnapshotChanges,
        following: NextSnapshot,
        races: LostRaces,
    ) -> Snapshot | None:
        """The snapshot to publish on top of `latest`; None if `latest` expired while it was read."""
        try:
            schema_ids = self._store.schemas.ids()
            if not schema_ids:
                raise NotFound(f"{self._store.paths.root} is being dropped")
            conflict_check.require_no_conflict(self._store, kind, latest, changes, schema_ids)
            return following.on(latest, changes, max(schema_ids), races)
        except (Corrupt, NotFound):
            self._store.require_same()
            if latest is not None and not self._store.snapshots.exists(latest.id):
                return None
            raise

    def _discard_manifests(self) -> None:
        try:
            self._writer.discard()
        except TablestoreError as e:
            log.warning("left some manifests of a failed commit behind: %s", e)
        remove_made_anew(self._store.io, self._store.paths.root)


def _rows(changes: SnapshotChanges) -> int:
    return sum(e.file.row_count for e in changes.entries if e.kind == ADD)


def _log(store: Store, snapshot: Snapshot, entries: Sequence[ManifestEntry], tries: int, millis: int) -> None:
    added = [e.file.file_size for e in entries if e.kind == ADD]
    buckets = len({(e.partition, e.bucket) for e in entries})
    log.info(
        "committed %s snapshot %d %s: +%d files (%.1f MB), -%d files, %d buckets, %d retries, %d ms",
        store.paths.root,
        snapshot.id,
        snapshot.commit_kind,
        len(added),
        sum(added) / 1e6,
        len(entries) - len(added),
        buckets,
        tries,
        millis,
    )


def reuses_id(
    store: Store, snapshot: Snapshot, latest: Snapshot | None, written: Sequence[ManifestFileMeta]
) -> bool:
    """Whether `snapshot`, just published on top of `latest` with the delta `written`, does not belong to the
    table.

    Expiry removes ascending ids, so as long as `latest` is there no snapshot had the id before. Older
    snapshots without it, or another one in its place, mean that the table was rolled back behind it.
    """
    try:
        base = None if latest is None else store.snapshots.find(latest.id)
        if base is not None:
            return base != latest
        ids = store.snapshots.ids()
        later = [i for i in ids if i > snapshot.id]
        if not later or later[0] > snapshot.id + 1:
            return bool(later) or (latest is not None and bool(ids) and ids[0] < latest.id)
        return not is_made_from(store, store.snapshots.get(later[0]), written)
    except TablestoreError as e:  # the snapshot is published: nothing of it may be deleted now
        log.warning("could not look whether snapshot %d was taken before: %s", snapshot.id, e)
        return False
