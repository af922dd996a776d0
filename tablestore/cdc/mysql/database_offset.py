"""Where a capture of a database stands: its offset, a JSON object, and the files that offsets name.

    {"v": 1, "position": P, "server": id, "settled": bool, "ended": run, "run": run,
     "tables": {database: {table: {"state": …, "key": K, "bounds": [b1 … bn], "shape": digest}}},
     "parents": {database: {table: its ancestry}}, "stale": [[database, table, whether rows are gone], …],
     "events": [what the batch before this offset does to tables], "changed": [bytes of each table's changes],
     "facts": {what planning it found}}

    <checkpoint>/tablestore-source/<digest>.json     the definition of a table that has this digest
    <checkpoint>/tablestore-paused.json              the offset at which a batch ends, the tables that a sink
                                                     could not follow, and why

All that a batch needs is in the offsets on both sides of it, but for the definitions. The log does not say
all of one (UUID and BINARY(16) look the same there). A definition in the log is taken from what is known of
the table before and now, column by column, where that could lie in the log so, and is read off the log only
where neither could. Paused tables are read where the next batch is planned from that offset, and say nothing
behind any other. Where they are lost, the batch that comes again fails on the same table again, and writes
them anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import ShapeColumn, TableShape
from tablestore.cdc.databases.chunks import FOLLOWED, GONE, HELD, READING, SETTLING, UNUSABLE
from tablestore.cdc.mysql import charsets as sets
from tablestore.cdc.mysql import events
from tablestore.cdc.mysql.columns import SourceColumn, SourceTable
from tablestore.cdc.mysql.events import LogPosition, TableMap, WireColumn
from tablestore.cdc.mysql.foreign_keys import Ancestry
from tablestore.cdc.mysql.snapshot import Key
from tablestore.core.errors import Corrupt, InvalidRequest
from tablestore.flow.journal import ContentFiles, JournalFiles
from tablestore.flow.source import Offset

VERSION = 1


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far a table is. `bounds` are those of the chunks of the batch that ends here; `through`: what
    statements up to this place of the log changed is in the definition already."""

    state: str
    digest: str = ""
    key: Key | None = None
    bounds: tuple[Key, ...] = ()
    through: tuple[int, int] | None = None

    @property
    def captured(self) -> bool:
        """Whether its changes are followed."""
        return self.state in (READING, SETTLING, FOLLOWED)

    @property
    def is_read(self) -> bool:
        """Whether its rows are being read, or were read ahead of the position."""
        return self.state in (READING, SETTLING)

    def to_json(self) -> dict[str, Any]:
        item: dict[str, Any] = {"state": self.state}
        if self.digest:
            item["shape"] = self.digest
        if self.key is not None:
            item["key"] = self.key
        if self.bounds:
            item["bounds"] = list(self.bounds)
        if self.through:
            item["through"] = list(self.through)
        return item

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> TableProgress:
        through = item.get("through")
        return cls(
            item["state"],
            item.get("shape", ""),
            item.get("key"),
            tuple(item.get("bounds", ())),
            (through[0], through[1]) if through else None,
        )


