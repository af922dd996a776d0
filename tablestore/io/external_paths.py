"""Data files outside the table's directory: `data-file.external-paths` (FORMAT.md 1.3).

New files go in turn under the roots that the option names, in the same `<partition>/bucket-<n>` tail as in
the table; the manifest stores the whole path. Whoever wrote the table may have set the option, so files are
written to and read from only those roots that the caller named, too (`roots=[…]`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlparse

from tablestore.core.errors import Corrupt, InvalidOption, InvalidRequest, Unsupported
from tablestore.core.options.table_options import TableOptions
from tablestore.io.paths import inside, join

OPTION = "data-file.external-paths"
_STRATEGIES = ("none", "round-robin", "specific-fs", "weight-robin")


@dataclass(frozen=True)
class ExternalPaths:
    """Roots that new files go to in turn, each as often as it is listed; empty: they stay inside the
    table."""

    roots: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: TableOptions) -> ExternalPaths:
        """The roots that the options choose; raises InvalidOption for ones that cannot be used."""
        strategy = options.external_strategy
        if not options.external_paths or strategy == "none":
            return cls()
        if strategy not in _STRATEGIES:
            raise Unsupported(f"{OPTION}.strategy = {strategy}", f"known: {', '.join(_STRATEGIES)}")
        roots = roots_of(options.external_paths)
        for root in roots:
            if not urlparse(root).scheme:
                raise InvalidOption(
                    f"option {OPTION!r} names {root!r}; write it with a scheme: 'file:{root}'"
                )
        if strategy == "specific-fs":
            wanted = options.external_specific_fs
            roots = tuple(r for r in roots if urlparse(r).scheme == wanted)
            if not roots:
                raise InvalidOption(f"option {OPTION!r} names no root of '{OPTION}.specific-fs' = {wanted!r}")
        if strategy == "weight-robin" and len(roots) > 1:
            roots = _weighted(roots, options.external_weights)
        return cls(roots)

    def require(self, allowed: Iterable[str]) -> None:
        """Raise InvalidRequest unless each root lies in one of the places that the caller named."""
        places = _normals(allowed)
        for root in dict.fromkeys(self.roots):
            if not any(_below(_normal(root), place) for place in places):
                raise InvalidRequest(f"the table keeps its data files outside its directory: {_remedy(root)}")

    def place(self, number: int, tail: str, name: str) -> str:
        """The whole path of the new file `name` of the bucket `tail`; `number` chooses the root."""
        return join(_normal(self.roots[number % len(self.roots)]), tail, inside(name))

    @cached_property
    def used(self) -> bool:
        """Whether files go outside the table."""
        return bool(self.roots)


def _weighted(roots: tuple[str, ...], weights: tuple[str, ...]) -> tuple[str, ...]:
    """Each root as often as its weight says."""
    if len(weights) != len(roots) or not all(w.isdigit() and 0 < int(w) <= 1000 for w in weights):
        raise InvalidOption(f"option '{OPTION}.weights' must be one whole number from 1 to 1000 a root")
    return tuple(root for root, weight in zip(roots, weights, strict=True) for _ in range(int(weight)))


def roots_of(text: str) -> tuple[str, ...]:
    """The roots that the option lists."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def checked(path: str, name: str, *, allowed: Iterable[str], option: str | None) -> str:
    """Where the file of a manifest's external path is: `name` below a place of `allowed`.

    Raises InvalidRequest where the caller named no such place but the table's `option` does, else Corrupt.
    """
    normal = _normal(path)
    parts = normal.split("/")
    if {".", ".."}.intersection(parts) or parts[-1] != inside(name):
        raise Corrupt(path, f"the external path of {name} points outside the table")
    if not any(_below(normal, place) for place in _normals(allowed)):
        for root in roots_of(option or ""):
            if _below(normal, _normal(root)):
                raise InvalidRequest(f"{name} lies outside the table's directory: {_remedy(root)}")
        remedy = _remedy(normal.rpartition("/")[0])
        raise Corrupt(path, f"the external path of {name} points outside the table: {remedy}")
    return local(normal)


def _remedy(root: str) -> str:
    place = local(_normal(root))
    ways = f"in tablestore.open or connect, --roots {place} for tablestore open"
    return f"if you trust {place}, name it: roots=[{place!r}] {ways}"


def _normals(places: Iterable[str]) -> list[str]:
    return [_normal(place) for place in places]


def _below(normal: str, root: str) -> bool:
    return normal.startswith(f"{root.rstrip('/')}/") or normal == root


def local(path: str) -> str:
    """The path in the form that the store takes: without a scheme for local files."""
    return path.removeprefix("file:")


def _normal(path: str) -> str:
    """One spelling for `file:/x`, `file:///x` and `/x`, as Paimon writes it."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return "file:" + _squeezed(path)
    if scheme == "file":
        return "file:" + _squeezed(rest)
    host, _, tail = rest.lstrip("/").partition("/")
    return f"{scheme}://{host}{_squeezed('/' + tail)}" if tail else f"{scheme}://{host}"


def _squeezed(path: str) -> str:
    return "/" + "/".join(p for p in path.split("/") if p)
