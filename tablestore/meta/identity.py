"""Which table a directory holds: a handle proves with it that its table is still there (FORMAT.md 25.9).

A table is dropped, renamed or made anew by anybody at any time, and what was opened before must not write
into what is there now. Tables made here have a `tablestore.uuid` in their first schema; of others all of that
file counts, which holds the time of their making.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.format.schema import TableSchema
from tablestore.io.confined import ConfinedFileIO, confined
from tablestore.io.fileio import FileIO
from tablestore.io.paths import TablePaths, join

UUID = "tablestore.uuid"
_MAX_LOOKED_AT = 1000  # directories in which a renamed table is looked for


@dataclass(frozen=True, slots=True)
class Identity:
    """The id of the table's oldest schema, and what its file must hold."""

    schema_id: int
    token: bytes

    @classmethod
    def of(cls, oldest: TableSchema, io: FileIO, paths: TablePaths) -> Identity:
        """That of the table with this oldest schema. Raises NotFound where that has gone meanwhile."""
        uuid = oldest.options.get(UUID)
        if uuid:
            return cls(oldest.id, uuid.encode())
        try:
            return cls(oldest.id, io.read(paths.schema(oldest.id)))
        except FileNotFoundError:
            raise NotFound(f"no table at {paths.root}") from None

    def require(self, io: FileIO, paths: TablePaths) -> None:
        """Raise NotFound, saying what happened, unless the table is still there. One small read."""
        try:
            data = io.read(paths.schema(self.schema_id))
        except FileNotFoundError:
            data = None
        if data is not None and self.token in data:
            return
        what = f"{paths.root} " if paths.branch == "main" else f"branch {paths.branch} of {paths.root} "
        what += "was dropped" if data is None else "was dropped and made anew"
        place = self._moved_to(io, paths.root)
        if place is not None:
            what = f"{paths.root} was renamed to {place}"
            what += "" if data is None else ", and another table made in its place,"
        raise NotFound(f"{what} since this handle was opened: open the table again")

    def _moved_to(self, io: FileIO, root: str) -> str | None:
        """Where the table is now, looked for in the databases beside its own."""
        database, io = root.rpartition("/")[0], io.inner if isinstance(io, ConfinedFileIO) else io
        try:
            warehouse = database.rpartition("/")[0]
            others = [join(warehouse, s.name) for s in io.list(warehouse) if s.name.endswith(".db")]
            databases = [database, *(d for d in others if d != database)]
            places = [join(d, s.name) for d in databases for s in io.list(d) if s.is_dir][:_MAX_LOOKED_AT]
            for place in places:
                if place != root and self._is_at(io, place):
                    return place
        except (TablestoreError, OSError):
            return None
        return None

    def _is_at(self, io: FileIO, root: str) -> bool:
        try:
            return self.token in confined(io, root).read(TablePaths(root).schema(self.schema_id))
        except FileNotFoundError:
            return False


def remove_made_anew(io: FileIO, root: str) -> None:
    """Remove the empty directories that a writer made where there is no table any more; trouble is left."""
    try:
        if not io.list(TablePaths(root).schema_dir):
            _remove_empty(io, root)
    except (TablestoreError, OSError):
        return


def _remove_empty(io: FileIO, directory: str) -> None:
    for entry in io.list(directory):
        if entry.is_dir:
            _remove_empty(io, join(directory, entry.name))
    io.delete_empty(directory)
