"""PaimonTieringFactory: tables of this engine as the lake that rounds write to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablestore.catalog.opening import require_mounted
from tablestore.core.errors import CommitConflict, InvalidRequest
from tablestore.core.options.log_store import LogSystem
from tablestore.core.options.names import UUID
from tablestore.format import commit_message
from tablestore.io.routed import file_io_for
from tablestore.log import offsets as log_offsets
from tablestore.read.changes.changed_keys import hides_level_0
from tablestore.read.table_log import removes_rows
from tablestore.table import finishing, history, writes
from tablestore.table.handle import Handle
from tablestore.table.lake import Lake
from tablestore.table.logged import LogCommitter
from tablestore.table.place import TablePlace
from tablestore.table.table import Table
from tablestore.tiering.cluster import (
    COMMIT_USER,
    ClusterTable,
    LakeCommit,
    LakeCommitter,
    LakeState,
    RowBatch,
)
from tablestore.tiering.coordinator.served_tables import id_of
from tablestore.tiering.paimon.committer import PaimonBasis, PaimonCommittable, PaimonLakeCommitter
from tablestore.tiering.paimon.writer import PaimonLakeWriter, PaimonWriteResult, lake_table
from tablestore.tiering.splits import Offsets, TieredBucket, TieringSplit
from tablestore.write.commit.commit_or_discard import discard

_SNAPSHOTS = 50  # looked at; a bucket that is hidden in all of them is not readable


def is_own(table: Table, source: ClusterTable) -> bool:
    """Whether the cluster's table is this very table. Raises CommitConflict where it was, before it was
    dropped and made again."""
    uuid, store = source.options.get(UUID), table.store
    same = uuid is not None and store.schema.options.get(UUID) == uuid
    if uuid is not None and not same and store.options.tiering_enabled:
        raise CommitConflict(f"{table.name} was dropped and made again: nothing was committed")
    return same


class OwnTableWriter(PaimonLakeWriter):
    """Writes one split. Rows that a table without a key removes are left to the commit, which then writes
    all that the log has."""

    def write(self, batch: RowBatch) -> None:
        """Add rows, in the order of their offsets."""
        kinds = batch.kinds
        if self._schema.primary_keys or kinds is None or not kinds.to_numpy(zero_copy_only=False).any():
            super().write(batch)
        else:
            kept = pa.array(kinds.to_numpy(zero_copy_only=False) == 0)
            super().write(replace(batch, rows=batch.rows.filter(kept), kinds=None))


class OwnTableCommitter:
    """Commits rounds to one table with a log, whose lake table is the table itself.

    What the files hold is said by the log offsets of its snapshots. A round is committed on top of a snapshot
    with the offsets at which its rows begin, or not at all. It carries the positions of the streams whose
    rows it brings, so that their replays are still recognised.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def state(self) -> LakeState:
        """What the newest snapshot says of the log."""
        store = self._table.store
        store.require_same()
        latest = store.snapshots.latest()
        basis = PaimonBasis(latest, 0)
        if latest is None:
            return LakeState(basis=basis)
        log_ends = log_offsets.known(latest, store.snapshots.get)
        offsets = {TieredBucket(None, bucket): offset for bucket, offset in log_ends.items()}
        return LakeState(latest.id, id_of(store.schema.options[UUID]), offsets, basis=basis)

    def to_committable(self, results: Sequence[PaimonWriteResult]) -> PaimonCommittable:
        """The messages of all writers."""
        return PaimonCommittable(tuple(message for result in results for message in result.messages))

    def commit(self, committable: PaimonCommittable, commit: LakeCommit) -> int:
        """Commit a round; the id of the newest snapshot that it made. Raises CommitConflict if the files have
        moved: then those of the round are gone."""
        store, basis = self._table.store, commit.basis.basis
        assert isinstance(basis, PaimonBasis), "a state of this table"
        messages = [commit_message.decode(m) for m in committable.messages]
        to = self._to()
        end = {place.bucket: offset for place, offset in commit.offsets.items()}
        at = {} if basis.snapshot is None else to.position(basis.snapshot)
        passed = {place.bucket: offset for place, offset in commit.passed.items()}
        log_round = to.round(basis.snapshot, end, passed)
        at = log_offsets.advanced(at, passed)
        keyed = bool(store.schema.shown.primary_keys)
        if log_round.repeated or (not keyed and removes_rows(to.log, store.schema, at, end)):
            discard(store, messages)
            snapshot_ids: tuple[int, ...] = to.finish()
        else:
            compacted = [m.compacted_from for m in messages if m.compacted_from is not None]
            request = log_round.request(COMMIT_USER)
            request = replace(request, compacted_from=min(compacted, default=None))
            snapshot_ids = finishing.commit(store, messages, request).snapshots
        if not snapshot_ids:
            raise CommitConflict("others brought the rows of this round into files first")
        history.after_commit(store, self._table.name, snapshot_ids)
        return snapshot_ids[-1]

    def abort(self, committable: PaimonCommittable) -> None:
        """Delete the files of a round that is not committed."""
        discard(self._table.store, [commit_message.decode(m) for m in committable.messages])

    def readable(self, tiered: Offsets) -> Offsets | None:
        """The offsets that readers of the files see, where level 0 is hidden from them: of each bucket those
        of the newest snapshot in which it has no file there."""
        store = self._table.store
        if not store.schema.primary_keys or not hides_level_0(store):
            return None
        readable: dict[TieredBucket, int] = {}
        snapshot, left = store.snapshots.latest(), {place.bucket for place in tiered}
        for _ in range(_SNAPSHOTS):
            if snapshot is None or not left:
                break
            hidden = {e.bucket for e in store.manifests.live_entries(snapshot) if e.file.level == 0}
            log_ends = log_offsets.known(snapshot, store.snapshots.get)
            readable |= {
                TieredBucket(None, bucket): log_ends[bucket] for bucket in left - hidden if bucket in log_ends
            }
            left &= hidden
            snapshot = store.snapshots.find(snapshot.id - 1)
        return readable

    def _to(self) -> LogCommitter:
        committer = writes.logged(Handle(self._table.store, self._table.name))
        assert committer is not None, "the table has a log"
        return committer


