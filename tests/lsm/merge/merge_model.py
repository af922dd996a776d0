"""Merge engines the slow and plain way: one key at a time, one record after another, in Python values.

Written from the format's rules, not from the engine's code, and shares none of it. A record is
(sequence number, kind, {column: value}); maps are dicts, ROWs tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

ADD, _, AFTER, DELETE = range(4)
Record = tuple[int, int, dict[str, Any]]
BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


class Fails(Exception):
    """The records of this key cannot be merged."""


@dataclass
class Cell:
    """One column's function and what it has to remember of a key."""

    name: str
    root: str = "INT"
    scale: int = 0
    delimiter: str = ","
    distinct: bool = False
    ignores: bool = False
    key: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    limit: int = 2**31 - 1
    begun: bool = False

    def checked(self, value: Any) -> Any:
        if self.root in BITS and not -(2 ** (BITS[self.root] - 1)) <= value < 2 ** (BITS[self.root] - 1):
            raise Fails("overflow")
        return value

    def add(self, held: Any, given: Any) -> Any:
        if self.name == "last_value":
            return given
        if self.name == "first_value":
            taken, self.begun = not self.begun, True
            return given if taken else held
        if self.name == "first_non_null_value":
            taken = not self.begun and given is not None
            self.begun |= taken
            return given if taken else held
        if self.name == "last_non_null_value":
            return held if given is None else given
        if self.name == "collect" and self.distinct and (held is not None or given is not None):
            return list(dict.fromkeys([*(held or []), *(given or [])]))
        if self.name == "nested_update" and given is not None:
            return self.table(held, given)
        if self.name == "listagg":
            given = None if given is None or not given.strip() else given
            held = None if held is not None and given is not None and not held.strip() else held
        if held is None or given is None:
            return given if held is None else held
        return self.both(held, given)

    def both(self, held: Any, given: Any) -> Any:
        if self.name in ("sum", "product"):
            made = held + given if self.name == "sum" else held * given
            if isinstance(made, Decimal) and self.name == "product":
                made = made.quantize(Decimal(1).scaleb(-self.scale), ROUND_HALF_UP)
            return self.checked(made)
        if self.name in ("max", "bool_or"):
            return max(held, given)
        if self.name in ("min", "bool_and"):
            return min(held, given)
        if self.name == "collect":
            return held + given
        if self.name == "merge_map":
            return {**held, **given}
        if not self.distinct:
            return held + self.delimiter + given
        tokens, seen = [held], set(held.split(self.delimiter))
        for token in given.split(self.delimiter):
            if token.strip() and token not in seen:
                tokens.append(token)
                seen.add(token)
        return self.delimiter.join(tokens)

    def table(self, held: list[tuple] | None, given: list[tuple]) -> list[tuple]:
        if not self.key:
            if held is not None and len(held) >= self.limit:
                return held
            return [*(held or []), *given[: self.limit - len(held or [])]]
        rows: dict[tuple, tuple] = {}
        for new, row in [*((False, r) for r in held or []), *((True, r) for r in given)]:
            at = tuple(row[i] for i in self.key)
            if at in rows:
                if not self.order or self.rank(row) >= self.rank(rows[at]):
                    rows[at] = row
            elif not new or len(rows) < self.limit:
                rows[at] = row
        return list(rows.values())

    def rank(self, row: tuple) -> list[tuple]:
        return [(row[i] is not None, row[i] or 0) for i in self.order]

    def late(self, held: Any, given: Any) -> Any:
        if self.name == "collect" and not self.ignores:
            return self.add(held, given)
        return self.add(given, held)

    def retract(self, held: Any, given: Any) -> Any:
        if self.ignores:
            return held
        if self.name == "last_value":
            return None
        if self.name == "last_non_null_value":
            return held if given is None else None
        if self.name == "sum":
            if held is None or given is None:
                return (None if given is None else self.checked(-given)) if held is None else held
            return self.checked(held - given)
        if self.name not in ("product", "collect", "merge_map", "nested_update"):
            raise Fails("no retracts")
        if held is None or given is None:
            return held
        return self.taken_off(held, given)

    def taken_off(self, held: Any, given: Any) -> Any:
        if self.name == "product":
            if self.root not in BITS:
                return held / given
            if given == 0:
                raise Fails("/ by zero")
            whole = abs(held) // abs(given)
            return self.checked(whole if (held < 0) == (given < 0) else -whole)
        if self.name == "collect":
            kept, gone = [], list(given)
            for one in held:
                if one in gone:
                    gone.remove(one)
                else:
                    kept.append(one)
            return kept
        if self.name == "merge_map":
            return {k: v for k, v in held.items() if k not in given}
        if not self.key:
            return [row for row in held if row not in given]
        rows = {tuple(row[i] for i in self.key): row for row in held}
        for row in given:
            rows.pop(tuple(row[i] for i in self.key), None)
        return list(rows.values())


