"""Definitions of tables: kept in files by their content, and made from how rows lie in the log.

    <checkpoint>/tablestore-source/<digest>.json     one definition; offsets hold the digest

The log does not say all of a definition (UUID and BINARY(16) look the same there). A definition in the log is
taken from what is known of the table before and now, column by column, where that could lie in the log so,
and is read off the log only where neither could.

    <checkpoint>/tablestore-paused.json    the offset at which a batch ends, the tables that a sink could not
                                           follow, and why

That one is read where the next batch is planned from that offset, and says nothing behind any other. Where it
is lost, the batch that comes again fails on the same table again, and writes it anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import ShapeColumn, TableShape
from tablestore.cdc.mysql import charsets as sets
from tablestore.cdc.mysql import events
from tablestore.cdc.mysql.columns import SourceColumn, SourceTable
from tablestore.cdc.mysql.events import TableMap, WireColumn
from tablestore.flow.source import Offset
from tablestore.io.paths import join, location
from tablestore.io.routed import file_io_for

VERSION = 1
_FOLDER = "tablestore-source"
_FILE = "tablestore-paused.json"


@dataclass(frozen=True)
class Definitions:
    """The definitions of a checkpoint; those of this process are kept in memory, too."""

    checkpoint: str
    _known: dict[str, SourceTable] = field(default_factory=dict, repr=False, compare=False)

    def __reduce__(self) -> Any:
        return Definitions, (self.checkpoint,)

    def put(self, table: SourceTable) -> str:
        """Keep a definition; its digest."""
        item = {name: value for name, value in asdict(table).items() if name != "versioned"}
        for column in item["columns"]:
            del column["zero_dates"]  # of a run, and not of the table
        data = json.dumps({"v": VERSION, **item}, sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()[:24]
        if digest not in self._known:
            path = self._path(digest)
            file_io_for(path).write_new(path, data)
            self._known[digest] = table
        return digest

    def get(self, digest: str) -> SourceTable | None:
        """The definition, None where it is lost."""
        if digest not in self._known:
            path = self._path(digest)
            try:
                item = json.loads(file_io_for(path).read(path))
                self._known[digest] = _from_json(item)
            except (FileNotFoundError, ValueError, TypeError, KeyError):
                return None
        return self._known[digest]

    def _path(self, digest: str) -> str:
        return join(location(self.checkpoint), _FOLDER, f"{digest}.json")


def _from_json(item: Mapping[str, Any]) -> SourceTable:
    if item["v"] != VERSION:
        raise ValueError(f"version {item['v']}")
    columns = tuple(SourceColumn(**column) for column in item["columns"])
    key, left_out = tuple(item["primary_key"]), tuple(item["left_out"])
    return SourceTable(item["database"], item["name"], columns, key, left_out)


def shape_of(table: SourceTable) -> TableShape:
    """What others see of a definition; raises Unsupported for a column without a type."""
    columns = (ShapeColumn(c.name, c.type, c.spelled, c.comment) for c in table.columns)
    return TableShape(tuple(columns), table.primary_key)


def in_log(
    wire: TableMap, charsets: Mapping[int, str], *, now: SourceTable | None, before: SourceTable | None
) -> SourceTable:
    """The definition of a table whose rows lie in the log as `wire` says."""
    columns = tuple(_column(logged, charsets, [now, before]) for logged in wire.columns)
    key = wire.primary_key
    marked = tuple(replace(column, in_key=column.name in key) for column in columns)
    versioned = now is not None and now.versioned
    return SourceTable(wire.database, wire.table, marked, key, versioned=versioned)


def _column(
    wire: WireColumn, charsets: Mapping[int, str], tables: Sequence[SourceTable | None]
) -> SourceColumn:
    charset = charsets.get(wire.collation, "")
    for table in tables:
        for column in table.columns if table is not None else ():
            if column.name == wire.name and lies_so(column, wire, charset):
                return column
    return _read_off(wire, charset)


_INTEGERS = {
    "tinyint": events.TINY,
    "smallint": events.SHORT,
    "mediumint": events.INT24,
    "int": events.LONG,
    "bigint": events.LONGLONG,
}
_SIZED = {
    "float": events.FLOAT,
    "double": events.DOUBLE,
    "date": events.DATE,
    "year": events.YEAR,
    "time": events.TIME2,
    "datetime": events.DATETIME2,
    "timestamp": events.TIMESTAMP2,
    "bit": events.BIT,
}
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_BYTES = {"uuid": 16, "inet6": 16, "inet4": 4}
_CHARACTER_BYTES = {"utf8mb4": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8": 3, "utf8mb3": 3, "ujis": 3}
_CHARACTER_BYTES |= {"eucjpms": 3, "gb18030": 4} | dict.fromkeys(
    ("ucs2", "gbk", "gb2312", "big5", "sjis", "cp932", "euckr"), 2
)


def lies_so(column: SourceColumn, wire: WireColumn, charset: str) -> bool:
    """Whether values of the column could lie in the log as `wire` says."""
    kind = column.kind
    if kind in _INTEGERS:
        return wire.code == _INTEGERS[kind] and wire.unsigned == column.unsigned
    if kind in _SIZED:
        return wire.code == _SIZED[kind] and (not wire.size or wire.size == column.size)
    if kind == "decimal":
        return wire.code == events.NEWDECIMAL and (wire.size, wire.scale) == (column.size, column.scale)
    if kind in ("enum", "set"):
        return wire.code == (events.ENUM if kind == "enum" else events.SET) and _has_labels(
            column, wire, charset
        )
    if kind in _BYTES:
        return (wire.code, wire.size) == (events.STRING, _BYTES[kind])
    text = sets.is_text(charset)
    if kind in ("char", "varchar", "binary", "varbinary"):
        code = events.STRING if kind in ("char", "binary") else events.VARCHAR
        size = column.size * (_CHARACTER_BYTES.get(charset, 1) if text else 1)
        return (
            (wire.code, wire.size) == (code, size)
            and text == kind.endswith("char")
            and (not text or charset == column.charset)
        )
    if kind == "json" and wire.code == events.JSON:
        return True
    for family in (_TEXTS, _BLOBS):
        if kind in family:
            same = (wire.code, wire.width) == (events.BLOB, -1 - family.index(kind))
            return same and text == (family is _TEXTS) and (not text or charset == column.charset)
    return kind not in _TEXTS and wire.code == events.GEOMETRY


def _has_labels(column: SourceColumn, wire: WireColumn, charset: str) -> bool:
    try:
        labels = [sets.text(label, charset) for label in wire.labels]
    except (UnicodeError, KeyError):
        return False
    spelled = ",".join("'" + label.replace("'", "''") + "'" for label in labels)
    return column.spelled.partition("(")[2].rstrip(")") == spelled and column.charset == charset


def _read_off(wire: WireColumn, charset: str) -> SourceColumn:
    code, text = wire.code, sets.is_text(charset)
    unsigned = " unsigned" if wire.unsigned else ""
    for kind, its in _INTEGERS.items():
        if code == its:
            return SourceColumn(wire.name, kind, kind + unsigned)
    for kind, its in _SIZED.items():
        if code == its:
            spelled = f"{kind}({wire.size})" if wire.size else kind
            return SourceColumn(wire.name, kind, spelled, size=wire.size)
    if code == events.NEWDECIMAL:
        spelled = f"decimal({wire.size},{wire.scale}){unsigned}"
        return SourceColumn(wire.name, "decimal", spelled, size=wire.size, scale=wire.scale)
    if code in (events.ENUM, events.SET):
        kind = "enum" if code == events.ENUM else "set"
        labels = ("'" + sets.text(label, charset).replace("'", "''") + "'" for label in wire.labels)
        return SourceColumn(wire.name, kind, f"{kind}({','.join(labels)})", charset=charset)
    if code in (events.STRING, events.VARCHAR):
        kind = (
            ("char" if text else "binary") if code == events.STRING else ("varchar" if text else "varbinary")
        )
        size = wire.size // (_CHARACTER_BYTES.get(charset, 1) if text else 1)
        return SourceColumn(wire.name, kind, f"{kind}({size})", size=size, charset=charset if text else "")
    if code == events.BLOB:
        kind = (_TEXTS if text else _BLOBS)[-wire.width - 1]
        return SourceColumn(wire.name, kind, kind, charset=charset if text else "")
    return SourceColumn(wire.name, "json" if code == events.JSON else "geometry", f"wire type {code}")


@dataclass(frozen=True, slots=True)
class PausedTables:
    """Those of a checkpoint."""

    checkpoint: str

    def at(self, offset: Offset) -> dict[SourceName, str]:
        """The tables that are captured no longer behind an offset, with the reason."""
        place = location(self.checkpoint)
        try:
            item = json.loads(file_io_for(place).read(join(place, _FILE)))
        except (FileNotFoundError, ValueError):
            return {}
        if item.get("end") != offset:
            return {}
        return {SourceName(database, table): reason for database, table, reason in item["tables"]}

    def note(self, offset: Offset, tables: Mapping[SourceName, str]) -> None:
        """Write which tables they are, in place of what was written before."""
        place = location(self.checkpoint)
        listed = [[name.database, name.table, reason] for name, reason in tables.items()]
        text = json.dumps({"v": 1, "end": offset, "tables": listed}, ensure_ascii=False)
        file_io_for(place).make_dir(place)
        file_io_for(place).replace(join(place, _FILE), text.encode())
