"""Writes and deletes that find out, after an error of the store, whether they happened all the same.

A connection may break after the store has done its work. So each function here reads back after an error: it
raises `Unavailable` only where nothing changed, and `CommitUnknown` where that cannot be found out. Called
for the one file that makes a change visible. With `after` the change survives a loss of power, as
`FileIO.write_new` says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tablestore.core.errors import CommitUnknown, Unavailable
from tablestore.io.fileio import FileIO, Sync

log = logging.getLogger(__name__)


def put_new(io: FileIO, path: str, data: bytes, *, unique: bool, after: Sync | None = None) -> bool:
    """True iff this call made the file; False iff the name existed.

    `unique`: nobody else writes these bytes, so a file that holds them was made by this call (a store that
    retries by itself reports its own first success as a conflict).
    """
    failure: Unavailable | None = None
    try:
        if io.write_new(path, data, **_if_any(after)):
            return True
        if not unique:
            return False
    except Unavailable as e:
        log.warning("writing %s failed, reading back: %s", path, e)
        failure = e
    try:
        if io.read(path) != data:
            return False
        if after is not None and failure is not None:
            io.sync(Sync(after.root, (path,)))
        return True
    except FileNotFoundError:
        if failure is not None:
            raise failure from None  # the file does not exist: the write did not happen
        return False  # it existed a moment ago
    except Unavailable as e:
        raise CommitUnknown(f"it is unknown whether {path} was written: {e}") from e


def put(io: FileIO, path: str, data: bytes, *, after: Sync | None = None) -> None:
    """Replace the content of the file by `data`."""
    try:
        io.replace(path, data, **_if_any(after))
    except Unavailable as failure:
        log.warning("writing %s failed, reading back: %s", path, failure)
        try:
            written = io.read(path) == data
            if written and after is not None:
                io.sync(Sync(after.root, (path,)))
        except FileNotFoundError:
            written = False
        except Unavailable as e:
            raise CommitUnknown(f"it is unknown whether {path} was written: {e}") from e
        if not written:
            raise


def remove(io: FileIO, path: str, *, after: Sync | None = None) -> None:
    """Remove a file; absent is fine."""
    try:
        io.delete(path)
    except Unavailable as failure:
        log.warning("deleting %s failed, looking again: %s", path, failure)
        try:
            there = io.exists(path)
        except Unavailable as e:
            raise CommitUnknown(f"it is unknown whether {path} was deleted: {e}") from e
        if there:
            raise
    if after is not None:
        try:
            io.sync(Sync(after.root, (path.rpartition("/")[0],)))
        except Unavailable as e:
            raise CommitUnknown(
                f"{path} is deleted; whether that outlasts a loss of power is unknown: {e}"
            ) from e


def make_dir(io: FileIO, path: str) -> None:
    """Make a directory that is not there."""
    try:
        io.make_dir(path)
    except Unavailable as failure:
        log.warning("making %s failed, looking again: %s", path, failure)
        try:
            there = io.is_dir(path)
        except Unavailable as e:
            raise CommitUnknown(f"it is unknown whether {path} was made: {e}") from e
        if not there:
            raise


def move(io: FileIO, path: str, target: str) -> None:
    """Rename a directory to a free name."""
    try:
        io.move(path, target)
    except Unavailable as failure:
        log.warning("renaming %s failed, looking again: %s", path, failure)
        try:
            moved = io.is_dir(target) and not io.is_dir(path)
        except Unavailable as e:
            raise CommitUnknown(f"it is unknown whether {path} was renamed to {target}: {e}") from e
        if not moved:
            raise


@contextmanager
def unfinished(what: str, state: Callable[[], object]) -> Iterator[None]:
    """A context of many steps: an error of the store ends in CommitUnknown, unless `state`, of all that the
    steps change, is as before. `what` names them."""
    before = state()
    try:
        yield
    except Unavailable as e:
        try:
            untouched = state() == before
        except Unavailable:
            untouched = False
        if untouched:
            raise
        raise CommitUnknown(f"the {what} failed after it had begun: {e}; the same call goes on") from e


def _if_any(after: Sync | None) -> dict[str, Sync]:
    """`after` as a keyword argument; none if it is None."""
    return {} if after is None else {"after": after}
