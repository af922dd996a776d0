"""Changes of rows as Canal and Maxwell write them, of many tables.

Canal says types in `mysqlType` or `sqlType` and the key in `pkNames`; Maxwell says no types, and the key in
`primary_key_columns` or in the message's key (`{"database": …, "table": …, "pk.id": 1}`). Statements and what
begins and ends a bootstrap hold no rows; Canal's TRUNCATE empties the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.source import ShapeColumn
from tablestore.cdc.formats import canal_types
from tablestore.cdc.formats.events import NO_ROWS, SNAPSHOT, TRUNCATE, Routes, plain_routes
from tablestore.cdc.formats.inferred_types import STRUCTURE, of_structure
from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.messages import json_text
from tablestore.format.messages.canal_maxwell import ChangedRows
from tablestore.format.messages.messages import MessageFormat, Messages
from tablestore.format.types.data_type import DataField

_CANAL = {"INSERT": "c", "UPDATE": "u", "DELETE": "d", "TRUNCATE": TRUNCATE}
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
        found = json_text.parsed(messages.values, {**_NAMED, **texts, "data": json_text.JSON})
        if not len(found):
            return plain_routes(0)
        ops = _ops(found.field("type"), messages.values.is_null(), _CANAL)
        data = json_text.run(_LISTED, found.field("data").cast(pa.string()))
        rows = data.field("rows").fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
        types = [found.field("mysqlType"), found.field("sqlType"), data.field("names")]
        first, second, third = (one.cast(pa.string()).fill_null("null") for one in types)
        described = pc.binary_join_element_wise("[", first, ",", second, ",", third, "]", "")
        millis = pc.coalesce(found.field("es"), found.field("ts")).cast(pa.int64())
        return Routes(
            found.field("database"),
            found.field("table"),
            ops,
            pc.divide(millis, 1000),
            _images(ops) * rows,
            described,
        )

    def columns(self, description: str) -> tuple[ShapeColumn, ...]:
        return canal_types.of_types(description)

    def inferred(self, description: str) -> bool:
        return False

    def key(self, message: Messages) -> tuple[str, ...]:
        return tuple(_object(message.values[0].as_py()).get("pkNames") or ())

    def decoder(self, columns: tuple[DataField, ...]) -> MessageFormat:
        return ChangedRows(columns, True)


@dataclass(frozen=True)
class MaxwellEvents:
    """Changes as Maxwell writes them; `ts` is the second of their commit."""

    def routes(self, messages: Messages) -> Routes:
        found = json_text.parsed(messages.values, {**_NAMED, "ts": json_text.TEXT, "data": json_text.JSON})
        if not len(found):
            return plain_routes(0)
        ops = _ops(found.field("type"), messages.values.is_null(), _MAXWELL)
        structures = json_text.run(f"SELECT {STRUCTURE}(v)::VARCHAR FROM texts", found.field("data"))
        return Routes(
            found.field("database"),
            found.field("table"),
            ops,
            found.field("ts").cast(pa.int64()),
            _images(ops),
            structures,
        )

    def columns(self, description: str) -> tuple[ShapeColumn, ...]:
        return of_structure(description)

    def inferred(self, description: str) -> bool:
        return True

    def key(self, message: Messages) -> tuple[str, ...]:
        listed = _object(message.values[0].as_py()).get("primary_key_columns")
        names = _object(message.keys[0].as_py())
        return tuple(listed or (n.removeprefix(_KEY_PART) for n in names if n.startswith(_KEY_PART)))

    def decoder(self, columns: tuple[DataField, ...]) -> MessageFormat:
        return ChangedRows(columns, False)


def _ops(types: pa.Array, tombstones: pa.Array, known: Mapping[str, str]) -> pa.Array:
    codes = pc.index_in(types, value_set=pa.array(list(known)))
    strange = pc.and_(codes.is_null(), pc.invert(tombstones))
    if pc.any(strange).as_py():
        found = types[pc.index(strange, True).as_py()].as_py()
        if found is None:
            raise SchemaMismatch("the message is no change: it has no 'type'")
        raise Unsupported(f"a change of type {found!r}", f"{', '.join(known)} are known")
    return pa.array(list(known.values())).take(codes).fill_null(NO_ROWS)


def _images(ops: pa.Array) -> np.ndarray:
    codes = ops.to_numpy(zero_copy_only=False)
    return np.isin(codes, ["c", SNAPSHOT, "d"]).astype(np.int64) + 2 * (codes == "u")


def _object(text: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(text or b"null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
