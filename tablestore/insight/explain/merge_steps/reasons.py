"""Why a merge gave its row: one sentence a key and one a column.

Written from a `Trace` and the values that decided: sequence numbers, `sequence.field`, the sequences of
groups. The words name runs as the caller labels them. Pure; for a few keys, as it makes texts.

A `Trace` is one key's rows through the table's own merge function. Nothing is merged here: the function
merges, and its winners or its outcome say which row won. A row's part in a column is one of

    kept         its value is the result          added       it counts in a computed result
    superseded   it has a value that lost         taken back  a −U or −D that was subtracted or cleared
    null         it has no value                  ignored     it does nothing to this column
    included     the row of a newer level includes it already (tables whose compaction looks rows up)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CannotMerge
from tablestore.format import binary_row, rowkind
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataField, DataType
from tablestore.lsm.merge.aggregation import Aggregation, MergeOutcome
from tablestore.lsm.merge.aggregators.choose import present
from tablestore.lsm.merge.changelog import NewestLevels, newest_levels
from tablestore.lsm.merge.counted import Counting
from tablestore.lsm.merge.groups import Choosing, Groups, MergeFunction, grouped, kinds_of, take
from tablestore.lsm.merge.merge_function import FirstRow
from tablestore.lsm.merge.partial_update import PartialUpdate, SequenceGroup
from tablestore.lsm.merge.walk import RETRACT, SKIP, Walk

_SHOWN = 4
SIGNS = ("+I", "−U", "+U", "−D")


@dataclass(frozen=True)
class Why:
    """One key's merge in words. `labels`: the run of each row; `rows` from old to new runs."""

    function: MergeFunction
    rows: pa.RecordBatch
    trace: Trace
    labels: Sequence[str]
    fate: str = ""
    _texts: dict[str, list[str]] = field(default_factory=dict, repr=False)

    @property
    def engine(self) -> MergeFunction:
        """The function that knows its columns."""
        return engine_of(self.function)

    @property
    def _computing(self) -> Computing:
        """The engine of a merge that is explained column by column."""
        engine = self.engine
        assert isinstance(engine, Computing), "only engines that compute have reasons by column"
        return engine

    def sentence(self) -> str:
        """Why this is the key's row, and what becomes of it."""
        if self.trace.failure:
            return f"Refused: {self.trace.failure}."
        if self.rows.num_rows == 1:
            return f"Only {self.labels[0]} has the key: {self._only()}"
        if isinstance(self.engine, Computing) and len(self.trace.order) > 1:
            said = self._by_columns()
        else:
            said = self._whole_row()
        return f"{said} {self.fate}".rstrip()

    def column(self, name: str) -> str:
        """Why this is the column's value."""
        origin = self.trace.origin[name]
        engine = self.engine
        if self.trace.failure:
            return f"refused: {self.trace.failure}"
        if not isinstance(engine, Computing) or len(self.trace.order) == 1:
            return "no row is left" if origin == NOTHING else f"the row of {self.labels[origin]}"
        group = self._group(name)
        function = self._function(name)
        if origin == COMPUTED:
            return self._sum(name, function)
        if group is not None and (function is None or name in group.names):
            return self._guarded(name, group, origin)
        if function in ("", "last_non_null_value"):
            return self._newest_value(name, origin)
        return self._picked(name, function, origin)

    # whole rows

    def _only(self) -> str:
        kind = int(kinds_of(self.rows)[0])
        if rowkind.retracts(np.array([kind]))[0]:
            return f"its row is {SIGNS[kind]}. {self.fate}".rstrip()
        return "its row passes as it is."

    def _whole_row(self) -> str:
        """The chain of what orders the rows, then who wins."""
        order = self.trace.order
        winner = next(iter(self.trace.origin.values()), NOTHING)
        first_wins = isinstance(self.engine, FirstRow)
        passed = self._passed(winner)
        if winner == NOTHING:
            return f"{passed}No row is left."
        name = self.labels[winner]
        chain = self._chain(order if first_wins else order[::-1], rising=first_wins)
        kind = int(kinds_of(self.rows)[winner])
        if first_wins:
            return f"{passed}{chain}: first-row keeps the oldest, of {name}."
        if winner != int(np.max(order)) and not passed:
            return f"{chain}: {name} wins, although {self.labels[int(np.max(order))]} was written later."
        if kind in (rowkind.DELETE, rowkind.UPDATE_BEFORE):
            return f"{passed}{chain}: the newest row, of {name}, is {SIGNS[kind]}."
        return f"{passed}{chain}: the newest row wins, of {name}."

    def _passed(self, winner: int) -> str:
        """The rows that `ignore-delete` leaves out."""
        if not getattr(self.engine, "ignore_delete", False):
            return ""
        kinds = kinds_of(self.rows)
        gone = [i for i in self.trace.order if rowkind.retracts(kinds)[i] and i != winner]
        if not gone:
            return ""
        names = ", ".join(f"{SIGNS[kinds[i]]} of {self.labels[i]}" for i in gone[::-1][:_SHOWN])
        return f"ignore-delete leaves out {names}. "

    def _chain(self, places: np.ndarray, *, rising: bool = False) -> str:
        """`sequence 984 > 431 > 17`; with `sequence.field` its values, then numbers where they are equal."""
        ordering = self.engine.sequence
        shown = [int(i) for i in places][:_SHOWN]
        more = f" {'<' if rising else '>'} …" if len(places) > _SHOWN else ""
        numbers = [str(n) for n in self.rows.column(SEQUENCE).to_pylist()]
        if not ordering.fields:
            return "sequence " + _compared([numbers[i] for i in shown], "<" if rising else ">") + more
        values = ["·".join(self._text(f, i) for f in ordering.fields) for i in range(self.rows.num_rows)]
        names = ", ".join(ordering.names)
        sign = "before" if ordering.descending else ">"
        said = f"{names} {_compared([values[i] for i in shown], sign)}{more}"
        if len(shown) > 1 and values[shown[0]] == values[shown[1]]:
            said += f", then sequence {_compared([numbers[i] for i in shown[:2]], '>')}"
        return said

    # column by column

    def _by_columns(self) -> str:
        """The columns that are not simply the newest row's, those of one reason together."""
        newest = int(self.trace.order[-1])
        kinds = kinds_of(self.rows)
        if self.trace.row.num_rows and rowkind.retracts(kinds_of(self.trace.row))[0]:
            remover = SIGNS[int(kinds[newest])]
            return f"{remover} of {self.labels[newest]} takes the row away."
        said: dict[str, list[str]] = {}
        plain = []
        keys = set(self._computing.schema.primary_keys)
        for name in [n for n in self.trace.origin if n not in keys]:
            why = self.column(name)
            if self.trace.origin[name] == newest and ">" not in why:
                plain.append(name)
            else:
                said.setdefault(why, []).append(name)
        parts = [f"{', '.join(names)}: {why}." for why, names in list(said.items())[:_SHOWN]]
        if len(said) > _SHOWN:
            parts.append(f"And {len(said) - _SHOWN} more.")
        if not parts:
            return f"{self.labels[newest]} is the newest and has a value in every column."
        return " ".join(parts)

    def _group(self, name: str) -> SequenceGroup | None:
        engine = self.engine
        if not isinstance(engine, PartialUpdate):
            return None
        return next((g for g in engine.groups if name in (*g.names, *g.guarded)), None)

    def _function(self, name: str) -> str | None:
        """The aggregate function of a column; "" where newer values that are not NULL replace older ones,
        None where a group's rows replace it whole."""
        engine = self._computing
        if isinstance(engine, PartialUpdate):
            function = engine.functions.get(name)
            if function is not None:
                return function.name
            return "" if self._group(name) is None else None
        names = (f.name for f in engine.functions if f.field.name == name)
        return next(names, "")

    def _guarded(self, name: str, group: SequenceGroup, origin: int) -> str:
        """`g1 21 > 17 of L0 #412`: the group's sequence decides, not the run."""
        names = ", ".join(group.names)
        parts = self.trace.parts[name]
        if origin == NOTHING:
            taken = [i for i in self.trace.order if parts[i] == TAKEN]
            if taken:
                return f"cleared by {self._kind(taken[-1])} of {self.labels[taken[-1]]}"
            return f"null in the row with the newest {names}, or no row has a {names}"
        later = [i for i in self.trace.order if i > origin and i != origin]
        mine = self._sequence(group, origin)
        beaten = [i for i in later if self._sequence(group, i) != "null" and parts[i] in (SUPERSEDED, NULL)]
        beaten += [
            i for i in later if parts[i] not in (SUPERSEDED, NULL) and self._sequence(group, i) != "null"
        ]
        if beaten:
            other = beaten[-1]
            return f"{names} {mine} > {self._sequence(group, other)} of the newer {self.labels[other]}"
        absent = [i for i in later if self._sequence(group, i) == "null"]
        if absent:
            return f"{self.labels[absent[-1]]} has no {names}, so {self.labels[origin]} stays"
        older = [i for i in self.trace.order if i != origin and self._sequence(group, i) != "null"]
        if older:
            return f"{names} {mine} ≥ {self._sequence(group, older[-1])} of {self.labels[older[-1]]}"
        return f"only {self.labels[origin]} has a {names}"

    def _newest_value(self, name: str, origin: int) -> str:
        order = [int(i) for i in self.trace.order]
        parts = self.trace.parts[name]
        if origin == NOTHING:
            taken = [i for i in order if parts[i] == TAKEN]
            return f"taken back by {self.labels[taken[-1]]}" if taken else "null in every row"
        newer = order[order.index(origin) + 1 :]
        empty = [self.labels[i] for i in newer if parts[i] == NULL]
        if empty:
            return f"from {self.labels[origin]}, as {_listed(empty[::-1])} has null"
        return f"from {self.labels[origin]}"

    def _picked(self, name: str, function: str | None, origin: int) -> str:
        if origin == NOTHING:
            return f"{function}: null"
        values = [i for i in self.trace.order if self.trace.parts[name][i] in (KEPT, SUPERSEDED)]
        field_ = self._field(name)
        texts = [self._text(field_, int(i)) for i in values][::-1]
        of = f" of {', '.join(texts[:_SHOWN])}{' …' if len(texts) > _SHOWN else ''}" if len(texts) > 1 else ""
        return f"{function}{of}, from {self.labels[origin]}"

    def _sum(self, name: str, function: str | None) -> str:
        """`sum 9 + 6 − 4 = 11`; other functions say how many rows count."""
        parts, field_ = self.trace.parts[name], self._field(name)
        counted = [(int(i), parts[i]) for i in self.trace.order if parts[i] in (ADDED, TAKEN)]
        if function not in ("sum", "product") or len(counted) > 6:
            taken = sum(part == TAKEN for _, part in counted)
            back = f", {taken} taken back" if taken else ""
            return f"{function} of {len(counted) - taken} values{back}"
        if len(counted) == 1:
            return f"{function} of one value, {self._result(name)}, of {self.labels[counted[0][0]]}"
        plus, minus = ("+", "−") if function == "sum" else ("×", "÷")
        said = ""
        for at, (row, part) in enumerate(counted):
            value = self._text(field_, row).replace("-", "−")
            value = f"({value})" if at and value.startswith("−") else value
            sign = minus if part == TAKEN else plus
            said += value if not at and part == ADDED else f" {sign} {value}"
        return f"{function} {said.strip()} = {self._result(name)}"

    # values as text

    def _result(self, name: str) -> str:
        result = self.trace.row
        if not result.num_rows:
            return "null"
        return _texts(result.column(name), self._field(name).type)[0].replace("-", "−")

    def _kind(self, row: int) -> str:
        return SIGNS[int(self.rows.column(KIND)[row].as_py())]

    def _sequence(self, group: SequenceGroup, row: int) -> str:
        texts = [self._text(f, row) for f in group.sequence]
        return "null" if set(texts) == {"null"} else "·".join(texts)

    def _field(self, name: str) -> DataField:
        return self._computing.schema.by_name[name]

    def _text(self, column: DataField, row: int) -> str:
        texts = self._texts.get(column.name)
        if texts is None:
            texts = self._texts[column.name] = _texts(self.rows.column(column.name), column.type)
        return texts[row]


