"""sql_session: a session that knows every statement."""

from __future__ import annotations

from tablestore.sql.reading import statement_of
from tablestore.sql.session import Session
from tablestore.table.lake import Lake


def sql_session(lake: Lake | None = None) -> Session:
    """A session for SQL statements over a `lake`, or over catalogs that statements make.

    >>> ts.sql_session(lake).sql("SHOW DATABASES").to_arrow().to_pylist()
    [{'database name': 'shop'}]
    """
    return Session(lake, read=statement_of)
