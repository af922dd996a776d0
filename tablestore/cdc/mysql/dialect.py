"""What MariaDB and MySQL do differently. MySQL's side is written from its manual and not tested on a server.

Everything else in this package asks a `Dialect`: settings, positions, read views at a known position, how a
binlog dump is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.server import Connection
from tablestore.core.errors import InvalidRequest, NotFound, Unavailable


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