@dataclass
class Rules:
    """A table's merge options."""

    engine: str
    columns: tuple[str, ...]  # of values: the key is left out
    functions: Mapping[str, Callable[[], Cell]] = field(default_factory=dict)
    groups: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    removing: tuple[str, ...] = ()
    removes: bool = False
    ignores: bool = False
    sequence: tuple[str, ...] = ()
    descending: bool = False


def rank(row: Mapping[str, Any], names: Sequence[str], *, descending: bool = False) -> list[tuple]:
    """A sort key of some columns: NULL is smallest, also when descending."""
    sign = -1 if descending else 1
    return [(row[n] is not None, sign * (row[n] or 0)) for n in names]


def ordered(rules: Rules, records: Sequence[Record]) -> list[Record]:
    """Records of one key in the order in which they are merged."""
    return sorted(records, key=lambda r: (rank(r[2], rules.sequence, descending=rules.descending), r[0]))


def fold(rules: Rules, records: Sequence[Record]) -> Record | None:
    """What the records of one key become; raises Fails."""
    records = ordered(rules, records)
    if len(records) == 1:
        return records[0]
    if rules.engine == "aggregation":
        return _aggregated(rules, records)
    if rules.engine == "partial-update":
        return _partial(rules, records)
    adds = [r for r in records if r[1] in (ADD, AFTER)]
    if rules.engine == "first-row":
        if len(adds) < len(records) and not rules.ignores:
            raise Fails("first-row")
        return adds[0] if adds else None
    if rules.ignores:
        return adds[-1] if adds else None
    return records[-1]


def _aggregated(rules: Rules, records: Sequence[Record]) -> Record:
    cells = {
        c: rules.functions[c]() if c in rules.functions else Cell("last_non_null_value")
        for c in rules.columns
    }
    for name in rules.sequence:
        cells[name] = Cell("last_value")
    row: dict[str, Any] = dict.fromkeys(rules.columns)
    removed = False
    for _, kind, value in records:
        removed = rules.removes and kind == DELETE
        if removed:
            row = dict(value)
            continue
        for name, cell in cells.items():
            step = cell.add if kind in (ADD, AFTER) else cell.retract
            row[name] = step(row[name], value[name])
    return records[-1][0], DELETE if removed else ADD, row


def _partial(rules: Rules, records: Sequence[Record]) -> Record:
    cells = {c: make() for c, make in rules.functions.items()}
    row: dict[str, Any] = dict.fromkeys(rules.columns)
    met, filled, removed, number = False, False, False, 0
    for sequence, kind, value in records:
        removed = False
        if kind in (ADD, AFTER):
            number, met, filled = sequence, True, True
            _partial_add(rules, cells, row, value)
            continue
        if not filled:
            row, filled = dict(value), True
        if rules.ignores:
            continue
        number = sequence
        if rules.groups:
            removed = _partial_retract(rules, cells, row, value, kind)
        elif not rules.removes:
            raise Fails("retract")
        elif kind == DELETE:
            removed = True
        if removed:
            row = dict(value)
    return number, DELETE if removed or not met else ADD, row


def _partial_add(rules: Rules, cells: Mapping[str, Cell], row: dict[str, Any], value: dict[str, Any]) -> None:
    inside = {c for names, guarded in rules.groups.items() for c in (*names, *guarded)}
    for name in rules.columns:
        if name not in inside and value[name] is not None:
            row[name] = value[name]
    for names, guarded in rules.groups.items():
        if all(value[n] is None for n in names):
            continue
        wins = rank(value, names) >= rank(row, names)
        for name in guarded:
            if name in cells:
                step = cells[name].add if wins else cells[name].late
                row[name] = step(row[name], value[name])
            elif wins:
                row[name] = value[name]
        if wins:
            row.update({n: value[n] for n in names})


def _partial_retract(
    rules: Rules, cells: Mapping[str, Cell], row: dict[str, Any], value: dict[str, Any], kind: int
) -> bool:
    for names in rules.groups:
        given = any(value[n] is not None for n in names)
        wins = given and rank(value, names) >= rank(row, names)
        if wins and kind == DELETE and set(names) & set(rules.removing):
            return True
    for names, guarded in rules.groups.items():
        if all(value[n] is None for n in names):
            continue
        wins = rank(value, names) >= rank(row, names)
        for name in guarded:
            if name in cells:
                row[name] = cells[name].retract(row[name], value[name])
            elif wins:
                row[name] = None
        if wins:
            row.update({n: value[n] for n in names})
    return False
