"""GuardedFileIO: the FileIO of one table whose catalog has locks or a registry.

Every put-if-absent below the table (snapshots, schemas, tags) runs inside the catalog's lock, and the catalog
is notified of each new file, so that it can follow a changed schema. All other calls pass through. The guard
is part of the table's FileIO in every process and branch.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from tablestore.io.fileio import FileIO
from tablestore.io.syncing import Sync


class CatalogGuard(Protocol):
    """A catalog's lock and notification for new files of one table. Picklable."""

    def hold(self, path: str) -> AbstractContextManager[None]: ...

    def created(self, io: FileIO, path: str, data: bytes) -> None: ...


class GuardedFileIO:
    """`inner` with a guard around `write_new` below `root`."""

    def __init__(self, inner: FileIO, root: str, guard: CatalogGuard) -> None:
        self._inner, self._root, self._guard = inner, root, guard

    def write_new(self, path: str, data: bytes, *, after: Sync | None = None) -> bool:
        """Put if absent, under the lock; the new file is removed again if the catalog refuses it.

        The files of `after` are synced before the lock is taken, so that others do not wait for that.
        """
        if not path.startswith(self._root + "/"):
            return self._inner.write_new(path, data, after=after)
        if after is not None and after.paths:
            self._inner.sync(after)
            after = Sync(after.root)
        with self._guard.hold(path):
            created = self._inner.write_new(path, data, after=after)
        if created:
            self._guard.created(self._inner, path, data)
        return created

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("_"):
            raise AttributeError(verb)
        return getattr(self._inner, verb)

    def __reduce__(self) -> Any:
        return GuardedFileIO, (self._inner, self._root, self._guard)

    def __repr__(self) -> str:
        return f"GuardedFileIO({self._inner!r}, {self._root!r})"
