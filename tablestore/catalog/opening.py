"""The catalog that a set of options asks for, and whether there is a warehouse: a mistyped path is none."""

from __future__ import annotations

from difflib import get_close_matches

from tablestore.catalog.catalog import Catalog
from tablestore.catalog.filesystem import FileSystemCatalog
from tablestore.catalog.hive import HiveCatalog
from tablestore.catalog.jdbc import JdbcCatalog
from tablestore.catalog.metastore import Metastore
from tablestore.catalog.options import CatalogOptions
from tablestore.catalog.sql import server_of
from tablestore.core.env import Env
from tablestore.core.errors import InvalidOption, NotFound, TablestoreError, require_there
from tablestore.io.fileio import FileIO
from tablestore.io.paths import is_object_location, join, warehouse_location
from tablestore.io.routed import RoutedFileIO, file_io_for

_OWN_DATABASE = "paimon-catalog.sqlite"


def open_catalog(options: CatalogOptions, *, io: FileIO | None = None, env: Env) -> Catalog:
    """The catalog, with its registry's tables created. Raises InvalidOption, Unsupported, Unavailable."""
    if options.warehouse is None:
        raise InvalidOption("option 'warehouse' is missing: the directory that holds the databases")
    warehouse = warehouse_location(options.warehouse)
    files = io or file_io_for(warehouse, options.raw, env)
    if options.metastore == "filesystem":
        if options.lock.enabled:
            raise InvalidOption(
                "option 'lock.enabled' with metastore filesystem, which has no locks: use jdbc or hive"
            )
        return FileSystemCatalog(warehouse, files)
    locks = options.lock.enabled
    if locks is None:
        locks = is_object_location(warehouse)
    if locks and isinstance(files, RoutedFileIO):
        files = files.with_guard()
    if options.metastore == "hive":
        if options.uri is None:
            raise InvalidOption("option 'uri' is missing: the metastore's address, thrift://host:9083")
        return HiveCatalog(warehouse, files, options, Metastore.parse(options.uri), locks, env)
    uri = options.uri or _own_database(warehouse, files)
    return JdbcCatalog(
        warehouse, files, options, server_of(uri, options.user, options.password), locks, env
    ).prepare()


def _own_database(warehouse: str, io: FileIO) -> str:
    """The URI of a SQLite file in a local warehouse, for options without a server."""
    if is_object_location(warehouse):
        raise InvalidOption("option 'uri' is missing: the SQL database of the catalog, e.g. postgresql://…")
    io.make_dir(warehouse)
    return f"sqlite:{join(warehouse, _OWN_DATABASE)}"


def require_mounted(warehouse: str, io: FileIO) -> None:
    """Raise Unavailable where the directory of a lake that had databases is not there, or holds none. What
    services write beside them does not count. Object stores are always there."""
    mounted = is_object_location(warehouse) or any(s.name.endswith(".db") for s in io.list(warehouse))
    require_there(mounted, f"the lake {warehouse}")


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
