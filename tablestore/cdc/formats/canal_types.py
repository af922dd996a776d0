"""Types of columns as Canal writes them: `mysqlType`, the spelling of MySQL, or `sqlType`, numbers of JDBC.

As in `cdc.mysql.columns`, but for BIT(n), which Canal writes as a number: BIGINT. What has no type here, and
a column of which Canal says none, is a STRING.
"""

from __future__ import annotations

import json
import re

from tablestore.cdc.capture.source import ShapeColumn
from tablestore.cdc.mysql.columns import SourceColumn
from tablestore.core.errors import InvalidRequest, SchemaMismatch
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataType

_SPELLED = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_ALIASES = {"integer": "int", "numeric": "decimal", "dec": "decimal", "real": "double", "bool": "tinyint"}
_ALIASES |= {"boolean": "tinyint", "double precision": "double"}
_DEFAULTS = {"decimal": 10, "char": 1, "binary": 1, "bit": 1}
_JDBC = {
    -7: t.BOOLEAN,
    -6: t.TINYINT,
    5: t.SMALLINT,
    4: t.INT,
    -5: t.BIGINT,
    7: t.FLOAT,
    6: t.DOUBLE,
    8: t.DOUBLE,
    91: t.DATE,
    93: t.TIMESTAMP(6),
    16: t.BOOLEAN,
    **dict.fromkeys((-2, -3, -4, 2004), t.BYTES),
}


def of_types(description: str) -> tuple[ShapeColumn, ...]:
    """The columns of a message: its `mysqlType`, `sqlType` and names of columns, as a JSON list."""
    spelled, numbers, names = json.loads(description)
    kinds = {**dict.fromkeys(names or ()), **(numbers or {}), **(spelled or {})}
    if not kinds:
        raise SchemaMismatch("the message says no columns: no 'mysqlType', 'sqlType' nor 'data'")
    known = spelled or {}
    return tuple(
        ShapeColumn(name, mysql_type(known[name]), known[name].lower())
        if name in known
        else ShapeColumn(name, _JDBC.get(kind, t.STRING) if isinstance(kind, int) else t.STRING)
        for name, kind in kinds.items()
    )


def mysql_type(spelled: str) -> DataType:
    """The type of a column that MySQL spells so."""
    match = _SPELLED.match(spelled)
    if match is None:
        return t.STRING
    kind = match[1].lower()
    kind = _ALIASES.get(kind, kind)
    size = int(match[2] or _DEFAULTS.get(kind, 0))
    if kind == "bit" and size > 1:
        return t.BIGINT
    column = SourceColumn("", kind, spelled.lower(), size=size, scale=int(match[3] or 0))
    try:
        return column.type
    except InvalidRequest:
        return t.STRING
