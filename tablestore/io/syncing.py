"""Sync: files that must survive a loss of power, and their fsyncs in parallel.

A file survives once its bytes and every folder that names it are synced: its own folder, and the parents,
which may be new as well. One fsync waits for the disk (4 ms on a plain one); sixteen in parallel take no
longer (28 ms one after another), since the file system's journal writes them together. A clean file costs
some 0.1 ms.
"""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

_AT_ONCE = 8  # more gain nothing where files are clean, and cost their start
_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # errors of file systems whose folders need no sync


@dataclass(frozen=True, slots=True)
class Sync:
    """Files (or folders) to sync, with their parent folders up to and with `root`."""

    root: str
    paths: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders to sync, each once; of a path outside `root` all its parents."""
        parents: dict[str, None] = {}
        for path in self.paths:
            folder = os.path.dirname(path)
            while folder and folder not in parents:
                parents[folder] = None
                if folder in (self.root, "/"):
                    break
                folder = os.path.dirname(folder)
        return tuple(parents)


def sync(what: Sync) -> list[str]:
    """The paths that do not exist; returns when all others are on the disk. Raises OSError."""
    paths = dict.fromkeys(what.paths)
    folders = [f for f in what.folders if f not in paths]
    with ThreadPoolExecutor(max(1, min(_AT_ONCE, len(paths) + len(folders)))) as pool:
        named = pool.map(_sync_folder, folders)
        there = list(pool.map(_sync_file, paths))
        list(named)
    return [path for path, exists in zip(paths, there, strict=True) if not exists]


def _sync_file(path: str) -> bool:
    """Sync one file; whether it exists."""
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
    """Sync the names in a folder. One that this process may not read is skipped: it made no file there."""
    try:
        _sync_file(path)
    except PermissionError:
        return
    except OSError as e:
        if e.errno not in _NO_FOLDERS:
            raise
