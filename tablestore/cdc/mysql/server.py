"""Connections to a source server: errors by what the caller does next.

PyMySQL carries connection, authentication and packets. A `Connection` belongs to one thread. Its session sets
all that changes what a statement gives, so that a server's defaults do not: a limit of rows, a zone, an old
moment of system-versioned tables, transactions without snapshots.
"""

from __future__ import annotations

import contextlib
import functools
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from tablestore.cdc.databases.address import OFF, PREFERRED, VERIFY_IDENTITY, Address
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError, Unavailable
from tablestore.core.extras import required

RIGHTS = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT"
_SESSION = (
    "SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 600, "
    "sql_select_limit = 18446744073709551615, "
    "sql_big_selects = 1, sql_auto_is_null = 0, sql_quote_show_create = 1, completion_type = 'NO_CHAIN', "
    "character_set_client = utf8mb4, character_set_results = utf8mb4, character_set_connection = utf8mb4, "
    "lc_time_names = 'en_US'"
    "/*M!100300 , tx_isolation = 'REPEATABLE-READ', max_statement_time = 0, system_versioning_asof = DEFAULT,"
    " idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0 */"
    "/*!50720 , transaction_isolation = 'REPEATABLE-READ', max_execution_time = 0 */"
)
"""Comments of /*M! are for MariaDB, those of /*!50720 for MySQL alone."""
_READ_SECONDS = 120
_DENIED = {1045, 1698, 3118}  # wrong password or user, locked account
_NO_RIGHT = {1044, 1142, 1143, 1227}
_ABSENT = {1049, 1051, 1146}  # database or table
_PASSING = {
    *(1040, 1053, 1203, 1927),  # too many connections, shutdown, killed
    *(1205, 1213, 1317, 1412),  # lock wait, deadlock, interrupted, table altered since the view was opened
    *(2003, 2006, 2013, 2014, 2055),  # no server, gone, lost
}
_FATAL_IN_BINLOG = 1236
_TORN = "truncated in the middle of event"


class DamagedBinlog(NotFound):
    """A file of the binlog ends within an event: the server crashed while it wrote it."""


@dataclass
class Connection:
    """One open connection; a context manager, which closes it."""

    address: Address
    raw: Any = field(repr=False)

    @classmethod
    def open(cls, address: Address) -> Self:
        """A new connection in UTC; raises InvalidRequest for a wrong password or a certificate that is not
        trusted, Unavailable without a server."""
        pymysql = required("pymysql", by="a MySQL or MariaDB source")
        with own_errors(address):
            raw = pymysql.connect(
                host=address.host,
                port=address.port,
                user=address.user,
                password=address.password(),
                database=address.database or None,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=address.connect_seconds,
                read_timeout=_READ_SECONDS,
                write_timeout=_READ_SECONDS,
                init_command=_SESSION,
                defer_connect=True,
                **_encryption(address),
            )
            if address.tls == PREFERRED:
                raw._ssl_required = False
            raw.connect()
        return cls(address, raw)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection, whatever it is doing."""
        self.raw._force_close()

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a small result."""
        with own_errors(self.address), self.raw.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def named(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """All rows of a small result by the names of their columns."""
        with own_errors(self.address), self.raw.cursor() as cursor:
            cursor.execute(statement, values or None)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def run(self, statement: str, *values: Any) -> None:
        """A statement without a result."""
        with own_errors(self.address), self.raw.cursor() as cursor:
            cursor.execute(statement, values or None)

    def variables(self) -> dict[str, str]:
        """The global settings of the server."""
        return {str(name).lower(): str(value) for name, value in self.rows("SHOW GLOBAL VARIABLES")}


@functools.cache
def _unverified() -> ssl.SSLContext:
    """Encryption with whoever answers; one for all connections, as making it takes longer than connecting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _encryption(address: Address) -> dict[str, Any]:
    """What PyMySQL needs to know of TLS."""
    if address.tls == OFF:
        return {"ssl_disabled": True}
    if address.tls == PREFERRED:
        return {"ssl": _unverified()}
    try:
        context = ssl.create_default_context(cafile=address.tls_ca)
    except OSError as e:
        raise InvalidRequest(f"the certificates of tls_ca={address.tls_ca} cannot be read: {e}") from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # which CAs that servers make for themselves do not pass
    context.check_hostname = address.tls == VERIFY_IDENTITY
    context.verify_mode = ssl.CERT_REQUIRED if address.verifies else ssl.CERT_NONE
    return {"ssl": context}


@contextlib.contextmanager
def own_errors(address: Address) -> Iterator[None]:
    """Errors of the client and of the server as ours, by what the caller does next; no text holds a
    secret."""
    errors = required("pymysql.err", by="a MySQL or MariaDB source")
    try:
        yield
    except errors.Error as e:
        raise _error(address, e) from None
    except OSError as e:
        if isinstance(e, TablestoreError):
            raise
        raise Unavailable(f"{address}: {e}") from None


def _error(address: Address, error: Any) -> TablestoreError:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = f"{address}: {error.args[1] if len(error.args) > 1 else error} ({code})"
    if isinstance(getattr(error, "original_exception", None), ssl.SSLCertVerificationError):
        return InvalidRequest(f"{text}; tls_ca names a file of the CAs that are trusted")
    if code in _DENIED:
        return InvalidRequest(f"{text}; the password comes from {address.place_of_password}")
    if code in _NO_RIGHT:
        return InvalidRequest(f"{text}; GRANT {RIGHTS} ON *.* TO '{address.user}'@'…'")
    if code in _ABSENT:
        return NotFound(text)
    if code == _FATAL_IN_BINLOG and _TORN in text:
        return DamagedBinlog(text)
    if code == _FATAL_IN_BINLOG:
        return NotFound(f"{text}; the binlog does not go back to this position: start with a new snapshot")
    if code in _PASSING or code == 0:  # 0: the connection is closed
        return Unavailable(text)
    return InvalidRequest(text)
