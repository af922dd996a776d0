"""ConfinedFileIO: the FileIO of one table, which reaches only the table's directory and roots that the caller
named; GuardedFileIO, that of a table whose catalog has locks or a registry; and Roots, the places that texts
of others may name.

A table's metadata (options in its schemas, names in snapshots and manifests, external paths) may have been
written by anyone, so no path made of them leaves the table's directory or a root that the *caller* named. The
directory itself, a root and their parents may be symbolic links; below them a link is refused, and so is
everything but plain files and directories. Directories are checked once for reads and writes, again for each
listing; local deletes use directory descriptors, so that a link created meanwhile is not followed. A read may
still follow a link that somebody with write access creates between the check and the open.

For `Roots` a path is judged by where it leads: `file:` forms, `..` and symbolic links are resolved first,
those of the roots, too. Callers open the resolved path, below which `ConfinedFileIO` follows no link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tablestore.core.errors import Corrupt, InvalidRequest, OutsideRoots
from tablestore.io.fileio import FileIO, FileStatus, LocalFileIO, Sync, open_below, trouble
from tablestore.io.paths import is_object_location, location

_MAX_DIRECTORIES = 50_000
_LINK = (
    "a symbolic link below the table's directory, which is not followed; put what it points to in its place"
)
_NO_NAMES = frozenset(("", ".", ".."))


class CatalogGuard(Protocol):
    """A catalog's lock and notification for new files of one table. Picklable."""

    def hold(self, path: str) -> AbstractContextManager[None]: ...

    def created(self, io: FileIO, path: str, data: bytes) -> None: ...


class GuardedFileIO:
    """`inner` with a guard around `write_new` below `root`.

    Every put-if-absent below the table (snapshots, schemas, tags) runs inside the catalog's lock, and the
    catalog is notified of each new file, so that it can follow a changed schema. The guard is part of the
    table's FileIO in every process and branch.
    """

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


class ConfinedFileIO:
    """`inner`, below `root` and `roots` only. Safe to share between threads; picklable, roots included."""

    def __init__(self, inner: FileIO, root: str, roots: Iterable[str] = ()) -> None:
        self.inner, self.root, self.roots = inner, root, tuple(roots)
        self._bases = tuple(base.rstrip("/") for base in (root, *self.roots))
        self._known: set[str] = set()  # directories that were looked at

    def checked(self, path: str, *, anew: bool = False, last: bool = True) -> str:
        """`path` itself; raises Corrupt unless it lies inside the allowed roots and no directory on it is a
        link. `anew`: check each directory again; `last`: check also the file that the path names."""
        folder, _, name = path.rpartition("/")
        is_checked = not anew and folder in self._known and name not in _NO_NAMES and path not in self._bases
        base = folder if is_checked else self.base_of(path)
        if is_object_location(path):
            return path
        try:
            if len(path) > len(base) and (anew or folder not in self._known):
                self._look(base, folder)
            if last and len(path) > len(base):
                _require_plain(path)
        except ValueError as e:  # no name of a file system: NUL, a lone surrogate
            raise Corrupt(repr(path), f"a path that no file can have: {e}") from None
        return path

    def base_of(self, path: str) -> str:
        """The allowed root that is a prefix of `path`; raises Corrupt where there is none."""
        for base in self._bases:
            if path == base or (path.startswith(base) and path[len(base)] == "/"):
                rest = path[len(base) + 1 :].split("/")
                if path == base or not _NO_NAMES.intersection(rest):
                    return base
                break
        raise Corrupt(path, "a path in the table's metadata points outside its directory")

    def _look(self, base: str, folder: str) -> None:
        """Raise Corrupt if a directory from `base` down to `folder` is a link or no directory."""
        at = base
        for part in folder[len(base) + 1 :].split("/") if len(folder) > len(base) else ():
            at = f"{at}/{part}"
            try:
                mode = os.lstat(at).st_mode
            except OSError:
                return  # the call that follows reports what is wrong
            if stat.S_ISLNK(mode):
                raise Corrupt(at, _LINK)
        if len(self._known) >= _MAX_DIRECTORIES:
            self._known.clear()
        self._known.add(folder)

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        return self.inner.read(self.checked(path))

    def open_input(self, path: str) -> Any:
        """A random-access Arrow file for reading."""
        return self.inner.open_input(self.checked(path))

    def open_output(self, path: str) -> Any:
        """A new file for writing."""
        return self.inner.open_output(self.checked(path))

    def write(self, path: str, data: bytes) -> None:
        """Write a whole new file under a fresh name."""
        self.inner.write(self.checked(path), data)

    def write_new(self, path: str, data: bytes, *, after: Sync | None = None) -> bool:
        """Put if absent."""
        return self.inner.write_new(self.checked(path), data, after=after)

    def replace(self, path: str, data: bytes, *, after: Sync | None = None) -> None:
        """Set the content of a file."""
        self.inner.replace(self.checked(path), data, after=after)

    def sync(self, what: Sync) -> list[str]:
        """Sync files to the disk, with folders that may lie above the table: nothing is read or changed."""
        return self.inner.sync(what)

    def delete(self, path: str, *, below: str | None = None) -> None:
        """Remove a file, or a link that lies in its place; absent is fine. `below`: the table's directory."""
        self.inner.delete(self.checked(path, last=False), below=below or self.base_of(path))

    def delete_tree(self, path: str) -> None:
        """Remove a directory with all it holds; a link in its place is removed, not followed."""
        self.inner.delete_tree(self.checked(path, anew=True, last=False))

    def delete_empty(self, path: str) -> bool:
        """Remove a directory that holds nothing."""
        return self.inner.delete_empty(self.checked(path, anew=True))

    def list(self, path: str, *, hidden: bool = False) -> list[FileStatus]:
        """Entries of a directory by name."""
        return self.inner.list(self.checked(path, anew=True), hidden=hidden)

    def exists(self, path: str) -> bool:
        """Whether a file of that name is there."""
        return self.inner.exists(self.checked(path))

    def is_dir(self, path: str) -> bool:
        """Whether a directory of that name is there."""
        return self.inner.is_dir(self.checked(path))

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self.inner.size(self.checked(path))

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents."""
        self.inner.make_dir(self.checked(path))

    def move(self, path: str, target: str) -> None:
        """Give a directory another name at once."""
        self.inner.move(self.checked(path, anew=True), self.checked(target, anew=True))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __reduce__(self) -> Any:
        return ConfinedFileIO, (self.inner, self.root, self.roots)

    def __repr__(self) -> str:
        return f"ConfinedFileIO({self.inner!r}, {self.root!r}, roots={list(self.roots)})"


def _require_plain(path: str) -> None:
    """Raise Corrupt for a link, and for a pipe, socket or device, on which a reader would block."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if stat.S_ISLNK(mode):
        raise Corrupt(path, _LINK)
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise Corrupt(path, "neither a file nor a directory")


