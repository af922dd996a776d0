"""Committer: commit messages → snapshots, all or nothing (format facts section 17).

One call makes up to two snapshots with one identifier: APPEND (new files, input changelog), then COMPACT
(what compaction replaced).
Manifests are written under fresh names, then `snapshots.publish` puts the next id if it is free. Who loses
the race looks at the
winner, checks for conflicts and tries again; while an outcome is unknown nothing is deleted. A replay of
(user, identifier)
adds nothing (I11). Not thread-safe; one per call is cheap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tablestore.errors import (
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidRequest,
    NotFound,
    TablestoreError,
)
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifest import ADD, DELETE, DataFileMeta, ManifestEntry, ManifestFileMeta
from tablestore.format.snapshot import APPEND, BATCH_IDENTIFIER, COMPACT, OVERWRITE, Snapshot
from tablestore.meta.manifests import ManifestWriter
from tablestore.meta.store import Store
from tablestore.write import conflicts, manifest_merge, positions

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Committed:
    """What a write made: 0 (empty or replayed), 1 or 2 snapshots; `rows` counts the rows of the new files."""

    snapshots: tuple[int, ...] = ()
    rows: int = 0
    replayed: bool = False

    @property
    def snapshot(self) -> int | None:
        """Id of the last snapshot made, None if there was nothing to commit."""
        return self.snapshots[-1] if self.snapshots else None


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Who commits, and what travels with it."""

    user: str
    identifier: int = BATCH_IDENTIFIER
    position: str | None = None
    properties: Mapping[str, str] | None = None
    watermark: int | None = None

    @property
    def streaming(self) -> bool:
        """Whether the identifier is one of a stream, so that a replay can be recognised."""
        return self.identifier != BATCH_IDENTIFIER


class _PublishedElsewhere(TablestoreError):
    """Another process with the same user and identifier was faster: this call is a replay."""


Delta = Callable[[Snapshot | None], list[ManifestEntry]]


