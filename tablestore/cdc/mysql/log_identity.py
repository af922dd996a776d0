"""Whether a position is one of the log that the server has now.

RESET MASTER, a restored server and a server in the place of another all begin a new log, whose files may have
the names of the old ones. Three things tell them apart: the second in which the file was begun, which its
format event has and every dump shows; how long the file is; and which transaction ends at the position. The
last one is looked up where the second alone may be the same.
"""

from __future__ import annotations

from dataclasses import replace

from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql import events
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.dump import Dump
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.mysql.settings import expiry_seconds
from tablestore.core.errors import NotFound
from tablestore.flow.log_kept import SECONDS, LogRetention

_NEAR_THE_START = 64 << 20
"""Bytes of a file that may be written within the second in which it was begun."""


def with_creation(address: Address, position: LogPosition) -> LogPosition:
    """The position, and the second in which its file was begun; raises as `Dump`, and NotFound where the
    position is known to be of another log."""
    with Dump.open(address, position) as dump:
        for code, _, _, _ in dump.events():
            if code == events.FORMAT:
                return replace(position, created=dump.created)
    raise dump.corrupt("the file does not begin with a format event")


def require_in_log(connection: Connection, position: LogPosition) -> None:
    """Raise NotFound if the server does not have what follows the position: no longer, or never, since its
    log is another one. (When the file was begun is compared by whoever reads on from there.)"""
    address = connection.address
    sizes = {str(row[0]): int(row[1]) for row in connection.rows("SHOW BINARY LOGS")}
    if position.file not in sizes:
        shown = f"{min(sizes)} … {max(sizes)}" if sizes else "none"
        raise NotFound(
            f"{address}: the binlog from {position} on is gone (there is {shown}): start with a new snapshot "
            "(a capture: read_again='*.*', --read-again '*.*'), and let the server keep its binlog longer "
            "(binlog_expire_logs_seconds)"
        )
    if sizes[position.file] < position.offset:
        why = f"{position.file} ends at {sizes[position.file]} now"
        raise position.of_another_log(str(address), why)
    if position.gtid and (not position.created or position.offset <= _NEAR_THE_START):
        there = dialect_of(connection).gtid_at(connection, position)
        lost = [] if there == position.gtid else sorted({*position.gtid.split(",")} - {*there.split(",")})
        if lost:
            raise position.of_another_log(str(address), f"{','.join(lost)} does not end there now")


def kept_from(connection: Connection, position: LogPosition) -> LogRetention:
    """How much is over of the time for which the server keeps the file of a position. That time begins when
    the next file does; the server looks when it begins one more. The file that is written stays."""
    limit = expiry_seconds(connection.variables())
    log = f"the binlog of {connection.address}"
    if not limit:
        return LogRetention(log, SECONDS, 0.0)
    files = sorted((LogPosition(str(row[0]), 4) for row in connection.rows("SHOW BINARY LOGS")), key=_order)
    if position.file not in [there.file for there in files]:
        return LogRetention(log, SECONDS, limit, limit)
    later = [there for there in files if there.order > position.order and there.file != position.file]
    if not later:
        return LogRetention(log, SECONDS, 0.0, limit)
    begun = with_creation(connection.address, later[0]).created
    now = float(connection.rows("SELECT UNIX_TIMESTAMP()")[0][0])
    return LogRetention(log, SECONDS, min(max(now - begun, 0.0), limit), limit)


def _order(position: LogPosition) -> tuple[int, int]:
    return position.order


def bytes_between(connection: Connection, start: LogPosition, end: LogPosition) -> int:
    """How many bytes of the log lie between two positions of it."""
    if start.file == end.file:
        return max(0, end.offset - start.offset)
    sizes = {str(row[0]): int(row[1]) for row in connection.rows("SHOW BINARY LOGS")}
    first, last = start.order[0], end.order[0]
    between = sum(n for file, n in sizes.items() if first < LogPosition(file, 0).order[0] < last)
    return max(0, sizes.get(start.file, start.offset) - start.offset) + between + end.offset
