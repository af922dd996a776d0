"""What must outlast a loss of power, and fsyncs side by side.

A file is kept once its bytes are synced and every folder that names it is: its own, and those above it, which
may be as new. One fsync waits for the disk (4 ms on a plain one); sixteen files side by side wait no longer
(one after another 28), since the file system's journal takes them together. A clean file costs some 0.1 ms.
"""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

_AT_ONCE = 8  # more gain nothing where files are clean, and cost their start
_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # what says a store whose folders need no sync


@dataclass(frozen=True, slots=True)
class Sync:
    """Files (or folders) that are to be on the disk, with the folders that name them, `root` the last."""

    root: str
    paths: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that name them, each once; all there are above what lies outside `root`."""
        found: dict[str, None] = {}
        for path in self.paths:
            folder = os.path.dirname(path)
            while folder and folder not in found:
                found[folder] = None
                if folder in (self.root, "/"):
                    break
                folder = os.path.dirname(folder)
        return tuple(found)


def sync(what: Sync) -> list[str]:
    """Return when all of it is on the disk; which of the paths are not there. Raises OSError."""
    paths = dict.fromkeys(what.paths)
    folders = [f for f in what.folders if f not in paths]
    with ThreadPoolExecutor(max(1, min(_AT_ONCE, len(paths) + len(folders)))) as pool:
        named = pool.map(_sync_folder, folders)
        there = list(pool.map(_sync_file, paths))
        list(named)
    return [path for path, found in zip(paths, there, strict=True) if not found]


def _sync_file(path: str) -> bool:
    """Whether it is there."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return True


def _sync_folder(path: str) -> None:
    """Put the names in a folder on the disk. One that may not be read is none of ours to have named a file
    in."""
    try:
        _sync_file(path)
    except PermissionError:
        return
    except OSError as e:
        if e.errno not in _NO_FOLDERS:
            raise
