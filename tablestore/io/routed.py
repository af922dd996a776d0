"""The FileIO that a location needs: the local one, an object store, or one that routes between both.

A table's metadata and data usually share a store, but a checkpoint, a change directory or an external data
path may lie elsewhere, so options of an object store give a FileIO that chooses the store by each path's
scheme. An object store answers each request after its latency, so several reads are on their way at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, TypeVar

from tablestore.core.env import SYSTEM, Env
from tablestore.io.confined import roots_of
from tablestore.io.fileio import FileIO, LocalFileIO, Sync
from tablestore.io.object_store import ObjectStoreFileIO
from tablestore.io.paths import is_object_location
from tablestore.io.requests import Requests
from tablestore.io.s3_options import PACKED, S3Options, is_s3_key, pack

AT_ONCE = 16
T = TypeVar("T")


def file_io_for(path: str, options: Mapping[str, Any] | None = None, env: Env = SYSTEM) -> FileIO:
    """The FileIO of a location and of every store that the options reach."""
    named = options or {}
    if not is_object_location(path) and not any(is_s3_key(key) for key in named):
        return LocalFileIO(env)
    return RoutedFileIO(LocalFileIO(env), ObjectStoreFileIO(S3Options.parse(named), env))


def reach_of(io: FileIO) -> dict[str, str]:
    """The options with which another process reaches a FileIO's store, and the roots of its table."""
    roots = {"roots": ",".join(roots_of(io))} if roots_of(io) else {}
    return roots | io.reach() if hasattr(io, "reach") else roots


class RoutedFileIO:
    """A FileIO that passes each call to the store of its path. Safe to share; picklable."""

    def __init__(self, local: FileIO, objects: ObjectStoreFileIO) -> None:
        self._local, self._objects = local, objects

    def with_guard(self) -> RoutedFileIO:
        """The same for callers that lock around every `write_new`."""
        return RoutedFileIO(self._local, self._objects.with_guard())

    def requests(self) -> Requests:
        """What this process asked of the object store so far."""
        return self._objects.requests()

    def reach(self) -> dict[str, str]:
        """The option that makes `file_io_for` give the same in another process; secrets in it are packed."""
        return {PACKED: pack(asdict(self._objects.options)).decode()}

    def write_new(self, path: str, data: bytes, *, after: Sync | None = None) -> bool:
        """Put if absent, after the local files that `after` names."""
        return self._at(path).write_new(path, data, after=self._after(path, after))

    def replace(self, path: str, data: bytes, *, after: Sync | None = None) -> None:
        """Set the content of a file, after the local files that `after` names."""
        self._at(path).replace(path, data, after=self._after(path, after))

    def sync(self, what: Sync) -> list[str]:
        """Sync the files that are local; objects are kept once they are written."""
        local = _local(what)
        return self._local.sync(local) if local.paths else []

    def _after(self, path: str, after: Sync | None) -> Sync | None:
        """`after` for the store of `path`; the local files of an object's `after` are synced here."""
        if after is None or not is_object_location(path):
            return after and _local(after)
        self.sync(after)
        return None

    def _at(self, path: str) -> Any:
        return self._objects if is_object_location(path) else self._local

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("_"):
            raise AttributeError(verb)

        def routed(path: str, *rest: Any, **named: Any) -> Any:
            return getattr(self._at(path), verb)(path, *rest, **named)

        return routed

    def __reduce__(self) -> Any:
        return RoutedFileIO, (self._local, self._objects)

    def __repr__(self) -> str:
        return f"RoutedFileIO({self._objects!r})"


def _local(what: Sync) -> Sync:
    """The local files of `what`; with all their parent folders if the table is in an object store."""
    root = "/" if is_object_location(what.root) else what.root
    return Sync(root, tuple(p for p in what.paths if not is_object_location(p)))


def read_together(read: Callable[[str], T], paths: Sequence[str]) -> list[T]:
    """`read` of each path, in their order: of objects up to 16 at once, of files one after another. Raises
    what the first `read` that fails raises."""
    if len(paths) < 2 or not is_object_location(paths[0]):
        return [read(path) for path in paths]
    with ThreadPoolExecutor(min(AT_ONCE, len(paths))) as pool:
        return list(pool.map(read, paths))
