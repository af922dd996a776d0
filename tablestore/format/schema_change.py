"""Changes of a table's columns, options and comment: TableSchema + changes → the next TableSchema. Pure.

    add rename drop retype nullable not_null move comment default set_options reset_options
    compute mark drop_watermark        (computed columns and the watermark, FORMAT.md 2.6)

A column is named by text; `r.x` is field x of ROW column r, `a.element.x` one within ARRAY<ROW>, `m.value.x`
within MAP<.., ROW> (or a tuple of these parts). Ids of columns never change and are never reused (I9).
Changes that would break existing files are refused: keys, partition columns, layout options once there are
snapshots (FORMAT.md 22.1). `write/alter.py` stores the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tablestore.core.arguments import checked
from tablestore.core.errors import AlreadyExists, InvalidOption, InvalidRequest, SchemaMismatch, Unsupported
from tablestore.core.options.names import ALIASES, CHANGE_TRACKING, FIXED_WITH_DATA, OF_CREATION
from tablestore.core.options.rules import require_storable
from tablestore.core.options.table_options import TableOptions, as_text, current_names
from tablestore.format.change_tracking import option_of, path_of_values, require_partitions_exist
from tablestore.format.computed_columns import (
    ComputedColumn,
    Watermark,
    as_options,
    computed_columns,
    watermark,
)
from tablestore.format.field_paths import (
    Fields,
    Name,
    Place,
    Where,
    changed_at,
    dotted,
    inserted,
    moved,
    one,
    path_of,
    with_siblings,
)
from tablestore.format.option_columns import require_columns_exist, with_renamed_column
from tablestore.format.schema import TableSchema, require_sound
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import STRING, as_type
from tablestore.format.types.data_type import DataField, DataType, renumbered

_COMPUTED = -2  # ids of computed columns go down from here


@dataclass(frozen=True, slots=True)
class Change:
    """One change of kind `what` to column `name`; the functions of this module make it and set the rest."""

    what: str
    name: Name = ""
    type: DataType | None = None
    text: str | None = None
    place: Place | None = None
    options: Mapping[str, Any] | None = None
    keys: tuple[str, ...] = ()
    partition: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"{self.what}({self.name!r})" if self.name else self.what


@checked
def add(
    name: Name,
    type: Any,
    *,
    after: str | None = None,
    before: str | None = None,
    first: bool = False,
    last: bool = False,
    comment: str | None = None,
    default: Any = None,
) -> Change:
    """A new column `name`, NULL in existing rows.

    A name is text, or a list of texts for a field of a ROW. `type` is one of `ts.INT`, `ts.DECIMAL(8, 2)`, …
    or its text. It is placed `after` or `before` another column, `first` or `last` (the default). `comment`
    says what it holds; `default` fills it where later writes leave it out.

    >>> orders.alter(ts.add("note", ts.STRING, after="order_id")).schema.names
    ['order_id', 'note', 'customer', 'amount', 'status']
    """
    t, place = as_type(type, f"column {name!r}"), _place(after, before, first, last)
    given = None if default is None else {"default": default}
    return Change("add", name, type=t, text=comment, place=place, options=given)


@checked
def rename(name: Name, to: str) -> Change:
    """Rename the column `name` to `to`; its data and the options that name it follow.

    >>> orders.alter(ts.rename("customer", "buyer")).get({"order_id": 1})["buyer"]
    'ann'
    """
    return Change("rename", name, text=to)


@checked
def drop(name: Name) -> Change:
    """Drop the column `name`; a later column of the same name is a new one.

    >>> orders.alter(ts.drop("status")).schema.names
    ['order_id', 'customer', 'amount']
    """
    return Change("drop", name)


@checked
def retype(name: Name, type: Any) -> Change:
    """Change the `type` of the column `name`, by Paimon's casts; its nullability stays. Nested types are
    compared field by field.

    >>> orders.alter(ts.retype("amount", ts.DECIMAL(10, 2))).get({"order_id": 1})["amount"]
    Decimal('10.00')
    """
    return Change("retype", name, type=as_type(type, f"column {name!r}"))


@checked
def nullable(name: Name) -> Change:
    """Allow NULL in the column `name`.

    >>> willing = orders.alter(ts.set_options({"alter-column-null-to-not-null.disabled": False}))
    >>> willing.alter(ts.not_null("status")).alter(ts.nullable("status")).schema.field("status").nullable
    True
    """
    return Change("nullable", name)


@checked
def not_null(name: Name) -> Change:
    """Make the column `name` NOT NULL; only with option `alter-column-null-to-not-null.disabled` =
    false.

    >>> willing = orders.alter(ts.set_options({"alter-column-null-to-not-null.disabled": False}))
    >>> willing.alter(ts.not_null("status")).schema.field("status").nullable
    False
    """
    return Change("not null", name)


@checked
def move(
    name: Name,
    *,
    after: str | None = None,
    before: str | None = None,
    first: bool = False,
    last: bool = False,
) -> Change:
    """Move the column `name` `after` or `before` another one, or to `first` or `last` position.

    >>> orders.alter(ts.move("status", first=True)).schema.names
    ['status', 'order_id', 'customer', 'amount']
    """
    place = _place(after, before, first, last)
    if place is None:
        raise InvalidRequest(f"move({name!r}) needs one of after, before, first, last")
    return Change("move", name, place=place)


@checked
def comment(name: Name | None, text: str | None) -> Change:
    """Set the comment `text` of the column `name` (None: of the table); a text of None removes it.

    >>> orders.alter(ts.comment(None, "what was bought")).comment
    'what was bought'
    """
    return Change("comment", name or "", text=text)


@checked
def default(name: Name, value: Any) -> Change:
    """Set the default `value` of the column `name`, for writes that leave it out; None removes it.

    >>> changed = orders.alter(ts.default("status", "new"))
    >>> _ = changed.write([{"order_id": 4}])
    >>> changed.get({"order_id": 4})["status"]
    'new'
    """
    return Change("default", name, options={"default": value})


@checked
def set_options(options: Mapping[str, Any], *, partition: Mapping[str, Any] | None = None) -> Change:
    """Store these `options` of the table, by name; of one `partition`, {column: value}, which may have
    'change-tracking' only: with false its commits write no changelog files from then on.

    >>> orders.alter(ts.set_options({"snapshot.num-retained.min": 3})).options["snapshot.num-retained.min"]
    '3'
    """
    return Change("set options", options=dict(options), partition=partition)


@checked
def reset_options(*keys: str, partition: Mapping[str, Any] | None = None) -> Change:
    """Reset the options `keys` to their defaults; those of one `partition`, {column: value}, to those of the
    table.

    >>> changed = orders.alter(ts.set_options({"snapshot.num-retained.min": 3}))
    >>> "snapshot.num-retained.min" in changed.alter(ts.reset_options("snapshot.num-retained.min")).options
    False
    """
    return Change("reset options", keys=keys, partition=partition)


def compute(
    name: str,
    expression: str,
    type: str,
    *,
    after: str | None = None,
    first: bool = False,
    comment: str | None = None,
) -> Change:
    """The column `name` is computed: SQL text `expression`, of the type of the text `type`. One that is
    computed already stays in its place."""
    place = _place(after, None, first, False)
    return Change("compute", name, text=expression, place=place, options={"type": type, "comment": comment})


def mark(column: str, expression: str, type: str) -> Change:
    """The watermark: SQL text `expression` over the event times in `column`."""
    return Change("watermark", column, text=expression, options={"type": type})


def drop_watermark() -> Change:
    """No watermark."""
    return Change("drop watermark")


def _place(after: str | None, before: str | None, first: bool, last: bool) -> Place | None:
    said: list[tuple[Where, str]] = [("after", after or ""), ("before", before or "")]
    found = [Place(where, beside) for where, beside in said if beside]
    found += [Place("first")] * first + [Place("last")] * last
    if len(found) > 1:
        raise InvalidRequest("say one of after, before, first, last")
    return found[0] if found else None


def apply(
    schema: TableSchema, changes: Sequence[Change], *, has_snapshots: bool, time_millis: int
) -> TableSchema:
    """The schema after `changes`, with the next id.

    Raises InvalidRequest (or its kinds SchemaMismatch, InvalidOption, Unsupported), NotFound, AlreadyExists.
    """
    altered = _Altered(schema, has_snapshots)
    for change in changes:
        if not isinstance(change, Change):
            raise InvalidRequest(f"{change!r} is not a change; write ts.add(…), ts.rename(…), …")
        altered.apply(change)
    made = replace(
        schema,
        id=schema.id + 1,
        fields=altered.stored,
        highest_field_id=altered.highest,
        primary_keys=altered.primary_keys,
        options=altered.options_with_computed(),
        comment=altered.comment,
        time_millis=time_millis,
    )
    require_sound(made)
    require_columns_exist(made)
    require_partitions_exist(made)
    return made


class _Altered:
    """A schema during `apply`. Not thread-safe."""

    def __init__(self, schema: TableSchema, has_snapshots: bool) -> None:
        self.before, self.has_snapshots = schema, has_snapshots
        self.comment = schema.comment
        self.mark = watermark(schema.options)
        self._expressions: dict[int, tuple[str, str]] = {}  # of computed columns: text, text of its type
        self.fields = self._with_computed(schema)
        self.primary_keys, self.options = schema.primary_keys, dict(schema.options)
        self.allowed = TableOptions.parse(schema.options)
        self._ids = itertools.count(schema.highest_field_id + 1)
        self.highest = schema.highest_field_id

    def next_id(self) -> int:
        self.highest = next(self._ids)
        return self.highest

    # computed columns stand among the others as fields with ids below those of unnamed ones

    def _with_computed(self, schema: TableSchema) -> Fields:
        fields = list(schema.fields)
        for c in computed_columns(schema.options, schema.names):
            f = self._computed(c.name, c.expression, c.type, c.comment)
            fields.insert(c.position, f)
        return tuple(fields)

    def _computed(self, name: str, expression: str, type: str, comment: str | None) -> DataField:
        made = DataField(_COMPUTED - len(self._expressions), name, STRING, comment)
        self._expressions[made.id] = (expression, type)
        return made

    @property
    def stored(self) -> Fields:
        return tuple(f for f in self.fields if f.id not in self._expressions)

    def options_with_computed(self) -> dict[str, str]:
        """The options, with each computed column at its position now."""
        old = as_options(computed_columns(self.options, self.before.names), watermark(self.options))
        computed = [
            ComputedColumn(f.name, *self._expressions[f.id], position, f.description)
            for position, f in enumerate(self.fields)
            if f.id in self._expressions
        ]
        new = as_options(computed, self.mark)
        return self.options if new == old else {k: v for k, v in self.options.items() if k not in old} | new

    def _compute(self, path: tuple[str, ...], change: Change) -> None:
        if len(path) > 1:
            raise InvalidRequest(f"{dotted(path)!r}: fields of a ROW are not computed")
        said = change.options or {}
        f = self._computed(path[0], str(change.text), said["type"], said["comment"])
        there = next((i for i, s in enumerate(self.fields) if s.name == path[0]), None)
        if there is None:
            self.fields = inserted(self.fields, f, _placed(change))
        elif self.fields[there].id not in self._expressions:
            raise AlreadyExists(f"column {path[0]!r} exists")
        else:
            self.fields = (*self.fields[:there], f, *self.fields[there + 1 :])

    def apply(self, change: Change) -> None:
        if change.what == "set options":
            given = as_text(change.options)
            self._set({self._option(k, change): v for k, v in given.items()})
        elif change.what == "reset options":
            self._reset([self._option(k, change) for k in change.keys])
        elif change.what == "comment" and not change.name:
            self.comment = change.text
        elif change.what == "watermark":
            self.mark = Watermark(str(change.name), str(change.text), (change.options or {})["type"])
        elif change.what == "drop watermark":
            self.mark = None
        else:
            path = path_of(change.name, self.fields)
            if change.what == "add":
                self._add(path, change)
            elif change.what == "drop":
                self._drop(path)
            elif change.what == "compute":
                self._compute(path, change)
            elif change.what == "rename":
                self._rename(path, str(change.text))
            elif change.what == "move":
                self.fields = with_siblings(self.fields, path, lambda fs: moved(fs, path, _placed(change)))
            else:
                self.fields = changed_at(self.fields, path, lambda f: self._changed(path, f, change))

    # columns

    def _add(self, path: tuple[str, ...], change: Change) -> None:
        t = change.type
        if t is None or not t.nullable:
            raise SchemaMismatch(
                f"column {dotted(path)!r} is NOT NULL, but the rows that exist have no value for it"
            )
        f = DataField(self.next_id(), path[-1], renumbered(t, self.next_id), change.text)
        if change.options is not None:
            f = replace(f, default=default_text(f, change.options["default"]))

        def put(siblings: Fields) -> Fields:
            if any(s.name == path[-1] for s in siblings):
                raise AlreadyExists(f"column {dotted(path)!r} exists")
            place = change.place
            if place is None and self.allowed.add_before_partition and len(path) == 1:
                first = next((s.name for s in siblings if s.name in self.before.partition_keys), "")
                place = Place("before", first) if first else None
            return inserted(siblings, f, place or Place("last"))

        self.fields = with_siblings(self.fields, path, put)

    def _drop(self, path: tuple[str, ...]) -> None:
        if len(path) == 1 and path[0] in (*self.primary_keys, *self.before.partition_keys):
            raise InvalidRequest(f"column {path[0]!r} is part of a key and cannot be dropped")

        def without(siblings: Fields) -> Fields:
            one(siblings, path)
            kept = tuple(f for f in siblings if f.name != path[-1])
            if all(f.id in self._expressions for f in kept):
                raise InvalidRequest(f"{dotted(path)!r} is the last field and cannot be dropped")
            return kept

        self.fields = with_siblings(self.fields, path, without)

    def _rename(self, path: tuple[str, ...], to: str) -> None:
        old = path[-1]
        if len(path) == 1 and old in self.before.partition_keys:
            raise InvalidRequest(
                f"column {old!r} is a partition column, named by directories: it keeps its name"
            )

        def named(siblings: Fields) -> Fields:
            one(siblings, path)
            if any(f.name == to for f in siblings):
                raise AlreadyExists(f"column {dotted((*path[:-1], to))!r} exists")
            return tuple(replace(f, name=to) if f.name == old else f for f in siblings)

        self.fields = with_siblings(self.fields, path, named)
        if len(path) == 1:
            self.primary_keys = tuple(to if k == old else k for k in self.primary_keys)
            self.options = with_renamed_column(self.options, old, to)
            if self.mark is not None and self.mark.column == old:
                self.mark = replace(self.mark, column=to)

    def _changed(self, path: tuple[str, ...], f: DataField, change: Change) -> DataField:
        """The field after a change of its type, nullability, comment or default."""
        if change.what == "comment":
            return replace(f, description=change.text)
        if f.id in self._expressions:
            raise InvalidRequest(f"column {f.name!r} is computed: it has no type or default of its own")
        if change.what == "default":
            value = (change.options or {}).get("default")
            return replace(f, default=None if value is None else default_text(f, value))
        if change.what in ("nullable", "not null"):
            return replace(f, type=self._nullability(path, f.type, change.what == "nullable"))
        return replace(f, type=self._retyped(path, f.type, change.type or f.type))

    def _nullability(self, path: tuple[str, ...], t: DataType, allow: bool) -> DataType:
        if allow and len(path) == 1 and path[0] in self.primary_keys:
            raise InvalidRequest(f"column {path[0]!r} is part of the primary key and stays NOT NULL")
        if not allow and t.nullable and self.allowed.no_null_to_not_null:
            raise InvalidRequest(
                f"column {dotted(path)!r} may hold NULL, so it cannot become NOT NULL; set option "
                "'alter-column-null-to-not-null.disabled' to false if you know that it holds none"
            )
        return replace(t, nullable=allow)

    def _retyped(self, path: tuple[str, ...], old: DataType, new: DataType) -> DataType:
        if len(path) == 1 and path[0] in (*self.primary_keys, *self.before.partition_keys):
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
        made = self._retyped(path, old, new)
        return made if new.nullable == old.nullable else self._nullability(path, made, new.nullable)

    def _retyped_row(self, path: tuple[str, ...], old: DataType, new: DataType) -> DataType:
        """The ROW after a change of its fields, matched by name: missing ones are dropped, new ones added."""
        known = {f.name: f for f in old.children}
        kept = [f.name for f in new.children if f.name in known]
        if kept != [f.name for f in old.children if f.name in kept]:
            raise InvalidRequest(f"the fields of {dotted(path)!r} keep their order; use move for one of them")
        fields = []
        for f in new.children:
            inner = (*path, f.name)
            if f.name in known:
                was = known[f.name]
                said = f.description or was.description
                fields.append(replace(was, type=self._inside(inner, was.type, f.type), description=said))
            elif not f.type.nullable:
                raise SchemaMismatch(f"field {dotted(inner)!r} is new, so it cannot be NOT NULL")
            else:
                fields.append(replace(f, id=self.next_id(), type=renumbered(f.type, self.next_id)))
        return replace(old, children=tuple(fields))

    def _require_cast(self, path: tuple[str, ...], old: DataType, new: DataType) -> None:
        explicit = not self.allowed.no_explicit_casts
        if casts.allowed(old, new, explicit=explicit):
            return
        why = f"column {dotted(path)!r} cannot change from {old} to {new}"
        if casts.allowed(old, new, explicit=True):
            raise InvalidRequest(f"{why}: option 'disable-explicit-type-casting' allows wider types only")
        raise InvalidRequest(f"{why}: there is no such cast; add a column and write it anew")

    # options

    def _option(self, key: str, change: Change) -> str:
        """The name under which an option of the table, or of the partition of the change, is stored."""
        if change.partition is None:
            return key
        name = ALIASES.get(key, (key,))[0]
        if name != CHANGE_TRACKING:
            raise InvalidOption(f"option {key!r} is of whole tables; a partition has 'change-tracking' only")
        return option_of(path_of_values(self.before, change.partition))

    def _set(self, given: dict[str, str]) -> None:
        given = current_names(given, keyed=bool(self.primary_keys), stored=self.options)
        new = {k: v for k, v in given.items() if self.options.get(k) != v}
        require_storable(new, keyed=bool(self.primary_keys))
        for key, value in given.items():
            old = self.options.get(key)
            if old == value:
                continue
            _require_no_column(key)
            if key == "type" and value.lower() == (old or "table").lower():
                continue
            if key in ("type", *OF_CREATION):
                raise InvalidOption(f"option {key!r} of a table cannot be changed")
            if self.has_snapshots:
                _require_changeable(key, old, value, self.options, given)
            self.options[key] = value
        TableOptions.parse(self.options)

    def _reset(self, keys: Sequence[str]) -> None:
        for key in keys:
            _require_no_column(key)
            key = ALIASES.get(key, (key,))[0]
            if key in ("type", *OF_CREATION) or (self.has_snapshots and key in (*FIXED_WITH_DATA, "bucket")):
                raise InvalidOption(
                    f"option {key!r} cannot be reset: it says how the table's files are laid out"
                )
            self.options.pop(key, None)


def _require_no_column(key: str) -> None:
    head, _, rest = key.partition(".")
    if head == "schema" and (rest.partition(".")[0].isdecimal() or rest.startswith("watermark.")):
        raise InvalidOption(
            f"option {key!r} is of a computed column or the watermark: ALTER TABLE changes those"
        )


def _differ(old: DataType, new: DataType) -> bool:
    return old.as_nullable() != new.as_nullable()


def _require_changeable(
    key: str, old: str | None, new: str, options: Mapping[str, str], given: Mapping[str, str]
) -> None:
    """Raise InvalidOption for a change that files of the table do not allow; `given` changes with it."""
    if key in FIXED_WITH_DATA:
        raise InvalidOption(f"option {key!r} cannot be changed once the table has snapshots")
    if key == "bucket":
        before, after = TableOptions.parse(options).bucket, TableOptions.parse({key: new}).bucket
        if before < 1 or after < 1:
            raise InvalidOption(
                f"option 'bucket' can only change between numbers of buckets, not {before} to {after}"
            )
    switched = key == "deletion-vectors.enabled" and (old or "false").lower() != new.lower()
    if switched and not TableOptions.parse({**options, **given}).dv_modifiable:
        raise InvalidOption(
            "option 'deletion-vectors.enabled' can only change with 'deletion-vectors.modifiable' = true, "
            "set before or together with it; then rows may be seen twice until a full compaction"
        )
    if key in ("ignore-delete", "ignore-update-before") and (old or "").lower() == "true" != new.lower():
        raise InvalidOption(f"option {key!r} cannot be changed from true to false: what it ignored is lost")


def _placed(change: Change) -> Place:
    return change.place or Place("last")


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
