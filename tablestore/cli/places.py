"""Where the commands keep what they remember, and sizes in words. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


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
