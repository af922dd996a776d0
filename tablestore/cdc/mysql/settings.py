"""What a server must be set to before its changes can be captured; each refusal names the statement that
mends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tablestore.cdc.mysql.dialect import Dialect
from tablestore.cdc.mysql.server import RIGHTS, Connection
from tablestore.core.errors import InvalidRequest

_SHORTEST_SECONDS = 3600
_EXPIRY = ("binlog_expire_logs_seconds", "expire_logs_days")


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
    found = connection.variables()
    for setting in dialect.settings:
        value = found.get(setting.name, "")
        if value.upper() not in setting.wanted:
            yield f"{setting.name} is {value or 'unknown'}, not {setting.wanted[0]}: {setting.statement}"
    if found.get("server_id", "0") == "0":
        yield "server_id is 0: SET GLOBAL server_id = 1"
    seconds = float(found.get(_EXPIRY[0]) or 0) or float(found.get(_EXPIRY[1]) or 0) * 86400
    if 0 < seconds < _SHORTEST_SECONDS:
        yield f"the binlog is kept for {seconds:.0f} s only: SET GLOBAL binlog_expire_logs_seconds = 604800"


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
