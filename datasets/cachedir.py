"""Where generated data is kept between runs: `$TABLESTORE_CACHE`, else the user's cache directory."""

import os
from pathlib import Path


def cache_root() -> Path:
    """The cache directory (not created here). Everything in it can be made again."""
    if own := os.environ.get("TABLESTORE_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tablestore-workbench"
