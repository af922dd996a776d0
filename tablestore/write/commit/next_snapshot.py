"""The snapshot that a commit tries to publish: manifests, lists and index manifest written, then the record.

One object is for one snapshot over all its tries: manifests of the delta are written once and reused, lists
are written for each try on top of the newest snapshot. `discard` deletes what no published snapshot names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tablestore.core.errors import InvalidRequest
from tablestore.core.options.table_options import LogSystem
from tablestore.format import binary_row, compaction_record, snapshot
from tablestore.format.manifests import index_manifest
from tablestore.format.manifests.manifest import ADD, ManifestEntry, ManifestFileMeta
from tablestore.format.snapshot import COMPACT, TABLE, LostRaces, Snapshot
from tablestore.log import offsets, transaction_id
from tablestore.meta import positions
from tablestore.meta.manifest_rewrite import FEW
from tablestore.meta.manifests import ManifestWriter
from tablestore.meta.refs import MAIN
from tablestore.meta.store import Store
from tablestore.write.commit import manifest_merge
from tablestore.write.commit.changes import SnapshotChanges, numbered
from tablestore.write.commit.request import CommitRequest

_OURS = (
    snapshot.RETRIES,
    snapshot.MILLIS,
    compaction_record.PROPERTY,
    compaction_record.FOLLOWED,
    offsets.PROPERTY,
    transaction_id.PROPERTY,
    TABLE,
)


class NextSnapshot:
    """Writes what a snapshot of `kind` needs. `operation` is the snapshot's field of that name."""

    def __init__(
        self, store: Store, writer: ManifestWriter, kind: str, request: CommitRequest, operation: str | None
    ) -> None:
        self._store, self._writer, self._kind = store, writer, kind
        self._request, self._operation = request, operation
        self._written: tuple[SnapshotChanges, list[ManifestFileMeta], list[ManifestFileMeta]] | None = None

    @property
    def delta(self) -> list[ManifestFileMeta]:
        """The manifests of the delta, as last written."""
        return self._written[1] if self._written else []

    def on(
        self, latest: Snapshot | None, changes: SnapshotChanges, schema_id: int, races: LostRaces
    ) -> Snapshot:
        """The snapshot that puts `changes` on top of `latest`, all its files written; `schema_id`: the newest
        schema; `races`: those that the commit has lost."""
        store, writer, request = self._store, self._writer, self._request
        snapshot_id = (latest.id if latest else 0) + 1
        entries, next_row = changes.entries, (latest.next_row_id or 0) if latest else 0
        if store.options.row_tracking:
            entries, next_row = numbered(entries, snapshot_id=snapshot_id, first_row_id=next_row)
        delta, changelog = self._manifests(changes, entries)
        base = store.manifests.manifests(latest) if latest else []
        keyed = bool(store.schema.primary_keys)
        base = manifest_merge.merged(base, store.manifests, writer, store.options, by_partition=keyed)
        base_list, delta_list = writer.list(base), writer.list(delta)
        changelog_list = writer.list(changelog) if changelog else (None, None)
        rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in entries)
        inherited = latest.statistics if latest and latest.schema_id == schema_id else None
        watermarks = (latest.watermark if latest else None, request.watermark)
        return Snapshot(
            id=snapshot_id,
            schema_id=schema_id,
            base_manifest_list=base_list[0],
            delta_manifest_list=delta_list[0],
            commit_user=request.user,
            commit_identifier=request.identifier,
            commit_kind=self._kind,
            time_millis=max(store.env.now_ms(), latest.time_millis if latest else 0),
            uuid=store.env.uuid(),
            base_manifest_list_size=base_list[1],
            delta_manifest_list_size=delta_list[1],
            changelog_manifest_list=changelog_list[0],
            changelog_manifest_list_size=changelog_list[1],
            index_manifest=self._index(latest, changes),
            total_record_count=((latest.total_record_count or 0) if latest else 0) + rows,
            delta_record_count=rows,
            changelog_record_count=sum(e.file.row_count for e in changes.changelog) if changelog else None,
            watermark=max((w for w in watermarks if w is not None), default=None),
            statistics=changes.statistics or inherited,
            properties=self._properties(latest)
            | self._kept(changes)
            | self._log_offsets(latest)
            | races.as_properties(),
            next_row_id=next_row,
            operation=self._operation,
            writer_version=positions.WRITER,
        )

    def _manifests(
        self, changes: SnapshotChanges, entries: Sequence[ManifestEntry]
    ) -> tuple[list[ManifestFileMeta], list[ManifestFileMeta]]:
        """(delta, changelog) manifests, written unless those of the last try hold the same entries."""
        if self._written is not None and self._written[0] is changes and entries is changes.entries:
            return self._written[1], self._written[2]
        schema_id = self._store.schema.id
        delta = self._writer.manifest(self._by_partition(entries), schema_id)
        changelog = self._writer.manifest(changes.changelog, schema_id)
        self._written = (changes, delta, changelog)
        return delta, changelog

    def _by_partition(self, entries: Sequence[ManifestEntry]) -> Sequence[ManifestEntry]:
        """Many entries of a table with a primary key in order of their partitions, deletions first: so the
        blocks that later merges copy are of few partitions each."""
        distinct = {e.partition for e in entries}
        if len(entries) < FEW or len(distinct) == 1 or not self._store.schema.primary_keys:
            return entries
        types = [t.as_nullable() for t in self._store.partition_types]
        order = {p: binary_row.key_order(p, types) for p in distinct}
        return sorted(entries, key=lambda e: (e.kind == ADD, order[e.partition]))

    def _index(self, latest: Snapshot | None, changes: SnapshotChanges) -> str | None:
        if not changes.index:
            return latest.index_manifest if latest else None
        before = self._store.manifests.index_entries(latest)
        after = index_manifest.combined(before, changes.index)
        return self._writer.index(after) if after else None

    def _properties(self, latest: Snapshot | None) -> dict[str, str]:
        request = self._request
        by_user = positions.known(self._store, latest)
        reached = dict(request.positions or {})
        if request.streaming:
            reached[request.user] = (request.identifier, request.position)
        for user, (identifier, position) in reached.items():
            old = by_user.get(user)
            kept = position if position is not None else (old[1] if old else None)
            if old is None or identifier >= old[0]:
                by_user[user] = (identifier, kept)
        require_free(request.properties or {})
        tiering = positions.carried_offsets(self._store.snapshots, latest)
        own = {} if self._store.uuid is None else {TABLE: self._store.uuid}
        return {**tiering, **(request.properties or {}), **positions.as_properties(by_user), **own}

    def _log_offsets(self, latest: Snapshot | None) -> dict[str, str]:
        """The offsets of the table's log: what the snapshot before names and, in buckets of the commit, where
        its rows end; and the last transaction of the log before them."""
        store, rows = self._store, self._request.log
        if store.options.log_system is LogSystem.NONE:
            return {}
        if store.paths.branch != MAIN:  # a branch has no log; what it was made from still says where that was
            kept = (latest.properties or {}) if latest is not None else {}
            return {name: kept[name] for name in (offsets.PROPERTY, transaction_id.PROPERTY) if name in kept}
        reached = offsets.known(latest, store.snapshots.get)
        last = transaction_id.known(latest, store.snapshots.get)
        if rows is not None and self._kind != COMPACT:
            reached = offsets.advanced(reached, rows.end)
            last = transaction_id.newest(last, rows.last)
        named = {} if last is None else {transaction_id.PROPERTY: last.text}
        return {offsets.PROPERTY: offsets.text(reached), **named}

    def _kept(self, changes: SnapshotChanges) -> dict[str, str]:
        """The properties that keep this snapshot's compactions, or say that they come next
        (FORMAT.md 7.3)."""
        followed = {compaction_record.FOLLOWED: COMPACT} if changes.followed else {}
        if not changes.compactions:
            return followed
        partitions = {p: self._store.partition_text(p) for p, _ in changes.compactions}
        records = [replace(r, partition=partitions[p]) for p, r in changes.compactions]
        return {**followed, compaction_record.PROPERTY: compaction_record.to_property(records)}

    def begin_anew(self) -> None:
        """Write all again for the next try: who saw the snapshot of this one may have removed its files."""
        self._written = None

    def discard_try(self, *, rebuild: bool) -> None:
        """Delete what an unsuccessful try wrote; its manifests stay for the next one, unless changes are
        rebuilt."""
        if rebuild or self._store.options.row_tracking:
            self._written = None
        kept = (*self.delta, *(self._written[2] if self._written else ()))
        self._writer.discard(m.file_name for m in kept)


def require_free(properties: Iterable[str]) -> None:
    """Raise InvalidRequest for a property that the engine sets."""
    for key in properties:
        if key.startswith(positions.PREFIX) or key in _OURS:
            raise InvalidRequest(f"property {key!r} is set by the engine; pass position=")
