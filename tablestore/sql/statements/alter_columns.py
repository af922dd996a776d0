"""ALTER TABLE of columns, options and the watermark: what is written, and the changes that it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound
from tablestore.format import schema_change
from tablestore.format.schema_change import Change
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.problems import placing
from tablestore.sql.result import Result
from tablestore.sql.scope import TableDefinition, exists, require_inside, stored_table
from tablestore.sql.session import Session
from tablestore.sql.statements.columns import (
    ColumnText,
    WatermarkText,
    column_name,
    column_text,
    expression_columns,
    expression_type,
    watermark_of,
    watermark_text,
)
from tablestore.sql.statements.create_table import refuse_other_connectors
from tablestore.sql.statements.partitions import typed_partition
from tablestore.sql.text import Name
from tablestore.table.table import Table

_KEY_STAYS = "the key of a table says where its rows are: make another table"
Place = Mapping[str, Any]  # the arguments after, first of `schema_change.add`


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of a statement, which stands `at` a place of the script: what it means for the table as the
    statement has left it so far."""

    at: int
    changes: Callable[[Planned], Sequence[Change]]


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
        planned = Planned(session, table, self.text)
        for alteration in self.alterations:
            with placing(self.text, alteration.at):
                planned.add(alteration)
        altered = table.alter(*planned.changes)
        return Result(message=f"table {self.name} is altered: schema {altered.store.schema.id}")


class Planned:
    """The changes of a statement, one by one, against the table as they leave it. Lives for one statement."""

    def __init__(self, session: Session, table: Table, text: str) -> None:
        self.session, self.table, self.text = session, table, text
        self.schema = table.store.schema
        self.changes: list[Change] = []

    def add(self, alteration: Alteration) -> None:
        """Plan it, and see the table after each of its changes."""
        for change in alteration.changes(self):
            self.changes.append(change)
            self.schema = schema_change.apply(
                self.schema, [change], has_snapshots=False, time_millis=self.schema.time_millis
            )

    @property
    def shape(self) -> TableDefinition:
        """The table's shape so far."""
        return TableDefinition.of_schema(self.schema)

    def computed(self, column: ColumnText, place: Place) -> Change:
        """The column, which is an expression, at a place."""
        assert column.expression is not None
        t = expression_type(self.session, column.expression, self.shape.columns)
        name = column.name[-1]
        return schema_change.compute(name, column.expression, str(t), comment=column.comment, **place)

    def require_unused(self, path: tuple[str, ...], verb: str) -> None:
        """Raise InvalidRequest for a column by which others are computed."""
        shape = self.shape
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


def _plain(change: Change, before: Planned) -> Sequence[Change]:
    """A change that means the same whatever the table is."""
    return [change]


def _unused(change: Change, column: tuple[str, ...], verb: str, before: Planned) -> Sequence[Change]:
    """A column that is renamed or dropped (`verb`) must not be one by which others are computed."""
    before.require_unused(column, verb)
    return [change]


def _options_set(
    written: Mapping[str, str], partition: Mapping[str, Any] | None, before: Planned
) -> Sequence[Change]:
    """Options of the table, of which `comment` is its comment, or of a partition."""
    options = dict(written)
    if partition is not None:
        named = typed_partition(before.table, partition)
        require_inside(before.session.roots, options)
        return [schema_change.set_options(options, partition=named)]
    refuse_other_connectors(options)
    require_inside(before.session.roots, options)
    comment = options.pop("comment", None)
    changes = [schema_change.set_options(options)] if options else []
    return [*changes, schema_change.comment(None, comment)] if comment is not None else changes


def _options_reset(
    written: Sequence[str], partition: Mapping[str, Any] | None, before: Planned
) -> Sequence[Change]:
    """The same, taken back."""
    if partition is not None:
        named = typed_partition(before.table, partition)
        return [schema_change.reset_options(*written, partition=named)]
    keys = [key for key in written if key != "comment"]
    changes = [schema_change.reset_options(*keys)] if keys else []
    return [*changes, schema_change.comment(None, None)] if "comment" in written else changes


def _added(column: ColumnText, place: Place, before: Planned) -> Sequence[Change]:
    if column.expression is not None:
        return [before.computed(column, place)]
    f = column.field(before.text)
    return [schema_change.add(column.name, f.type, comment=f.description, default=f.default, **place)]


def _modified(column: ColumnText, place: Place, before: Planned) -> Sequence[Change]:
    """MODIFY says the whole column: what it leaves out goes, but for NOT NULL of a key."""
    moves = [schema_change.move(column.name, **place)] if place else []
    if column.expression is None:
        return [*_modified_stored(column, before), *moves]
    change, name = before.computed(column, {}), column.name[-1]
    if name not in {c.name for c in before.shape.computed}:
        raise InvalidRequest(f"column {name!r} is stored: drop it, then add a computed one")
    return [change, *moves]


