"""Schema files of one table (or branch): numbered, put-if-absent, never deleted (FORMAT.md 2.1). Safe to
share; schemas are cached by id."""

from __future__ import annotations

import re

from tablestore.core.errors import Corrupt, NotFound
from tablestore.core.options.table_options import Durability, TableOptions
from tablestore.format import schema as schema_format
from tablestore.format.schema import TableSchema
from tablestore.io import outcomes
from tablestore.io.fileio import FileIO, Sync
from tablestore.io.paths import DROPPED, TablePaths

_FILE = re.compile(r"schema-(\d+)")


class SchemaStore:
    """Reads and adds schemas."""

    def __init__(self, io: FileIO, paths: TablePaths) -> None:
        self._io, self._paths = io, paths
        self._known: dict[int, TableSchema] = {}

    def ids(self) -> list[int]:
        """Ids of all schemas, ascending; empty if this is no table, or one that is being dropped."""
        names = [s.name for s in self._io.list(self._paths.schema_dir, hidden=True)]
        if DROPPED in names:
            return []
        return sorted(int(m[1]) for m in map(_FILE.fullmatch, names) if m)

    def latest(self) -> TableSchema:
        """The newest schema; raises NotFound where there is no table."""
        return self.ends()[1]

    def ends(self) -> tuple[TableSchema, TableSchema]:
        """The oldest schema (the newest where that is damaged) and the newest; raises NotFound where there is
        no table."""
        ids = self.ids()
        if not ids:
            raise NotFound(f"no table at {self._paths.root}")
        newest = self.get(ids[-1])
        try:
            return self.get(ids[0]), newest
        except Corrupt:
            return newest, newest

    def readable_ends(self) -> tuple[TableSchema, TableSchema]:
        """The newest readable schema, twice: in place of the oldest and the newest that `ends` gives. Raises
        Corrupt naming the newest file where none is readable, NotFound where there is no table."""
        failure: Corrupt | None = None
        for schema_id in reversed(self.ids()):
            try:
                schema = self.get(schema_id)
                return schema, schema
            except NotFound:  # it was removed meanwhile
                continue
            except Corrupt as e:
                failure = failure or e
        raise failure or NotFound(f"no table at {self._paths.root}")

    def get(self, schema_id: int) -> TableSchema:
        """One schema; raises NotFound, or Corrupt for a damaged file (I9)."""
        if schema_id not in self._known:
            path = self._paths.schema(schema_id)
            try:
                schema = schema_format.from_json(self._io.read(path), path)
            except FileNotFoundError:
                raise NotFound(f"no schema {schema_id} at {self._paths.root}; have {self.ids()}") from None
            if schema.id != schema_id:
                raise Corrupt(path, f"holds id {schema.id}")
            self._known[schema_id] = schema
        return self._known[schema_id]

    def commit(self, schema: TableSchema) -> bool:
        """Put `schema` under its id if that is free; False if another writer was first.

        Raises CommitUnknown when the store failed and reading back failed too. A table whose newest schema
        was emptied by a loss of power could not be opened at all, so all but the first are synced whatever
        the table's durability.
        """
        kept = TableOptions.parse(schema.options).durability is Durability.COMMIT
        after = Sync(self._paths.root) if schema.id else Sync("/") if kept else None
        path, data = self._paths.schema(schema.id), schema_format.to_json(schema)
        return outcomes.put_new(self._io, path, data, unique=True, after=after)
