"""`clean`: removes what the other verbs made here, asks nothing, says what went; warehouses stay."""

# Standard library only: it runs on the system's Python, because `.venv` is what it removes.

from __future__ import annotations

import os
import shutil
from pathlib import Path

from notebooks.cli.places import CHECKOUT, ROOT
from tablestore.cli.door import command_parser
from tablestore.cli.places import cache_folder, human, size_bytes

CACHES = (
    ".pytest_cache",
    ".ruff_cache",
    ".mypy_cache",
    ".hypothesis",
    "notebooks/_executed",
    "notebooks/.ipynb_checkpoints",
    "build",
    "dist",
    "tablestore_workbench.egg-info",
)
SOURCES = ("notebooks", "tablestore", "widgets", "datasets", "tests")


def main(arguments: list[str]) -> int:
    parser = command_parser("clean", __doc__ or "", CHECKOUT)
    parser.add_argument("--data", action="store_true", help="also the generated data sets in the user cache")
    options = parser.parse_args(arguments)
    removed = [path for path in targets(ROOT, data=options.data) if remove(path)]
    if not removed:
        print("nothing to remove")
    elif ROOT / ".venv" in removed:
        print("pip keeps downloads in a cache of its own: `pip cache purge` empties it")
    return 0


def targets(root: Path, *, data: bool) -> list[Path]:
    """What `clean` would remove, present or not."""
    paths = [root / ".venv", *(root / name for name in CACHES)]
    for source in SOURCES:
        for folder, names, _ in os.walk(root / source):
            if "__pycache__" in names:
                paths.append(Path(folder) / "__pycache__")
    return [*paths, cache_folder()] if data else paths


def remove(path: Path) -> bool:
    """Whether there was something; a symbolic link goes, what it points to stays."""
    if path.is_symlink():
        path.unlink()
        print(f"removed the link {path}")
        return True
    if not path.exists():
        return False
    size = size_bytes(path)
    shutil.rmtree(path)
    if path.name != "__pycache__":
        print(f"removed {path} ({human(size)})")
    return True