def _modified_stored(column: ColumnText, before: Planned) -> list[Change]:
    f, name = column.field(before.text), column.name
    changes = [schema_change.retype(name, f.type)]
    field = before.schema.by_name.get(name[0]) if len(name) == 1 else None
    if field is not None and field.type.nullable != f.type.nullable:
        if not f.type.nullable:
            changes.append(schema_change.not_null(name))
        elif name[0] not in before.schema.primary_keys:
            changes.append(schema_change.nullable(name))
    if f.description is not None:
        changes.append(schema_change.comment(name, f.description))
    if f.default is not None:
        changes.append(schema_change.default(name, f.default))
    return changes


def _retyped(column: ColumnText, before: Planned) -> Sequence[Change]:
    return [schema_change.retype(column.name, column.field(before.text).type)]


def _marked(written: WatermarkText, again: bool, before: Planned) -> Sequence[Change]:
    """ADD or MODIFY WATERMARK; `again`: there is one before."""
    shape = before.shape
    if shape.watermark is not None and not again:
        raise AlreadyExists("the table has a watermark: write MODIFY WATERMARK")
    if shape.watermark is None and again:
        raise NotFound("the table has no watermark: write ADD WATERMARK")
    mark = watermark_of(before.session, written, shape.columns, before.text, shape.computed)
    assert mark is not None
    return [schema_change.mark(mark.column, mark.expression, mark.type)]


def _unmarked(before: Planned) -> Sequence[Change]:
    if before.shape.watermark is None:
        raise NotFound("the table has no watermark")
    return [schema_change.drop_watermark()]


def alterations(p: Parser) -> list[Alteration]:
    """What stands behind the name of the table."""
    at = p.at
    options = of_options(p)
    if options is not None:
        return [options]
    if p.accept("RENAME"):
        p.accept("COLUMN")
        name = column_name(p)
        p.expect("TO")
        change = schema_change.rename(name, p.part("the new name"))
        return [Alteration(at, partial(_unused, change, name, "renamed"))]
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
        return Alteration(at, partial(_options_set, p.options(), partition))
    if p.accept("UNSET TBLPROPERTIES"):
        p.accept("IF EXISTS")
    elif not p.accept("RESET"):
        return None
    return Alteration(at, partial(_options_reset, p.listed(p.option_key), partition))


def _each(p: Parser, words: tuple[str, ...], read: Callable[[Parser], Alteration]) -> list[Alteration]:
    """One alteration, or several in parentheses."""
    any(p.accept(word) for word in words)
    return p.listed(lambda: read(p)) if p.comes("(") else [read(p)]


def _refuse_key(p: Parser, verb: str) -> None:
    if p.comes("PRIMARY KEY") or p.comes("CONSTRAINT"):
        p.refuse(f"{verb} PRIMARY KEY", _KEY_STAYS)


def _add(p: Parser) -> Alteration:
    at = p.at
    if p.comes("WATERMARK FOR"):
        return Alteration(at, partial(_marked, watermark_text(p), False))
    _refuse_key(p, "ADD")
    column = column_text(p)
    if column.is_key:
        p.refuse("ADD PRIMARY KEY", _KEY_STAYS)
    return Alteration(at, partial(_added, column, _place(p)))


def _modify(p: Parser) -> Alteration:
    at = p.at
    if p.comes("WATERMARK FOR"):
        return Alteration(at, partial(_marked, watermark_text(p), True))
    _refuse_key(p, "MODIFY")
    return Alteration(at, partial(_modified, column_text(p), _place(p)))


def _place(p: Parser) -> Place:
    if p.accept("FIRST"):
        return {"first": True}
    if p.accept("AFTER"):
        return {"after": p.part("a column")}
    return {}


def _dropped(p: Parser) -> list[Alteration]:
    at = p.at
    if p.accept("WATERMARK"):
        return [Alteration(at, _unmarked)]
    _refuse_key(p, "DROP")
    return _each(p, ("COLUMNS", "COLUMN"), _drop)


def _drop(p: Parser) -> Alteration:
    at, name = p.at, column_name(p)
    return Alteration(at, partial(_unused, schema_change.drop(name), name, "dropped"))


def _alter_column(p: Parser) -> list[Alteration]:
    """Spark's ALTER COLUMN: one change, or several of different kinds."""
    at = p.at
    name = column_name(p)
    alterations: list[Alteration] = []
    while not (p.ended and alterations):
        if p.accept("TYPE") or p.accept("SET DATA TYPE"):
            column = ColumnText(name, p.at, p.type_text())
            alterations.append(Alteration(at, partial(_retyped, column)))
            continue
        if p.accept("COMMENT"):
            change = schema_change.comment(name, p.string("the comment, in single quotes,"))
        elif p.accept("SET DEFAULT"):
            change = schema_change.default(name, p.literal())
        elif p.accept("DROP DEFAULT"):
            change = schema_change.default(name, None)
        elif p.accept("DROP NOT NULL"):
            change = schema_change.nullable(name)
        elif p.accept("SET NOT NULL"):
            change = schema_change.not_null(name)
        elif p.comes("FIRST") or p.comes("AFTER"):
            change = schema_change.move(name, **_place(p))
        else:
            p.fail("TYPE, COMMENT, SET or DROP DEFAULT, SET or DROP NOT NULL, FIRST or AFTER is expected")
        alterations.append(Alteration(at, partial(_plain, change)))
    return alterations
