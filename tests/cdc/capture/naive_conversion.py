"""The conversion of a capture, a row at a time in Python: what the columns of `Conversion` must give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

Row = dict[str, Any]
RANGES = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


class NaiveBad(Exception):
    """A value that does not fit."""


@dataclass(frozen=True)
class NaiveTarget:
    """Columns {name: (root, size, nullable)}, key, and which are computed as the year of `at`."""

    columns: Mapping[str, tuple[str, int, bool]]
    key: Sequence[str]


def fitted(value: Any, root: str, size: int) -> Any:
    """The value as this type; raises Bad."""
    if value is None:
        return None
    if root in RANGES:
        if isinstance(value, str):
            raise AssertionError("no text becomes a number here")
        if value != int(value) or not -(1 << RANGES[root]) <= value < 1 << RANGES[root]:
            raise NaiveBad
        return int(value)
    if root == "BOOLEAN":
        return value != 0
    if root == "VARCHAR":
        text = value if isinstance(value, str) else spelled(value)
        if len(text) > size:
            raise NaiveBad
        return text
    return value


def spelled(value: Any) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise NaiveBad from None
    if isinstance(value, (datetime, date)):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def convert(
    changes: Sequence[tuple[int, Row]], target: NaiveTarget
) -> tuple[list[tuple[int, Row]], list[tuple[int, Row]]]:
    """(changes of the target, bad changes)."""
    created = [_made(row, target, only_key=kind in (DELETE, UPDATE_BEFORE)) for kind, row in changes]
    collected: list[tuple[int, Row]] = []
    bad: list[tuple[int, Row]] = []
    at = 0
    while at < len(changes):
        kind, row = changes[at]
        new = created[at]
        if kind == UPDATE_BEFORE and at + 1 < len(changes) and changes[at + 1][0] == UPDATE_AFTER:
            old, new = created[at], created[at + 1]
            after = changes[at + 1][1]
            at += 2
            moved = old is not None and (new is None or any(old[k] != new[k] for k in target.key))
            if new is None:
                bad.append((UPDATE_AFTER, after))
                keys = _made(after, target, only_key=True)
                if old is not None and (keys is None or any(old[k] != keys[k] for k in target.key)):
                    collected.append((DELETE, old))
            elif old is None:
                collected.append((INSERT, new))
            else:
                collected += (
                    [(DELETE, old), (INSERT, new)] if moved else [(UPDATE_BEFORE, old), (UPDATE_AFTER, new)]
                )
            continue
        at += 1
        if new is None:
            bad.append((kind, row))
        else:
            collected.append((kind, new))
    return collected, bad


def _made(row: Row, target: NaiveTarget, *, only_key: bool) -> Row | None:
    """The row of the target; None for a bad one. With `only_key` a bad value of another column is no
    value."""
    collected: Row = {}
    given = row | {"year": None if row["at"] is None else row["at"].year}
    for name, (root, size, nullable) in target.columns.items():
        try:
            value = fitted(given.get(name), root, size)
            if value is None and not nullable:
                raise NaiveBad
        except NaiveBad:
            if not only_key or name in target.key:
                return None
            value = None if nullable else _least(root)
        collected[name] = value
    return collected


def _least(root: str) -> Any:
    least = {"VARCHAR": "", "BOOLEAN": False, "DATE": date(1970, 1, 1), "TIMESTAMP": datetime(1970, 1, 1)}
    return least.get(root, 0)
