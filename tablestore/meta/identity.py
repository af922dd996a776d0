"""Identity: which table a directory holds, so that a handle can check that its table is still there
(FORMAT.md 25.9).

Anybody may drop, rename or recreate a table at any time, and a handle that was opened before must not write
into the new one. Tables created by this engine have a `tablestore.uuid` in their first schema; of others the
whole file is compared, which contains the time of creation.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.core.options.names import UUID
from tablestore.format.schema import TableSchema
from tablestore.io.confined import ConfinedFileIO, confined
from tablestore.io.fileio import FileIO
from tablestore.io.paths import TablePaths, join

_MAX_LOOKED_AT = 1000  # directories that are searched for a renamed table


@dataclass(frozen=True, slots=True)
class Identity:
    """The id of the table's oldest schema, and the bytes that its file must contain."""

    schema_id: int
    token: bytes

    @classmethod
    def of(cls, oldest: TableSchema, io: FileIO, paths: TablePaths) -> Identity:
        """The identity of the table with this oldest schema. Raises NotFound if that file is gone."""
        uuid = oldest.options.get(UUID)
        if uuid:
            return cls(oldest.id, uuid.encode())
        try:
            return cls(oldest.id, io.read(paths.schema(oldest.id)))
        except FileNotFoundError:
            raise NotFound(f"no table at {paths.root}") from None

    @property
    def digest(self) -> str:
        """What is the same for one table only, also under another name; 24 characters."""
        return hashlib.sha256(self.token).hexdigest()[:24]

    def require(self, io: FileIO, paths: TablePaths) -> None:
        """Raise NotFound, saying what happened, unless the table is still there. One small read."""
        try:
            data = io.read(paths.schema(self.schema_id))
        except FileNotFoundError:
            data = None
        if data is not None and self.token in data:
            return
        what = f"{paths.root} " if paths.branch == "main" else f"branch {paths.branch} of {paths.root} "
        what += "was dropped" if data is None else "was dropped and created again"
        place = self._moved_to(io, paths.root)
        if place is not None:
            what = f"{paths.root} was renamed to {place}"
            what += "" if data is None else ", and another table created in its place,"
        raise NotFound(f"{what} since this handle was opened: open the table again")

    def _moved_to(self, io: FileIO, root: str) -> str | None:
        """The table's present location, searched in its own and the neighbouring databases; None if not
        found."""
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
    """Remove the empty directories that a writer made where no table is any more; errors are ignored."""
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
