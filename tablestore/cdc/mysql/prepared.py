"""XA transactions that are prepared and not committed: their rows are in the log, and in no read view.

A table whose rows are read meanwhile would lack them for good: XA COMMIT has no rows in the log. So none that
was prepared before the position may be open when rows are read; one that is prepared later stands in the log
behind the position, and pauses its tables.
"""

from __future__ import annotations

from tablestore.cdc.mysql.server import Connection
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, Unavailable

_TRIES = 20
_WAIT_SECONDS = 0.1


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
