"""The changelog of a compaction: one window of merged runs → result rows and changes (FORMAT.md 13.2, 13.3).

Rows have the level of their file in an extra column, `LEVEL`. *Lookup*: for keys with a level-0 row, the row
before is that of the newest level from 1 on in the unit, else what a lookup finds in older levels; only it
and level 0 are merged, as a row at a level is the merge of all older ones. *Full compaction*: the row before
is that of the oldest level, and all rows are merged. *First row*: a key is new if no level from 1 on has it.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.lookup.lookup import Hits
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.groups import Groups, MergeFunction, SequenceOrder, grouped, joined, kinds_of, take
from tablestore.lsm.merge.keys import Component, equal_rows

LEVEL = "_LEVEL"
_FOUND = np.int8(127)  # level of rows that a lookup found: older than all others


@dataclass(frozen=True, slots=True)
class ChangelogSpec:
    """What goes into the changelog: nothing unless it is `produced`; updates that change none of the columns
    `compared` (None: all count) are left out. `keys` are the key columns."""

    keys: tuple[DataField, ...]
    produced: bool
    compared: tuple[str, ...] | None = None

    @classmethod
    def of(cls, schema: TableSchema, options: TableOptions, *, produced: bool) -> ChangelogSpec:
        """The changelog of a table's options."""
        if not options.row_deduplicate:
            return cls(schema.key_fields, produced)
        ignored = {n.strip() for n in (options.row_deduplicate_ignored or "").split(",")}
        return cls(schema.key_fields, produced, tuple(n for n in schema.names if n not in ignored))


@dataclass(frozen=True)
class RowWindow:
    """The rows of one key range, grouped: kv rows without `LEVEL`, their key codes and levels."""

    rows: pa.RecordBatch
    codes: np.ndarray
    levels: np.ndarray
    groups: Groups

    @classmethod
    def of(
        cls, parts: Sequence[tuple[pa.RecordBatch, list[Component]]], function: MergeFunction
    ) -> RowWindow:
        """The window of each run's rows in a key range; batches must have `LEVEL`."""
        rows = joined([batch for batch, _ in parts])
        codes = key_columns.codes(key_columns.concatenated([p for _, p in parts]))
        rows, levels = without_level(rows)
        return cls(rows, codes, levels, grouped(codes, function.sequence.numbers(rows)))

    @property
    def first_rows(self) -> np.ndarray:
        """A row of each group, in key order."""
        return self.groups.order[self.groups.starts]

    def with_hits(self, hits: Hits, asked: np.ndarray, function: MergeFunction) -> RowWindow:
        """The window with the rows that a lookup found; `asked` are the groups that were looked up."""
        return self if hits.rows is None else self.with_older(hits.rows, asked[hits.asked], function)

    def with_older(self, rows: pa.RecordBatch, at: np.ndarray, function: MergeFunction) -> RowWindow:
        """The window with an older row of each of the groups `at`."""
        rows = joined([self.rows, rows.select(self.rows.schema.names)])
        codes = np.concatenate([self.codes, self.codes[self.first_rows[at]]])
        levels = np.concatenate([self.levels, np.full(len(at), _FOUND)])
        return RowWindow(rows, codes, levels, grouped(codes, function.sequence.numbers(rows)))


@dataclass(frozen=True)
class MergedWindow:
    """Result rows of a window, retractions included, and the changes in key order (None: no changelog)."""

    rows: pa.RecordBatch
    changes: pa.RecordBatch | None


def with_level(batch: pa.RecordBatch, level: int) -> pa.RecordBatch:
    """The batch with a column `LEVEL`."""
    return batch.append_column(LEVEL, pa.array(np.full(batch.num_rows, level, dtype=np.int8)))


def without_level(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
    """(the batch without `LEVEL`, the levels)."""
    at = batch.schema.get_field_index(LEVEL)
    return batch.remove_column(at), batch.column(at).to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True)
