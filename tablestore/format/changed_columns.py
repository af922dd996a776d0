"""Changes of columns, a class for each kind, and what they do to the columns of a schema.

Ids of columns never change and are never reused (I9). Changes that would break existing files are refused:
keys and partition columns stay. Types change by Paimon's casts, nested ones field by field (FORMAT.md 22.1).
A path leads from a column into ROW fields by their names, through `element` of an ARRAY and `value` of a MAP.
Pure. Used by `schema_change`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyarrow as pa

from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound, SchemaMismatch, Unsupported
from tablestore.core.options.table_options import TableOptions
from tablestore.format.computed_columns import ComputedColumn, computed_columns
from tablestore.format.schema import TableSchema
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import STRING
from tablestore.format.types.data_type import DataField, DataType, renumbered

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
    t: DataType, rest: tuple[str, ...], change: Callable[[Fields], Fields], path: tuple[str, ...]
) -> DataType:
    if not t.children or (t.root == "MAP" and rest[0] == "key") or t.root in ("MULTISET", "VECTOR"):
        raise NotFound(f"no column {dotted(path)!r}: there are no fields in {t}")
    return replace(t, children=change(t.children))


def with_siblings(fields: Fields, path: tuple[str, ...], change: Callable[[Fields], Fields]) -> Fields:
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


_COMPUTED = -2  # ids of computed columns go down from here


@dataclass(frozen=True, slots=True, repr=False)
class _OfColumn:
    """A change of the column `name`, shown as the function that makes it."""

    function: ClassVar[str]
    name: Name

    def __repr__(self) -> str:
        return f"{self.function}({self.name!r})"


@dataclass(frozen=True, slots=True, repr=False)
class AddColumn(_OfColumn):
    """A new column; without a `place` it is the last, or the option says where. No default is None."""

    function = "add"
    type: DataType
    place: ColumnPlace | None
    comment: str | None
    default: Any


@dataclass(frozen=True, slots=True, repr=False)
class RenameColumn(_OfColumn):
    function = "rename"
    to: str


@dataclass(frozen=True, slots=True, repr=False)
class DropColumn(_OfColumn):
    function = "drop"


@dataclass(frozen=True, slots=True, repr=False)
class CastColumn(_OfColumn):
    """Another type; whether the column may hold NULL stays."""

    function = "retype"
    type: DataType


@dataclass(frozen=True, slots=True, repr=False)
class NullColumn(_OfColumn):
    function = "nullable"


@dataclass(frozen=True, slots=True, repr=False)
class NotNullColumn(_OfColumn):
    function = "not null"


@dataclass(frozen=True, slots=True, repr=False)
class MoveColumn(_OfColumn):
    function = "move"
    place: ColumnPlace


@dataclass(frozen=True, slots=True, repr=False)
class CommentColumn(_OfColumn):
    """The comment of a column; None removes it."""

    function = "comment"
    text: str | None


@dataclass(frozen=True, slots=True, repr=False)
class DefaultColumn(_OfColumn):
    """The default of a column; None removes it."""

    function = "default"
    value: Any


@dataclass(frozen=True, slots=True, repr=False)
class ComputeColumn(_OfColumn):
    """A computed column by the text of its expression and of its type; one that exists keeps its place."""

    function = "compute"
    expression: str
    type: str
    place: ColumnPlace
    comment: str | None


FieldChange = CommentColumn | DefaultColumn | NullColumn | NotNullColumn | CastColumn
ColumnChange = AddColumn | DropColumn | RenameColumn | MoveColumn | ComputeColumn | FieldChange


class ChangedColumns:
    """The columns of `schema` while changes are applied: `fields` and `primary_keys` are those of now, with
    computed columns among the others as fields with ids below those of unnamed ones. Not thread-safe."""

    def __init__(self, schema: TableSchema) -> None:
        self._before, self._allowed = schema, TableOptions.parse(schema.options)
        self._expressions: dict[int, tuple[str, str]] = {}  # of computed columns: text, text of its type
        self.fields = self._with_computed(schema)
        self.primary_keys = schema.primary_keys
        self._ids = itertools.count(schema.highest_field_id + 1)
        self.highest = schema.highest_field_id

    def _with_computed(self, schema: TableSchema) -> Fields:
        fields = list(schema.fields)
        for c in computed_columns(schema.options, schema.names):
            fields.insert(c.position, self._computed(c.name, c.expression, c.type, c.comment))
        return tuple(fields)

    def _computed(self, name: str, expression: str, type: str, comment: str | None) -> DataField:
        column = DataField(_COMPUTED - len(self._expressions), name, STRING, comment)
        self._expressions[column.id] = (expression, type)
        return column

    @property
    def stored(self) -> Fields:
        """The columns that are not computed."""
        return tuple(f for f in self.fields if f.id not in self._expressions)

    @property
    def computed(self) -> list[ComputedColumn]:
        """The computed columns, each at its position among all."""
        return [
            ComputedColumn(f.name, *self._expressions[f.id], position, f.description)
            for position, f in enumerate(self.fields)
            if f.id in self._expressions
        ]

    def apply(self, change: ColumnChange) -> None:
        """Change a column. Raises what `schema_change.apply` does."""
        path = path_of(change.name, self.fields)
        match change:
            case AddColumn():
                self._add(path, change)
            case DropColumn():
                self._drop(path)
            case RenameColumn():
                self._rename(path, change.to)
            case MoveColumn(place=place):
                self.fields = with_siblings(self.fields, path, lambda fs: moved(fs, path, place))
            case ComputeColumn():
                self._compute(path, change)
            case _:
                self.fields = changed_at(self.fields, path, lambda f: self._changed(path, f, change))

    def _next_id(self) -> int:
        self.highest = next(self._ids)
        return self.highest

    def _add(self, path: tuple[str, ...], change: AddColumn) -> None:
        if not change.type.nullable:
            raise SchemaMismatch(
                f"column {dotted(path)!r} is NOT NULL, but the rows that exist have no value for it"
            )
        f = DataField(self._next_id(), path[-1], renumbered(change.type, self._next_id), change.comment)
        if change.default is not None:
            f = replace(f, default=default_text(f, change.default))

        def put(siblings: Fields) -> Fields:
            if any(s.name == path[-1] for s in siblings):
                raise AlreadyExists(f"column {dotted(path)!r} exists")
            place = change.place
            if place is None and self._allowed.add_before_partition and len(path) == 1:
                first = next((s.name for s in siblings if s.name in self._before.partition_keys), "")
                place = ColumnPlace("before", first) if first else None
            return inserted(siblings, f, place or ColumnPlace("last"))

        self.fields = with_siblings(self.fields, path, put)

    def _compute(self, path: tuple[str, ...], change: ComputeColumn) -> None:
        if len(path) > 1:
            raise InvalidRequest(f"{dotted(path)!r}: fields of a ROW are not computed")
        f = self._computed(path[0], change.expression, change.type, change.comment)
        there = next((i for i, s in enumerate(self.fields) if s.name == path[0]), None)
        if there is None:
            self.fields = inserted(self.fields, f, change.place)
        elif self.fields[there].id not in self._expressions:
            raise AlreadyExists(f"column {path[0]!r} exists")
        else:
            self.fields = (*self.fields[:there], f, *self.fields[there + 1 :])

    def _drop(self, path: tuple[str, ...]) -> None:
        if len(path) == 1 and path[0] in (*self.primary_keys, *self._before.partition_keys):
            raise InvalidRequest(f"column {path[0]!r} is part of a key and cannot be dropped")

        def without(siblings: Fields) -> Fields:
            sibling(siblings, path)
            kept = tuple(f for f in siblings if f.name != path[-1])
            if all(f.id in self._expressions for f in kept):
                raise InvalidRequest(f"{dotted(path)!r} is the last field and cannot be dropped")
            return kept

        self.fields = with_siblings(self.fields, path, without)

    def _rename(self, path: tuple[str, ...], to: str) -> None:
        old = path[-1]
        if len(path) == 1 and old in self._before.partition_keys:
            raise InvalidRequest(
                f"column {old!r} is a partition column, named by directories: it keeps its name"
            )

        def named(siblings: Fields) -> Fields:
            sibling(siblings, path)
            if any(f.name == to for f in siblings):
                raise AlreadyExists(f"column {dotted((*path[:-1], to))!r} exists")
            return tuple(replace(f, name=to) if f.name == old else f for f in siblings)

        self.fields = with_siblings(self.fields, path, named)
        if len(path) == 1:
            self.primary_keys = tuple(to if k == old else k for k in self.primary_keys)

    def _changed(self, path: tuple[str, ...], f: DataField, change: FieldChange) -> DataField:
        """The field after a change of its type, nullability, comment or default."""
        if isinstance(change, CommentColumn):
            return replace(f, description=change.text)
        if f.id in self._expressions:
            raise InvalidRequest(f"column {f.name!r} is computed: it has no type or default of its own")
        match change:
            case DefaultColumn(value=value):
                return replace(f, default=None if value is None else default_text(f, value))
            case NullColumn():
                return replace(f, type=self._nullability(path, f.type, True))
            case NotNullColumn():
                return replace(f, type=self._nullability(path, f.type, False))
            case CastColumn():
                return replace(f, type=self._retyped(path, f.type, change.type))

    def _nullability(self, path: tuple[str, ...], t: DataType, allow: bool) -> DataType:
        if allow and len(path) == 1 and path[0] in self.primary_keys:
            raise InvalidRequest(f"column {path[0]!r} is part of the primary key and stays NOT NULL")
        if not allow and t.nullable and self._allowed.no_null_to_not_null:
            raise InvalidRequest(
                f"column {dotted(path)!r} may hold NULL, so it cannot become NOT NULL; set option "
                "'alter-column-null-to-not-null.disabled' to false if you know that it holds none"
            )
        return replace(t, nullable=allow)

    def _retyped(self, path: tuple[str, ...], old: DataType, new: DataType) -> DataType:
        if len(path) == 1 and path[0] in (*self.primary_keys, *self._before.partition_keys):
            raise InvalidRequest(f"column {path[0]!r} is part of a key; its type cannot change")
        new = replace(new, nullable=old.nullable)
        if not (old.is_nested and old.root == new.root):
            self._require_cast(path, old, new)
            return new
        if old.root == "ROW":
            return self._retyped_row(path, old, new)
        if old.root == "MAP" and _differ(old.children[0].type, new.children[0].type):
            raise InvalidRequest(f"the keys of map {dotted(path)!r} keep their type {old.children[0].type}")
        if old.root == "MULTISET" and _differ(old.element, new.element):
            raise InvalidRequest(f"the elements of multiset {dotted(path)!r} keep their type {old.element}")
        last, kept = old.children[-1], [f.type for f in old.children[:-1]]
        inner = self._inside((*path, last.name), last.type, new.children[-1].type)
        return old.with_children(*kept, inner)

    def _inside(self, path: tuple[str, ...], old: DataType, new: DataType) -> DataType:
        retyped = self._retyped(path, old, new)
        return retyped if new.nullable == old.nullable else self._nullability(path, retyped, new.nullable)

    def _retyped_row(self, path: tuple[str, ...], old: DataType, new: DataType) -> DataType:
        """The ROW after a change of its fields, matched by name: missing ones are dropped, new ones added."""
        old_fields = {f.name: f for f in old.children}
        kept = [f.name for f in new.children if f.name in old_fields]
        if kept != [f.name for f in old.children if f.name in kept]:
            raise InvalidRequest(f"the fields of {dotted(path)!r} keep their order; use move for one of them")
        fields = []
        for f in new.children:
            inner = (*path, f.name)
            if f.name in old_fields:
                was = old_fields[f.name]
                said = f.description or was.description
                fields.append(replace(was, type=self._inside(inner, was.type, f.type), description=said))
            elif not f.type.nullable:
                raise SchemaMismatch(f"field {dotted(inner)!r} is new, so it cannot be NOT NULL")
            else:
                fields.append(replace(f, id=self._next_id(), type=renumbered(f.type, self._next_id)))
        return replace(old, children=tuple(fields))

    def _require_cast(self, path: tuple[str, ...], old: DataType, new: DataType) -> None:
        explicit = not self._allowed.no_explicit_casts
        if casts.allowed(old, new, explicit=explicit):
            return
        why = f"column {dotted(path)!r} cannot change from {old} to {new}"
        if casts.allowed(old, new, explicit=True):
            raise InvalidRequest(f"{why}: option 'disable-explicit-type-casting' allows wider types only")
        raise InvalidRequest(f"{why}: there is no such cast; add a column and write it anew")


def _differ(old: DataType, new: DataType) -> bool:
    return old.as_nullable() != new.as_nullable()


def default_text(f: DataField, value: Any) -> str:
    """A default as it is stored: text that casts to the column's type."""
    if not f.type.is_scalar:
        raise Unsupported(f"defaults of {f.type.root} columns")
    text = "true" if value is True else "false" if value is False else str(value)
    if not f.type.is_binary:
        try:
            casts.cast(pa.array([text]), STRING, f.type)
        except SchemaMismatch:
            raise SchemaMismatch(
                f"default {text!r} of column {f.name!r} is not a value of {f.type}"
            ) from None
    return text
