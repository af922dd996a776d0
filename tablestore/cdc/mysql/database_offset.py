"""Where a capture of a database stands, as a JSON object.

    {"v": 1, "position": P, "server": id, "settled": bool, "ended": run, "run": run,
     "tables": {database: {table: {"state": …, "key": K, "bounds": [b1 … bn], "shape": digest}}},
     "parents": {database: {table: its ancestry}}, "stale": [[database, table, whether rows are gone], …],
     "events": [what the batch before this offset does to tables], "changed": [bytes of each table's changes],
     "facts": {what planning it found}}

All that a batch needs is in the offsets on both sides of it, but for the definitions, which they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.databases.table_states import FOLLOWED, GONE, HELD, READING, SETTLING, UNUSABLE
from tablestore.cdc.mysql.foreign_keys import Ancestry
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.snapshot import Key
from tablestore.core.errors import InvalidRequest
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
