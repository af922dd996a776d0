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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.change_feed import ChangeFeed
from tablestore.cdc.table_stream import TableStream
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.flow.source import Changes, Offset, StreamPiece
from tablestore.format import rowkind
from tablestore.format.predicates.predicate import Predicate
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.query.duck_types import DuckArithmetic
from tablestore.sql.query.function import Calls, DuckSql
from tablestore.sql.streaming.group_columns import (
    GROUPS,
    GROUPS_TABLE,
    NULLS,
    ROWS,
    VALUE,
    GroupColumns,
    Grouping,
    Partials,
)
from tablestore.sql.streaming.group_update import GroupUpdate
from tablestore.sql.streaming.plan import StreamPlan
from tablestore.sql.streaming.row_step import KIND, POSITION, RowStep, RowSteps
from tablestore.sql.text import quoted
from tablestore.table.lake import Lake, connect
from tablestore.table.table import Table
from tablestore.write.commit.committer import Committed

_STATE = "__state"

_DATABASE = "state"
Basis = Mapping[str, int]  # table → the snapshot that a batch builds on, 0: none


@dataclass(frozen=True)
class GroupStream:
    """Changes of groups from the changelog of their table; a `StreamSource`. A change that no value shows is
    left out. `step` makes of a row what is kept of a group its keys and values."""

    stream: TableStream
    step: RowStep

    @classmethod
    def of(cls, location: str, columns: GroupColumns, grouping: Grouping) -> GroupStream:
        """The changes of the groups in the table at a location."""
        schema = grouping.after.views[GROUPS]
        shown = [
            f"CASE WHEN {NULLS} & {1 << place} = 0 THEN {quoted(n)} END AS {quoted(n)}"
            for place, n in enumerate(columns.keys.names)
        ]
        calls = Calls({})
        numbers = DuckArithmetic(calls)
        shown += [f"{columns.value(a, numbers)} AS {quoted(a.name)}" for a in columns.aggregates]
        sql = DuckSql(
            f"SELECT {', '.join([*shown, quoted(KIND), quoted(POSITION)])} FROM {_STATE} "
            f"WHERE {quoted(ROWS)} > 0"
        )
        sql.functions = tuple(calls.found.values())
        step = RowStep(sql, {_STATE: columns.schema}, schema)
        return cls(TableStream(ChangeFeed(location)), step)

    @property
    def schema(self) -> pa.Schema:
        return self.step.schema

    @property
    def appends(self) -> bool:
        return False

    def initial(self) -> Offset:
        return self.stream.initial()

    def latest(self) -> Offset:
        return self.stream.latest()

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        return self.stream.next(start, target)

    def ended(self, offset: Offset) -> bool:
        return False

    def pieces(self, start: Offset, end: Offset) -> list[GroupPiece]:
        return [GroupPiece(piece, self.step) for piece in self.stream.pieces(start, end)]

    def done(self, end: Offset) -> None:
        self.stream.done(end)


@dataclass(frozen=True)
class GroupPiece:
    """A piece of the changelog of groups."""

    piece: StreamPiece
    step: RowStep

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        if where is not None:
            raise Unsupported("a condition pushed down to changes of groups")
        names = self.step.views[_STATE].names
        with RowSteps(self.step) as steps:
            for batch, kinds in _unsplit(self.piece.read(names)):
                rows, row_kinds = differing(*steps.rows(_STATE, batch, kinds))
                yield rows.select(list(columns)), row_kinds


def _unsplit(changes: Changes) -> Changes:
    """The same changes; a −U and its +U are in one batch."""
    waiting: tuple[pa.RecordBatch, pa.Array] | None = None
    for batch, kinds in changes:
        if waiting is not None:
            batch = pa.concat_batches([waiting[0], batch])
            kinds = pa.concat_arrays([waiting[1].cast(kinds.type), kinds])
        waiting, rows = None, batch.num_rows
        if rows and kinds[rows - 1].as_py() == rowkind.UPDATE_BEFORE:
            waiting = batch.slice(rows - 1), kinds.slice(rows - 1)
            batch, kinds = batch.slice(0, rows - 1), kinds.slice(0, rows - 1)
        if batch.num_rows:
            yield batch, kinds
    if waiting is not None:
        yield waiting


