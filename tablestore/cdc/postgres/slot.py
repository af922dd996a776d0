"""The replication slot of a capture: what the server must be set to, where the slot is, and how it moves on.

A slot keeps the log from its place on. It moves only to where a batch is committed and noted, so a batch
that is repeated finds all of its log. One that is behind that place, after a crash of the server, gives
transactions again."""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.cdc.postgres.server import Connection, title_of
from tablestore.cdc.postgres.tables import quoted
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.flow.source import BYTES, LogRetention

PEEK = (
    "pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL, 'proto_version', '1', 'publication_names', "
    "quote_ident(%s))"
)
LOST, RESERVED = "lost", "reserved"
AGAIN = "read_again='*.*' (--read-again '*.*') reads all tables anew"
_FACTS = """
    SELECT current_setting('server_version_num')::int, current_setting('wal_level'), pg_is_in_recovery(),
        (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user)"""
_PUBLICATION = """
    SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s"""
_SLOT = """
    SELECT plugin, database, coalesce(wal_status, 'lost'), (confirmed_flush_lsn - '0/0'::pg_lsn)::int8,
        (pg_current_wal_lsn() - '0/0'::pg_lsn)::int8 FROM pg_replication_slots WHERE slot_name = %s"""
_KEPT = """
    SELECT coalesce(wal_status, 'lost'), coalesce(pg_current_wal_lsn() - restart_lsn, 0)::int8,
        (SELECT setting::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size') << 20
    FROM pg_replication_slots WHERE slot_name = %s"""
_BEGUN = "SELECT (lsn - '0/0'::pg_lsn)::int8 FROM pg_create_logical_replication_slot(%s, 'pgoutput')"
_SERVER = """
    SELECT s.system_identifier::text || '/' || c.timeline_id
    FROM pg_control_system() s, pg_control_checkpoint() c"""


def lsn_text(position: int) -> str:
    """A place in the log as the server writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def require_ready(connection: Connection, publication: str, user: str) -> None:
    """Raise InvalidRequest with all that the server must be set to, and the statements that do so."""
    version, level, standby, replicates = connection.rows(_FACTS)[0]
    where = title_of(connection.address)
    if version < 150_000:
        raise Unsupported(f"PostgreSQL {version // 10_000}", "a capture needs 15 or later")
    wanted = []
    if level != "logical":
        wanted.append("ALTER SYSTEM SET wal_level = logical, and restart the server")
    if standby:
        wanted.append("connect to the primary: this server is a standby")
    if not replicates:
        wanted.append(f"ALTER ROLE {quoted(user)} REPLICATION")
    published = connection.rows(_PUBLICATION, publication)
    if not published:
        wanted.append(f"CREATE PUBLICATION {quoted(publication)} FOR TABLE … (or FOR ALL TABLES)")
    elif not published[0][0]:
        wanted.append(
            f"ALTER PUBLICATION {quoted(publication)} SET (publish = 'insert, update, delete, truncate')"
        )
    if wanted:
        raise InvalidRequest(f"{where} is not ready for a capture: {'; '.join(wanted)}")


def server_of(connection: Connection) -> str:
    """Which server it is, and which timeline of it: places in the logs of two are not comparable."""
    return str(connection.rows(_SERVER)[0][0])


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot by its name, and the publication that says which tables it gives. `again` says what helps where
    changes are gone."""

    name: str
    publication: str
    again: str = AGAIN

    def make(self, connection: Connection) -> None:
        """Have the slot: one that is there is taken, one that is lost is made anew. Waits for all writers."""
        there = connection.rows(_SLOT, self.name)
        if there and there[0][2] == LOST:
            connection.run("SELECT pg_drop_replication_slot(%s)", self.name)
            there = []
        if not there:
            connection.run("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", self.name)
        elif there[0][:2] != ("pgoutput", connection.address.database):
            raise InvalidRequest(
                f"replication slot {self.name!r} is of plugin {there[0][0]} and database {there[0][1]}: "
                "name another in slot="
            )

    def begin(self, connection: Connection) -> int:
        """Make the slot; gives where it begins. Raises InvalidRequest where it is there. Waits for all
        writers."""
        if connection.rows(_SLOT, self.name):
            raise InvalidRequest(
                f"replication slot {self.name!r} is there already, and one stream alone can read it: name "
                f"another, or drop it: SELECT pg_drop_replication_slot('{self.name}')"
            )
        return int(connection.rows(_BEGUN, self.name)[0][0])

    def committed(self, connection: Connection) -> int:
        """Up to where who reads the slot has let go of the log. Raises NotFound without it."""
        there = connection.rows(_SLOT, self.name)
        if not there or there[0][3] is None:
            raise NotFound(f"no replication slot {self.name!r} in {title_of(connection.address)}")
        return int(there[0][3])

    def kept(self, connection: Connection) -> list[LogRetention]:
        """How much of max_slot_wal_keep_size is used by what the slot keeps; all of it where the slot is
        lost, nothing where there is none."""
        log, kept = f"replication slot {self.name}", []
        for status, used, limit in connection.rows(_KEPT, self.name):
            limited = int(limit) if limit >= 0 else None
            lost = status == LOST and limited is not None
            kept.append(LogRetention(log, BYTES, limited if lost and limited else int(used), limited))
        return kept

    def require(self, connection: Connection, position: int) -> None:
        """Raises NotFound where it does not have the log from a place on."""
        there = connection.rows(_SLOT, self.name)
        if not there:
            raise NotFound(f"replication slot {self.name!r} is gone, and with it changes: {self.again}")
        _, _, status, confirmed, log_end = there[0]
        if status == LOST or confirmed is None:
            raise NotFound(
                f"replication slot {self.name!r} is lost: more log than max_slot_wal_keep_size was written "
                f"while nobody read it: {self.again}"
            )
        if confirmed > position:
            raise NotFound(
                f"replication slot {self.name!r} is at {lsn_text(confirmed)}, beyond {lsn_text(position)}, "
                "to which this capture has come: somebody moved it, or made it anew, and changes between are "
                f"gone: {self.again}"
            )
        if log_end < position:
            raise NotFound(
                f"the log of {title_of(connection.address)} ends at {lsn_text(log_end)}, before "
                f"{lsn_text(position)}, to which this capture has come: the server was set back to an "
                f"earlier state: {self.again}"
            )

    def move(self, connection: Connection, position: int) -> None:
        """Let go of the log before a place to which all is committed."""
        confirmed = connection.rows(_SLOT, self.name)[0][3]
        if confirmed < position:
            connection.run(
                "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", self.name, lsn_text(position)
            )
