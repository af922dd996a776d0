"""Dropping tables and databases so that a kill leaves either the whole or nothing visible.

On a file system the directory is first renamed, atomically, to a name below `.dropped` beside it, which no
listing shows; then it is deleted. An object store cannot rename: there a mark is written beside the schemas,
after which the directory no longer counts as a table; then the schemas are deleted, then the rest, the mark
last. What a kill leaves is removed by the same call again, and on file systems by any drop or creation in
that database. Both need space only for a name; where the disk has not even that, the new name is beside the
table. Where the directory of a table is a link, the link is removed, and what it leads to stays.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from itertools import count

from tablestore.core.errors import CommitUnknown, TablestoreError, Unavailable
from tablestore.io import outcomes
from tablestore.io.fileio import FileIO
from tablestore.io.paths import DROPPED, TablePaths, is_object_location, join

log = logging.getLogger(__name__)


def drop(io: FileIO, root: str, forget: Callable[[], None] = lambda: None) -> None:
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


def drop_directory(io: FileIO, path: str, forget: Callable[[], None] = lambda: None) -> None:
    """Remove the directory of a database; object stores delete it name by name."""
    if not is_object_location(path):
        _put_aside(io, path)
        forget()
        _cleared(path, lambda: _sweep(io, path.rpartition("/")[0]))
        return
    forget()
    io.delete_tree(path)


def finish(io: FileIO, root: str) -> bool:
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
