"""PaimonLakeCommitter: a round as one commit of a lake table, which names the offsets that it reaches.

The commit is one of a stream, by Fluss's commit user, under the identifier after the last one: whoever
committed that in the meantime was first. It also names the snapshot from which its round was planned, so that
rows that others have put into the table since, or an overwrite, refuse it. Both are checked by the table's
committer for each snapshot that it tries to follow.

Readable offsets: with deletion vectors and first-row, rows are read only once a compaction has taken them
from level 0. A bucket is readable up to the offset of the newest snapshot in which it has no file there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tablestore.core.errors import AlreadyExists, CommitConflict, NotFound
from tablestore.core.options.log_store import LogSystem
from tablestore.format import commit_message
from tablestore.format.commit_message import CommitMessage
from tablestore.format.snapshot import Snapshot
from tablestore.log import offsets as log_offsets
from tablestore.log.offsets import number
from tablestore.meta import positions
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import hides_level_0
from tablestore.table import finishing, history
from tablestore.table.table import Table
from tablestore.tiering.cluster import COMMIT_USER, LakeCommit, LakeState
from tablestore.tiering.lake_offsets import (
    offsets_text,
    parse_position,
    parse_property,
    position_text,
    properties_of,
    state_of,
)
from tablestore.tiering.paimon.writer import PaimonWriteResult
from tablestore.tiering.splits import Offsets, TieredBucket
from tablestore.write.commit.commit_or_discard import discard, discarded_if_refused
from tablestore.write.commit.committer import Committer
from tablestore.write.commit.request import Basis, CommitRequest, Committed, LogRange

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PaimonBasis:
    """The newest snapshot when a round was planned, and the identifier of the last round."""

    snapshot: Snapshot | None
    identifier: int


@dataclass(frozen=True, slots=True)
class PaimonCommittable:
    """The commit messages of all writers of a round, as bytes."""

    messages: tuple[bytes, ...]


class PaimonLakeCommitter:
    """Commits rounds to one lake table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def _store(self) -> Store:
        return self._table.store

    def state(self) -> LakeState:
        """What the newest snapshot says; where only other engines' snapshots are left, the position."""
        store = self._store
        store.require_same()
        latest = store.snapshots.latest()
        identifier, position = positions.known(store, latest).get(COMMIT_USER, (0, None))
        basis = PaimonBasis(latest, identifier)
        at = positions.newest_tiered(store.snapshots, latest)
        if at is None:
            if position is None or latest is None:
                return LakeState(basis=basis)
            table_id, offsets = parse_position(position, store.paths.root)
            return LakeState(latest.id, table_id, offsets, basis=basis)
        keys, where = store.schema.partition_keys, f"snapshot-{at.id}"
        state = state_of(at.properties or {}, keys, snapshot_id=at.id, basis=basis, path=where)
        return state if state.offsets_path is None else replace(state, partition_names=self._names(at, state))

    def _names(self, theirs: Snapshot, state: LakeState) -> dict[int, str]:
        """The names of partitions by the newest round of ours below one of Fluss's own service, which names
        none: the cluster no longer has those of dropped ones."""
        store, at = self._store, theirs
        while (text := offsets_text(at.properties or {})) is None:
            before = positions.newest_tiered(store.snapshots, store.snapshots.find(at.id - 1))
            if before is None:
                return {}
            at = before
        if (at.properties or {}).get(positions.TABLE_ID) != str(state.table_id):
            return {}
        return parse_property(text, store.schema.partition_keys, f"snapshot-{at.id}")[1]

    def to_committable(self, results: Sequence[PaimonWriteResult]) -> PaimonCommittable:
        """The messages of all writers."""
        return PaimonCommittable(tuple(message for result in results for message in result.messages))

    def commit(self, committable: PaimonCommittable, commit: LakeCommit) -> int:
        """Commit a round; the id of the newest snapshot that it made. Raises CommitConflict if the lake has
        moved: then the files are gone."""
        store, basis = self._store, commit.basis.basis
        assert isinstance(basis, PaimonBasis), "a state of this lake"
        messages = [commit_message.decode(m) for m in committable.messages]
        compacted = [m.compacted_from for m in messages if m.compacted_from is not None]
        request = CommitRequest(
            COMMIT_USER,
            basis.identifier + 1,
            position=position_text(commit.table_id, commit.offsets),
            properties=properties_of(commit, store.schema.partition_keys),
            basis=Basis(basis.snapshot),
            compacted_from=min(compacted, default=None),
            log=self._log_range(basis.snapshot, commit),
        )
        if commit.replaces:
            committed = self._replaced(messages, request, commit)
        elif commit.drops:
            committed = self._without(commit.drops, messages, request)
        else:
            committed = finishing.commit(store, messages, request)
        snapshot_id = committed.snapshot
        if committed.replayed or snapshot_id is None:
            discard(store, messages)  # of an overwrite; others have done it
            raise CommitConflict(f"another service committed round {request.identifier} first")
        history.after_commit(store, self._table.name, committed.snapshots)
        return snapshot_id

    def _log_range(self, before: Snapshot | None, commit: LakeCommit) -> LogRange | None:
        """Where the rows are in the log that readers of the lake table look at; None without one."""
        store = self._store
        if store.options.log_system is LogSystem.NONE:
            return None
        end = {number(place.partition_id, place.bucket): at for place, at in commit.offsets.items()}
        offsets_before = log_offsets.known(before, store.snapshots.get)
        if commit.replaces:  # the log of another table, which is read from its start
            return LogRange({}, {**dict.fromkeys(offsets_before, 0), **end})
        # a log that was cut below the lake's offset begins there again: the offsets of snapshots stay
        return LogRange(
            {place: offsets_before.get(place, 0) for place in end},
            {place: max(at, offsets_before.get(place, 0)) for place, at in end.items()},
        )

    def _replaced(
        self, messages: Sequence[CommitMessage], request: CommitRequest, commit: LakeCommit
    ) -> Committed:
        """Put the rows in the place of those of a former table, which a tag keeps, if they are to be kept."""
        basis = request.basis.snapshot if request.basis is not None else None
        if basis is not None and commit.keeps:
            name = f"fluss-table-{commit.basis.table_id}"
            try:
                self._table.tags.create(name, snapshot=basis.id)
            except AlreadyExists:
                log.info("%s: tag %s is there already", self._table.name, name)
        with discarded_if_refused(self._store, messages):
            return Committer(self._store).overwrite(messages, request, lambda _: True)

    def _without(
        self, names: Sequence[str], messages: Sequence[CommitMessage], request: CommitRequest
    ) -> Committed:
        """Drop the rows of partitions, by their names in the cluster."""
        store = self._store
        with discarded_if_refused(store, messages):
            return Committer(store).overwrite(messages, request, lambda p: name_of(store, p) in names)

    def abort(self, committable: PaimonCommittable) -> None:
        """Delete the files of a round that is not committed."""
        discard(self._store, [commit_message.decode(m) for m in committable.messages])

    def readable(self, tiered: Offsets) -> Offsets | None:
        """The offsets that readers see, where level 0 is hidden from them."""
        return readable_offsets(self._store, tiered, dict(self.state().partition_names))


