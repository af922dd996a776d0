"""SourceTable: the columns of a table in the source and their types here, for snapshot and binlog alike.

    BIGINT UNSIGNED → DECIMAL(20, 0) · DECIMAL of more than 38 digits → STRING · YEAR → INT · BIT(1) → BOOLEAN
    · BIT(n) → BINARY (big endian) · DATETIME → TIMESTAMP · TIMESTAMP → TIMESTAMP_LTZ · TIME → STRING, since
    it goes beyond a day · ENUM, SET, JSON, UUID, INET4, INET6 → STRING

A zero or impossible date (0000-00-00, 2024-02-31) becomes NULL, or is refused, as `zero_dates` says: columns
of dates are nullable here, but for those of the key, in which such a date is always refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.mysql import charsets
from tablestore.cdc.mysql.server import Connection
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.format.schema import RESERVED
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataType

GEOMETRIES = {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
GEOMETRIES |= {"geometrycollection", "geomcollection"}
NULL, FAIL = "null", "fail"
ZERO_DATES = (NULL, FAIL)
DATES = {"date", "datetime", "timestamp"}
_INTEGERS = {
    "tinyint": (t.TINYINT, t.SMALLINT),
    "smallint": (t.SMALLINT, t.INT),
    "mediumint": (t.INT, t.INT),
    "int": (t.INT, t.BIGINT),
    "bigint": (t.BIGINT, t.DECIMAL(20, 0)),
}
"""Signed and unsigned."""
_FIXED = {
    "float": t.FLOAT,
    "double": t.DOUBLE,
    "date": t.DATE,
    "year": t.INT,
    "time": t.STRING,
    "enum": t.STRING,
    "set": t.STRING,
    "json": t.STRING,
    "uuid": t.STRING,
    "inet4": t.STRING,
    "inet6": t.STRING,
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), t.STRING),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), t.BYTES),
}
_SIZED = {"char": t.CHAR, "varchar": t.VARCHAR, "binary": t.BINARY, "varbinary": t.VARBINARY}


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column as `information_schema` has it. `kind` is its type without sizes, `spelled` with them; `size`
    its characters or bits, digits or digits of a second; `charset` that of text; `extra` says that the server
    makes its values: `auto_increment`, `VIRTUAL GENERATED`. `comment` is what its owner says of it.
    `zero_dates`: what becomes of an impossible date, NULL or FAIL."""

    name: str
    kind: str
    spelled: str
    nullable: bool = True
    size: int = 0
    scale: int = 0
    charset: str = ""
    in_key: bool = False
    extra: str = ""
    comment: str = ""
    zero_dates: str = NULL

    @property
    def unsigned(self) -> bool:
        return self.kind not in ("enum", "set") and ("unsigned" in self.spelled or "zerofill" in self.spelled)

    @property
    def generated(self) -> bool:
        return "GENERATED" in self.extra.upper() and "DEFAULT_GENERATED" not in self.extra.upper()

    @property
    def numbered(self) -> bool:
        """Whether the server numbers its rows."""
        return "auto_increment" in self.extra.lower()

    @property
    def type(self) -> DataType:
        """Its type here; raises Unsupported for one without."""
        kind = self._type()
        zero_dates = self.kind in DATES and not self.in_key
        return kind if self.nullable or zero_dates else kind.not_null()

    def _type(self) -> DataType:
        kind, size = self.kind, self.size
        if kind in _INTEGERS:
            return _INTEGERS[kind][self.unsigned]
        if kind in _SIZED:
            return _SIZED[kind](max(1, size))
        if kind in _FIXED:
            return _FIXED[kind]
        if kind == "decimal":
            return t.DECIMAL(size, self.scale) if size <= 38 else t.STRING
        if kind == "datetime":
            return t.TIMESTAMP(size)
        if kind == "timestamp":
            return t.TIMESTAMP_LTZ(size)
        if kind == "bit":
            return t.BOOLEAN if size == 1 else t.BINARY((size + 7) // 8)
        out = f"leave the column out: left_out={{'db.table': [{self.name!r}]}}"
        out += f", --leave-out db.table={self.name}"
        why = out if kind in GEOMETRIES else f"an unknown type; {out}"
        raise Unsupported(f"column {self.name!r} of type {self.spelled}", why)

    def require_captured(self) -> None:
        """Raise Unsupported for a column whose values cannot be read from the log, or that no table of the
        lake can have."""
        if self.name in RESERVED or self.name.startswith("_KEY_"):
            raise Unsupported(
                f"column {self.name!r}, a name that Paimon keeps for itself",
                f"leave it out (left_out={{'db.table': [{self.name!r}]}}), or ALTER TABLE … RENAME COLUMN it",
            )
        if "COMPRESSED" in self.spelled.upper().partition("/*")[2]:
            raise Unsupported(
                f"column {self.name!r}: COMPRESSED columns", "ALTER TABLE … MODIFY it without COMPRESSED"
            )
        if self.spelled.lower().startswith("year(2)"):
            raise Unsupported(f"column {self.name!r} of type YEAR(2)", "ALTER TABLE … MODIFY it YEAR")
        charsets.require_known(self.charset, self.name)

    @property
    def selected(self) -> str:
        """The expression that gives its exact value as text: a FLOAT alone would be rounded to six digits."""
        return f"{quoted(self.name)} + 0e0" if self.kind == "float" else quoted(self.name)


@dataclass(frozen=True)
class SourceTable:
    """A table of the source with the columns that are captured, in its order. `others_ignored`: columns that
    are not among them may come and go. `versioned`: it is WITH SYSTEM VERSIONING."""

    database: str
    name: str
    columns: tuple[SourceColumn, ...]
    primary_key: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    others_ignored: bool = False
    versioned: bool = False

    def require_captured(self) -> None:
        """Raise Unsupported for what is known to fail at the first row that is logged, or in the lake."""
        if self.versioned:
            raise Unsupported(
                f"{self} WITH SYSTEM VERSIONING (its log has rows of the past, too)",
                "ALTER TABLE … DROP SYSTEM VERSIONING, or exclude it",
            )
        for column in self.columns:
            column.require_captured()
        self.schema  # noqa: B018  refuses columns without a type

    def with_zero_dates(self, policy: str) -> SourceTable:
        """The table with this `zero_dates` in all columns."""
        if policy == NULL:
            return self
        return replace(self, columns=tuple(replace(column, zero_dates=policy) for column in self.columns))

    def without(self, *names: str) -> SourceTable:
        """The table with some columns left out; raises InvalidRequest for one of the key."""
        for name in names:
            if self.column(name).in_key:
                raise InvalidRequest(
                    f"column {name!r} is in the primary key of {self}: it cannot be left out"
                )
        kept = tuple(column for column in self.columns if column.name not in names)
        return replace(self, columns=kept, left_out=(*self.left_out, *names))

    def only(self, names: Iterable[str]) -> SourceTable:
        """The table with these columns and those of its key, whatever others it gets; raises NotFound."""
        wanted = {self.column(name).name for name in names} | {*self.primary_key}
        kept = tuple(column for column in self.columns if column.name in wanted)
        return replace(self, columns=kept, others_ignored=True)

    @property
    def source(self) -> SourceName:
        return SourceName(self.database, self.name)

    @property
    def spelled(self) -> str:
        """Its name in a statement."""
        return f"{quoted(self.database)}.{quoted(self.name)}"

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of its rows; raises Unsupported for a column without a type here."""
        pairs = ((column.name, column.type) for column in self.columns)
        return pa.schema([pa.field(name, t.to_arrow(kind), kind.nullable) for name, kind in pairs])

    def column(self, name: str) -> SourceColumn:
        match = next((column for column in self.columns if column.name == name), None)
        if match is None:
            raise NotFound.among("column", name, [column.name for column in self.columns])
        return match

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @classmethod
    def read(cls, connection: Connection, database: str, name: str) -> SourceTable:
        """The table as it is now; raises NotFound without one."""
        by_name = cls.read_all(connection, database, name)
        if name not in by_name:
            tables = connection.rows(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", database
            )
            raise NotFound.among(f"table in {database}", name, [row[0] for row in tables])
        return by_name[name]

    @classmethod
    def read_all(
        cls, connection: Connection, database: str, name: str | None = None
    ) -> dict[str, SourceTable]:
        """The tables of a database as they are now, by name; `name`: at most this one."""
        where, values = "WHERE table_schema = %s", [database]
        if name is not None:
            where, values = f"{where} AND table_name = %s", [database, name]
        wanted = "table_name, column_name, data_type, column_type, is_nullable, character_set_name, "
        wanted += "character_maximum_length, numeric_precision, numeric_scale, datetime_precision, extra, "
        wanted += "column_comment"
        rows = connection.rows(
            f"SELECT {wanted} FROM information_schema.columns {where} ORDER BY table_name, ordinal_position",
            *values,
        )
        keys: dict[str, list[str]] = {}
        for table, column in connection.rows(
            f"SELECT table_name, column_name FROM information_schema.statistics {where}"
            " AND index_name = 'PRIMARY' ORDER BY table_name, seq_in_index",
            *values,
        ):
            keys.setdefault(table, []).append(column)
        versioned = {
            str(row[0])
            for row in connection.rows(
                f"SELECT table_name FROM information_schema.tables {where} "
                "AND table_type = 'SYSTEM VERSIONED'",
                *values,
            )
        }
        columns: dict[str, list[SourceColumn]] = {}
        for table, *row in rows:
            columns.setdefault(table, []).append(_column(tuple(row), tuple(keys.get(table, ()))))
        return {
            table: cls(database, table, tuple(of), tuple(keys.get(table, ())), versioned=table in versioned)
            for table, of in columns.items()
        }


def quoted(name: str) -> str:
    """A name in a statement."""
    return "`" + name.replace("`", "``") + "`"


def _column(row: tuple[object, ...], key: tuple[str, ...]) -> SourceColumn:
    name, kind, spelled, nullable, charset, length, digits, scale, fraction, extra, comment = row
    kind = re.sub(r"\W.*", "", str(kind).lower())
    size = next((n for n in (length, digits, fraction) if n is not None), 0)
    return SourceColumn(
        name=str(name),
        kind=kind,
        spelled=str(spelled),
        nullable=nullable == "YES",
        size=int(str(size)),
        scale=int(str(scale or 0)),
        charset=str(charset or ""),
        in_key=name in key,
        extra=str(extra),
        comment=str(comment or ""),
    )
