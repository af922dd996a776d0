"""Connections to a source server, with errors by what the caller does next, and what MariaDB and MySQL do
differently.

PyMySQL carries connection, authentication and packets. A `Connection` belongs to one thread. Its session sets
all that changes what a statement gives, so that a server's defaults do not: a limit of rows, a zone, an old
moment of system-versioned tables, transactions without snapshots.

Everything else in this package asks a `Dialect`: settings, positions, read views at a known position, how a
binlog dump is asked for. MySQL's side is written from its manual and not tested on a server.
"""

from __future__ import annotations

import contextlib
import functools
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from tablestore.cdc.databases.address import OFF, PREFERRED, VERIFY_IDENTITY, Address
from tablestore.cdc.mysql.events import LogPosition
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


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """A server setting that change capture needs, and the statement that makes it so."""

    name: str
    wanted: tuple[str, ...]
    statement: str


_IN_FILE = "in the server's configuration, and restart it"
_COMMON = (
    ServerSetting("log_bin", ("ON", "1"), f"write log-bin=binlog and server-id=1 {_IN_FILE}"),
    ServerSetting("binlog_format", ("ROW",), "SET GLOBAL binlog_format = 'ROW'"),
    ServerSetting("binlog_row_image", ("FULL",), "SET GLOBAL binlog_row_image = 'FULL'"),
    ServerSetting("binlog_row_metadata", ("FULL",), "SET GLOBAL binlog_row_metadata = 'FULL'"),
)


class Dialect(Protocol):
    """Stateless: one value for all connections to servers of a kind."""

    @property
    def settings(self) -> Sequence[ServerSetting]: ...

    def status(self, connection: Connection) -> dict[str, Any]:
        """File and Position of the end of the binlog, and its filters, by their names."""

    def position(self, connection: Connection) -> LogPosition:
        """The end of the binlog now."""

    def gtid_at(self, connection: Connection, position: LogPosition) -> str:
        """The GTIDs of a position of this server's log; empty where no transaction ends there."""

    def read_view(self, connection: Connection) -> LogPosition:
        """Open a read view on the connection; its position: all transactions before are in the view."""

    def start_dump(self, connection: Connection, gtid: str | None) -> None:
        """Session settings before a binlog dump; with `gtid`: the dump starts after these transactions."""

    def charsets(self, connection: Connection) -> dict[int, str]:
        """Character set of each collation id."""


@dataclass(frozen=True)
class Mariadb:
    """MariaDB 10.6 and later."""

    settings: tuple[ServerSetting, ...] = _COMMON

    def status(self, connection: Connection) -> dict[str, Any]:
        return _status(connection, "SHOW MASTER STATUS")

    def position(self, connection: Connection) -> LogPosition:
        status = self.status(connection)
        file, offset = status["File"], int(status["Position"])
        return LogPosition(file, offset, self._gtid(connection, file, offset))

    def gtid_at(self, connection: Connection, position: LogPosition) -> str:
        return self._gtid(connection, position.file, position.offset)

    def read_view(self, connection: Connection) -> LogPosition:
        # A transaction is in the binlog before others see it: only the view itself knows its position.
        connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        status = dict(connection.rows("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'"))
        file, offset = status["Binlog_snapshot_file"], int(status["Binlog_snapshot_position"])
        return LogPosition(file, offset, self._gtid(connection, file, offset))

    def start_dump(self, connection: Connection, gtid: str | None) -> None:
        connection.run(
            "SET @master_binlog_checksum = @@global.binlog_checksum, @mariadb_slave_capability = 4"
        )
        if gtid is not None:
            connection.run("SET @slave_connect_state = %s, @slave_gtid_strict_mode = 1", gtid)

    def charsets(self, connection: Connection) -> dict[int, str]:
        table = "information_schema.collation_character_set_applicability"
        return dict(connection.rows(f"SELECT id, character_set_name FROM {table} WHERE id IS NOT NULL"))

    def _gtid(self, connection: Connection, file: str, offset: int) -> str:
        return connection.rows("SELECT BINLOG_GTID_POS(%s, %s)", file, offset)[0][0] or ""


@dataclass(frozen=True)
class Mysql:
    """MySQL 8.0 and later with GTIDs. Untested: no such server can be had where this is developed."""

    settings: tuple[ServerSetting, ...] = (
        *_COMMON,
        ServerSetting("gtid_mode", ("ON",), "SET GLOBAL gtid_mode = …, step by step as its manual says"),
        ServerSetting("binlog_row_value_options", ("",), "SET GLOBAL binlog_row_value_options = ''"),
        ServerSetting(
            "binlog_transaction_compression", ("OFF", "0"), "SET GLOBAL binlog_transaction_compression = OFF"
        ),
    )

    def status(self, connection: Connection) -> dict[str, Any]:
        try:
            return _status(connection, "SHOW BINARY LOG STATUS")
        except InvalidRequest:  # before 8.2
            return _status(connection, "SHOW MASTER STATUS")

    def position(self, connection: Connection) -> LogPosition:
        status = self.status(connection)
        gtid = status["Executed_Gtid_Set"].replace("\n", "")
        return LogPosition(status["File"], int(status["Position"]), gtid)

    def gtid_at(self, connection: Connection, position: LogPosition) -> str:
        return position.gtid  # the server cannot tell it

    def read_view(self, connection: Connection) -> LogPosition:
        # A GTID is among the executed ones once others see its transaction: wait for all of the position.
        position = self.position(connection)
        waited = connection.rows("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 60)", position.gtid)[0][0]
        if waited != 0:
            raise Unavailable(f"{connection.address}: transactions up to {position} are not there after 60 s")
        connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return position

    def start_dump(self, connection: Connection, gtid: str | None) -> None:
        connection.run("SET @source_binlog_checksum = @@global.binlog_checksum")
        connection.run("SET @master_binlog_checksum = @@global.binlog_checksum")
        if gtid is not None:
            raise InvalidRequest("a start by GTID is not supported on MySQL; start with a new snapshot")

    def charsets(self, connection: Connection) -> dict[int, str]:
        return dict(connection.rows("SELECT id, character_set_name FROM information_schema.collations"))


def dialect_of(connection: Connection) -> Dialect:
    """The dialect of the server behind a connection."""
    return Mariadb() if "mariadb" in connection.rows("SELECT VERSION()")[0][0].lower() else Mysql()


def _status(connection: Connection, statement: str) -> dict[str, Any]:
    rows = connection.named(statement)
    if not rows:
        raise NotFound(f"{connection.address} has no binlog; {_COMMON[0].statement}")
    return rows[0]
