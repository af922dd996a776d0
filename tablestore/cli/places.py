"""Paths: of tables and warehouses as the command line has them, and of what commands remember; sizes in
words.

Standard library only.
"""

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


def cache_folder() -> Path:
    """`$TABLESTORE_CACHE`, else a folder of the user's cache directory."""
    named = os.environ.get("TABLESTORE_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tablestore-workbench"


def size_bytes(path: Path) -> int:
    """Bytes of the files under `path`, links not followed; what vanishes meanwhile counts as nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return total


def human(count: float) -> str:
    """1234567 → '1.2 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
