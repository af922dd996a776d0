"""IcebergLakeCommitter: a round as one snapshot of an Iceberg table, whose summary holds the offsets.

A commit is refused by Iceberg unless the newest snapshot is the one from which the round was planned. The
offsets are also a property of the table, for the case that all snapshots of rounds have expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import CommitConflict, CommitUnknown
from tablestore.core.extras import required
from tablestore.meta import tiered
from tablestore.tiering.cluster import ClusterTable
from tablestore.tiering.factory import COMMIT_USER, LakeCommit, LakeState
from tablestore.tiering.iceberg.writer import IcebergWriteResult, deleted
from tablestore.tiering.lake_offsets import properties_of, state_of
from tablestore.tiering.splits import Offsets

_USER = "commit-user"
_SEQUENCE = "tablestore.fluss-sequence-number"  # of the snapshot of the last round, or one before
_BY = "tiering into Iceberg"


@dataclass(frozen=True, slots=True)
class IcebergCommittable:
    """Locations of the files of all writers of a round."""

    files: tuple[str, ...]


class IcebergLakeCommitter:
    """Commits rounds to one Iceberg table of a catalog."""

    def __init__(self, catalog: Any, source: ClusterTable) -> None:
        self._catalog, self._source = catalog, source
        self._identifier = tuple(source.path.split(".", 1))

    def _loaded(self) -> Any:
        return self._catalog.load_table(self._identifier)

    def state(self) -> LakeState:
        """What the newest snapshot of a round says, or the table's properties where none is left."""
        return self._state_of(self._loaded())

    def _state_of(self, table: Any) -> LakeState:
        newest = table.current_snapshot()
        basis = newest.snapshot_id if newest is not None else None
        for snapshot in _ancestors(table):
            said = snapshot.summary.additional_properties if snapshot.summary else {}
            if tiered.OFFSETS in said:
                return self._said(snapshot.snapshot_id, said, basis)
        since = table.properties.get(_SEQUENCE)
        if newest is None or since is None or (newest.sequence_number or 0) < int(since):  # rolled back
            return LakeState(basis=basis)
        return self._said(newest.snapshot_id, table.properties, basis)

    def _said(self, snapshot_id: int, properties: Mapping[str, str], basis: int | None) -> LakeState:
        keys, where = self._source.partition_keys, f"{self._source.path} snapshot {snapshot_id}"
        return state_of(properties, keys, snapshot_id=snapshot_id, basis=basis, path=where)

    def to_committable(self, results: Sequence[IcebergWriteResult]) -> IcebergCommittable:
        """The files of all writers."""
        return IcebergCommittable(tuple(file for result in results for file in result.files))

    def commit(self, committable: IcebergCommittable, commit: LakeCommit) -> int:
        """Commit a round; the id of its snapshot. Raises CommitConflict if the table has another newest
        snapshot: then the files are gone."""
        errors = required("pyiceberg.exceptions", by=_BY)
        table = self._loaded()
        newest = table.current_snapshot()
        retries = table.properties.get("commit.retry.num-retries")
        if (newest.snapshot_id if newest is not None else None) != commit.basis.basis or retries != "0":
            self.abort(committable)
            raise CommitConflict(f"{self._source.path} has a newer snapshot since this round began")
        said = properties_of(commit, self._source.partition_keys)
        try:
            with table.transaction() as changes:
                if commit.replaces:
                    self._replace(changes, commit.basis)
                for name in commit.drops:
                    changes.delete(self._partition(name))
                changes.add_files(
                    list(committable.files), {**said, _USER: COMMIT_USER}, check_duplicate_files=False
                )
                changes.set_properties({**said, _SEQUENCE: str(table.last_sequence_number + 1)})
        except (errors.CommitFailedException, errors.ValidationException) as e:
            self.abort(committable)
            raise CommitConflict(f"{self._source.path} was changed since this round began: {e}") from None
        except errors.CommitStateUnknownException as e:
            raise CommitUnknown(f"whether {self._source.path} has the rows is not known: {e}") from e
        snapshot = table.current_snapshot()
        return int(snapshot.snapshot_id)

    def _replace(self, changes: Any, basis: LakeState) -> None:
        """Delete the rows of a former table; older snapshots have them until they expire."""
        expressions = required("pyiceberg.expressions", by=_BY)
        if basis.basis is not None:
            changes.delete(expressions.AlwaysTrue())

    def _partition(self, name: str) -> Any:
        """The rows of a partition, by its name in the cluster."""
        expressions = required("pyiceberg.expressions", by=_BY)
        condition: Any = expressions.AlwaysTrue()
        for key, value in zip(self._source.partition_keys, name.split("$"), strict=True):
            condition = expressions.And(condition, expressions.EqualTo(key, value))
        return condition

    def abort(self, committable: IcebergCommittable) -> None:
        """Delete the files of a round that is not committed."""
        deleted(self._loaded().io, committable.files)

    def readable(self, tiered: Offsets) -> Offsets | None:
        """None: readers see all rows."""
        return None


def _ancestors(table: Any) -> Iterator[Any]:
    """The newest snapshot and those before it, as far as they are left."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
    newest = table.current_snapshot()
    at = None if newest is None else by_id.get(newest.snapshot_id)
    while at is not None:
        yield at
        at = by_id.get(at.parent_snapshot_id)
