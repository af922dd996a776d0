"""Columns of a table of the lake that its source does not have: computed ones, as `date(created_at)`, and
metadata columns, with what is known of a change beside its row.

    expression = function ( operand [, constant …] )
    operand    = column | `column` | 'constant' | number | expression

Functions are those of `functions.FUNCTIONS`. Expressions are picklable values. Names and types of metadata
columns are those of Paimon's MySQL CDC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.cdc.capture.functions import ValueFunction, function
from tablestore.cdc.capture.names import SourceName, words
from tablestore.cdc.capture.source import TableRows
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.types.arrow_types import STRING, TIMESTAMP_LTZ
from tablestore.format.types.casts import lost
from tablestore.format.types.data_type import DataType, to_arrow

METADATA = {
    "database_name": "the database in the source",
    "table_name": "the table in the source",
    "op_ts": "when the change was committed in the source; 1970-01-01 for rows of a snapshot",
}
METADATA_TYPES = {"database_name": STRING, "table_name": STRING, "op_ts": TIMESTAMP_LTZ(3)}


@dataclass(frozen=True, slots=True)
class CapturedMetadata:
    """The column `name` of the target with `what` of `METADATA`."""

    name: str
    what: str

    @classmethod
    def of(cls, wanted: str | Iterable[str], prefix: str = "") -> tuple[CapturedMetadata, ...]:
        """Columns as written: several with commas, or a list; raises NotFound with the nearest."""
        names = [name for name in words(wanted, "metadata columns") if name]
        for name in names:
            if name not in METADATA:
                raise NotFound.among("metadata column", name, METADATA)
        return tuple(cls(prefix + name, name) for name in dict.fromkeys(names))

    @property
    def type(self) -> DataType:
        return METADATA_TYPES[self.what].not_null()

    @property
    def of_change(self) -> bool:
        """Whether it differs from change to change of one row, so that it can be in no key."""
        return self.what == "op_ts"

    def values(self, rows: TableRows) -> pa.Array:
        """Its value in each row."""
        return metadata_values(self.what, rows.table, rows.rows.num_rows, rows.seconds)


def metadata_values(what: str, table: SourceName, rows: int, seconds: pa.Array | None) -> pa.Array:
    """One of `METADATA` for some rows of a table, which were committed `seconds` after 1970 (None: of a
    snapshot)."""
    if what == "op_ts":
        millis = pa.array(np.zeros(rows, np.int64)) if seconds is None else _millis(seconds)
        return millis.cast(to_arrow(METADATA_TYPES[what]))
    return pa.repeat(table.database if what == "database_name" else table.table, rows)


def _millis(seconds: pa.Array) -> pa.Array:
    values = seconds.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(values * 1000)


_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
Columns = Mapping[str, tuple[pa.Array, DataType]]


@dataclass(frozen=True, slots=True)
class ColumnOperand:
    """The value of a column."""

    name: str

    def type(self, types: Mapping[str, DataType]) -> DataType:
        if self.name not in types:
            raise NotFound.among("column", self.name, types)
        return types[self.name]

    def values(self, columns: Columns, rows: int) -> tuple[pa.Array, DataType]:
        return columns[self.name]

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([self.name])

    def __str__(self) -> str:
        return self.name if re.fullmatch(r"\w+", self.name) else "`" + self.name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Constant:
    """The same text in each row; `cast` gives it another type."""

    text: str

    def type(self, types: Mapping[str, DataType]) -> DataType:
        return STRING

    def values(self, columns: Columns, rows: int) -> tuple[pa.Array, DataType]:
        return pa.repeat(pa.scalar(self.text, pa.string()), rows), STRING

    @property
    def columns(self) -> frozenset[str]:
        return frozenset()

    def __str__(self) -> str:
        return "'" + self.text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of `FUNCTIONS`, by its name, of an operand and constants."""

    function: str
    operand: Operand
    literals: tuple[str, ...] = ()

    def type(self, types: Mapping[str, DataType]) -> DataType:
        """The type of its values. Raises NotFound for an unknown column, InvalidRequest for one of a type
        that the function does not take."""
        return self._called.type(self.operand.type(types), self.literals)

    def values(self, columns: Columns, rows: int) -> tuple[pa.Array, DataType]:
        """Its values, NULL where it cannot be computed."""
        array, t = self.operand.values(columns, rows)
        return self._called.values(array, t, self.literals), self._called.type(t, self.literals)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it is computed of."""
        return self.operand.columns

    @property
    def _called(self) -> ValueFunction:
        return function(self.function)

    def __str__(self) -> str:
        return f"{self.function}({', '.join((str(self.operand), *map(_spelled, self.literals)))})"


Operand = ColumnOperand | Constant | FunctionCall


@dataclass(frozen=True, slots=True)
class ComputedTarget:
    """The column `name`, computed by an expression."""

    name: str
    expression: FunctionCall

    @classmethod
    def parse(cls, name: str, text: str) -> ComputedTarget:
        """The column as written, as `ComputedTarget.parse("dt", "date(created_at)")`. Raises InvalidRequest
        for what is no expression, NotFound for an unknown function, with the nearest."""
        if not isinstance(text, str) or not name:
            raise InvalidRequest(f"computed column {name!r}: {text!r} is no expression, as date(created_at)")
        try:
            operand = _operand(text)
        except InvalidRequest as e:
            raise InvalidRequest(f"computed column {name!r}: {e}") from None
        if not isinstance(operand, FunctionCall):
            raise InvalidRequest(f"computed column {name!r}: {text!r} is no call, as date(created_at)")
        return cls(name, operand)

    def type(self, types: Mapping[str, DataType]) -> DataType:
        """Its type over columns of these types; raises NotFound and InvalidRequest."""
        try:
            return self.expression.type(types)
        except NotFound as e:
            raise NotFound(f"computed column {self.name!r} = {self.expression}: {e}") from None
        except InvalidRequest as e:
            raise InvalidRequest(f"computed column {self.name!r} = {self.expression}: {e}") from None

    def values(self, columns: Columns, rows: int) -> tuple[pa.Array, DataType, np.ndarray | None]:
        """Its values, their type, and where it cannot be computed of a value that is not NULL."""
        array, t = self.expression.values(columns, rows)
        used = [columns[name][0] for name in self.expression.columns]
        return array, t, lost(used[0], array) if used else None

    def __str__(self) -> str:
        return f"{self.name} = {self.expression}"


def computed_columns(written: Mapping[str, str]) -> tuple[ComputedTarget, ...]:
    """Computed columns as written, {name: expression}, each after those that it is computed of; raises
    InvalidRequest for columns that need each other."""
    return in_order([ComputedTarget.parse(name, text) for name, text in written.items()])


def in_order(columns: Iterable[ComputedTarget]) -> tuple[ComputedTarget, ...]:
    """The columns, each after those that it is computed of; raises InvalidRequest for a circle."""
    waiting = {column.name: column for column in columns}
    ordered: list[ComputedTarget] = []
    while waiting:
        ready = [column for column in waiting.values() if not column.expression.columns & set(waiting)]
        if not ready:
            raise InvalidRequest(f"computed columns {', '.join(waiting)} are computed of each other")
        ordered += ready
        for column in ready:
            del waiting[column.name]
    return tuple(ordered)


def _operand(text: str) -> Operand:
    text = text.strip()
    if text.startswith("`") or text.startswith("'"):
        return ColumnOperand(_unquoted(text)) if text[0] == "`" else Constant(_unquoted(text))
    match = _CALL.fullmatch(text)
    if match is None:
        if _NUMBER.fullmatch(text):
            return Constant(text)
        if not text or re.search(r"[()'`]", text):
            raise InvalidRequest(f"{text!r} is no expression, as date(created_at)")
        return ColumnOperand(text)
    called = function(match.group(1))
    operand, *literals = _arguments(match.group(2))
    if not operand:
        raise InvalidRequest(f"{called.name} needs a column: {called.form}")
    if not called.least <= len(literals) <= called.most:
        raise InvalidRequest(f"{called.name} is written {called.form}, not {text}")
    return FunctionCall(called.name, _operand(operand), tuple(map(_unquoted, literals)))


def _arguments(text: str) -> list[str]:
    """The text cut at commas outside of quotes and parentheses; a type keeps its own: DECIMAL(10, 2)."""
    parts, depth, quote, start = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'`":
            quote = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            if depth < 0:
                break
        elif letter == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    if depth or quote:
        raise InvalidRequest(f"the quotes or parentheses in ({text}) do not match")
    return [*parts, text[start:].strip()]


def _unquoted(text: str) -> str:
    quote = text[:1]
    if quote not in ("'", "`"):
        return text
    inner = text[1:-1]
    if len(text) < 2 or not text.endswith(quote) or quote in inner.replace(quote * 2, ""):
        raise InvalidRequest(f"the quotes in {text} do not match")
    return inner.replace(quote * 2, quote)


def _spelled(literal: str) -> str:
    return "'" + literal.replace("'", "''") + "'" if re.search(r"[,'`()]", literal) else literal
