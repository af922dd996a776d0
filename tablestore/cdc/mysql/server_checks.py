"""Whether a server can be captured: what it must be set to, and whether its log still has a position.

Each refusal names the statement that mends it. XA transactions that are prepared and not committed have their
rows in the log, and in no read view. A table whose rows are read meanwhile would lack them for good: XA
COMMIT has no rows in the log. So none that was prepared before the position may be open then; one that is
prepared later pauses its tables.

RESET MASTER, a restored server and a server in the place of another all begin a new log, whose files may have
the names of the old ones. Three things tell them apart: the second in which the file was begun, which its
format event has and every dump shows; how long the file is; and which transaction ends at the position. The
last one is looked up where the second alone may be the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql import events
from tablestore.cdc.mysql.dump import Dump
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import RIGHTS, Connection, Dialect, dialect_of
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, NotFound, Unavailable
from tablestore.flow.source import SECONDS, LogRetention

_SHORTEST_SECONDS = 3600
_EXPIRY = ("binlog_expire_logs_seconds", "expire_logs_days")
_TRIES = 20
_WAIT_SECONDS = 0.1


def require_ready(connection: Connection, dialect: Dialect, databases: Iterable[str]) -> None:
    """Raise InvalidRequest with every setting that stands against capturing changes of these databases."""
    faults = [*_wrong_settings(connection, dialect), *_missing_rights(connection)]
    if not faults:  # else there may be no binlog to look at
        faults = list(_left_out(dialect.status(connection), databases))
    if faults:
        raise InvalidRequest(f"{connection.address} is not ready for change capture: " + " · ".join(faults))


def server_id(connection: Connection) -> int:
    """The number of the server; offsets hold it, so that another server is noticed."""
    return int(connection.rows("SELECT @@global.server_id")[0][0])


def _wrong_settings(connection: Connection, dialect: Dialect) -> Iterable[str]:
    values = connection.variables()
    for setting in dialect.settings:
        value = values.get(setting.name, "")
        if value.upper() not in setting.wanted:
            yield f"{setting.name} is {value or 'unknown'}, not {setting.wanted[0]}: {setting.statement}"
    if values.get("server_id", "0") == "0":
        yield "server_id is 0: SET GLOBAL server_id = 1"
    seconds = expiry_seconds(values)
    if 0 < seconds < _SHORTEST_SECONDS:
        yield f"the binlog is kept for {seconds:.0f} s only: SET GLOBAL binlog_expire_logs_seconds = 604800"


def expiry_seconds(values: Mapping[str, str]) -> float:
    """After how many seconds the server removes a file of its binlog, by its settings; 0: never."""
    return float(values.get(_EXPIRY[0]) or 0) or float(values.get(_EXPIRY[1]) or 0) * 86400


def _missing_rights(connection: Connection) -> Iterable[str]:
    grants = [str(row[0]).upper() for row in connection.rows("SHOW GRANTS")]
    for_all = [grant.partition(" ON *.*")[0] for grant in grants if " ON *.*" in grant]
    words = ("REPLICATION SLAVE", "REPLICATION REPLICA")
    if not any("ALL PRIVILEGES" in grant or any(word in grant for word in words) for grant in for_all):
        yield f"the user may not read the binlog: GRANT {RIGHTS} ON *.* TO '{connection.address.user}'@'…'"


def _left_out(status: Mapping[str, str], databases: Iterable[str]) -> Iterable[str]:
    only = _names(status["Binlog_Do_DB"])
    never = _names(status["Binlog_Ignore_DB"])
    for database in databases:
        if database in never or (only and database not in only):
            yield f"changes of {database} are not in the binlog: take binlog-do-db and binlog-ignore-db away"


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}


def require_none_prepared(connection: Connection, env: Env = SYSTEM) -> None:
    """Wait some seconds for the XA transactions that are prepared now; raise InvalidRequest for those that
    stay. A server that does not show them to this user (MySQL asks for XA_RECOVER_ADMIN) is trusted."""
    open_ones = _prepared(connection)
    for _ in range(_TRIES):
        if not open_ones:
            return
        env.sleep(_WAIT_SECONDS)
        open_ones &= _prepared(connection)
    names = ", ".join(sorted(open_ones))
    raise InvalidRequest(
        f"XA transactions are prepared and not committed: {names}; rows that are read now would lack theirs: "
        "XA COMMIT or XA ROLLBACK them (XA RECOVER FORMAT='SQL' shows them), and start again"
    )


def _prepared(connection: Connection) -> set[str]:
    try:
        names = (row[3] for row in connection.rows("XA RECOVER"))
        return {n.decode(errors="backslashreplace") if isinstance(n, bytes) else str(n) for n in names}
    except Unavailable:
        raise
    except InvalidRequest:
        return set()


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
