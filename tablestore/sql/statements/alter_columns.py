"""ALTER TABLE of columns, options and the watermark: what was written, and the changes that it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound, TablestoreError
from tablestore.format import schema_change
from tablestore.format.schema_change import Change
from tablestore.sql.confinement import require_inside
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.names import Name
from tablestore.sql.problems import placed
from tablestore.sql.query.types import expression_columns, expression_type
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.shape import Shape, exists, stored_table
from tablestore.sql.statements.columns import (
    ColumnText,
    WatermarkText,
    column_name,
    column_text,
    watermark_of,
    watermark_text,
)
from tablestore.sql.statements.create_table import refuse_other_connectors
from tablestore.sql.statements.partitions import typed_partition
from tablestore.table.table import Table

Place = Mapping[str, Any]  # the arguments after, first of `schema_change.add`


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of a statement: `what` says which, the rest is of the kind."""

    what: str
    at: int
    name: tuple[str, ...] = ()
    to: str = ""
    column: ColumnText | None = None
    place: Place | None = None
    value: Any = None
    watermark: WatermarkText | None = None
    options: Mapping[str, str] | None = None
    keys: tuple[str, ...] = ()
    partition: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE … : all alterations in one new schema, or none. `text` is the script."""

    name: Name
    alterations: tuple[Alteration, ...]
    text: str
    if_exists: bool = False

    def run(self, session: Session) -> Result:
        if self.if_exists and not exists(session, self.name):
            return Result(message=f"there is no table {self.name}")
        table = stored_table(session, self.name)
        planned = _Planned(session, table, self.text)
        for one in self.alterations:
            try:
                planned.add(one)
            except TablestoreError as e:
                placed(e, self.text, one.at)
                raise
        altered = table.alter(*planned.changes)
        return Result(message=f"table {self.name} is altered: schema {altered.store.schema.id}")


class _Planned:
    """The changes of a statement, one by one, against the table as they leave it. Lives for one statement."""

    def __init__(self, session: Session, table: Table, text: str) -> None:
        self.session, self.table, self.text = session, table, text
        self.schema = table.store.schema
        self.changes: list[Change] = []

    def add(self, one: Alteration) -> None:
        for change in self._changes(one):
            self.changes.append(change)
            # what follows sees the table after this change
            self.schema = schema_change.apply(
                self.schema, [change], has_snapshots=False, time_millis=self.schema.time_millis
            )

    def _changes(self, one: Alteration) -> Sequence[Change]:
        what = one.what
        if one.partition is not None:
            return [self._of_partition(one, one.partition)]
        if what == "set":
            options = dict(one.options or {})
            refuse_other_connectors(options)
            require_inside(self.session.roots, options)
            comment = options.pop("comment", None)
            found = [schema_change.set_options(options)] if options else []
            return [*found, schema_change.comment(None, comment)] if comment is not None else found
        if what == "reset":
            keys = [key for key in one.keys if key != "comment"]
            found = [schema_change.reset_options(*keys)] if keys else []
            return [*found, schema_change.comment(None, None)] if "comment" in one.keys else found
        if what == "add":
            return self._added(one)
        if what == "modify":
            return self._modified(one)
        if what == "rename":
            self._require_unused(one.name, "renamed")
            return [schema_change.rename(one.name, one.to)]
        if what == "drop":
            self._require_unused(one.name, "dropped")
            return [schema_change.drop(one.name)]
        if what == "drop watermark":
            if self._shape.watermark is None:
                raise NotFound("the table has no watermark")
            return [schema_change.drop_watermark()]
        if what in ("add watermark", "modify watermark"):
            return self._marked(one)
        return [self._of_column(one)]

    def _of_partition(self, one: Alteration, partition: Mapping[str, Any]) -> Change:
        named = typed_partition(self.table, partition)
        if one.what == "set":
            require_inside(self.session.roots, one.options or {})
            return schema_change.set_options(one.options or {}, partition=named)
        return schema_change.reset_options(*one.keys, partition=named)

    @property
    def _shape(self) -> Shape:
        return Shape.of_schema(self.schema)

    def _of_column(self, one: Alteration) -> Change:
        name = one.name
        if one.what == "comment":
            return schema_change.comment(name, one.value)
        if one.what == "default":
            return schema_change.default(name, one.value)
        if one.what == "nullable":
            return schema_change.nullable(name)
        if one.what == "not null":
            return schema_change.not_null(name)
        if one.what == "move":
            return schema_change.move(name, **dict(one.place or {}))
        assert one.what == "type"
        assert one.column is not None
        return schema_change.retype(name, one.column.field(self.text).type)

    def _added(self, one: Alteration) -> Sequence[Change]:
        column = one.column
        assert column is not None
        place = dict(one.place or {})
        if column.expression is not None:
            t = expression_type(self.session, column.expression, self._shape.columns)
            return [
                schema_change.compute(
                    column.name[-1], column.expression, str(t), comment=column.comment, **place
                )
            ]
        made = column.field(self.text)
        return [
            schema_change.add(column.name, made.type, comment=made.description, default=made.default, **place)
        ]

    def _modified(self, one: Alteration) -> Sequence[Change]:
        """MODIFY says the whole column: what it leaves out goes, but for NOT NULL of a key."""
        column = one.column
        assert column is not None
        name, place = column.name, dict(one.place or {})
        if column.expression is not None:
            t = expression_type(self.session, column.expression, self._shape.columns)
            if column.name[-1] not in {c.name for c in self._shape.computed}:
                raise InvalidRequest(
                    f"column {column.name[-1]!r} is stored: drop it, then add a computed one"
                )
            changes = [
                schema_change.compute(column.name[-1], column.expression, str(t), comment=column.comment)
            ]
            return [*changes, schema_change.move(name, **place)] if place else changes
        made = column.field(self.text)
        changes = [schema_change.retype(name, made.type)]
        before = self._field(column.name)
        if before is not None and before.type.nullable != made.type.nullable:
            is_key = column.name[0] in self.schema.primary_keys
            if not made.type.nullable:
                changes.append(schema_change.not_null(name))
            elif not is_key:
                changes.append(schema_change.nullable(name))
        if made.description is not None:
            changes.append(schema_change.comment(name, made.description))
        if made.default is not None:
            changes.append(schema_change.default(name, made.default))
        if place:
            changes.append(schema_change.move(name, **place))
        return changes

    def _field(self, path: tuple[str, ...]) -> Any:
        return self.schema.by_name.get(path[0]) if len(path) == 1 else None

    def _marked(self, one: Alteration) -> Sequence[Change]:
        shape = self._shape
        if one.what == "add watermark" and shape.watermark is not None:
            raise AlreadyExists("the table has a watermark: write MODIFY WATERMARK")
        if one.what == "modify watermark" and shape.watermark is None:
            raise NotFound("the table has no watermark: write ADD WATERMARK")
        made = watermark_of(self.session, one.watermark, shape.columns, self.text, shape.computed)
        assert made is not None
        return [schema_change.mark(made.column, made.expression, made.type)]

    def _require_unused(self, path: tuple[str, ...], verb: str) -> None:
        """Raise InvalidRequest for a column by which others are computed."""
        shape = self._shape
        for c in shape.computed:
            if c.name != path[0] and path[0] in expression_columns(c.expression):
                raise InvalidRequest(
                    f"column {path[0]!r} cannot be {verb}: {c.name!r} is computed from it, AS {c.expression}"
                )
        mark = shape.watermark
        if mark is not None and path[0] in (mark.column, *expression_columns(mark.expression)):
            raise InvalidRequest(
                f"column {path[0]!r} cannot be {verb}: the watermark is of it; DROP WATERMARK first"
            )


def alterations(p: Parser) -> list[Alteration]:
    """What stands behind the name of the table."""
    found = of_options(p)
    if found is not None:
        return [found]
    at = p.at
    if p.accept("RENAME"):
        p.accept("COLUMN")
        name = column_name(p)
        p.expect("TO")
        return [Alteration("rename", at, name, p.part("the new name"))]
    if p.accept("ADD"):
        return _each(p, ("COLUMNS", "COLUMN"), _add)
    if p.accept("MODIFY"):
        return _each(p, ("COLUMNS", "COLUMN"), _modify)
    if p.accept("DROP"):
        return _dropped(p)
    if p.accept("ALTER") or p.accept("CHANGE"):
        p.accept("COLUMN")
        return _alter_column(p)
    p.fail("SET, RESET, RENAME, ADD, MODIFY, DROP or ALTER COLUMN is expected")


def of_options(p: Parser, partition: Mapping[str, Any] | None = None) -> Alteration | None:
    """SET or RESET of options, of the table or of a partition; None if neither comes."""
    at = p.at
    if p.accept("SET TBLPROPERTIES") or p.accept("SET"):
        return Alteration("set", at, options=p.options(), partition=partition)
    if p.accept("RESET"):
        return Alteration("reset", at, keys=tuple(p.listed(p.option_key)), partition=partition)
    if p.accept("UNSET TBLPROPERTIES"):
        p.accept("IF EXISTS")
        return Alteration("reset", at, keys=tuple(p.listed(p.option_key)), partition=partition)
    return None


def _each(p: Parser, words: tuple[str, ...], one: Callable[[Parser], Alteration]) -> list[Alteration]:
    """One alteration, or several in parentheses."""
    any(p.accept(word) for word in words)
    return p.listed(lambda: one(p)) if p.comes("(") else [one(p)]


def _add(p: Parser) -> Alteration:
    at = p.at
    if p.comes("WATERMARK FOR"):
        return Alteration("add watermark", at, watermark=watermark_text(p))
    if p.comes("PRIMARY KEY") or p.comes("CONSTRAINT"):
        p.refuse("ADD PRIMARY KEY", "the key of a table says where its rows are: make another table")
    column = column_text(p)
    if column.is_key:
        p.refuse("ADD PRIMARY KEY", "the key of a table says where its rows are: make another table")
    return Alteration("add", at, column.name, column=column, place=_place(p))


def _modify(p: Parser) -> Alteration:
    at = p.at
    if p.comes("WATERMARK FOR"):
        return Alteration("modify watermark", at, watermark=watermark_text(p))
    if p.comes("PRIMARY KEY") or p.comes("CONSTRAINT"):
        p.refuse("MODIFY PRIMARY KEY", "the key of a table says where its rows are: make another table")
    column = column_text(p)
    return Alteration("modify", at, column.name, column=column, place=_place(p))


def _place(p: Parser) -> Place | None:
    if p.accept("FIRST"):
        return {"first": True}
    if p.accept("AFTER"):
        return {"after": p.part("a column")}
    return None


def _dropped(p: Parser) -> list[Alteration]:
    at = p.at
    if p.accept("WATERMARK"):
        return [Alteration("drop watermark", at)]
    if p.comes("PRIMARY KEY") or p.comes("CONSTRAINT"):
        p.refuse("DROP PRIMARY KEY", "the key of a table says where its rows are: make another table")
    if not p.accept("COLUMNS"):
        p.accept("COLUMN")

    def one() -> Alteration:
        return Alteration("drop", p.at, column_name(p))

    return p.listed(one) if p.comes("(") else [one()]


def _alter_column(p: Parser) -> list[Alteration]:
    """Spark's ALTER COLUMN: one change, or several of different kinds."""
    at = p.at
    name = column_name(p)
    found: list[Alteration] = []
    while not p.ended:
        if p.accept("TYPE") or p.accept("SET DATA TYPE"):
            column = ColumnText(name, p.at, p.type_text())
            found.append(Alteration("type", at, name, column=column))
        elif p.accept("COMMENT"):
            found.append(Alteration("comment", at, name, value=p.string("the comment, in single quotes,")))
        elif p.accept("SET DEFAULT"):
            found.append(Alteration("default", at, name, value=p.literal()))
        elif p.accept("DROP DEFAULT"):
            found.append(Alteration("default", at, name, value=None))
        elif p.accept("DROP NOT NULL"):
            found.append(Alteration("nullable", at, name))
        elif p.accept("SET NOT NULL"):
            found.append(Alteration("not null", at, name))
        elif p.comes("FIRST") or p.comes("AFTER"):
            found.append(Alteration("move", at, name, place=_place(p)))
        else:
            p.fail("TYPE, COMMENT, SET or DROP DEFAULT, SET or DROP NOT NULL, FIRST or AFTER is expected")
    if not found:
        p.fail("TYPE, COMMENT, SET or DROP DEFAULT, SET or DROP NOT NULL, FIRST or AFTER is expected")
    return found
