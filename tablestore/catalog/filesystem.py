"""FileSystemCatalog: a warehouse directory, `<warehouse>/<db>.db/<table>`. No registry: the files are the
catalog. Dropping tables and databases so that a kill leaves either the whole or nothing visible.

Two creators cannot both succeed, since creating a table is one put-if-absent of `schema-0`. There are no
locks, so the store itself must offer put-if-absent (a local file system and S3 with conditional PUT do).

To drop a directory on a file system it is first renamed, atomically, to a name below `.dropped` beside it,
which no listing shows; then it is deleted. An object store cannot rename: there a mark is written beside the
schemas, after which the directory no longer counts as a table; then the schemas are deleted, then the rest,
the mark last. What a kill leaves is removed by the same call again, and on file systems by any drop or
creation in that database. Both need space only for a name; where the disk has not even that, the new name is
beside the table. Where the directory of a table is a link, the link is removed, and what it leads to stays.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from tablestore.catalog.catalog import (
    CatalogView,
    database_dir,
    is_table,
    known_table,
    make_first_schema,
    no_place,
    table_dir,
)
from tablestore.core.errors import (
    AlreadyExists,
    CommitUnknown,
    NotFound,
    TablestoreError,
    Unavailable,
    Unsupported,
)
from tablestore.format.schema import TableSchema
from tablestore.io import outcomes
from tablestore.io.fileio import FileIO
from tablestore.io.paths import DROPPED, TablePaths, is_object_location, join

log = logging.getLogger(__name__)


def drop_table(io: FileIO, root: str, forget: Callable[[], None] = lambda: None) -> None:
    """Remove a table's directory; `forget` unregisters the table once the directory no longer counts as
    one."""
    if is_object_location(root):
        outcomes.put(io, _mark(root), b"")
        forget()
        _cleared(root, lambda: _delete_marked(io, root))
        return
    _put_aside(io, root)
    try:
        forget()
    except Unavailable:  # a registry on the same full disk can write only once there is room
        _sweep(io, root.rpartition("/")[0])
        forget()
    _cleared(root, lambda: _sweep(io, root.rpartition("/")[0]))


def _cleared(place: str, delete: Callable[[], None]) -> None:
    """Delete files that no listing shows any more; raises CommitUnknown where some stay."""
    try:
        delete()
    except (TablestoreError, OSError) as e:
        text = f"{place} is dropped; some of its files are not deleted: {e}; the same call again deletes them"
        raise CommitUnknown(text) from e


def register_moved(
    register: Callable[[], None], is_done: Callable[[], bool], undo: Callable[[], None]
) -> None:
    """Register a table whose files are renamed. Where that fails `undo` names them back, unless the registry
    has the new name, since only its answer was lost."""
    try:
        register()
    except BaseException as e:
        done = False
        with contextlib.suppress(TablestoreError):
            done = is_done()
        if not done:
            undo()
        if not done or not isinstance(e, Unavailable):
            raise


def drop_directory(io: FileIO, path: str, forget: Callable[[], None] = lambda: None) -> None:
    """Remove the directory of a database; object stores delete it name by name."""
    if not is_object_location(path):
        _put_aside(io, path)
        forget()
        _cleared(path, lambda: _sweep(io, path.rpartition("/")[0]))
        return
    forget()
    io.delete_tree(path)


def finish_drop(io: FileIO, root: str) -> bool:
    """Complete an interrupted drop of this table or database; whether there was one."""
    if not is_object_location(root):
        folder, _, name = root.rpartition("/")
        left = any(
            path.rpartition("/")[2].rpartition("-")[0].removeprefix(f"{DROPPED}-") == name
            for path in _aside(io, folder)
        )
        _sweep(io, folder)
        return left
    if not io.exists(_mark(root)):
        return False
    _delete_marked(io, root)
    return True


def tidy(io: FileIO, folder: str) -> None:
    """Remove what interrupted drops left in a folder; errors are logged."""
    try:
        if not is_object_location(folder):
            _sweep(io, folder)
    except (TablestoreError, OSError) as e:
        log.warning("remains of dropped tables in %s are not removed yet: %s", folder, e)


def _mark(root: str) -> str:
    return join(TablePaths(root).schema_dir, DROPPED)


def _delete_marked(io: FileIO, root: str) -> None:
    """Schemas first, the mark last."""
    schemas = TablePaths(root).schema_dir
    for entry in io.list(schemas, hidden=True):
        if entry.name != DROPPED:
            io.delete(join(schemas, entry.name))
    for entry in io.list(root, hidden=True):
        child = join(root, entry.name)
        if child != schemas:
            (io.delete_tree if entry.is_dir else io.delete)(child)
    io.delete_tree(root)


def _put_aside(io: FileIO, path: str) -> None:
    """Rename a directory so that no listing shows it; an absent one is fine."""
    folder, _, name = path.rpartition("/")
    if not io.is_dir(path):
        return
    try:
        _move(io, path, f"{folder}/{DROPPED}/{name}")
    except Unavailable as e:
        if not e.no_space:
            raise
        _move(io, path, f"{folder}/{DROPPED}-{name}")


def _move(io: FileIO, path: str, target: str) -> None:
    for n in count():
        try:
            outcomes.move(io, path, f"{target}-{n}")
        except FileExistsError:
            continue
        except FileNotFoundError:
            log.info("%s is gone: another process drops it", path)
        return


def _aside(io: FileIO, folder: str) -> Iterator[str]:
    """Paths of the directories of a folder that were renamed for deletion."""
    inner = join(folder, DROPPED)
    yield from (join(inner, s.name) for s in io.list(inner, hidden=True))
    hidden = (s.name for s in io.list(folder, hidden=True) if s.name.startswith(f"{DROPPED}-"))
    yield from (join(folder, name) for name in hidden)


def _sweep(io: FileIO, folder: str) -> None:
    for path in list(_aside(io, folder)):
        io.delete_tree(path)
    io.delete_empty(join(folder, DROPPED))


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """See `Catalog`. Safe to share: it holds no state but its location."""

    warehouse: str
    io: FileIO

    def databases(self) -> list[str]:
        """Directories named `….db`."""
        return [s.name[:-3] for s in self.io.list(self.warehouse) if s.is_dir and s.name.endswith(".db")]

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        if properties:
            raise no_place("properties of a database")
        path = database_dir(self.warehouse, name)
        tidy(self.io, self.warehouse)
        if self.io.is_dir(path):
            raise AlreadyExists(f"database {name!r} exists")
        outcomes.make_dir(self.io, path)

    def drop_database(self, name: str) -> None:
        drop_directory(self.io, database_dir(self.warehouse, name))

    def database_properties(self, name: str) -> dict[str, str]:
        self._require_database(name)
        return {"location": database_dir(self.warehouse, name)}

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        self._require_database(name)
        raise no_place("properties of a database")

    def _require_database(self, name: str) -> None:
        if not self.io.is_dir(database_dir(self.warehouse, name)):
            raise NotFound.among("database", name, self.databases())

    def tables(self, database: str) -> list[str]:
        self._require_database(database)
        path = database_dir(self.warehouse, database)
        names = [s.name for s in self.io.list(path) if s.is_dir]
        return [n for n in names if is_table(self.io, join(path, n))]

    def holds(self, database: str, table: str) -> bool:
        return is_table(self.io, self.location(database, table))

    def location(self, database: str, table: str) -> str:
        return table_dir(database_dir(self.warehouse, database), table)

    def file_io(self, database: str, table: str) -> FileIO:
        return self.io

    def create_table(self, database: str, table: str, schema: TableSchema) -> None:
        refuse_own_path(schema, "filesystem")
        tidy(self.io, database_dir(self.warehouse, database))
        make_first_schema(self.io, self.location(database, table), schema, f"{database}.{table}")

    def drop_table(self, database: str, table: str) -> None:
        drop_table(self.io, self.location(database, table))

    def finish_drop(self, database: str, table: str) -> bool:
        return finish_drop(self.io, self.location(database, table))

    def rename_table(self, database: str, table: str, onto: tuple[str, str]) -> None:
        known_table(self, database, table)
        target = self.location(*onto)
        if self.io.is_dir(target):
            raise AlreadyExists(f"table {'.'.join(onto)} exists (or something else is at {target})")
        try:
            outcomes.move(self.io, self.location(database, table), target)
        except FileExistsError:
            raise AlreadyExists(f"table {'.'.join(onto)} exists") from None

    def repair_table(self, database: str, table: str) -> None:
        """Nothing to do: a table whose files exist is known."""

    @property
    def keeps_views(self) -> bool:
        return False

    def views(self, database: str) -> list[str]:
        self._require_database(database)
        return []

    def view(self, database: str, name: str) -> CatalogView | None:
        return None

    def put_view(self, database: str, name: str, view: CatalogView, *, replace: bool) -> None:
        raise no_place("a view")

    def drop_view(self, database: str, name: str) -> None:
        raise NotFound(f"no view {database}.{name}: a catalog of files keeps none")

    def rename_view(self, database: str, name: str, onto: tuple[str, str]) -> None:
        self.drop_view(database, name)


def refuse_own_path(schema: TableSchema, metastore: str) -> None:
    """Raise Unsupported for option `path` of a table; only a Hive metastore stores locations."""
    if "path" in schema.options:
        raise Unsupported(
            f"option 'path' with metastore {metastore}", "its tables lie below the warehouse; use hive"
        )
