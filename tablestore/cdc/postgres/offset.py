"""Where a capture of a database of PostgreSQL stands, as a JSON object.

    {"v": 1, "kind": "postgres", "position": LSN as a number or null, "server": system/timeline,
     "looked": bool, "settled": bool, "run": run, "ended": run, "target": LSN or null,
     "tables": [[schema, table, {"state": …, "key": K, "bounds": [b1 … bn], "table": definition}], …],
     "events": [what the batch before this offset does to tables], "changed": [numbers of tables],
     "facts": {what planning it found}}

All that a batch needs is in the offsets on both sides of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.databases.chunks import FOLLOWED, READING, SETTLING
from tablestore.cdc.postgres.tables import PostgresTable
from tablestore.core.errors import InvalidRequest
from tablestore.flow.source import Offset

VERSION, KIND = 1, "postgres"


@dataclass(frozen=True, slots=True)
class PostgresProgress:
    """How far a table is: in READING rows up to `key` are read; `bounds` are those of the chunks of the
    batch that ends here. `table`: its definition, None for one that never was captured."""

    state: str
    table: PostgresTable | None = None
    key: str | None = None
    bounds: tuple[str, ...] = ()

    @property
    def captured(self) -> bool:
        return self.state in (READING, SETTLING, FOLLOWED)

    @property
    def has_rows(self) -> bool:
        """Whether changes of it count: not before its first chunk, which has them."""
        return self.captured and (self.state != READING or self.key is not None)

    def to_json(self) -> dict[str, Any]:
        table = None if self.table is None else self.table.to_json()
        return {"state": self.state, "key": self.key, "bounds": list(self.bounds), "table": table}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> PostgresProgress:
        table = None if item["table"] is None else PostgresTable.from_json(item["table"])
        return cls(item["state"], table, item["key"], tuple(item["bounds"]))


@dataclass(frozen=True)
class PostgresOffset:
    """An offset in parts. `looked`: the first look at the tables is over; `position` is None until the slot
    is there. Not `settled`: rows were read ahead of it. `run` planned it, `ended` ended here, `target` is
    where it stops."""

    position: int | None = None
    server: str = ""
    looked: bool = False
    settled: bool = True
    run: str = ""
    ended: str = ""
    target: int | None = None
    tables: Mapping[SourceName, PostgresProgress] = field(default_factory=dict)
    events: tuple[Mapping[str, Any], ...] = ()
    changed: tuple[int, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def captured(self) -> list[SourceName]:
        return [name for name, progress in self.tables.items() if progress.captured]

    def moved_on(self, *, settled: bool) -> dict[SourceName, PostgresProgress]:
        """The tables behind the batch that ends here; those whose rows are all read follow the log once
        `settled`."""
        return {
            name: replace(
                progress,
                bounds=(),
                state=FOLLOWED if settled and progress.state == SETTLING else progress.state,
            )
            for name, progress in self.tables.items()
        }

    def to_json(self) -> Offset:
        return {
            "v": VERSION,
            "kind": KIND,
            "position": self.position,
            "server": self.server,
            "looked": self.looked,
            "settled": self.settled,
            "run": self.run,
            "ended": self.ended,
            "target": self.target,
            "tables": [[n.database, n.table, p.to_json()] for n, p in sorted(self.tables.items())],
            "events": [dict(item) for item in self.events],
            "changed": list(self.changed),
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, offset: Offset) -> PostgresOffset:
        if offset.get("v") != VERSION or offset.get("kind") != KIND:
            raise InvalidRequest(f"{str(offset)[:200]} is no offset of a database of PostgreSQL")
        tables = {SourceName(s, n): PostgresProgress.from_json(item) for s, n, item in offset["tables"]}
        names = ("position", "server", "looked", "settled", "run", "ended", "target", "facts")
        parts = {name: offset[name] for name in names}
        return cls(**parts, tables=tables, events=tuple(offset["events"]), changed=tuple(offset["changed"]))
