"""Change events of many tables: which table each message is of, what it does, and the types of its columns.

A message is routed first and decoded with the others of its table afterwards, by the format that its
columns make. What a message says of its columns is a `description`: the schema around an event, the id of
one in a registry, or the JSON types of its values. Messages of one description have the same columns.

Columns of rows whose messages say no types are those of the JSON of their values: a whole number is a BIGINT,
another number a DOUBLE, true and false a BOOLEAN, text, an object and a list a STRING. A column is there with
its first value: NULL says no type. Types are found over all messages that are new at once, and a column of
BIGINT becomes DOUBLE when a fraction comes; any other value of another type is bad.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tablestore.cdc.capture.source import ShapeColumn
from tablestore.core.errors import SchemaMismatch
from tablestore.format.messages.messages import MessageFormat, Messages
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataField

TRUNCATE, NO_ROWS, SNAPSHOT = "t", "-", "r"
"""Ops beside `c`, `u` and `d`: the rows of a table are gone, a message of something else than rows, and a row
that was read, not changed."""
_TYPES = {"BIGINT": t.BIGINT, "UBIGINT": t.BIGINT, "DOUBLE": t.DOUBLE, "BOOLEAN": t.BOOLEAN}
STRUCTURE = "json_structure"  # DuckDB's function that makes the description


@dataclass(frozen=True)
class Routes:
    """What messages say of themselves, one entry a message: database and table (NULL where the topic's name
    says it), op, when the change was committed (seconds after 1970, NULL: unknown), how many row images it
    holds, and the description of its columns (NULL: none)."""

    database: pa.Array
    table: pa.Array
    ops: pa.Array
    seconds: pa.Array
    images: np.ndarray
    descriptions: pa.Array

    def __len__(self) -> int:
        return len(self.images)


class EventFormat(Protocol):
    """How messages of many tables are written. Frozen and picklable."""

    def routes(self, messages: Messages) -> Routes:
        """Where messages belong. Raises InvalidRequest where any cannot be read."""

    def columns(self, description: str) -> tuple[ShapeColumn, ...]:
        """The columns that a description says; raises InvalidRequest for one that says none."""

    def inferred(self, description: str) -> bool:
        """Whether its types are guessed from values: a value of another type is bad then, no new type."""

    def key(self, message: Messages) -> tuple[str, ...]:
        """The names of the primary key that one message tells; none where it does not."""

    def decoder(self, columns: tuple[DataField, ...]) -> MessageFormat:
        """What decodes messages of a table with these columns."""


def plain_routes(count: int) -> Routes:
    """Messages without rows."""
    texts, ops = pa.nulls(count, pa.string()), pa.array([NO_ROWS] * count, pa.string())
    return Routes(texts, texts, ops, pa.nulls(count, pa.int64()), np.zeros(count, np.int64), texts)


def of_structure(description: str) -> tuple[ShapeColumn, ...]:
    """The columns of a row with this structure."""
    structure = json.loads(description)
    if not isinstance(structure, dict):
        raise SchemaMismatch("the row of a message is not a JSON object")
    return tuple(
        ShapeColumn(name, t.STRING if not isinstance(kind, str) else _TYPES.get(kind, t.STRING))
        for name, kind in structure.items()
        if kind != "NULL"
    )


def image_counts(ops: pa.Array, one_sided: np.ndarray | bool = False) -> np.ndarray:
    """How many row images changes with these ops hold; of an update one where it is `one_sided`, else two."""
    codes = ops.to_numpy(zero_copy_only=False)
    rows = np.isin(codes, ["c", SNAPSHOT, "d", "u"]).astype(np.int64)
    return rows + ((codes == "u") & ~np.asarray(one_sided))


def object_of(text: bytes | None) -> dict[str, Any]:
    """The JSON object of a text, or an empty one."""
    try:
        item = json.loads(text or b"null")
    except ValueError:
        return {}
    return item if isinstance(item, dict) else {}