class NewestLevels:
    """A merge function over the rows of level 0 and of the newest other level of each key.

    For tables whose compaction looks rows up: there a row at a level from 1 on is the merge of all older
    ones. Input rows must have `LEVEL`; merged ones do not.
    """

    function: MergeFunction

    @property
    def sequence(self) -> SequenceOrder:
        """The order of the function inside."""
        return self.function.sequence

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns of the function inside."""
        return self.function.columns(names)

    def refusing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the function inside."""
        return self.function.refusing(names)

    def merge(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        """At most one row a key."""
        rows, levels = without_level(rows)
        return self.function.merge(rows, newest_levels(groups, levels))


def newest_levels(groups: Groups, levels: np.ndarray) -> Groups:
    """The groups reduced to the rows of level 0 and of the newest level from 1 on. As in Java, a row that is
    left alone by that is merged: a function then sees it as the first row of its key."""
    places = levels[groups.order].astype(np.int64)
    newest = np.minimum.reduceat(np.where(places > 0, places, 1 << 20), groups.starts)
    group_of = np.repeat(np.arange(len(groups.starts)), groups.ends - groups.starts)
    kept = (places == 0) | (places == newest[group_of])
    if kept.all():
        return groups
    counts = np.add.reduceat(kept, groups.starts)
    return Groups(groups.order[kept], np.cumsum(counts) - counts, alone=groups.ends - groups.starts > 1)


def in_level0_only(window: RowWindow) -> np.ndarray:
    """The groups with rows of level 0 only, whose keys must be looked up."""
    oldest = np.maximum.reduceat(window.levels[window.groups.order], window.groups.starts)
    return np.flatnonzero(oldest <= 0)


def looked_up(window: RowWindow, function: MergeFunction, spec: ChangelogSpec) -> MergedWindow:
    """The merged window of a compaction with lookups; `window` includes the rows that these found."""
    places = window.levels[window.groups.order]
    groups = newest_levels(window.groups, window.levels)
    rows = function.merge(window.rows, replace(groups, alone=True))
    if not spec.produced:
        return MergedWindow(rows, None)
    fresh = np.minimum.reduceat(places, window.groups.starts) <= 0
    before = _older_rows(groups, window.levels)
    return MergedWindow(rows, _changes(window, rows, before, fresh, spec))


def fully_merged(
    window: RowWindow, function: MergeFunction, spec: ChangelogSpec, *, oldest_level: int
) -> MergedWindow:
    """The merged window of a full compaction, to the oldest level."""
    places = window.levels[window.groups.order]
    rows = function.merge(window.rows, window.groups)
    at_oldest = np.flatnonzero(places == oldest_level)
    before = np.full(len(window.groups.starts), -1)
    before[np.searchsorted(window.groups.starts, at_oldest, side="right") - 1] = window.groups.order[
        at_oldest
    ]
    many = window.groups.ends - window.groups.starts > 1
    return MergedWindow(rows, _changes(window, rows, before, many | (before < 0), spec))


def first_rows(
    window: RowWindow, function: MergeFunction, older: np.ndarray, spec: ChangelogSpec
) -> MergedWindow:
    """The merged window of a first-row table (FORMAT.md 13.4); `older` are the groups that a lookup found in
    older levels."""
    places = window.levels[window.groups.order]
    known_before = np.maximum.reduceat(places, window.groups.starts) > 0
    rows = function.merge(window.rows, window.groups)
    gone = np.zeros(len(known_before), dtype=bool)
    gone[older] = True
    group_of = _groups_of(window, rows, spec)
    new = ~gone[group_of]
    changes = None if not spec.produced else rows.filter(pa.array(new & ~known_before[group_of]))
    return MergedWindow(rows if new.all() else rows.filter(pa.array(new)), changes)


def _older_rows(groups: Groups, levels: np.ndarray) -> np.ndarray:
    """The row of each group at a level from 1 on, of which there is no more than one; −1 without."""
    at = np.flatnonzero(levels[groups.order] > 0)
    older = np.full(len(groups.starts), -1)
    older[np.searchsorted(groups.starts, at, side="right") - 1] = groups.order[at]
    return older


def _changes(
    window: RowWindow, after: pa.RecordBatch, before: np.ndarray, due: np.ndarray, spec: ChangelogSpec
) -> pa.RecordBatch:
    """−D, −U/+U or +I for each group that is `due`: from row `before` (−1: none) to its row in `after`."""
    count = len(window.groups.starts)
    result = np.full(count, -1)
    result[_groups_of(window, after, spec)] = np.arange(after.num_rows)
    there = ~np.append(rowkind.retracts(kinds_of(after)), True)[result]
    was = ~np.append(rowkind.retracts(kinds_of(window.rows)), True)[before]
    updated = np.flatnonzero(due & was & there)
    if spec.compared is not None and len(updated):
        old = take(window.rows, before[updated]).select(list(spec.compared))
        new = take(after, result[updated]).select(list(spec.compared))
        updated = updated[~equal_rows(old, new)]
    inserted, deleted = np.flatnonzero(due & ~was & there), np.flatnonzero(due & was & ~there)
    old_groups, new_groups = np.concatenate([deleted, updated]), np.concatenate([inserted, updated])
    images = joined([take(window.rows, before[old_groups]), take(after, result[new_groups])])
    kinds = np.repeat(
        np.array(
            [rowkind.DELETE, rowkind.UPDATE_BEFORE, rowkind.INSERT, rowkind.UPDATE_AFTER], dtype=np.int8
        ),
        [len(deleted), len(updated), len(inserted), len(updated)],
    )
    at = images.schema.get_field_index(KIND)
    images = images.set_column(at, images.schema.field(at), pa.array(kinds))
    order = np.argsort(np.concatenate([old_groups, new_groups]), kind="stable")  # the old row comes first
    return take(images, order)


def _groups_of(window: RowWindow, rows: pa.RecordBatch, spec: ChangelogSpec) -> np.ndarray:
    """The group of each merged row: a merge function may leave groups out, but keeps their order."""
    firsts = window.first_rows
    if rows.num_rows == len(firsts):
        return np.arange(len(firsts))
    names = [f.name for f in spec.keys]
    mine = take(window.rows.select(names), firsts)
    both = joined([mine, rows.select(names)])
    codes = key_columns.codes(key_columns.of_batch(both, spec.keys))
    return np.searchsorted(codes[: len(firsts)], codes[len(firsts) :])
