"""DEFAULT in VALUES, UPDATE and MERGE: the default of the column that the value is for.

It is read as NULL, which gets the default of its column where it is written; for a column that holds no NULL
the default itself stands there once the column is known.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def with_defaults(values: exp.Values, columns: Sequence[DataField]) -> exp.Values:
    """VALUES for these columns, the default of a NOT NULL column in place of DEFAULT."""
    found = values.copy()
    for row in found.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        for cell, column in zip(cells, columns, strict=False):
            cell.replace(with_default(cell, column))
    return found