def _texts(column: pa.Array, t: DataType) -> list[str]:
    """Values as SQL casts them to STRING; values of nested types as Python shows them."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not t.is_scalar:
        return ["null" if v is None else str(v) for v in column.to_pylist()]
    return [cast_text(v, t) for v in binary_row.raw_values(column, t)]


def _compared(texts: Sequence[str], sign: str) -> str:
    """`984 > 431 = 431`."""
    said = texts[0]
    for before, after in pairwise(texts):
        said += f" {'=' if before == after else sign} {after}"
    return said


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
        lost = {n: _with_included(groups, [SUPERSEDED] * rows.num_rows) for n in names}
        return Trace(groups.order, rows.slice(0, 0), dict.fromkeys(names, NOTHING), lost, error.reason)
    return _computed(outcome, rows, row, groups, names)


def _with_included(groups: Groups, parts: list[str]) -> tuple[str, ...]:
    """The parts; rows that were not merged at all are included in others."""
    merged = set(groups.order.tolist())
    return tuple(part if i in merged else INCLUDED for i, part in enumerate(parts))


def _chosen(function: Choosing, rows: pa.RecordBatch, groups: Groups, names: list[str]) -> Trace:
    """A whole row wins."""
    winners = function.winners(rows, groups)
    winner = int(winners[0]) if len(winners) else NOTHING
    passed = rowkind.retracts(kinds_of(rows)) & bool(getattr(function, "ignore_delete", False))
    parts = [KEPT if i == winner else IGNORED if passed[i] else SUPERSEDED for i in range(rows.num_rows)]
    whole = _with_included(groups, parts)
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
        parts[name] = _with_included(groups, words)
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
