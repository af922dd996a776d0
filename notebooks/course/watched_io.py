"""A FileIO that reports every operation: what it does, to which file, and what the file is for.

The engine reaches storage through `FileIO` only, so whoever holds this door can stop a commit at any step
(two_writers) or end the process there (crash). Invariants: `before` is called before anything happens and
may raise; `after` once it has happened. Each append to an output file is an operation of its own. Safe to
share between threads as far as `before` and `after` are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablestore.io.fileio import FileIO, FileStatus, LocalFileIO, Sync

READ, DATA, MANIFEST, PUBLISH, HINT, CLEAN = "read", "data", "manifest", "publish", "hint", "clean"
KINDS = (READ, DATA, MANIFEST, PUBLISH, HINT, CLEAN)
_WRITES = {"create", "append", "write", "put", "replace"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One call to storage."""

    verb: str
    path: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def writes(self) -> bool:
        """Whether it makes or changes a file."""
        return self.verb in _WRITES

    @property
    def kind(self) -> str:
        """What it is for in a commit: read, data, manifest (any metadata), publish, hint, clean."""
        if self.verb in ("delete", "rmdir"):
            return CLEAN
        if not self.writes:
            return READ
        if self.name in ("LATEST", "EARLIEST"):
            return HINT
        if re.fullmatch(r"snapshot-\d+", self.name):
            return PUBLISH
        return DATA if "/bucket-" in self.path else MANIFEST

    @property
    def snapshot(self) -> int | None:
        """The number in the name of a snapshot file."""
        name = re.fullmatch(r"snapshot-(\d+)", self.name)
        return int(name.group(1)) if name else None


def _nothing(*_: Any) -> None:
    pass


class WatchedIO:
    """Local files; calls `before(operation)` and `after(operation, result)` around each operation."""

    def __init__(
        self,
        before: Callable[[Operation], None] = _nothing,
        after: Callable[[Operation, Any], None] = _nothing,
        inner: FileIO | None = None,
    ) -> None:
        self._inner, self._before, self._after = inner or LocalFileIO(), before, after

    def do(self, verb: str, path: str, action: Callable[[], Any]) -> Any:
        """Report, act, report."""
        operation = Operation(verb, path)
        self._before(operation)
        result = action()
        self._after(operation, result)
        return result

    def read(self, path: str) -> bytes:
        return self.do("read", path, lambda: self._inner.read(path))

    def open_input(self, path: str) -> pa.NativeFile:
        return self.do("open", path, lambda: self._inner.open_input(path))

    def open_output(self, path: str) -> Any:
        return _Output(self, self.do("create", path, lambda: self._inner.open_output(path)), path)

    def write(self, path: str, data: bytes) -> None:
        self.do("write", path, lambda: self._inner.write(path, data))

    def write_new(self, path: str, data: bytes, *, after: Sync | None = None) -> bool:
        return self.do("put", path, lambda: self._inner.write_new(path, data, after=after))

    def replace(self, path: str, data: bytes, *, after: Sync | None = None) -> None:
        self.do("replace", path, lambda: self._inner.replace(path, data, after=after))

    def sync(self, what: Sync) -> list[str]:
        return self.do("sync", what.root, lambda: self._inner.sync(what))

    def delete(self, path: str, *, below: str | None = None) -> None:
        self.do("delete", path, lambda: self._inner.delete(path, below=below))

    def delete_tree(self, path: str) -> None:
        self.do("delete", path, lambda: self._inner.delete_tree(path))

    def delete_empty(self, path: str) -> bool:
        return self.do("rmdir", path, lambda: self._inner.delete_empty(path))

    def list(self, path: str, *, hidden: bool = False) -> list[FileStatus]:
        return self.do("list", path, lambda: self._inner.list(path, hidden=hidden))

    def exists(self, path: str) -> bool:
        return self.do("exists", path, lambda: self._inner.exists(path))

    def is_dir(self, path: str) -> bool:
        return self.do("is_dir", path, lambda: self._inner.is_dir(path))

    def size(self, path: str) -> int:
        return self.do("size", path, lambda: self._inner.size(path))

    def make_dir(self, path: str) -> None:
        self.do("mkdir", path, lambda: self._inner.make_dir(path))

    def move(self, path: str, target: str) -> None:
        self.do("move", path, lambda: self._inner.move(path, target))


class _Output:
    """An output stream each of whose writes is an operation; Arrow takes it as a Python file object."""

    def __init__(self, io: WatchedIO, inner: pa.NativeFile, path: str) -> None:
        self._io, self._inner, self._path = io, inner, path
        self.closed = False

    def write(self, data: Any) -> int:
        return self._io.do("append", self._path, lambda: self._inner.write(data))

    def flush(self) -> None:
        self._inner.flush()

    def tell(self) -> int:
        return self._inner.tell()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._inner.close()
