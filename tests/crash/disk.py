"""A disk that can lose power: a FileIO in memory whose every change is logged, and what a crash leaves of it.

Three models, each harsher in its way, and each with the bytes of files that were not synced lost: they are
empty, cut short, zeros or whole.

- `ordered`: ext4 as it is mounted everywhere. Names change in order and are all there.
- `prefix`: names since the last sync of any folder may be lost, the later ones first.
- `folders`: POSIX to the letter. Of each folder the names since its own last sync may be lost.

A sync of a file puts its bytes on the disk and no name. `DiskIO` does what `LocalFileIO` does, call by call
(`test_power` holds one against the other).
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablestore.io.fileio import FileStatus, Sync

MODELS = ("ordered", "prefix", "folders")


@dataclass(eq=False)
class File:
    """What a name leads to; links share it."""

    data: bytes = b""
    made: int = 0


@dataclass(frozen=True)
class DiskChange:
    """One entry of the log: data, sync of `file`; link, unlink, rename, mkdir, rmdir, syncdir of `path`."""

    what: str
    path: str
    file: File | None = None
    data: bytes = b""
    target: str = ""


def parent(path: str) -> str:
    """The folder a path is in."""
    return path.rpartition("/")[0]


@dataclass
class DiskNames:
    """Files and folders by path."""

    files: dict[str, File] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def apply(self, change: DiskChange) -> None:
        """Do what a change of names says; what does not fit any more is passed over."""
        if change.what == "link" and change.file is not None:
            self.files[change.path] = change.file
        elif change.what == "unlink":
            self.files.pop(change.path, None)
        elif change.what == "rename" and change.path in self.files:
            self.files[change.target] = self.files.pop(change.path)
        elif change.what == "mkdir":
            self.folders.add(change.path)
        elif change.what == "rmdir":
            self.folders.discard(change.path)


NAMING = ("link", "unlink", "rename", "mkdir", "rmdir")


class DiskIO:
    """Files in memory, as an engine's FileIO. `log` holds what was done since `start`, what lay there first.

    `lying`: of paths that it matches, syncs do nothing, as those of a drive that only says that it wrote.
    """

    def __init__(self, start: dict[str, bytes] | None = None, *, lying: str = "", seed: int = 0) -> None:
        self._lying, self.log = re.compile(lying or "(?!)"), list[DiskChange]()
        self._rng = random.Random(seed)
        self.names, self._clock = DiskNames(), 0
        for path, data in (start or {}).items():
            self._folders(parent(path))
            self.names.files[path] = File(data)
        self.log.clear()
        self.start = DiskNames(dict(self.names.files), set(self.names.folders))

    def _do(self, what: str, path: str, **more: Any) -> None:
        change = DiskChange(what, path, **more)
        self.log.append(change)
        self.names.apply(change)

    def _folders(self, folder: str) -> None:
        missing = []
        while folder and folder not in self.names.folders:
            missing.append(folder)
            folder = parent(folder)
        for missed in reversed(missing):
            self._do("mkdir", missed)

    def _make(self, path: str, data: bytes) -> File:
        self._folders(parent(path))
        self._clock += 1
        file = File(made=self._clock)
        self._do("link", path, file=file)
        self._fill(path, file, data)
        return file

    def _fill(self, path: str, file: File, data: bytes) -> None:
        file.data = data
        self.log.append(DiskChange("data", path, file, data))

    def _file(self, path: str) -> File:
        if path not in self.names.files:
            raise FileNotFoundError(path)
        return self.names.files[path]

    def read(self, path: str) -> bytes:
        return self._file(path).data

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._file(path).data)

    def open_output(self, path: str) -> Any:
        return _DiskOutput(self, path, self._make(path, b""))

    def write(self, path: str, data: bytes) -> None:
        self._make(path, data)

    def write_new(self, path: str, data: bytes, *, after: Sync | None = None) -> bool:
        temp, there = self._temp(path, data, after), path in self.names.files
        if not there:
            self._do("link", path, file=self.names.files[temp])
        self._do("unlink", temp)
        if after is not None and not there:
            self.sync(Sync(parent(path), (path,)))
        return not there

    def replace(self, path: str, data: bytes, *, after: Sync | None = None) -> None:
        self._do("rename", self._temp(path, data, after), target=path)
        if after is not None:
            self.sync(Sync(parent(path), (path,)))

    def _temp(self, path: str, data: bytes, after: Sync | None) -> str:
        temp = f"{parent(path)}/.{path.rpartition('/')[2]}.{self._clock}.tmp"
        self._make(temp, data)
        if after is not None:
            self.sync(Sync(after.root, (*after.paths, temp)))
        return temp

    def sync(self, what: Sync) -> list[str]:
        missing = [p for p in what.paths if p not in self.names.files and p not in self.names.folders]
        folders = [f.rstrip("/") for f in what.folders]
        steps = [p for p in dict.fromkeys((*what.paths, *folders)) if p not in missing]
        self._rng.shuffle(steps)  # they go side by side
        for path in steps:
            if self._lying.search(path):
                continue
            if path in self.names.files:
                self.log.append(DiskChange("sync", path, self.names.files[path], self.names.files[path].data))
            else:
                self.log.append(DiskChange("syncdir", path))
        return missing

    def delete(self, path: str, *, below: str | None = None) -> None:
        if path in self.names.files:
            self._do("unlink", path)

    def delete_tree(self, path: str) -> None:
        for file in [p for p in self.names.files if p.startswith(path + "/")]:
            self._do("unlink", file)
        for file in sorted(
            (f for f in self.names.folders if f == path or f.startswith(path + "/")), reverse=True
        ):
            self._do("rmdir", file)

    def delete_empty(self, path: str) -> bool:
        if path not in self.names.folders or self.list(path, hidden=True):
            return False
        self._do("rmdir", path)
        return True

    def list(self, path: str, *, hidden: bool = False) -> list[FileStatus]:
        actual = {
            p.rpartition("/")[2]: FileStatus(p.rpartition("/")[2], len(f.data), f.made)
            for p, f in self.names.files.items()
            if parent(p) == path
        }
        for folder in self.names.folders:
            if parent(folder) == path:
                name = folder.rpartition("/")[2]
                actual[name] = FileStatus(name, 0, 0, True)
        return [actual[name] for name in sorted(actual) if hidden or not name.startswith(".")]

    def exists(self, path: str) -> bool:
        return path in self.names.files or path in self.names.folders

    def is_dir(self, path: str) -> bool:
        return path in self.names.folders

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def make_dir(self, path: str) -> None:
        self._folders(path)

    def move(self, path: str, target: str) -> None:
        moved = [p for p in self.names.files if p == path or p.startswith(path + "/")]
        folders = sorted(f for f in self.names.folders if f == path or f.startswith(path + "/"))
        for old in moved:  # one by one, where a file system does it at once
            new = target + old.removeprefix(path)
            self._folders(parent(new))
            self._do("rename", old, target=new)
        for folder in reversed(folders):
            self._do("rmdir", folder)


class _DiskOutput(io.BytesIO):
    """A file that is written; its bytes are in the log when it is closed."""

    def __init__(self, disk: DiskIO, path: str, file: File) -> None:
        super().__init__()
        self._disk, self._path, self._file = disk, path, file

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self._disk._fill(self._path, self._file, self.getvalue())
            super().close()


def after_crash(disk: DiskIO, at: int, model: str, rng: random.Random) -> dict[str, bytes]:
    """What lies on the disk when the power went after `at` entries of its log: bytes by path."""
    done = disk.log[:at]
    names = DiskNames(dict(disk.start.files), set(disk.start.folders))
    for change in _kept_names(done, model, rng):
        names.apply(change)
    contents, synced = dict[File, bytes](), dict[File, bytes]()
    for change in done:
        if change.file is not None and change.what == "data":
            contents[change.file] = change.data
        elif change.file is not None and change.what == "sync":
            synced[change.file] = change.data
    collected = {}
    for path, file in names.files.items():
        if not _named(parent(path), names.folders):
            continue
        if file not in contents or synced.get(file) == contents[file]:
            collected[path] = contents.get(file, file.data)
        else:
            collected[path] = _lost(contents[file], rng)
    return collected


def _named(folder: str, folders: set[str]) -> bool:
    """Whether a folder and all above it have their names."""
    while folder:
        if folder not in folders:
            return False
        folder = parent(folder)
    return True


def _kept_names(done: list[DiskChange], model: str, rng: random.Random) -> Iterator[DiskChange]:
    """The changes of names that outlast the crash."""
    if model == "ordered":
        yield from (c for c in done if c.what in NAMING)
        return
    last: dict[str, int] = {}  # folder: entry of its last sync
    for i, change in enumerate(done):
        if change.what == "syncdir":
            last[change.path] = i
    places = {parent(c.path) for c in done if c.what in NAMING} if model == "folders" else {"*"}
    end = {}
    for place in places:
        kept = last.get(place, -1) if model == "folders" else max(last.values(), default=-1)
        mine = [
            i for i, c in enumerate(done) if c.what in NAMING and (place == "*" or parent(c.path) == place)
        ]
        open_ = [i for i in mine if i > kept]
        end[place] = rng.choice([kept, *open_]) if rng.random() < 0.7 else kept
    for i, change in enumerate(done):
        if change.what in NAMING and i <= end["*" if model == "prefix" else parent(change.path)]:
            yield change


def _lost(data: bytes, rng: random.Random) -> bytes:
    """What may lie where bytes were not synced."""
    kind = rng.choice(("empty", "empty", "cut", "zeros", "hole", "whole"))
    if kind == "empty" or not data:
        return b""
    if kind == "whole":
        return data
    if kind == "zeros":
        return bytes(len(data))
    cut = rng.randrange(len(data))
    return data[:cut] + (bytes(len(data) - cut) if kind == "hole" else b"")