_SNAPSHOTS = 50  # looked at; a bucket that is hidden in all of them is not readable


def readable_offsets(store: Store, offsets: Offsets, names: dict[int, str]) -> dict[TieredBucket, int] | None:
    """The readable offset of each bucket of `offsets`, without those of which readers see no row; None where
    readers see all. `names` are those of partitions."""
    if not store.schema.primary_keys or not hides_level_0(store):
        return None
    readable: dict[TieredBucket, int] = {}
    snapshot, left = store.snapshots.latest(), set(offsets)
    for _ in range(_SNAPSHOTS):
        if snapshot is None or not left:
            break
        hidden = _hidden(store, snapshot, names)
        reached = _offsets(store, snapshot)
        for place in left - hidden:
            if place in reached:
                readable[place] = reached[place]
        left &= hidden
        try:
            snapshot = store.snapshots.get(snapshot.id - 1) if snapshot.id > 1 else None
        except NotFound:
            break
    return readable


def _hidden(store: Store, snapshot: Snapshot, names: dict[int, str]) -> set[TieredBucket]:
    """The buckets with files at level 0."""
    ids: dict[str, int | None] = {name: id for id, name in names.items()}
    if not store.schema.partition_keys:
        ids = {"": None}
    places = {(e.partition, e.bucket) for e in store.manifests.live_entries(snapshot) if e.file.level == 0}
    hidden = set()
    for partition, bucket in places:
        name = name_of(store, partition)
        if name in ids:
            hidden.add(TieredBucket(ids[name], bucket))
    return hidden


def name_of(store: Store, partition: bytes) -> str:
    """The name that a partition has in the cluster; empty for a table without."""
    return "$".join(str(value) for value in store.partition_values(partition))


def _offsets(store: Store, snapshot: Snapshot) -> dict[TieredBucket, int]:
    at = positions.newest_tiered(store.snapshots, snapshot)
    if at is None:
        return {}
    text = offsets_text(at.properties or {})  # Fluss's own service says them elsewhere: none are known here
    return {} if text is None else parse_property(text, store.schema.partition_keys, f"snapshot-{at.id}")[0]
