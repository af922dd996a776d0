"""The embedded engine: DuckDB in this process computes a query over rows that our scans read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest
from tablestore.sql.query.tables import occurrences

if TYPE_CHECKING:
    from tablestore.sql.session import Session


def run_query(session: Session, tree: exp.Expression, text: str) -> pa.RecordBatchReader:
    """The rows of a query, as they are computed. `tree` is not changed; `text` is the script it is of."""
    connection = connect(session)
    found = bound(connection, session, tree, text)
    with errors():
        return connection.sql(found.sql("duckdb")).to_arrow_reader(65_536)


def connect(session: Session) -> duckdb.DuckDBPyConnection:
    """A connection of its own that reaches nothing but what is registered on it."""
    return duckdb.connect(config=_locked())


def bound(
    connection: duckdb.DuckDBPyConnection, session: Session, tree: exp.Expression, text: str
) -> exp.Expression:
    """A copy of a tree whose tables are views of the connection. Raises NotFound with its place."""
    tree = tree.copy()
    for number, one in enumerate(occurrences(session, tree, text)):
        view = f"__table_{number}"
        connection.register(view, _Rows(one.table))
        one.node.replace(exp.alias_(exp.table_(view), one.node.alias_or_name, table=True))
    return tree


@contextmanager
def errors() -> Iterator[None]:
    """DuckDB's errors as ours."""
    try:
        yield
    except duckdb.Error as e:
        raise InvalidRequest(str(e)) from None


def _locked() -> dict[str, Any]:
    """Settings under which SQL reaches nothing but what is registered."""
    return {
        "enable_external_access": "false",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "allow_community_extensions": "false",
        "python_enable_replacements": "false",
        "threads": str(os.cpu_count() or 2),
        "temp_directory": tempfile.gettempdir(),
        "lock_configuration": "true",
    }


class _Rows:
    """A table's rows as an Arrow stream that can be read more than once."""

    def __init__(self, table: Any) -> None:
        self._scan = table.scan()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._scan.to_reader().__arrow_c_stream__(requested_schema)
