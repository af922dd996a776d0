"""Changes of rows as Canal and Maxwell write them, of many tables.

Canal says types in `mysqlType` or `sqlType` and the key in `pkNames`; Maxwell says no types, and the key in
`primary_key_columns` or in the message's key (`{"database": …, "table": …, "pk.id": 1}`). Statements and what
begins and ends a bootstrap hold no rows; Canal's TRUNCATE empties the table.

Types as in `cdc.mysql.columns`, but for BIT(n), which Canal writes as a number: BIGINT. What has no type
here, and a column of which Canal says none, is a STRING.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.source import ShapeColumn
from tablestore.cdc.formats.events import (
    NO_ROWS,
    SNAPSHOT,
    STRUCTURE,
    TRUNCATE,
    Routes,
    image_counts,
    object_of,
    of_structure,
    plain_routes,
)
from tablestore.cdc.mysql.columns import SourceColumn
from tablestore.core.errors import InvalidRequest, SchemaMismatch
from tablestore.format.messages import json_text
from tablestore.format.messages.canal_maxwell import ChangedRows, ops_of
from tablestore.format.messages.messages import MessageFormat, Messages
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataField, DataType

_CANAL = {"INSERT": "c", "UPDATE": "u", "DELETE": "d", "TRUNCATE": TRUNCATE}
_SPELLED = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_ALIASES = {"integer": "int", "numeric": "decimal", "dec": "decimal", "real": "double", "bool": "tinyint"}


_CANAL |= dict.fromkeys(("CREATE", "ALTER", "ERASE", "RENAME", "QUERY", "CINDEX", "DINDEX"), NO_ROWS)
_CANAL |= dict.fromkeys(("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT"), NO_ROWS)
_MAXWELL = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": SNAPSHOT}
_MAXWELL |= dict.fromkeys(("bootstrap-start", "bootstrap-complete", "heartbeat"), NO_ROWS)
_MAXWELL |= dict.fromkeys(("table-create", "table-alter", "table-drop"), NO_ROWS)
_MAXWELL |= dict.fromkeys(("database-create", "database-alter", "database-drop"), NO_ROWS)
_NAMED = {"type": json_text.TEXT, "database": json_text.TEXT, "table": json_text.TEXT}
_KEY_PART = "pk."
_LISTED = "SELECT {'rows': json_array_length(v), 'names': to_json(json_keys(v, '$[0]'))::VARCHAR} FROM texts"


@dataclass(frozen=True)
class CanalEvents:
    """Changes as Canal writes them; `es` is when they were executed."""

    def routes(self, messages: Messages) -> Routes:
        texts = dict.fromkeys(("es", "ts", "mysqlType", "sqlType"), json_text.TEXT)
        outer = json_text.parsed(messages.values, {**_NAMED, **texts, "data": json_text.JSON})
        if not len(outer):
            return plain_routes(0)
        ops = ops_of(outer.field("type"), _CANAL, messages.values.is_null())
        data = json_text.run(_LISTED, outer.field("data").cast(pa.string()))
        rows = data.field("rows").fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
        types = [outer.field("mysqlType"), outer.field("sqlType"), data.field("names")]
        first, second, third = (kind.cast(pa.string()).fill_null("null") for kind in types)
        described = pc.binary_join_element_wise("[", first, ",", second, ",", third, "]", "")
        millis = pc.coalesce(outer.field("es"), outer.field("ts")).cast(pa.int64())
        return Routes(
            outer.field("database"),
            outer.field("table"),
            ops,
            pc.divide(millis, 1000),
            image_counts(ops) * rows,
            described,
        )

    def columns(self, description: str) -> tuple[ShapeColumn, ...]:
        return of_types(description)

    def inferred(self, description: str) -> bool:
        return False

    def key(self, message: Messages) -> tuple[str, ...]:
        return tuple(object_of(message.values[0].as_py()).get("pkNames") or ())

    def decoder(self, columns: tuple[DataField, ...]) -> MessageFormat:
        return ChangedRows(columns, True)


@dataclass(frozen=True)
class MaxwellEvents:
    """Changes as Maxwell writes them; `ts` is the second of their commit."""

    def routes(self, messages: Messages) -> Routes:
        outer = json_text.parsed(messages.values, {**_NAMED, "ts": json_text.TEXT, "data": json_text.JSON})
        if not len(outer):
            return plain_routes(0)
        ops = ops_of(outer.field("type"), _MAXWELL, messages.values.is_null())
        structures = json_text.run(f"SELECT {STRUCTURE}(v)::VARCHAR FROM texts", outer.field("data"))
        return Routes(
            outer.field("database"),
            outer.field("table"),
            ops,
            outer.field("ts").cast(pa.int64()),
            image_counts(ops),
            structures,
        )

    def columns(self, description: str) -> tuple[ShapeColumn, ...]:
        return of_structure(description)

    def inferred(self, description: str) -> bool:
        return True

    def key(self, message: Messages) -> tuple[str, ...]:
        listed = object_of(message.values[0].as_py()).get("primary_key_columns")
        names = object_of(message.keys[0].as_py())
        return tuple(listed or (n.removeprefix(_KEY_PART) for n in names if n.startswith(_KEY_PART)))

    def decoder(self, columns: tuple[DataField, ...]) -> MessageFormat:
        return ChangedRows(columns, False)


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
    kinds_of = spelled or {}
    return tuple(
        ShapeColumn(name, mysql_type(kinds_of[name]), kinds_of[name].lower())
        if name in kinds_of
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