class Committer:
    """Puts commit messages on top of a table."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writer = ManifestWriter(store.io, store.paths, store.options, store.partition_types, store.env)

    def commit(self, messages: Sequence[CommitMessage], request: CommitRequest) -> Committed:
        """Add the messages' files. Raises CommitConflict, CommitUnknown, InvalidRequest (an identifier older
        than the last)."""
        if self._replayed(request):
            return Committed(replayed=True)
        added = [e for m in messages for e in _entries(ADD, m, m.new_files)]
        changes = [e for m in messages for e in _entries(ADD, m, m.changelog_files)]
        compacted = [e for m in messages for e in _entries(DELETE, m, m.compact_before)]
        compacted += [e for m in messages for e in _entries(ADD, m, m.compact_after)]
        made = []
        if added or changes or (request.position is not None and not compacted):
            try:
                made.append(self._publish(APPEND, lambda _: added, changes, request))
            except _PublishedElsewhere:
                return Committed(replayed=True)
        if compacted:
            compact_changes = [e for m in messages for e in _entries(ADD, m, m.compact_changelog)]
            try:
                made.append(self._publish(COMPACT, lambda _: compacted, compact_changes, request))
            except _PublishedElsewhere:
                return Committed(tuple(made), replayed=not made)
            except CommitConflict as e:
                done = f"; snapshot {made[0]} with the new rows is published" if made else ""
                raise CommitConflict(
                    f"{e}{done}", files=e.files, snapshot=e.snapshot, published=tuple(made)
                ) from None
        rows = sum(e.file.row_count for e in added)
        return Committed(tuple(made), rows)

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        request: CommitRequest,
        replaced: Callable[[bytes], bool],
        operation: str | None = None,
    ) -> Committed:
        """Replace every live file of the partitions that `replaced` chooses by the messages' new files: one
        OVERWRITE snapshot."""
        if self._replayed(request):
            return Committed(replayed=True)
        added = [e for m in messages for e in _entries(ADD, m, m.new_files)]

        def delta(latest: Snapshot | None) -> list[ManifestEntry]:
            live = self._store.manifests.live_entries(latest, partition=replaced)
            return [replace(e, kind=DELETE) for e in live] + added

        try:
            made = self._publish(OVERWRITE, delta, [], request, operation)
        except _PublishedElsewhere:
            return Committed(replayed=True)
        return Committed((made,), sum(e.file.row_count for e in added))

    def _replayed(self, request: CommitRequest) -> bool:
        return self._overtaken(self._store.snapshots.latest(), request)

    def _overtaken(self, latest: Snapshot | None, request: CommitRequest) -> bool:
        """Whether this identifier, or a later one, of the same user is committed at `latest`."""
        if not request.streaming:
            return False
        last = positions.known(self._store.snapshots, latest).get(request.user)
        return last is not None and request.identifier <= last[0]

    def _publish(
        self,
        kind: str,
        delta: Delta,
        changelog: Sequence[ManifestEntry],
        request: CommitRequest,
        operation: str | None = None,
    ) -> int:
        """Publish one snapshot of `kind`; its id."""
        started, tries, options = self._store.env.monotonic(), 0, self._store.options
        written: list[ManifestFileMeta] | None = None
        changes = self._writer.manifest(changelog, self._store.schema.id) if changelog else []
        entries: list[ManifestEntry] = []
        try:
            while True:
                latest = self._store.snapshots.latest()
                if kind != COMPACT and self._overtaken(latest, request):
                    raise _PublishedElsewhere(
                        f"identifier {request.identifier} of {request.user} was published meanwhile"
                    )
                if kind == OVERWRITE or written is None:
                    entries = delta(latest)
                    written = self._writer.manifest(entries, self._store.schema.id)
                snapshot = self._attempt(
                    kind, latest, entries, written, changes, changelog, request, operation
                )
                if snapshot is not None and self._store.snapshots.publish(snapshot):
                    if not self._stale(snapshot, latest, written):
                        break
                    self._store.snapshots.delete(snapshot.id)
                tries += 1
                self._discard_try(written, changes)
                if tries > options.commit_max_retries:
                    after = latest.id if latest else 0
                    text = f"others were first {tries} times, last after snapshot {after}; retry later"
                    raise CommitConflict(text, snapshot=after)
                wait = min(options.commit_max_wait_ms, options.commit_min_wait_ms * 2**tries) / 1000
                self._store.env.sleep(wait * (0.5 + self._store.env.jitter() / 2))
        except CommitUnknown:
            raise
        except TablestoreError:
            self._forget()
            raise
        self._writer.written.clear()
        self._store.snapshots.hint_latest(snapshot.id)
        millis = int((self._store.env.monotonic() - started) * 1000)
        _log(self._store, snapshot, entries, tries, millis)
        return snapshot.id

    def _attempt(
        self, kind: str, latest: Snapshot | None, entries: Sequence[ManifestEntry], *rest: Any
    ) -> Snapshot | None:
        """The snapshot to publish on top of `latest`; None if `latest` expired while it was read."""
        try:
            self._check(kind, latest, entries)
            return self._snapshot(kind, latest, entries, *rest)
        except (Corrupt, NotFound):
            if latest is not None and not self._store.snapshots.exists(latest.id):
                return None
            raise

    def _stale(
        self, snapshot: Snapshot, latest: Snapshot | None, written: Sequence[ManifestFileMeta]
    ) -> bool:
        """Whether the id was free only because an older holder had expired while this commit stood still.

        Expiry removes ascending ids, so as long as `latest` is there nobody can have held the id before.
        """
        try:
            return self._retaken(snapshot, latest, written)
        except TablestoreError as e:  # the snapshot is published: nothing of it may be deleted now
            log.warning("could not look whether snapshot %d was taken before: %s", snapshot.id, e)
            return False

    def _retaken(
        self, snapshot: Snapshot, latest: Snapshot | None, written: Sequence[ManifestFileMeta]
    ) -> bool:
        store = self._store
        if latest is None or store.snapshots.exists(latest.id):
            return False
        later = [i for i in store.snapshots.ids() if i > snapshot.id]
        if not later or later[0] > snapshot.id + 1:
            return bool(later)
        names = {m.file_name for m in store.manifests.manifests(store.snapshots.get(later[0]))}
        if all(m.file_name in names for m in written):
            return False
        mine = (
            e.identity for m in written for e in store.manifests.read_manifest(m.file_name) if e.kind == ADD
        )
        theirs = {e.identity for n in names for e in store.manifests.read_manifest(n)}
        return not theirs.issuperset(mine)

    def _check(self, kind: str, latest: Snapshot | None, entries: Sequence[ManifestEntry]) -> None:
        if latest is None or not entries:
            return
        store = self._store
        partitions = {e.partition for e in entries}
        found = None
        if kind != OVERWRITE and self._rescaled():
            live = store.manifests.live_entries(latest, partition=partitions.__contains__)
            found = conflicts.bucket_counts(live, entries, store.partition_text)
        if found is None and kind != APPEND:
            buckets = {(e.partition, e.bucket) for e in entries}
            live = store.manifests.live_entries(latest, partition=partitions.__contains__)
            live = [e for e in live if (e.partition, e.bucket) in buckets]
            found = conflicts.files(live, entries, store.key_order)
        if found is not None:
            who = f"snapshot {latest.id} ({latest.commit_kind} by {latest.commit_user})"
            raise CommitConflict(
                f"{found.rule}: {found.text}; found at {who}", files=found.files, snapshot=latest.id
            )

    def _rescaled(self) -> bool:
        """Whether schemas of this table ever had another bucket count: only then can a partition have one."""
        schemas = self._store.schemas
        return len({schemas.get(i).options.get("bucket") for i in schemas.ids()}) > 1

    def _snapshot(
        self,
        kind: str,
        latest: Snapshot | None,
        entries: Sequence[ManifestEntry],
        written: Sequence[ManifestFileMeta],
        changes: Sequence[ManifestFileMeta],
        changelog: Sequence[ManifestEntry],
        request: CommitRequest,
        operation: str | None,
    ) -> Snapshot:
        """Write the lists for a try on top of `latest`, and the snapshot that names them."""
        store, writer = self._store, self._writer
        base = store.manifests.manifests(latest) if latest else []
        base = manifest_merge.merged(base, store.manifests, writer, store.options)
        base_list, delta_list = writer.list(base), writer.list(written)
        changelog_list = writer.list(changes) if changes else (None, None)
        schema_id = max(store.schemas.ids(), default=store.schema.id)
        rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in entries)
        return Snapshot(
            id=(latest.id if latest else 0) + 1,
            schema_id=schema_id,
            base_manifest_list=base_list[0],
            delta_manifest_list=delta_list[0],
            commit_user=request.user,
            commit_identifier=request.identifier,
            commit_kind=kind,
            time_millis=max(store.env.now_ms(), latest.time_millis if latest else 0),
            uuid=store.env.uuid(),
            base_manifest_list_size=base_list[1],
            delta_manifest_list_size=delta_list[1],
            changelog_manifest_list=changelog_list[0],
            changelog_manifest_list_size=changelog_list[1],
            index_manifest=latest.index_manifest if latest else None,
            total_record_count=((latest.total_record_count or 0) if latest else 0) + rows,
            delta_record_count=rows,
            changelog_record_count=sum(e.file.row_count for e in changelog) if changes else None,
            watermark=_watermark(latest, request),
            statistics=latest.statistics if latest and latest.schema_id == schema_id else None,
            properties=self._properties(latest, request),
            next_row_id=(latest.next_row_id or 0) if latest else 0,
            operation=operation,
            writer_version=positions.WRITER,
        )

    def _properties(self, latest: Snapshot | None, request: CommitRequest) -> dict[str, str]:
        known = positions.known(self._store.snapshots, latest)
        if request.streaming:
            old = known.get(request.user)
            kept = request.position if request.position is not None else (old[1] if old else None)
            if old is None or request.identifier >= old[0]:
                known[request.user] = (request.identifier, kept)
        for key in request.properties or {}:
            if key.startswith(positions.PREFIX):
                raise InvalidRequest(f"property {key!r} is set by the engine; pass position=")
        return {**(request.properties or {}), **positions.as_properties(known)}

    def _discard_try(self, *keep: Iterable[ManifestFileMeta]) -> None:
        self._writer.discard(m.file_name for metas in keep for m in metas)

    def _forget(self) -> None:
        try:
            self._writer.discard()
        except TablestoreError as e:
            log.warning("left some manifests of a failed commit behind: %s", e)


def _entries(kind: int, m: CommitMessage, files: Sequence[DataFileMeta]) -> list[ManifestEntry]:
    return [ManifestEntry(kind, m.partition, m.bucket, m.total_buckets, f) for f in files]


def _watermark(latest: Snapshot | None, request: CommitRequest) -> int | None:
    known = [w for w in (latest.watermark if latest else None, request.watermark) if w is not None]
    return max(known, default=None)


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
