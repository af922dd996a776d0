"""The type of an expression over columns, and the columns of a query, before a row is read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.types.arrow_types import arrow_schema, from_arrow
from tablestore.format.types.data_type import DataField, DataType
from tablestore.sql.dialect.parser import read_expression
from tablestore.sql.query.connection import errors
from tablestore.sql.query.embedded import bound, connection_of
from tablestore.sql.query.numeric_types import NUMBERS
from tablestore.sql.query.translation import duck_sql
from tablestore.sql.query.type_inference import columns_of, note_types
from tablestore.sql.scope import Scope

_COLUMNS = "__columns"
_NOW = DataType("TIMESTAMP_LTZ", nullable=False, precision=3)


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
