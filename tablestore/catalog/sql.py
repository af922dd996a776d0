"""SQL servers of the jdbc catalog: SQLite files and PostgreSQL behind one small session interface.

Statements are written with `?`; values are always parameters. A SQLite session is one short connection, that
of PostgreSQL one connection per thread. An existing key raises `DuplicateKey`, other errors `Unavailable`
without any password in them. Safe to share and picklable (the password travels packed).
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from tablestore.core.errors import InvalidOption, TablestoreError, Unavailable, Unsupported
from tablestore.core.extras import required
from tablestore.core.options.secrets import is_secret
from tablestore.io.paths import location
from tablestore.io.s3_options import pack, unpacked

_SQLITE = re.compile(r"(?:jdbc:)?sqlite:(?://)?(.+)")
_BUSY_SECONDS = 30.0
_kept = threading.local()  # connections of this thread: {server: connection}


class DuplicateKey(TablestoreError):
    """A row with this key exists."""


class ServerSession(Protocol):
    """One connection, one statement after another, each its own transaction."""

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]: ...

    def run(self, statement: str, *values: Any) -> int:
        """The number of changed rows; raises DuplicateKey."""


class SqlServer(Protocol):
    """A database. `expired` is an SQL condition that selects expired locks."""

    expired: str

    def session(self) -> contextlib.AbstractContextManager[ServerSession]: ...


def server_of(uri: str, user: str | None = None, password: str | None = None) -> SqlServer:
    """The server a URI names, in JDBC's spelling or without `jdbc:`. Raises InvalidOption, Unsupported."""
    match = _SQLITE.fullmatch(uri)
    if match:
        path = unquote(match[1].partition("?")[0])
        if ":memory:" in path:
            raise InvalidOption("option 'uri' names a SQLite database in memory, which no other process sees")
        return Sqlite(location("/" + path.lstrip("/") if path.startswith("/") else path))
    plain = uri.removeprefix("jdbc:")
    if plain.startswith(("postgresql://", "postgres://")):
        return Postgres.parse(plain, user, password)
    raise Unsupported(f"metastore uri {plain.partition(':')[0]}:…", "sqlite: and postgresql: only")


@dataclass(frozen=True, slots=True)
class Sqlite:
    """A database file."""

    path: str

    expired = "strftime('%s', 'now') - strftime('%s', acquired_at) > expire_time_seconds"

    @contextlib.contextmanager
    def session(self) -> Iterator[ServerSession]:
        """A new connection; writers wait for each other for up to half a minute."""
        try:
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as e:
            raise Unavailable(f"{self.path}: {e}") from e
        try:
            yield _CursorSession(connection, self.path, sqlite3.IntegrityError, sqlite3.Error)
        finally:
            connection.close()


@dataclass(frozen=True, slots=True, repr=False)
class Postgres:
    """A PostgreSQL database; needs psycopg."""

    url: str
    user: str | None = None
    password: str | None = None

    expired = "EXTRACT(EPOCH FROM (CURRENT_TIMESTAMP - acquired_at)) > expire_time_seconds"

    @classmethod
    def parse(cls, url: str, user: str | None, password: str | None) -> Postgres:
        """The server of a URL, with user and password taken out of its authority or its parameters."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise InvalidOption("option 'uri' is no address; write postgresql://host:5432/database") from None
        query = dict(parse_qsl(parts.query))
        for key in query:
            if key != "password" and is_secret(key):
                raise InvalidOption(
                    f"option 'uri' holds the secret {key!r}: give it in psycopg's environment"
                )
        user = user or query.pop("user", None) or (unquote(parts.username) if parts.username else None)
        password = password or query.pop("password", None) or _unquoted(parts.password)
        host = parts.netloc.rpartition("@")[2]
        rest = "&".join(f"{k}={v}" for k, v in query.items())
        return cls(f"postgresql://{host}{parts.path}" + (f"?{rest}" if rest else ""), user, password)

    @contextlib.contextmanager
    def session(self) -> Iterator[ServerSession]:
        """The connection of this thread, opened again if it broke."""
        psycopg = required("psycopg", by="metastore uri postgresql:…")
        kept: dict[Postgres, Any] = _kept.__dict__.setdefault("connections", {})
        connection = kept.get(self)
        if connection is None or not _is_open(connection, psycopg):
            connection = kept[self] = self._connect(psycopg)
        yield _CursorSession(connection, self.url, psycopg.errors.UniqueViolation, psycopg.Error, mark="%s")

    def _connect(self, psycopg: Any) -> Any:
        who = {k: v for k, v in (("user", self.user), ("password", self.password)) if v}
        try:
            return psycopg.connect(self.url, autocommit=True, connect_timeout=10, **who)
        except psycopg.Error as e:
            raise Unavailable(f"{self.url}: {self._scrubbed(e)}") from None

    def _scrubbed(self, error: Exception) -> str:
        text = str(error).strip()
        return text.replace(self.password, "***") if self.password else text

    def __repr__(self) -> str:
        return f"Postgres({self.url!r}, user={self.user!r})"

    def __reduce__(self) -> Any:
        return _postgres, (pack({"url": self.url, "user": self.user, "password": self.password}),)


class _CursorSession:
    """A ServerSession over a DB-API connection."""

    def __init__(self, connection: Any, name: str, taken: Any, trouble: Any, mark: str = "?") -> None:
        self._connection, self._name, self._mark = connection, name, mark
        self._taken, self._trouble = taken, trouble

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._execute(statement, values).fetchall()

    def run(self, statement: str, *values: Any) -> int:
        return self._execute(statement, values).rowcount

    def _execute(self, statement: str, values: Sequence[Any]) -> Any:
        try:
            return self._connection.execute(statement.replace("?", self._mark), tuple(values))
        except self._taken as e:
            raise DuplicateKey(f"{self._name}: {e}") from e
        except self._trouble as e:
            raise Unavailable(f"{self._name}: {e}") from e


def _is_open(connection: Any, psycopg: Any) -> bool:
    """Whether a connection is open, as far as can be seen without asking the server: one that the server
    closed while nobody used it is not."""
    if connection.closed:
        return False
    try:
        connection.pgconn.consume_input()
    except psycopg.Error:
        return False
    return not connection.broken


def _postgres(packed: bytes) -> Postgres:
    return Postgres(**unpacked(packed))


def _unquoted(text: str | None) -> str | None:
    return unquote(text) if text else None
