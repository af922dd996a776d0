"""Paths to fields: names with dots, fields inside containers, positions among siblings. Pure.

A path leads from a column into ROW fields by their names, through `element` of an ARRAY and `value` of a MAP.
Used by `schema_change`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.types.data_type import DataField, DataType

Name = str | tuple[str, ...]
Fields = tuple[DataField, ...]
Where = Literal["first", "last", "after", "before"]


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """The position of a field among its siblings; `beside` names the sibling for after and before."""

    where: Where
    beside: str = ""


def path_of(name: Name, fields: Fields) -> tuple[str, ...]:
    """The parts of a column's name: a dot separates nested fields, unless a column has the whole name."""
    if isinstance(name, tuple):
        parts = name
    elif any(f.name == name for f in fields):
        return (name,)
    else:
        head, _, rest = name.partition(".")
        nested = any(f.name == head and f.type.children for f in fields)
        parts = (head, *rest.split(".")) if rest and nested else (name,)
    if not parts or not all(isinstance(p, str) and p for p in parts):
        raise InvalidRequest(f"{name!r} is not the name of a column")
    return parts


def dotted(path: tuple[str, ...]) -> str:
    return ".".join(path)


def sibling(siblings: Fields, path: tuple[str, ...]) -> DataField:
    """The field with the last name of the path. Raises NotFound."""
    field = next((f for f in siblings if f.name == path[-1]), None)
    if field is None:
        raise NotFound.among("column", dotted(path), (dotted((*path[:-1], f.name)) for f in siblings))
    return field


def changed_at(fields: Fields, path: tuple[str, ...], change: Callable[[DataField], DataField]) -> Fields:
    """The fields with the one at `path` changed; its name may be the element or value of a container."""
    inner = sibling(fields, path[:1])
    if len(path) == 1:
        return tuple(change(f) if f is inner else f for f in fields)
    changed = replace(
        inner, type=_within(inner.type, path[1:], lambda cs: changed_at(cs, path[1:], change), path)
    )
    return tuple(changed if f is inner else f for f in fields)


def _within(
    t: DataType,
    rest: tuple[str, ...],
    change: Callable[[Fields], Fields],
    path: tuple[str, ...],
) -> DataType:
    if not t.children or (t.root == "MAP" and rest[0] == "key") or t.root in ("MULTISET", "VECTOR"):
        raise NotFound(f"no column {dotted(path)!r}: there are no fields in {t}")
    return replace(t, children=change(t.children))


def with_siblings(
    fields: Fields,
    path: tuple[str, ...],
    change: Callable[[Fields], Fields],
) -> Fields:
    """The fields with those around `path` changed as a whole: the columns, or the fields of one ROW."""
    if len(path) == 1:
        return change(fields)

    def inside(holder: DataField) -> DataField:
        if holder.type.root != "ROW":
            raise NotFound(f"no column {dotted(path)!r}: {dotted(path[:-1])!r} is {holder.type}, not a ROW")
        return replace(holder, type=replace(holder.type, children=change(holder.type.children)))

    return changed_at(fields, path[:-1], inside)


def inserted(siblings: Fields, f: DataField, place: ColumnPlace) -> Fields:
    if place.where in ("first", "last"):
        return (f, *siblings) if place.where == "first" else (*siblings, f)
    beside = sibling(siblings, (place.beside,))
    at = siblings.index(beside) + (place.where == "after")
    return (*siblings[:at], f, *siblings[at:])


def moved(siblings: Fields, path: tuple[str, ...], place: ColumnPlace) -> Fields:
    f = sibling(siblings, path)
    if place.beside == f.name:
        raise InvalidRequest(f"column {dotted(path)!r} cannot be moved beside itself")
    return inserted(tuple(s for s in siblings if s is not f), f, place)
