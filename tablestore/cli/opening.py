"""Paths of tables and warehouses as the command line has them."""

from __future__ import annotations

import os
from pathlib import Path


class NotOpened(Exception):
    """One line: what is wrong, and what to do."""


def location_of(path: str) -> str:
    """The whole path of a directory that is there and can be read; the address of a store as it is."""
    if "://" in path:
        return path
    whole = Path(path).expanduser().absolute()
    if not whole.exists():
        raise NotOpened(f"there is nothing at {whole}")
    if not whole.is_dir():
        raise NotOpened(f"{whole} is a file; a table is a directory with `schema` and `snapshot` in it")
    if not may_read(whole):
        raise NotOpened(f"no permission to read {whole}")
    return os.fspath(whole)


def may_read(folder: Path) -> bool:
    """Whether this user may list and enter `folder`."""
    return os.access(folder, os.R_OK | os.X_OK)


def one_line(error: BaseException) -> str:
    """The text of an error on one line."""
    return " ".join(str(error).split())