class PaimonTieringFactory:
    """Writes to tables of `lake` of the same names as the cluster's. `log_columns`: lake tables of log tables
    get `__bucket`, `__offset`, `__timestamp` when they are made; `options` are those of all that are made.
    `read_from`: addresses of the Fluss cluster; lake tables that are made say so, and reads of them with the
    log see what no round has brought yet.

    Picklable: without the lake it makes writers of tables that were prepared before.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        log_columns: bool = False,
        options: Mapping[str, Any] | None = None,
        read_from: str | None = None,
    ) -> None:
        self._lake: Lake | None = lake
        self._read_from = read_from
        self._log_columns, self._options = log_columns, dict(options or {})
        self._places: dict[str, TablePlace] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lake": None, "_places": dict(self._places)}  # other rounds add to it

    def prepare(self, table: ClusterTable) -> None:
        """Make the lake table if it is not there, or bring its columns up to date. Raises Unavailable where
        it was there, and the lake is away."""
        if self._lake is None:
            raise InvalidRequest("tables are prepared where the lake is, not in a task")
        if table.path in self._places:
            require_mounted(self._lake.warehouse, file_io_for(self._lake.warehouse))
        own = self._own(table)
        if own is not None:
            self._places[table.path] = TablePlace.of(own)
            return
        options = {**_log_options(table, self._read_from), **self._options}
        in_lake = lake_table(self._lake, table, log_columns=self._log_columns, options=options)
        self._places[table.path] = TablePlace.of(in_lake)

    def _own(self, table: ClusterTable) -> Table | None:
        """The lake table, if it is the very table of the cluster, whose log is tiered into its own files."""
        assert self._lake is not None, "where the lake is"
        in_lake = self._lake.table(table.path) if table.path in self._lake else None
        return in_lake if in_lake is not None and is_own(in_lake, table) else None

    def opened(self, table: ClusterTable) -> Table:
        """The lake table as it is now."""
        if self._lake is not None:
            return self._lake.table(table.path)
        return self._places[table.path].opened()

    def create_writer(
        self, table: ClusterTable, split: TieringSplit, *, replaces: bool = False
    ) -> PaimonLakeWriter:
        """The writer of one split."""
        opened = self.opened(table)
        kind = OwnTableWriter if is_own(opened, table) else PaimonLakeWriter
        return kind(opened, table, split, replaces=replaces)

    def create_committer(self, table: ClusterTable) -> LakeCommitter:
        """The committer of one table."""
        opened = self.opened(table)
        return OwnTableCommitter(opened) if is_own(opened, table) else PaimonLakeCommitter(opened)


def _log_options(table: ClusterTable, servers: str | None) -> dict[str, str]:
    """The options by which a lake table knows where its rows come from."""
    if servers is None:
        return {}
    return {
        "log.system": LogSystem.FLUSS.value,
        "tablestore.fluss.bootstrap.servers": servers,
        "tablestore.fluss.table": table.path,
    }
