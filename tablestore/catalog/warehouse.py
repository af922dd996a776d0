"""Whether a warehouse is there: a mistyped path is no empty lake."""

from __future__ import annotations

from difflib import get_close_matches

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.io.fileio import FileIO
from tablestore.io.paths import is_object_location


def require_warehouse(warehouse: str, io: FileIO, remedy: str) -> None:
    """Raise NotFound, naming the most similar directory beside it and the `remedy`, for a warehouse without a
    directory. Object stores have none: there each prefix is a warehouse."""
    if is_object_location(warehouse) or io.is_dir(warehouse):
        return
    parent, _, name = warehouse.rstrip("/").rpartition("/")
    try:
        near = get_close_matches(name, [s.name for s in io.list(parent or "/") if s.is_dir], n=1)
    except (OSError, TablestoreError):  # the directory above is missing, too, or nobody may list it
        near = []
    meant = f"; did you mean {parent}/{near[0]}?" if near else ";"
    raise NotFound(f"there is no lake {warehouse}{meant} {remedy}")