def confined(io: FileIO, root: str, roots: Iterable[str] | None = None) -> ConfinedFileIO:
    """`io` confined to the table at `root` and to `roots` (None: those that `io` has already)."""
    if isinstance(io, ConfinedFileIO):
        roots, io = io.roots if roots is None else roots, io.inner
    return ConfinedFileIO(io, root, roots or ())


def is_local(io: FileIO) -> bool:
    """Whether `io` is the local file system itself, with no wrapper but the confinement."""
    return type(io.inner if isinstance(io, ConfinedFileIO) else io) is LocalFileIO


def roots_of(io: FileIO) -> tuple[str, ...]:
    """The roots outside the table that the caller named."""
    return io.roots if isinstance(io, ConfinedFileIO) else ()


def roots_in(text: str | None) -> tuple[str, ...] | None:
    """The roots of an option's text, `/data/a, /data/b`; None for none."""
    return named_roots(part.strip() for part in text.split(",") if part.strip()) if text else None


def named_roots(roots: Any) -> tuple[str, ...]:
    """The directories of `roots=[…]` as absolute paths, with the targets of those that are links; raises
    InvalidRequest for anything but a list of directories."""
    if isinstance(roots, str | bytes | os.PathLike) or not isinstance(roots, Iterable):
        raise InvalidRequest(f"roots is a list of directories outside the table, not {roots!r}")
    places: dict[str, None] = {}
    for root in roots:
        place = location(root)
        places[place] = None
        if not is_object_location(place):
            places[os.path.realpath(place)] = None
    return tuple(places)


@contextmanager
def deletes(io: ConfinedFileIO) -> Iterator[Callable[[str], None]]:
    """A function that does what `io.delete` does, with the same errors, for one file after another."""
    if not is_local(io):
        yield io.delete
        return
    opened: dict[str, int] = {}  # the directory of the last file

    def close() -> None:
        while opened:
            os.close(opened.popitem()[1])

    def delete(path: str) -> None:
        folder, _, name = path.rpartition("/")
        with trouble(path):
            try:
                if folder not in opened:
                    close()
                    io.checked(path, last=False)
                    opened[folder] = open_below(io.base_of(path), path)
                os.unlink(name, dir_fd=opened[folder])
            except FileNotFoundError:
                pass

    try:
        yield delete
    finally:
        close()


@dataclass(frozen=True, slots=True)
class Roots:
    """Places with their links resolved; without any, no path is inside."""

    places: tuple[str, ...]

    @classmethod
    def of(cls, roots: Iterable[str | os.PathLike[str]]) -> Roots:
        """The roots that a list of directories and addresses names. Raises InvalidRequest for another
        value."""
        return cls(tuple(dict.fromkeys(map(_resolved, named_roots(roots)))))

    def inside(self, path: str, what: str) -> str:
        """The path with its links resolved; raises OutsideRoots, naming `what` it is, for one that leads
        elsewhere, whether there is something or not."""
        resolved = _resolved(location(path))
        if self.base_of(resolved) is None:
            raise self.refusal(f"{what} names {path!r}")
        return resolved

    def base_of(self, resolved: str) -> str | None:
        """The root that a resolved path is in, None for none."""
        return next((root for root in self.places if _is_in(resolved, root)), None)

    def refusal(self, what: str) -> OutsideRoots:
        """The error for what reaches further than these roots."""
        named = f"its roots are {', '.join(self.places)}" if self.places else "it has no roots"
        return OutsideRoots(
            f"{what}, and this session is confined: {named}; who opens it names more, "
            "sql_session(lake, roots=[…]) or --roots"
        )


def _resolved(path: str) -> str:
    return path if is_object_location(path) else os.path.realpath(path)


def _is_in(path: str, root: str) -> bool:
    if is_object_location(path):  # s3:// and s3a:// name the same
        path, root = path.partition("://")[2], root.partition("://")[2] or "\0"
    return path == root or path.startswith(root.rstrip("/") + "/")
