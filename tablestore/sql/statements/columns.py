"""Columns as CREATE TABLE and ALTER TABLE write them, what they make of a table, and the types of expressions
over columns, before a row is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch, TablestoreError
from tablestore.format.computed_columns import ComputedColumn, Watermark
from tablestore.format.schema_change import default_text
from tablestore.format.types.arrow_types import arrow_schema, from_arrow
from tablestore.format.types.data_type import DataField, DataType
from tablestore.format.types.type_text import parse_type
from tablestore.sql.dialect.parser import Parser, read_expression
from tablestore.sql.problems import near, placed, placing
from tablestore.sql.query.connection import errors
from tablestore.sql.query.embedded import bound, connection_of
from tablestore.sql.query.numeric_types import NUMBERS
from tablestore.sql.query.translation import duck_sql
from tablestore.sql.query.type_inference import columns_of, note_types
from tablestore.sql.scope import Scope
from tablestore.sql.session import Session

_COLUMNS = "__columns"
_NOW = DataType("TIMESTAMP_LTZ", nullable=False, precision=3)
TYPE_WORDS = (
    "BOOLEAN TINYINT SMALLINT INT INTEGER BIGINT FLOAT DOUBLE DECIMAL NUMERIC CHAR VARCHAR STRING BINARY "
    "VARBINARY BYTES DATE TIME TIMESTAMP TIMESTAMP_LTZ ARRAY MAP MULTISET ROW STRUCT VARIANT"
).split()
_ALONE = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}  # what a word means without a length
_ALONE_IN_SPARK = {**_ALONE, "TIMESTAMP": "TIMESTAMP_LTZ", "BINARY": "BYTES"}


def expression_type(scope: Scope, text: str, columns: Sequence[DataField]) -> DataType:
    """The type of an expression over stored columns. Raises SqlProblem, NotFound for a column that is none,
    InvalidRequest for what cannot be computed, a query within it for one."""
    tree = read_expression(text)
    if tree.find(exp.Query) is not None:
        raise InvalidRequest("an expression of columns holds no query")
    for column in tree.find_all(exp.Column):
        name = column.parts[0].name  # `r.x` is field x of ROW column r
        if name not in [f.name for f in columns]:
            raise NotFound.among("column", name, [f.name for f in columns])
    if isinstance(tree, exp.Anonymous) and tree.name.upper() == "PROCTIME" and not tree.expressions:
        return _NOW
    empty = arrow_schema(tuple(columns)).empty_table()
    with connection_of(scope) as connection, errors():
        connection.duck.register(_COLUMNS, empty)
        select = bound(connection.duck, scope, exp.Select(expressions=[tree]), text)
        assert isinstance(select, exp.Select)
        select = select.from_(_COLUMNS)
        ((_, inferred),) = note_types(select, {_COLUMNS: columns_of(columns)})
        field = connection.relation(duck_sql(select)).to_arrow_table().schema.field(0)
    t = from_arrow(pa.string() if pa.types.is_null(field.type) else field.type)
    if inferred is not None and inferred.root in NUMBERS and t.root in NUMBERS:
        t = inferred.as_nullable()
    return t.not_null() if _never_null(tree, {f.name for f in columns if not f.type.nullable}) else t


def _never_null(tree: exp.Expression, not_null: set[str]) -> bool:
    """Whether an expression has a value in every row: sums of columns that are NOT NULL and literals."""
    if isinstance(tree, exp.Column):
        return len(tree.parts) == 1 and tree.name in not_null
    if isinstance(tree, exp.Literal | exp.Boolean):
        return True
    if isinstance(tree, exp.Add | exp.Sub | exp.Mul | exp.Paren | exp.Neg):
        return all(_never_null(part, not_null) for part in tree.iter_expressions())
    return False


def expression_columns(text: str) -> set[str]:
    """Names of the columns that an expression is of."""
    return {column.parts[0].name for column in read_expression(text).find_all(exp.Column)}


@dataclass(frozen=True, slots=True)
class ColumnText:
    """A column as it was written; `type` is its text, `expression` that of a computed one; `name` has several
    parts for a field of a ROW."""

    name: tuple[str, ...]
    at: int
    type: str | None = None
    nullable: bool = True
    comment: str | None = None
    default: Any = None
    expression: str | None = None
    is_key: bool = False
    metadata: str = ""  # its connector's key of it, empty: it is no metadata
    virtual: bool = False

    def field(self, text: str, *, of_spark: bool = False) -> DataField:
        """The stored column. Raises InvalidRequest with its place for what is no type, SchemaMismatch for a
        default that is no value of it."""
        with placing(text, self.at):
            t = _type(self.type or "", of_spark=of_spark)
            if not self.nullable:
                t = t.not_null()
            field = DataField(0, self.name[-1], t, self.comment)
            return (
                field if self.default is None else replace(field, default=default_text(field, self.default))
            )


def _type(text: str, *, of_spark: bool) -> DataType:
    try:
        return parse_type(text, alone=_ALONE_IN_SPARK if of_spark else _ALONE)
    except InvalidRequest:
        word = text.partition("(")[0].partition("<")[0].strip()
        if word.upper() in TYPE_WORDS:
            raise
        raise InvalidRequest(f"{word!r} is no type{near(word, list(TYPE_WORDS))}") from None


@dataclass(frozen=True, slots=True)
class WatermarkText:
    """WATERMARK FOR column AS expression, as it was written."""

    column: str
    expression: str
    at: int


@dataclass(frozen=True, slots=True)
class TableText:
    """What stands between the parentheses of CREATE TABLE; `text` is the script."""

    text: str
    columns: tuple[ColumnText, ...] = ()
    primary_key: tuple[str, ...] = ()
    watermark: WatermarkText | None = None

    @property
    def stored(self) -> tuple[ColumnText, ...]:
        return tuple(c for c in self.columns if c.expression is None)

    @property
    def of_rows(self) -> tuple[ColumnText, ...]:
        """Those that are neither computed nor metadata."""
        return tuple(c for c in self.stored if not c.metadata)


@dataclass(slots=True)
class _Collected:
    """A TableText that is being read."""

    columns: list[ColumnText] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    watermark: WatermarkText | None = None


def table_text(p: Parser, *, metadata: bool = False) -> TableText:
    """`(column, …, PRIMARY KEY (…) NOT ENFORCED, WATERMARK FOR … AS …)`; `metadata`: also columns of it."""
    collected = _Collected()
    p.listed(lambda: _element(p, collected, metadata))
    key = tuple(c.name[0] for c in collected.columns if c.is_key)
    if len(key) > 1 or (key and collected.primary_key):
        p.fail("the primary key is named twice: write PRIMARY KEY (a, b) NOT ENFORCED behind the columns")
    return TableText(
        p.piece.text, tuple(collected.columns), collected.primary_key or key, collected.watermark
    )


def _element(p: Parser, collected: _Collected, metadata: bool) -> None:
    if p.comes("WATERMARK FOR"):
        if collected.watermark is not None:
            p.fail("a table has one watermark")
        collected.watermark = watermark_text(p)
    elif p.comes("CONSTRAINT") or p.comes("PRIMARY KEY"):
        if collected.primary_key:
            p.fail("the primary key is named twice")
        collected.primary_key = primary_key(p)
    else:
        collected.columns.append(column_text(p, metadata=metadata))


def watermark_text(p: Parser) -> WatermarkText:
    """`WATERMARK FOR ts AS ts - INTERVAL '5' SECOND`."""
    at = p.at
    p.expect("WATERMARK FOR")
    column = p.part("the column of event times")
    p.expect("AS")
    return WatermarkText(column, p.expression_text(), at)


def primary_key(p: Parser) -> tuple[str, ...]:
    """`[CONSTRAINT name] PRIMARY KEY (a, b) NOT ENFORCED`; the name is not kept."""
    if p.accept("CONSTRAINT"):
        p.part("the name of a constraint")
    p.expect("PRIMARY KEY")
    names = p.listed(lambda: p.part("a column of the key"))
    _not_enforced(p)
    return tuple(names)


def _not_enforced(p: Parser) -> None:
    if not p.accept("NOT ENFORCED"):
        p.fail("NOT ENFORCED is expected: rows of one key are merged, none is refused")


def column_text(p: Parser, *, metadata: bool = False) -> ColumnText:
    """`name type [NOT NULL] [DEFAULT value] [COMMENT 'text'] …` or `name AS expression [COMMENT 'text']`, or
    where there is `metadata` `name type METADATA [FROM 'key'] [VIRTUAL]`."""
    at = p.at
    name = column_name(p)
    if p.accept("AS"):
        expression = p.expression_text()
        comment = p.string() if p.accept("COMMENT") else None
        return ColumnText(name, at, comment=comment, expression=expression)
    column = ColumnText(name, at, p.type_text())
    while True:
        if p.accept("NOT NULL"):
            column = replace(column, nullable=False)
        elif p.accept("NULL"):
            column = replace(column, nullable=True)
        elif p.accept("DEFAULT"):
            column = replace(column, default=p.literal())
        elif p.accept("COMMENT"):
            column = replace(column, comment=p.string("the comment, in single quotes,"))
        elif p.accept("PRIMARY KEY"):
            _not_enforced(p)
            column = replace(column, is_key=True, nullable=False)
        elif p.comes("METADATA") and not metadata:
            why = "CREATE TEMPORARY TABLE takes those of a connector"
            p.refuse(f"METADATA column {name[-1]!r} of a table in a catalog", why)
        elif p.accept("METADATA"):
            key = p.string("the key of the metadata, in single quotes,") if p.accept("FROM") else name[-1]
            column = replace(column, metadata=key, virtual=p.accept("VIRTUAL"))
        elif p.comes("UNIQUE"):
            p.refuse("UNIQUE columns", "only the primary key tells rows apart")
        else:
            return column


def column_name(p: Parser) -> tuple[str, ...]:
    """`name`, or `r.x` for field x of ROW column r."""
    parts = [p.part("a column")]
    while p.accept("."):
        parts.append(p.part("a field"))
    return tuple(parts)


def of_one_part(column: ColumnText) -> str:
    """The name of a column of a table that is made."""
    if len(column.name) > 1:
        raise InvalidRequest(f"{'.'.join(column.name)} is no name of a column; back-quotes let it hold a dot")
    return column.name[0]


def require_different(columns: Iterable[ColumnText], others: Iterable[str], text: str) -> None:
    """Raise SchemaMismatch, with its place, for a column whose name is taken."""
    taken = set(others)
    for column in columns:
        name = of_one_part(column)
        if name in taken:
            raise placed(SchemaMismatch(f"there are two columns {name!r}"), text, column.at)
        taken.add(name)


def computed_of(
    session: Session,
    columns: Sequence[ColumnText],
    stored: Sequence[DataField],
    text: str,
    *,
    typed: bool = True,
) -> tuple[ComputedColumn, ...]:
    """The computed ones of columns in their order. `typed`: an expression that cannot be computed over the
    stored columns is refused; else its type stays unknown. Raises with the place of the column."""
    computed = []
    for position, column in enumerate(columns):
        if column.expression is not None:
            t = _typed(session, column.expression, stored, text, column.at, required=typed)
            name = of_one_part(column)
            computed.append(ComputedColumn(name, column.expression, t, position, column.comment))
    return tuple(computed)


def watermark_of(
    session: Session,
    mark: WatermarkText | None,
    stored: Sequence[DataField],
    text: str,
    computed: Iterable[ComputedColumn] = (),
    *,
    typed: bool = True,
) -> Watermark | None:
    """The watermark; its column is stored or computed. Raises with its place."""
    if mark is None:
        return None
    others = [DataField(0, c.name, parse_type(c.type)) for c in computed if c.type]
    with placing(text, mark.at):
        kinds = {f.name: f.type for f in (*stored, *others)}
        if mark.column not in kinds and mark.column not in {c.name for c in computed}:
            raise SchemaMismatch(f"{mark.column!r}, of which the watermark is, is no column")
        kind = kinds.get(mark.column)
        if kind is not None and kind.root not in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            raise SchemaMismatch(f"a watermark is of a TIMESTAMP column; {mark.column!r} is {kind}")
    t = _typed(session, mark.expression, [*stored, *others], text, mark.at, required=typed)
    return Watermark(mark.column, mark.expression, t)


def _typed(
    session: Session, expression: str, stored: Sequence[DataField], text: str, at: int, *, required: bool
) -> str:
    """The text of an expression's type; empty if it is not known and need not be."""
    try:
        return str(expression_type(session, expression, stored))
    except TablestoreError as e:
        if not required:
            return ""
        e.args = (f"{expression}: {e}",)
        placed(e, text, at)
        raise


def without_nulls(fields: Iterable[DataField], key: Iterable[str]) -> tuple[DataField, ...]:
    """The columns, those of the key NOT NULL."""
    names = set(key)
    return tuple(replace(f, type=f.type.not_null()) if f.name in names else f for f in fields)
