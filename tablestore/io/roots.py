"""Roots: the places that texts of others may name: directories of this machine, places in object stores.

A path is judged by where it leads: `file:` forms, `..` and symbolic links are resolved first, those of the
roots, too. Callers open the resolved path, below which `ConfinedFileIO` follows no link, so that one made
meanwhile leads nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from tablestore.core.errors import OutsideRoots
from tablestore.io.confined import named_roots
from tablestore.io.paths import is_object_location, location


@dataclass(frozen=True, slots=True)
class Roots:
    """Places with their links resolved; without any, no path is inside."""

    places: tuple[str, ...]

    @classmethod
    def of(cls, roots: Iterable[str | os.PathLike[str]]) -> Roots:
        """The roots that a list of directories and addresses names. Raises InvalidRequest for another
        value."""
        return cls(tuple(dict.fromkeys(map(_resolved, named_roots(roots)))))

    def inside(self, path: str, what: str) -> str:
        """The path with its links resolved; raises OutsideRoots, naming `what` it is, for one that leads
        elsewhere, whether there is something or not."""
        resolved = _resolved(location(path))
        if self.base_of(resolved) is None:
            raise self.refusal(f"{what} names {path!r}")
        return resolved

    def base_of(self, resolved: str) -> str | None:
        """The root that a resolved path is in, None for none."""
        return next((root for root in self.places if _is_in(resolved, root)), None)

    def refusal(self, what: str) -> OutsideRoots:
        """The error for what reaches further than these roots."""
        named = f"its roots are {', '.join(self.places)}" if self.places else "it has no roots"
        return OutsideRoots(
            f"{what}, and this session is confined: {named}; who opens it names more, "
            "sql_session(lake, roots=[…]) or --roots"
        )


def _resolved(path: str) -> str:
    return path if is_object_location(path) else os.path.realpath(path)


def _is_in(path: str, root: str) -> bool:
    if is_object_location(path):  # s3:// and s3a:// name the same
        path, root = path.partition("://")[2], root.partition("://")[2] or "\0"
    return path == root or path.startswith(root.rstrip("/") + "/")
