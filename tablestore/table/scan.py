"""Scan: a lazy, immutable batch read. Nothing is read before a `to_…`; `explain` tells what would be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import chosen, condition
from tablestore.format.snapshot import Snapshot
from tablestore.format.types.arrow_types import arrow_schema
from tablestore.lsm.merge import counted
from tablestore.meta.store import Store
from tablestore.read.changes.diff import DiffSplit, plan_diff, read_diff
from tablestore.read.changes.incremental import ChangeSplit, Range, plan_range, read_changes
from tablestore.read.scan import fallback, parallel, time_travel
from tablestore.read.scan import plan as planning
from tablestore.read.scan.fallback import BranchSplit, OtherBranch, read_branch_split
from tablestore.read.scan.plan import Explanation, Plan
from tablestore.read.scan.scan_mode import BatchStart, Diff, State
from tablestore.read.scan.split import DataSplit
from tablestore.read.scan.split_read import columns_to_count, read_split
from tablestore.table.lazy_read import LazyRead


def column_names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names as a tuple; raises InvalidRequest for one name in place of a list, and for what are no names."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidRequest(f"columns are a list of names, not {columns!r}")
    names = tuple(columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidRequest(f"columns are a list of names, and {name!r} is none")
    return names


def selected(columns: tuple[Any, ...]) -> tuple[str, ...] | None:
    """The arguments of `select`: names one by one, or one list of them."""
    listed = len(columns) == 1 and not isinstance(columns[0], str)
    return column_names(columns[0] if listed else columns)


@checked
@dataclass(frozen=True)
class Scan(LazyRead):
    """A read of one snapshot. `columns` None means all; `limit` rows at most (any rows: a table has no
    order); `other` the branch that is read beside this one."""

    store: Store
    snapshot: Snapshot | None
    columns: tuple[str, ...] | None = None
    where: Predicate | None = None
    limit: int | None = None
    _reader: Callable[..., Iterator[pa.RecordBatch]] = read_split
    _planner: Callable[..., Plan] = planning.plan
    other: OtherBranch | None = None

    @classmethod
    def starting(
        cls,
        store: Store,
        start: BatchStart,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        *,
        other: OtherBranch | None = None,
    ) -> Scan:
        """A read of what `scan_mode.batch` found: a state (of two branches with `other`), the changes of a
        range, or a difference."""
        names = column_names(columns)
        travelled = isinstance(start, State) and start.travelled
        store = time_travel.at(store, start.snapshot) if travelled else store
        where = condition(where, store.schema)
        if isinstance(start, Range):
            return cls(store, None, names, where, None, read_changes, partial(_plan_changes, start))
        if isinstance(start, Diff):
            return cls(store, start.end, names, where, None, read_diff, partial(_plan_difference, start))
        if start.since_ms is None:
            return cls(store, start.snapshot, names, where, other=other)
        planner = partial(planning.plan, made_since=time_travel.local_ms(start.since_ms))
        return cls(store, start.snapshot, names, where, None, read_split, planner, other)

    @property
    def changes(self) -> bool:
        """Whether this reads changes or a difference: what other engines must not plan for themselves."""
        return self._planner is not planning.plan

    def select(self, *columns: str) -> Scan:
        """Only these columns, in this order; a list of them will do."""
        return replace(self, columns=selected(columns))

    def filter(self, where: Predicate | str) -> Scan:
        """Also this condition, a predicate or its SQL text."""
        also = chosen(where, self.store.schema)
        return replace(self, where=also if self.where is None else self.where & also)

    def head(self, rows: int) -> Scan:
        """At most that many rows; raises InvalidRequest for anything but a count."""
        rows = unwrapped(rows)
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise InvalidRequest(f"head({rows!r}): use a whole number of rows, at least 0")
        return replace(self, limit=min(rows, 1 << 62))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Columns of the result; raises NotFound naming the nearest for an unknown one."""
        for name in self.columns or ():
            if name not in self.store.schema.shown.by_name:
                raise NotFound.among("column", name, self.store.schema.shown.names)
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise InvalidRequest(f"a column is named twice: {', '.join(self.columns)}")
        return self.columns if self.columns is not None else self.store.schema.shown.names

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema of the result."""
        return arrow_schema(self.store.schema.columns(self.names))

    def plan(self, *, complete: bool = False) -> Plan:
        """Splits, and a verdict on each file looked at (on every live file with `complete`)."""
        asked = {"columns": self.names, "complete": complete}
        if self.other is not None:
            return fallback.plan(self._planner, self.store, self.snapshot, self.where, self.other, **asked)
        return self._planner(self.store, self.snapshot, self.where, **asked)

    def explain(self) -> Explanation:
        """Why each file is read or skipped."""
        return self.plan(complete=True).explain()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Batches as they are read, split after split.

        Memory holds one window of one split, or of one for each thread and `parallel.HELD_BYTES` of batches
        (see `tablestore.scan.threads`). Reads with a limit use no threads.
        """
        left, found = self.limit, self.plan()
        tasks = [partial(self._read, s, self.names, found.where) for s in found.splits]
        threads = 1 if left is not None else self._threads(found)
        with closing(parallel.in_order(tasks, threads=threads, weigh=attrgetter("nbytes"))) as batches:
            for batch in batches:
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                if batch.num_rows:
                    yield batch
                if left == 0:
                    return

    def _read(
        self, split: DataSplit, columns: Sequence[str], where: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        if isinstance(split, BranchSplit):
            assert self.other is not None
            return read_split(self.other.store, split, columns, where)
        return self._reader(self.store, split, columns, where)

    def _threads(self, found: Plan) -> int:
        return parallel.threads(self.store.options, [s.size for s in found.splits])

    def count(self) -> int:
        """Rows of the result, as many as `to_arrow` has, or the error that it raises.

        Of a whole state no more is read than the filter, the merge and casts of older files need, so damage
        in other columns goes unnoticed.
        """
        if self.limit is not None or self.changes:
            return sum(b.num_rows for b in self.to_batches())
        count = self.store.schema.row_count_field
        if count is not None:
            return self._sum_of_counts(count)
        found = self.plan()
        tasks = [partial(self._rows_of, s, found.where) for s in found.splits]
        with closing(
            parallel.in_order(tasks, threads=self._threads(found), weigh=attrgetter("nbytes"))
        ) as rows:
            return sum(b.num_rows for b in rows)

    def _rows_of(self, split: DataSplit, where: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Columns of a split that tell how many rows it has."""
        store = self.other.store if self.other is not None and isinstance(split, BranchSplit) else self.store
        return self._read(split, columns_to_count(store, split, self.names), where)

    def _sum_of_counts(self, count: str) -> int:
        """Rows of a table that counts them, without repeating them."""
        found = self.plan()
        stored = (b for s in found.splits for b in self._read(s, (count,), found.where))
        return sum(int(np.maximum(counted.numbers(b, count), 0).sum()) for b in stored)

    def __repr__(self) -> str:
        at = f"snapshot {self.snapshot.id}" if self.snapshot else "no snapshot"
        where = f", where {self.where!r}" if self.where is not None else ""
        return f"Scan({self.store.paths.root} at {at}: {', '.join(self.names)}{where})"


def _plan_changes(
    wanted: Range, store: Store, _: Snapshot | None, where: Predicate | None, *, columns: Any, complete: bool
) -> Plan:
    return plan_range(store, wanted, where, columns=columns)


def _plan_difference(
    wanted: Diff, store: Store, _: Snapshot | None, where: Predicate | None, *, columns: Any, complete: bool
) -> Plan:
    return plan_diff(store, wanted.start, wanted.end, where, columns=columns)


def read_any(
    store: Store, split: DataSplit, columns: Sequence[str], where: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """The rows of one split of any plan."""
    if isinstance(split, BranchSplit):
        return read_branch_split(store, split, columns, where)
    if isinstance(split, ChangeSplit):
        return read_changes(store, split, columns, where)
    if isinstance(split, DiffSplit):
        return read_diff(store, split, columns, where)
    return read_split(store, split, columns, where)
