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

    def add(self, current: Any, incoming: Any) -> Any:
        if self.name == "last_value":
            return incoming
        if self.name == "first_value":
            taken, self.begun = not self.begun, True
            return incoming if taken else current
        if self.name == "first_non_null_value":
            taken = not self.begun and incoming is not None
            self.begun |= taken
            return incoming if taken else current
        if self.name == "last_non_null_value":
            return current if incoming is None else incoming
        if self.name == "collect" and self.distinct and (current is not None or incoming is not None):
            return list(dict.fromkeys([*(current or []), *(incoming or [])]))
        if self.name == "nested_update" and incoming is not None:
            return self.table(current, incoming)
        if self.name == "listagg":
            incoming = None if incoming is None or not incoming.strip() else incoming
            current = (
                None if current is not None and incoming is not None and not current.strip() else current
            )
        if current is None or incoming is None:
            return incoming if current is None else current
        return self.both(current, incoming)

    def both(self, current: Any, incoming: Any) -> Any:
        if self.name in ("sum", "product"):
            created = current + incoming if self.name == "sum" else current * incoming
            if isinstance(created, Decimal) and self.name == "product":
                created = created.quantize(Decimal(1).scaleb(-self.scale), ROUND_HALF_UP)
            return self.checked(created)
        if self.name in ("max", "bool_or"):
            return max(current, incoming)
        if self.name in ("min", "bool_and"):
            return min(current, incoming)
        if self.name == "collect":
            return current + incoming
        if self.name == "merge_map":
            return {**current, **incoming}
        if not self.distinct:
            return current + self.delimiter + incoming
        tokens, seen = [current], set(current.split(self.delimiter))
        for token in incoming.split(self.delimiter):
            if token.strip() and token not in seen:
                tokens.append(token)
                seen.add(token)
        return self.delimiter.join(tokens)

    def table(self, current: list[tuple] | None, incoming: list[tuple]) -> list[tuple]:
        if not self.key:
            if current is not None and len(current) >= self.limit:
                return current
            return [*(current or []), *incoming[: self.limit - len(current or [])]]
        rows: dict[tuple, tuple] = {}
        for new, row in [*((False, r) for r in current or []), *((True, r) for r in incoming)]:
            at = tuple(row[i] for i in self.key)
            if at in rows:
                if not self.order or self.rank(row) >= self.rank(rows[at]):
                    rows[at] = row
            elif not new or len(rows) < self.limit:
                rows[at] = row
        return list(rows.values())

    def rank(self, row: tuple) -> list[tuple]:
        return [(row[i] is not None, row[i] or 0) for i in self.order]

    def late(self, current: Any, incoming: Any) -> Any:
        if self.name == "collect" and not self.ignores:
            return self.add(current, incoming)
        return self.add(incoming, current)

    def retract(self, current: Any, incoming: Any) -> Any:
        if self.ignores:
            return current
        if self.name == "last_value":
            return None
        if self.name == "last_non_null_value":
            return current if incoming is None else None
        if self.name == "sum":
            if current is None or incoming is None:
                return (None if incoming is None else self.checked(-incoming)) if current is None else current
            return self.checked(current - incoming)
        if self.name not in ("product", "collect", "merge_map", "nested_update"):
            raise Fails("no retracts")
        if current is None or incoming is None:
            return current
        return self.taken_off(current, incoming)

    def taken_off(self, current: Any, incoming: Any) -> Any:
        if self.name == "product":
            if self.root not in BITS:
                return current / incoming
            if incoming == 0:
                raise Fails("/ by zero")
            whole = abs(current) // abs(incoming)
            return self.checked(whole if (current < 0) == (incoming < 0) else -whole)
        if self.name == "collect":
            kept, gone = [], list(incoming)
            for element in current:
                if element in gone:
                    gone.remove(element)
                else:
                    kept.append(element)
            return kept
        if self.name == "merge_map":
            return {k: v for k, v in current.items() if k not in incoming}
        if not self.key:
            return [row for row in current if row not in incoming]
        rows = {tuple(row[i] for i in self.key): row for row in current}
        for row in incoming:
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
        incoming = any(value[n] is not None for n in names)
        wins = incoming and rank(value, names) >= rank(row, names)
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