@dataclass(frozen=True)
class DatabaseProgress:
    """An offset in parts. `position` is None before the first batch; not `settled`: rows were read ahead of
    it. `run` is the one that planned it, `ended` one that ended here, `target` where one that is about to end
    stops. `ancestries`: where changes of captured tables come from that the log does not have, None in an
    offset of an earlier release; `stale` tables have such changes, and are to be read again: emptied
    before where rows may be gone."""

    position: LogPosition | None = None
    server: int = 0
    settled: bool = True
    tables: Mapping[SourceName, TableProgress] = field(default_factory=dict)
    events: tuple[Mapping[str, Any], ...] = ()
    changed: Mapping[SourceName, int] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    ended: str = ""
    run: str = ""
    target: LogPosition | None = None
    ancestries: Mapping[SourceName, Ancestry] | None = field(default_factory=dict)
    stale: Mapping[SourceName, bool] = field(default_factory=dict)

    @property
    def captured(self) -> list[SourceName]:
        return [name for name, progress in self.tables.items() if progress.captured]

    def with_tables(self, tables: Mapping[SourceName, TableProgress], **how: Any) -> DatabaseProgress:
        return replace(self, tables=dict(sorted(tables.items())), **how)

    def without_bounds(self) -> dict[SourceName, TableProgress]:
        """The tables behind the chunks of the batch that ends here."""
        return {
            name: replace(progress, bounds=()) if progress.bounds else progress
            for name, progress in self.tables.items()
        }

    def settled_tables(self) -> dict[SourceName, TableProgress]:
        """The same, once the log has reached all that was read of them."""
        return {
            name: replace(progress, state=FOLLOWED) if progress.state == SETTLING else progress
            for name, progress in self.without_bounds().items()
        }

    def asked_for(
        self,
        choose: Callable[[SourceName], bool],
        read_again: Callable[[SourceName], bool],
        there: Iterable[SourceName],
    ) -> tuple[list[SourceName], list[SourceName], list[SourceName]]:
        """The tables that a run captures no longer, reads again, and captures from here on: by those that it
        chooses, those that it is to read again, and those that the server has."""
        tables = self.tables
        out = [
            n
            for n, progress in tables.items()
            if (progress.captured or progress.state == HELD) and not choose(n)
        ]
        again = [
            n for n, progress in tables.items() if progress.state != GONE and choose(n) and read_again(n)
        ]
        fresh = (n for n in there if n not in tables or tables[n].state in (UNUSABLE, GONE))
        return out, again, [n for n in fresh if n not in again]

    def to_json(self) -> Offset:
        tables: dict[str, dict[str, Any]] = {}
        for name, item in self.tables.items():
            tables.setdefault(name.database, {})[name.table] = item.to_json()
        parents: dict[str, dict[str, Any]] = {}
        for name, ancestry in (self.ancestries or {}).items():
            parents.setdefault(name.database, {})[name.table] = ancestry.to_json()
        return {
            "v": VERSION,
            "position": self.position and self.position.to_json(),
            "server": self.server,
            "settled": self.settled,
            "ended": self.ended,
            "run": self.run,
            "target": self.target and self.target.to_json(),
            "tables": tables,
            "parents": None if self.ancestries is None else parents,
            "stale": [[name.database, name.table, gone] for name, gone in self.stale.items()],
            "events": [dict(item) for item in self.events],
            "changed": [[name.database, name.table, size] for name, size in self.changed.items()],
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, offset: Offset) -> DatabaseProgress:
        if offset.get("v") != VERSION or "tables" not in offset or "settled" not in offset:
            raise InvalidRequest(f"{str(offset)[:200]} is no offset of databases of MySQL or MariaDB")
        return cls(
            offset["position"] and LogPosition.from_json(offset["position"]),
            offset["server"],
            offset["settled"],
            {
                SourceName(database, table): TableProgress.from_json(item)
                for database, tables in offset["tables"].items()
                for table, item in tables.items()
            },
            tuple(offset["events"]),
            {SourceName(database, table): size for database, table, size in offset["changed"]},
            offset["facts"],
            offset["ended"],
            offset.get("run", ""),
            offset["target"] and LogPosition.from_json(offset["target"]),
            _ancestries(offset.get("parents")),
            {SourceName(database, table): gone for database, table, gone in offset.get("stale", ())},
        )


def _ancestries(item: Mapping[str, Any] | None) -> dict[SourceName, Ancestry] | None:
    if item is None:
        return None
    return {
        SourceName(database, table): Ancestry.from_json(ancestry)
        for database, tables in item.items()
        for table, ancestry in tables.items()
    }


_DEFINITION = 1  # the version of their files
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
        digest = self._files.put({"v": _DEFINITION, **item})
        self._known[digest] = table
        return digest

    def get(self, digest: str) -> SourceTable | None:
        """The definition, None where it is lost."""
        if digest not in self._known:
            try:
                item = self._files.fields(digest)
                if item is None:
                    return None
                self._known[digest] = _from_json(item)
            except (Corrupt, ValueError, TypeError, KeyError):
                return None
        return self._known[digest]

    @property
    def _files(self) -> ContentFiles:
        return ContentFiles(JournalFiles.at(self.checkpoint), _FOLDER, 24)


def _from_json(item: Mapping[str, Any]) -> SourceTable:
    if item["v"] != _DEFINITION:
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
        with contextlib.suppress(Corrupt):
            item = JournalFiles.at(self.checkpoint).fields(_FILE)
            if item is not None and item.get("end") == offset:
                return {SourceName(database, table): reason for database, table, reason in item["tables"]}
        return {}

    def note(self, offset: Offset, tables: Mapping[SourceName, str]) -> None:
        """Write which tables they are, in place of what was written before."""
        listed = [[name.database, name.table, reason] for name, reason in tables.items()]
        JournalFiles.at(self.checkpoint).put(_FILE, {"v": 1, "end": offset, "tables": listed})
