"""Changes of a table's columns, options and comment: TableSchema + changes → the next TableSchema. Pure.

    add rename drop retype nullable not_null move comment default set_options reset_options
    compute mark drop_watermark        (computed columns and the watermark, FORMAT.md 2.6)

A column is named by text; `r.x` is field x of ROW column r, `a.element.x` one within ARRAY<ROW>, `m.value.x`
within MAP<.., ROW> (or a tuple of these parts). Ids of columns never change and are never reused (I9).
Changes that would break existing files are refused: keys, partition columns, layout options once there are
snapshots (FORMAT.md 22.1). `write/alter.py` stores the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest
from tablestore.format.change_tracking import require_partitions_exist
from tablestore.format.changed_columns import (
    AddColumn,
    CastColumn,
    ChangedColumns,
    ColumnChange,
    ColumnPlace,
    CommentColumn,
    ComputeColumn,
    DefaultColumn,
    DropColumn,
    MoveColumn,
    Name,
    NotNullColumn,
    NullColumn,
    RenameColumn,
    Where,
    default_text,
    path_of,
)
from tablestore.format.changed_options import ChangedOptions, DropOptions, SetOptions, require_columns_exist
from tablestore.format.computed_columns import Watermark, as_options, computed_columns, watermark
from tablestore.format.schema import TableSchema, require_sound
from tablestore.format.types.arrow_types import as_type

__all__ = [
    "Change",
    "add",
    "apply",
    "comment",
    "compute",
    "default",
    "default_text",
    "drop",
    "drop_watermark",
    "mark",
    "move",
    "not_null",
    "nullable",
    "rename",
    "reset_options",
    "retype",
    "set_options",
]


@dataclass(frozen=True, slots=True)
class CommentTable:
    """The comment of the table; None removes it."""

    text: str | None

    def __repr__(self) -> str:
        return "comment"


@dataclass(frozen=True, slots=True)
class SetWatermark:
    watermark: Watermark

    def __repr__(self) -> str:
        return f"watermark({self.watermark.column!r})"


@dataclass(frozen=True, slots=True)
class DropWatermark:
    def __repr__(self) -> str:
        return "drop watermark"


Change = ColumnChange | CommentTable | SetOptions | DropOptions | SetWatermark | DropWatermark


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
    return AddColumn(name, t, place, comment, default)


@checked
def rename(name: Name, to: str) -> Change:
    """Rename the column `name` to `to`; its data and the options that name it follow.

    >>> orders.alter(ts.rename("customer", "buyer")).get({"order_id": 1})["buyer"]
    'ann'
    """
    return RenameColumn(name, to)


@checked
def drop(name: Name) -> Change:
    """Drop the column `name`; a later column of the same name is a new one.

    >>> orders.alter(ts.drop("status")).schema.names
    ['order_id', 'customer', 'amount']
    """
    return DropColumn(name)


@checked
def retype(name: Name, type: Any) -> Change:
    """Change the `type` of the column `name`, by Paimon's casts; its nullability stays. Nested types are
    compared field by field.

    >>> orders.alter(ts.retype("amount", ts.DECIMAL(10, 2))).get({"order_id": 1})["amount"]
    Decimal('10.00')
    """
    return CastColumn(name, as_type(type, f"column {name!r}"))


@checked
def nullable(name: Name) -> Change:
    """Allow NULL in the column `name`.

    >>> willing = orders.alter(ts.set_options({"alter-column-null-to-not-null.disabled": False}))
    >>> willing.alter(ts.not_null("status")).alter(ts.nullable("status")).schema.field("status").nullable
    True
    """
    return NullColumn(name)


@checked
def not_null(name: Name) -> Change:
    """Make the column `name` NOT NULL; only with option `alter-column-null-to-not-null.disabled` =
    false.

    >>> willing = orders.alter(ts.set_options({"alter-column-null-to-not-null.disabled": False}))
    >>> willing.alter(ts.not_null("status")).schema.field("status").nullable
    False
    """
    return NotNullColumn(name)


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
    return MoveColumn(name, place)


@checked
def comment(name: Name | None, text: str | None) -> Change:
    """Set the comment `text` of the column `name` (None: of the table); a text of None removes it.

    >>> orders.alter(ts.comment(None, "what was bought")).comment
    'what was bought'
    """
    return CommentColumn(name, text) if name else CommentTable(text)


@checked
def default(name: Name, value: Any) -> Change:
    """Set the default `value` of the column `name`, for writes that leave it out; None removes it.

    >>> changed = orders.alter(ts.default("status", "new"))
    >>> _ = changed.write([{"order_id": 4}])
    >>> changed.get({"order_id": 4})["status"]
    'new'
    """
    return DefaultColumn(name, value)


@checked
def set_options(options: Mapping[str, Any], *, partition: Mapping[str, Any] | None = None) -> Change:
    """Store these `options` of the table, by name; of one `partition`, {column: value}, which may have
    'change-tracking' only: with false its commits write no changelog files from then on.

    >>> orders.alter(ts.set_options({"snapshot.num-retained.min": 3})).options["snapshot.num-retained.min"]
    '3'
    """
    return SetOptions(dict(options), partition)


@checked
def reset_options(*keys: str, partition: Mapping[str, Any] | None = None) -> Change:
    """Reset the options `keys` to their defaults; those of one `partition`, {column: value}, to those of the
    table.

    >>> changed = orders.alter(ts.set_options({"snapshot.num-retained.min": 3}))
    >>> "snapshot.num-retained.min" in changed.alter(ts.reset_options("snapshot.num-retained.min")).options
    False
    """
    return DropOptions(keys, partition)


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
    return ComputeColumn(
        name, expression, type, _place(after, None, first, False) or ColumnPlace("last"), comment
    )


def mark(column: str, expression: str, type: str) -> Change:
    """The watermark: SQL text `expression` over the event times in `column`."""
    return SetWatermark(Watermark(column, expression, type))


def drop_watermark() -> Change:
    """No watermark."""
    return DropWatermark()


def _place(after: str | None, before: str | None, first: bool, last: bool) -> ColumnPlace | None:
    said: list[tuple[Where, str]] = [("after", after or ""), ("before", before or "")]
    places = [ColumnPlace(where, beside) for where, beside in said if beside]
    places += [ColumnPlace("first")] * first + [ColumnPlace("last")] * last
    if len(places) > 1:
        raise InvalidRequest("say one of after, before, first, last")
    return places[0] if places else None


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
    changed = replace(
        schema,
        id=schema.id + 1,
        fields=altered.columns.stored,
        highest_field_id=altered.columns.highest,
        primary_keys=altered.columns.primary_keys,
        options=altered.options_with_computed(),
        comment=altered.comment,
        time_millis=time_millis,
    )
    require_sound(changed)
    require_columns_exist(changed)
    require_partitions_exist(changed)
    return changed


class _Altered:
    """A schema during `apply`. Not thread-safe."""

    def __init__(self, schema: TableSchema, has_snapshots: bool) -> None:
        self.comment, self.watermark = schema.comment, watermark(schema.options)
        self.columns = ChangedColumns(schema)
        self._names = schema.names
        self._options = ChangedOptions(schema, has_snapshots)

    def apply(self, change: Change) -> None:
        match change:
            case SetOptions():
                self._options.set(change)
            case DropOptions():
                self._options.reset(change)
            case CommentTable():
                self.comment = change.text
            case SetWatermark():
                self.watermark = change.watermark
            case DropWatermark():
                self.watermark = None
            case RenameColumn():
                self._rename(change)
            case _:
                self.columns.apply(change)

    def _rename(self, change: RenameColumn) -> None:
        """Rename a column; options and the watermark that name it follow."""
        path = path_of(change.name, self.columns.fields)
        self.columns.apply(change)
        if len(path) == 1:
            self._options.rename_column(path[0], change.to)
            if self.watermark is not None and self.watermark.column == path[0]:
                self.watermark = replace(self.watermark, column=change.to)

    def options_with_computed(self) -> dict[str, str]:
        """The options, with each computed column at its position now."""
        options = self._options.stored
        old = as_options(computed_columns(options, self._names), watermark(options))
        new = as_options(self.columns.computed, self.watermark)
        return options if new == old else {k: v for k, v in options.items() if k not in old} | new
