"""One key's rows through the table's own merge function, and what each row did to each column.

Nothing is merged here: the function merges, and its winners or its outcome say which row won. A row's part in
a column is one of

    kept         its value is the result          added       it counts in a computed result
    superseded   it has a value that lost         taken back  a −U or −D that was subtracted or cleared
    null         it has no value                  ignored     it does nothing to this column
    included     the row of a newer level includes it already (tables whose compaction looks rows up)

Pure. Called by `steps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CannotMerge
from tablestore.format import rowkind
from tablestore.lsm.merge.aggregation import Aggregation
from tablestore.lsm.merge.aggregators.choose import present
from tablestore.lsm.merge.changelog import NewestLevels, newest_levels
from tablestore.lsm.merge.counted import Counting
from tablestore.lsm.merge.merge_function import Choosing, Groups, MergeFunction, grouped, kinds_of, take
from tablestore.lsm.merge.partial_update import PartialUpdate
from tablestore.lsm.merge.result import MergeOutcome
from tablestore.lsm.merge.walk import RETRACT, SKIP, Walk

KEPT, SUPERSEDED, NULL, ADDED = "kept", "superseded", "null", "added"
TAKEN, IGNORED, INCLUDED = "taken back", "ignored", "included"
NOTHING, COMPUTED = -1, -2
Computing = Aggregation | PartialUpdate  # functions that make each column's value of several rows


@dataclass(frozen=True, slots=True)
class Trace:
    """How the rows of one key became at most one row.

    `order`: the rows that were merged, oldest first. `origin` by column: the row whose value is the result,
    NOTHING for a NULL of no row, COMPUTED for a value made of several. `parts` by column: one word a row.
    """

    order: np.ndarray
    row: pa.RecordBatch
    origin: Mapping[str, int]
    parts: Mapping[str, tuple[str, ...]]
    failure: str = ""

    @property
    def parts_of_rows(self) -> tuple[str, ...]:
        """What each row was to the result as a whole: the best of its parts."""
        rank = (KEPT, ADDED, TAKEN, INCLUDED, SUPERSEDED, IGNORED, NULL)
        rows = zip(*self.parts.values(), strict=True)
        lowest = tuple(min(parts, key=rank.index) for parts in rows)
        return tuple(SUPERSEDED if part == NULL else part for part in lowest)


def engine_of(function: MergeFunction) -> MergeFunction:
    """The function that knows the columns, without those around it that leave out levels or count rows."""
    inner = function.function if isinstance(function, NewestLevels) else function
    return inner.function if isinstance(inner, Counting) else inner


def traced(function: MergeFunction, rows: pa.RecordBatch, levels: np.ndarray) -> Trace:
    """The merge of these rows, all of one key, in runs from old to new; `levels` are those of their files."""
    groups = grouped(np.zeros(rows.num_rows, dtype=np.int64), function.sequence.numbers(rows))
    inner = function
    if isinstance(function, NewestLevels):
        inner, groups = function.function, newest_levels(groups, levels)
    merged = engine_of(inner)
    names = [n for n in rows.schema.names if not n.startswith("_")]
    try:
        if isinstance(merged, Choosing):
            return _chosen(merged, rows, groups, names)
        assert isinstance(merged, Computing), "what does not choose a row computes one"
        outcome = merged.outcome(rows, groups)
        row = inner.merge(rows, groups)
    except CannotMerge as error:
        lost = {n: _with_included(rows, groups, [SUPERSEDED] * rows.num_rows) for n in names}
        return Trace(groups.order, rows.slice(0, 0), dict.fromkeys(names, NOTHING), lost, error.reason)
    return _computed(outcome, rows, row, groups, names)


def _with_included(rows: pa.RecordBatch, groups: Groups, parts: list[str]) -> tuple[str, ...]:
    """The parts; rows that were not merged at all are included in others."""
    merged = set(groups.order.tolist())
    return tuple(part if i in merged else INCLUDED for i, part in enumerate(parts))


def _chosen(function: Choosing, rows: pa.RecordBatch, groups: Groups, names: list[str]) -> Trace:
    """A whole row wins."""
    winners = function.winners(rows, groups)
    winner = int(winners[0]) if len(winners) else NOTHING
    passed = rowkind.retracts(kinds_of(rows)) & bool(getattr(function, "ignore_delete", False))
    parts = [KEPT if i == winner else IGNORED if passed[i] else SUPERSEDED for i in range(rows.num_rows)]
    whole = _with_included(rows, groups, parts)
    return Trace(groups.order, take(rows, winners), dict.fromkeys(names, winner), dict.fromkeys(names, whole))


def _computed(
    outcome: MergeOutcome, rows: pa.RecordBatch, row: pa.RecordBatch, groups: Groups, names: list[str]
) -> Trace:
    """Each column is its own matter; those that nothing was done to keep the last row's value."""
    last = int(groups.order[-1])
    origin: dict[str, int] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for name in names:
        valid = present(rows.column(name), np.arange(rows.num_rows))
        if name in outcome.chosen:
            origin[name] = int(outcome.chosen[name][0])
        else:
            origin[name] = COMPUTED if name in outcome.folded else last
        walk = outcome.walks.get(name)
        if walk is None:
            words = [KEPT if i == last else SUPERSEDED for i in range(rows.num_rows)]
        else:
            words = _words(walk, valid, origin[name])
        parts[name] = _with_included(rows, groups, words)
    return Trace(groups.order, row, origin, parts)


def _words(walk: Walk, valid: np.ndarray, winner: int) -> list[str]:
    """The part of each row in a column: by what it did, whether it has a value, and who won."""
    since = walk.since_set()
    words = [IGNORED] * len(valid)
    for place, row in enumerate(walk.rows.tolist()):
        action = walk.actions[place]
        if row == winner:
            words[row] = KEPT
        elif not valid[row]:
            words[row] = NULL
        elif action == SKIP:
            words[row] = words[row] if words[row] == TAKEN else IGNORED
        elif action == RETRACT:
            words[row] = TAKEN
        else:
            words[row] = ADDED if winner == COMPUTED and since[place] else SUPERSEDED
    return words
