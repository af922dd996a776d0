"""The state of a GROUP BY: tables of this engine with what is kept of each group, one commit a batch.

`groups` is keyed by the group; its changelog has each change as −U and +U, so whoever keeps the result
follows it as any other table. A table `values_<n>` for each argument of MIN, MAX (where rows are taken back)
or DISTINCT is keyed by group and value, with how often the value is there. Tasks may work on buckets at once:
`apply` reads the rows of touched groups by their keys and writes new ones; one process commits what they
wrote. The commit of `groups` completes a batch: what a killed process committed to the other tables only is
taken back by the next `begin`. Memory: DuckDB's limit (it spills), the write buffer, and 65,536 groups.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.sql.query.connection import Connection
from tablestore.sql.streaming.group_columns import VALUE, GroupColumns
from tablestore.sql.streaming.group_partials import GROUPS_TABLE, Partials
from tablestore.sql.streaming.group_stream import GroupStream
from tablestore.sql.streaming.group_update import GroupUpdate
from tablestore.sql.streaming.plan import StreamPlan
from tablestore.table.lake import Lake, connect
from tablestore.table.table import Table
from tablestore.write.commit.committer import Committed

_DATABASE = "state"
Basis = Mapping[str, int]  # table → the snapshot that a batch builds on, 0: none


@dataclass(frozen=True)
class GroupState:
    """The state in `directory`, whose commits are of `user`. Picklable."""

    directory: str
    user: str
    plan: StreamPlan
    columns: GroupColumns
    buckets: int

    @classmethod
    def create(cls, directory: str, plan: StreamPlan, *, user: str, buckets: int = 1) -> GroupState:
        """The state of a grouped plan in a directory, made if it is not there; one that is there keeps its
        number of buckets. Raises InvalidRequest for the state of another query, Unsupported for what cannot
        be kept."""
        assert plan.grouping is not None, "a plan that groups"
        columns = GroupColumns.of(plan.step.schema, plan.grouping, retracts=plan.retracts)
        lake = connect(directory)
        known = _tables(lake)
        if GROUPS_TABLE in known:
            buckets = int(lake.table(f"{_DATABASE}.{GROUPS_TABLE}").options["bucket"])
        state = cls(directory, user, plan, columns, buckets)
        for name in [
            *(c.table for c in columns.counted),
            GROUPS_TABLE,
        ]:  # the groups last: then all are there
            if name not in known:
                state._create_table(lake, name)
        for name, schema in state._schemas.items():
            found = lake.table(f"{_DATABASE}.{name}").schema
            if [(f.name, f.type) for f in found] != [(f.name, f.type) for f in schema]:
                raise InvalidRequest(f"{directory} holds the state of another query")
        return state

    @property
    def groups(self) -> Table:
        """The table of groups, whose commits are the batches."""
        return self._table(GROUPS_TABLE)

    def position(self) -> tuple[int, str | None] | None:
        """The last batch and its position, None before the first."""
        return self.groups.position(self.user)

    def partials(self) -> Partials:
        """What computes parts of changes; picklable."""
        return Partials(self.plan.step, self.columns, self.buckets)

    def begin(self, identifier: int) -> Basis | None:
        """What the batch builds on; None if it was committed before. Only one process may have begun."""
        known = self.position()
        if known is not None and known[0] >= identifier:
            return None
        last = -1 if known is None else known[0]
        for counted in self.columns.counted:
            self._take_back(counted.table, last)
        return {name: self._table(name).store.snapshots.latest_id() or 0 for name in self._schemas}

    def apply(self, bucket: int, parts: Iterable[bytes], basis: Basis, *, memory: str = "") -> list[bytes]:
        """Messages for `commit`: the new rows of the groups of one bucket that the parts change, written."""
        with Connection(memory=memory) as connection:
            return self.apply_on(connection, bucket, parts, basis)

    def apply_on(
        self, connection: Connection, bucket: int, parts: Iterable[bytes], basis: Basis
    ) -> list[bytes]:
        """The same on a connection that serves for several calls."""
        tables = {name: self._table(name) for name in self._schemas}
        update = GroupUpdate(
            self.columns, tables, basis, user=self.user, bucket=bucket, connection=connection
        )
        return [pickle.dumps(message) for message in update.messages(parts)]

    def commit(self, messages: Iterable[bytes], identifier: int, position: str) -> Committed:
        """Commit a batch; the same identifier again adds nothing."""
        found: dict[str, list[bytes]] = {name: [] for name in self._schemas}
        for message in messages:
            name, own = pickle.loads(message)
            found[name].append(own)
        for counted in self.columns.counted:
            if found[counted.table]:
                self._table(counted.table).commit(found[counted.table], user=self.user, identifier=identifier)
        return self.groups.commit(
            found[GROUPS_TABLE], user=self.user, identifier=identifier, position=position
        )

    def changes(self) -> GroupStream:
        """Changes of keys and values of groups, the view that `Grouping.after` is computed over: all groups
        first, then what batches change."""
        assert self.plan.grouping is not None
        return GroupStream.of(self.groups.location, self.columns, self.plan.grouping)

    @property
    def _schemas(self) -> dict[str, pa.Schema]:
        found = {c.table: self.columns.counted_schema(c) for c in self.columns.counted}
        return found | {GROUPS_TABLE: self.columns.schema}

    def _table(self, name: str) -> Table:
        return connect(self.directory).table(f"{_DATABASE}.{name}")

    def _create_table(self, lake: Lake, name: str) -> None:
        schema = self._schemas[name]
        groups = name == GROUPS_TABLE
        keys = self.columns.key_names
        lake.create_table(
            f"{_DATABASE}.{name}",
            schema=schema,
            primary_key=keys if groups else [*keys, VALUE],
            options={
                "bucket": self.buckets,
                "bucket-key": ",".join(keys),  # values are where their group is
                "changelog-producer": "input" if groups else "none",
                "metadata.stats-mode": "none",  # nobody filters by what is counted
                "snapshot.num-retained.min": 20,  # who follows is one batch behind at most
                "snapshot.time-retained": "1 min",
                "write-buffer-size": "64 mb",
            },
        )

    def _take_back(self, name: str, last: int) -> None:
        """Undo what a table has of batches after `last`."""
        table = self._table(name)
        known = table.position(self.user)
        newest = table.store.snapshots.latest_id() or 0
        if known is None or known[0] <= last:
            return
        while newest > 0:
            snapshot = table.store.snapshots.get(newest)
            if snapshot.commit_user != self.user or snapshot.commit_identifier <= last:
                table.rollback(snapshot=newest)
                return
            newest -= 1
        lake = connect(self.directory)
        lake.drop_table(f"{_DATABASE}.{name}")
        self._create_table(lake, name)


def _tables(lake: Lake) -> set[str]:
    try:
        return set(lake.tables(_DATABASE))
    except NotFound:
        return set()
