"""Columns of rows whose messages say no types, from the JSON of their values.

    whole number → BIGINT · other number → DOUBLE · true, false → BOOLEAN · text, object, list → STRING

A column is there with its first value: NULL says no type. Types are found over all messages that are new at
once, and a column of BIGINT becomes DOUBLE when a fraction comes; any other value of another type is bad.
"""

from __future__ import annotations

import json

from tablestore.cdc.capture.source import ShapeColumn
from tablestore.core.errors import SchemaMismatch
from tablestore.format.types import arrow_types as t

_TYPES = {"BIGINT": t.BIGINT, "UBIGINT": t.BIGINT, "DOUBLE": t.DOUBLE, "BOOLEAN": t.BOOLEAN}
STRUCTURE = "json_structure"  # DuckDB's function that makes the description


def of_structure(description: str) -> tuple[ShapeColumn, ...]:
    """The columns of a row with this structure."""
    found = json.loads(description)
    if not isinstance(found, dict):
        raise SchemaMismatch("the row of a message is not a JSON object")
    return tuple(
        ShapeColumn(name, t.STRING if not isinstance(kind, str) else _TYPES.get(kind, t.STRING))
        for name, kind in found.items()
        if kind != "NULL"
    )
