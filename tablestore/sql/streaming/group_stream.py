"""The changelog of a state table as changes of groups: their keys and the values of their aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.change_feed import ChangeFeed
from tablestore.cdc.table_stream import TableStream
from tablestore.core.errors import Unsupported
from tablestore.flow.source import Changes, Offset, StreamPiece
from tablestore.format import rowkind
from tablestore.format.predicates.predicate import Predicate
from tablestore.sql.query.duck_arithmetic import DuckArithmetic
from tablestore.sql.query.user_functions import Calls, DuckSql
from tablestore.sql.streaming.group_columns import NULLS, ROWS, GroupColumns, quoted
from tablestore.sql.streaming.grouping import GROUPS, Grouping
from tablestore.sql.streaming.row_step import KIND, POSITION, RowStep, RowSteps

_STATE = "__state"


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
                rows, found = differing(*steps.rows(_STATE, batch, kinds))
                yield rows.select(list(columns)), found


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
