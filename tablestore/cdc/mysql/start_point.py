"""Where the reading of a table begins: with its rows, or somewhere in the binlog."""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.cdc.mysql import events
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.dump import Dump
from tablestore.cdc.mysql.events import FIRST_OFFSET
from tablestore.cdc.mysql.log_identity import require_in_log, with_creation
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.mysql.settings import server_id
from tablestore.core.errors import NotFound

INITIAL = "initial"  # the rows, then changes
SNAPSHOT = "snapshot"  # the rows alone
EARLIEST = "earliest-offset"  # what the binlog still has
LATEST = "latest-offset"  # changes from now on
SPECIFIC = "specific-offset"  # from a file and offset, or after a GTID
TIMESTAMP = "timestamp"  # from the first transaction of a time
STARTUP_MODES = (INITIAL, SNAPSHOT, EARLIEST, LATEST, SPECIFIC, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class StartPoint:
    """A mode, and what it needs: file and offset between two transactions, or a GTID; milliseconds since
    1970."""

    mode: str = INITIAL
    file: str = ""
    offset: int = FIRST_OFFSET
    gtid: str = ""
    millis: int = 0

    @property
    def reads_rows(self) -> bool:
        """Whether the rows that are there are read."""
        return self.mode in (INITIAL, SNAPSHOT)

    def position(self, connection: Connection) -> tuple[LogPosition, int]:
        """(where in the binlog it is, the server whose binlog that is: 0 for that of any server with this
        GTID). Raises NotFound where the binlog does not have it."""
        server = server_id(connection)
        if self.mode == LATEST:
            position = dialect_of(connection).position(connection)
            return with_creation(connection.address, position), server
        if self.mode == SPECIFIC and self.gtid:
            return LogPosition("", FIRST_OFFSET, self.gtid), 0
        if self.mode == SPECIFIC:
            found = LogPosition(self.file, self.offset)
            require_in_log(connection, found)
            return found, server
        files = _files(connection)
        if self.mode == EARLIEST:
            return LogPosition(files[0], FIRST_OFFSET), server
        for file in reversed(files):
            at = _position_at(connection.address, file, self.millis / 1000)
            if at is not None:
                return at, server
        raise NotFound(
            f"{connection.address}: the binlog begins later than {self.millis} ms after 1970; {EARLIEST!r} "
            "is from its beginning"
        )


def _position_at(address: Address, file: str, seconds: float) -> LogPosition | None:
    """Where the first transaction starts that was committed `seconds` after 1970 or later, in a file or those
    after it; the end of the log if there is none yet. None: the file itself began later."""
    with Dump.open(address, LogPosition(file, FIRST_OFFSET)) as dump:
        before, first = dump.position, True
        for code, at, _, _ in dump.events():
            if code == events.FORMAT and first:
                if at > seconds:
                    return None
                first = False
            if code in events.TRANSACTIONS and at >= seconds:
                break
            before = dump.position
        return before


def _files(connection: Connection) -> list[str]:
    files = [str(row[0]) for row in connection.rows("SHOW BINARY LOGS")]
    if not files:
        raise NotFound(f"{connection.address} has no binlog")
    return files
