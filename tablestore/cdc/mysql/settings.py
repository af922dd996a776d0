"""What a server must be set to before its changes can be captured; each refusal names the statement that
mends it.

XA transactions that are prepared and not committed have their rows in the log, and in no read view. A table
whose rows are read meanwhile would lack them for good: XA COMMIT has no rows in the log. So none that was
prepared before the position may be open then; one that is prepared later pauses its tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tablestore.cdc.mysql.dialect import Dialect
from tablestore.cdc.mysql.server import RIGHTS, Connection
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, Unavailable

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
