"""DEFAULT in INSERT, UPDATE and MERGE: the default of the column that the value is for.

It is read as NULL, which gets the default of its column where it is written; for a column that holds no NULL
the default itself stands there once the column is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from tablestore.format.types.data_type import DataField
from tablestore.sql.dialect.parser import read_expression
from tablestore.sql.text import literal_text

_MARK = "default"  # key of a NULL's notes: it stands for DEFAULT


def null_for_default(value: exp.Expression) -> exp.Expression:
    """The value, or a NULL that stands for DEFAULT."""
    if not isinstance(value, exp.Column | exp.Var) or value.sql().upper() != "DEFAULT":
        return value
    null = exp.Null()
    null.meta[_MARK] = True
    return null


def with_default(value: exp.Expression, column: DataField) -> exp.Expression:
    """The value; the default of a NOT NULL column in place of DEFAULT."""
    if not value.meta.get(_MARK) or column.type.nullable or column.default is None:
        return value
    kind = str(column.type.as_nullable())
    return read_expression(f"CAST({literal_text(str(column.default))} AS {kind})")


def cells_of(query: exp.Expression) -> Iterator[list[exp.Expression]]:
    """The expressions of each row that VALUES, a SELECT or a UNION of them gives, in the order of columns."""
    if isinstance(query, exp.Values):
        yield from (row.expressions if isinstance(row, exp.Tuple) else [row] for row in query.expressions)
    elif isinstance(query, exp.Select):
        yield query.expressions
    elif isinstance(query, exp.SetOperation):
        yield from cells_of(query.this)
        yield from cells_of(query.expression)


def with_nulls(query: exp.Expression) -> exp.Expression:
    """The query itself, in its rows a NULL that stands for DEFAULT in place of each."""
    for row in cells_of(query):
        for cell in list(row):
            cell.replace(null_for_default(cell))
    return query


def with_defaults(query: exp.Expression, columns: Sequence[DataField]) -> exp.Expression:
    """The query for these columns, the default of a NOT NULL column in place of DEFAULT. Behind a star the
    column is not known."""
    copied = query.copy()
    for row in cells_of(copied):
        for cell, column in zip(list(row), columns, strict=False):
            if cell.is_star:
                break
            cell.replace(with_default(cell, column))
    return copied