def differing(rows: pa.RecordBatch, kinds: pa.Array) -> tuple[pa.RecordBatch, pa.Array]:
    """The changes without updates that change nothing."""
    numbers = kinds.to_numpy(zero_copy_only=False)
    before = np.flatnonzero((numbers[:-1] == rowkind.UPDATE_BEFORE) & (numbers[1:] == rowkind.UPDATE_AFTER))
    if not len(before):
        return rows, kinds
    old, new = rows.take(pa.array(before)), rows.take(pa.array(before + 1))
    same = np.ones(len(before), bool)
    for a, b in zip(old.columns, new.columns, strict=True):
        same &= _same(a, b)
    if not same.any():
        return rows, kinds
    kept = np.ones(len(numbers), bool)
    kept[before[same]] = kept[before[same] + 1] = False
    mask = pa.array(kept)
    return rows.filter(mask), kinds.filter(mask)


def _same(a: pa.Array, b: pa.Array) -> np.ndarray:
    if pa.types.is_nested(a.type):
        return np.array([x == y for x, y in zip(a, b, strict=True)])
    equal = np.asarray(pc.fill_null(pc.equal(a, b), False))
    return equal | (np.asarray(pc.is_null(a)) & np.asarray(pc.is_null(b)))


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
        tables = _tables(lake)
        if GROUPS_TABLE in tables:
            buckets = int(lake.table(f"{_DATABASE}.{GROUPS_TABLE}").options["bucket"])
        state = cls(directory, user, plan, columns, buckets)
        for name in [
            *(c.table for c in columns.counted),
            GROUPS_TABLE,
        ]:  # the groups last: then all are there
            if name not in tables:
                state._create_table(lake, name)
        for name, schema in state._schemas.items():
            fields = lake.table(f"{_DATABASE}.{name}").schema
            if [(f.name, f.type) for f in fields] != [(f.name, f.type) for f in schema]:
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
        last_batch = self.position()
        if last_batch is not None and last_batch[0] >= identifier:
            return None
        last = -1 if last_batch is None else last_batch[0]
        for counted in self.columns.counted:
            self._take_back(counted.table, last)
        return {name: self._table(name).store.snapshots.latest_id() or 0 for name in self._schemas}

    def apply(self, bucket: int, parts: Iterable[bytes], basis: Basis, *, memory: str = "") -> list[bytes]:
        """Messages for `commit`: the new rows of the groups of one bucket that the parts change, written."""
        with DuckConnection(memory=memory) as connection:
            return self.apply_on(connection, bucket, parts, basis)

    def apply_on(
        self, connection: DuckConnection, bucket: int, parts: Iterable[bytes], basis: Basis
    ) -> list[bytes]:
        """The same on a connection that serves for several calls."""
        tables = {name: self._table(name) for name in self._schemas}
        update = GroupUpdate(
            self.columns, tables, basis, user=self.user, bucket=bucket, connection=connection
        )
        return [pickle.dumps(message) for message in update.messages(parts)]

    def commit(self, messages: Iterable[bytes], identifier: int, position: str) -> Committed:
        """Commit a batch; the same identifier again adds nothing."""
        by_table: dict[str, list[bytes]] = {name: [] for name in self._schemas}
        for message in messages:
            name, own = pickle.loads(message)
            by_table[name].append(own)
        for counted in self.columns.counted:
            if by_table[counted.table]:
                self._table(counted.table).commit(
                    by_table[counted.table], user=self.user, identifier=identifier
                )
        return self.groups.commit(
            by_table[GROUPS_TABLE], user=self.user, identifier=identifier, position=position
        )

    def changes(self) -> GroupStream:
        """Changes of keys and values of groups, the view that `Grouping.after` is computed over: all groups
        first, then what batches change."""
        assert self.plan.grouping is not None
        return GroupStream.of(self.groups.location, self.columns, self.plan.grouping)

    @property
    def _schemas(self) -> dict[str, pa.Schema]:
        schemas = {c.table: self.columns.counted_schema(c) for c in self.columns.counted}
        return schemas | {GROUPS_TABLE: self.columns.schema}

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
        last_batch = table.position(self.user)
        newest = table.store.snapshots.latest_id() or 0
        if last_batch is None or last_batch[0] <= last:
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
