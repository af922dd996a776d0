"""What statements of a confined session may name: each option that says where something is passes here.

A session without roots may name what its process reaches. In one with roots a path is inside of them, with
links resolved, `${env:NAME}` is refused, for a statement could send what it holds elsewhere, and so are
catalogs whose server says where tables lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from tablestore.catalog.sql import Sqlite, server_of
from tablestore.core.options.environment import ENVIRONMENT
from tablestore.core.options.names import ALIAS_FAMILIES, PASSED_ON, TABLE_DEFAULTS, of_new_tables
from tablestore.io.confined import Roots
from tablestore.log.kafka.cluster import names_file

_PASSED_ON = (*PASSED_ON, *ALIAS_FAMILIES)  # what options of tables for other clients begin with


def written_inside(roots: Roots | None, key: str, written: str, *, place: bool) -> str:
    """The value of an option as a session with roots takes it: a path (`place`) is resolved. Raises
    OutsideRoots."""
    if roots is None:
        return written
    if ENVIRONMENT in written:
        raise roots.refusal(f"option {key!r} names an environment variable")
    return roots.inside(written, f"option {key!r}") if place else written


def require_inside(roots: Roots | None, options: Mapping[str, str | None]) -> None:
    """Raise OutsideRoots for an option of a table that reaches further; paths of data files have roots of
    their own, which the lake was opened with."""
    for key, value in options.items():
        if value is not None:
            passed_on = key.startswith(_PASSED_ON) and names_file(key)
            written_inside(roots, key, value, place=passed_on or key == "path")


def catalog_inside(roots: Roots, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a catalog, its places resolved. Raises OutsideRoots."""
    inside = dict(options)
    if "warehouse" in inside:
        inside["warehouse"] = roots.inside(inside["warehouse"], "option 'warehouse'")
    if inside.get("metastore") == "hive":
        raise roots.refusal("a Hive metastore says where its tables lie")
    if "uri" in inside:
        server = server_of(inside["uri"])
        if not isinstance(server, Sqlite):
            raise roots.refusal("option 'uri' names a database server")
        inside["uri"] = "sqlite:" + quote(roots.inside(server.path, "option 'uri'"))
    defaults = dict(of_new_tables(k, v) for k, v in inside.items() if k.startswith(TABLE_DEFAULTS))
    require_inside(roots, defaults)
    return inside
