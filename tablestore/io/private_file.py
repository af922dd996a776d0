"""A file with a secret: who may write a folder may read it, and nobody else.

In an object store whoever may read the bucket may read it.
"""

from __future__ import annotations

import os
import stat

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Unavailable
from tablestore.io.fileio import FileIO
from tablestore.io.paths import is_object_location


def write_private(io: FileIO, path: str, data: bytes, *, below: str, env: Env = SYSTEM) -> None:
    """Set the content of a file for those who may write the folder `below`, in which it lies. Directories on
    the way are made for the same; those that are there stay as they are. Never readable for others, not for
    a moment."""
    if is_object_location(path):
        io.replace(path, data)
        return
    try:
        info = os.stat(below)
        group, others = bool(info.st_mode & stat.S_IWGRP), bool(info.st_mode & stat.S_IWOTH)
        folder = os.path.dirname(path)
        _make_folders(below, folder, info, 0o700 | (0o050 if group else 0) | (0o005 if others else 0))
        temporary = os.path.join(folder, f".{env.uuid()}.tmp")
        at = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with open(at, "wb") as file:
                _hand_over(at, info, 0o600 | (0o040 if group else 0) | (0o004 if others else 0))
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as e:
        raise Unavailable(e.errno or 0, f"{path}: {e.strerror or e}") from e


def _make_folders(below: str, folder: str, info: os.stat_result, mode: int) -> None:
    at = below
    for part in os.path.relpath(folder, below).split("/"):
        at = os.path.join(at, part)
        try:
            os.mkdir(at, 0o700)
        except FileExistsError:
            continue
        handle = os.open(at, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _hand_over(handle, info, mode)
        finally:
            os.close(handle)


def _hand_over(at: int, info: os.stat_result, mode: int) -> None:
    """Give an open file the group of the folder and a mode; to its owner alone where that is not allowed."""
    try:
        if os.fstat(at).st_gid != info.st_gid:
            os.fchown(at, -1, info.st_gid)
    except PermissionError:
        mode &= ~0o077
    os.fchmod(at, mode)
