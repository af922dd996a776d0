"""Connections to PostgreSQL: where a server is, a session whose text is always spelled alike, and errors by
what the caller does next.

psycopg carries connection, authentication and TLS. A password is never in an address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import urlsplit

from tablestore.cdc.databases.address import OFF, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY, Address
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError, Unavailable
from tablestore.core.extras import required

SCHEMES = ("postgresql", "postgres")
_FORM = "postgresql://user@host:5432/database, with ?tls=verify-identity&tls_ca=/path if wanted"
_SSL = {
    OFF: "disable",
    PREFERRED: "prefer",
    REQUIRED: "require",
    VERIFY_CA: "verify-ca",
    VERIFY_IDENTITY: "verify-full",
}
_SESSION = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
    "statement_timeout": "0",
    "lock_timeout": "60s",
    "idle_in_transaction_session_timeout": "0",
    "search_path": "pg_catalog",
    "quote_all_identifiers": "off",
    "row_security": "off",
    "synchronous_commit": "local",
}
_OPEN_SECONDS = 900.0  # that transactions of others may take
_LOG_END = """
    SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8,
        (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::int8"""
WRITING = (
    *("RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareLock"),
    *("ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"),
)
ALTERING = ("AccessExclusiveLock",)
_SPELLED = """
    SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s"""
_RUNNING = """
    WITH RECURSIVE locks AS MATERIALIZED (SELECT * FROM pg_locks WHERE granted),
    whole(number) AS (SELECT unnest(%s::oid[]) UNION
        SELECT i.inhrelid FROM whole w JOIN pg_inherits i ON i.inhparent = w.number)
    SELECT l.transactionid::text, coalesce(l.pid, 0) FROM locks l LEFT JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'
    AND l.pid IS DISTINCT FROM pg_backend_pid()
    AND coalesce(a.state, '?') NOT IN ('idle in transaction', 'idle in transaction (aborted)')
    AND l.virtualtransaction IN (SELECT virtualtransaction FROM locks
        WHERE locktype = 'relation' AND relation IN (SELECT number FROM whole) AND mode = ANY(%s::text[])
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""


def parse_address(
    url: str,
    *,
    password_file: str | None = None,
    tls: str | None = None,
    tls_ca: str | None = None,
) -> Address:
    """The server and database of postgresql://user@host:port/database; raises InvalidRequest, without
    showing the text, for one that holds a password or names no database."""
    _, _, rest = url.partition("://")
    try:
        address = Address.parse(f"mysql://{rest}", password_file=password_file, tls=tls, tls_ca=tls_ca)
    except InvalidRequest as e:
        problem = str(e).partition("; write mysql:")
        raise InvalidRequest(problem[0] + (f"; write {_FORM}" if problem[1] else "")) from None
    if not address.database or "/" in address.database:
        raise InvalidRequest(f"the address of the source names no database; write {_FORM}")
    return address if urlsplit(url).port else replace(address, port=5432)


def title_of(address: Address) -> str:
    """The address in words, without secrets."""
    return str(address).replace("mysql://", "postgresql://", 1)


@dataclass
class Connection:
    """One open connection, each statement its own transaction unless it says otherwise; a context manager,
    which closes it. It belongs to one thread."""

    address: Address
    raw: Any = field(repr=False)

    @classmethod
    def open(cls, address: Address) -> Self:
        """Raises InvalidRequest for a wrong password or right, Unavailable without a server."""
        psycopg = required("psycopg", by="a PostgreSQL source")
        options = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
        more = {"sslrootcert": address.tls_ca} if address.tls_ca else {}
        with own_errors(address):
            raw = psycopg.connect(
                host=address.host,
                port=address.port,
                user=address.user,
                password=address.password() or None,
                dbname=address.database,
                sslmode=_SSL[address.tls],
                gssencmode="disable",  # rows are read from the socket, and Kerberos would encrypt them
                connect_timeout=int(address.connect_seconds),
                client_encoding="UTF8",
                application_name="tablestore",
                options=options,
                autocommit=True,
                prepare_threshold=None,
                **more,
            )
        return cls(address, raw)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(Exception):
            self.raw.close()

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a small result; `%` is `%%` in a statement."""
        with own_errors(self.address):
            return list(self.raw.execute(statement, values).fetchall())

    def run(self, statement: str, *values: Any) -> None:
        """A statement whose result does not matter."""
        with own_errors(self.address):
            self.raw.execute(statement, values)

    def log_end(self) -> int:
        """The end of the log, as bytes from its beginning: all that others see is before it, and on disk.

        No record lies across it. The end of what is on disk may be in the middle of one, and then is no
        place to divide the log at: a commit there begins before it, and is not read yet."""
        end, flushed = self.rows(_LOG_END)[0]
        if flushed < end:  # of commits that did not wait for the disk; this one does
            self.run("SELECT pg_logical_emit_message(true, 'tablestore', '')")
        return int(end)

    def wait_until_visible(self, tables: Sequence[int], modes: Sequence[str]) -> None:
        """Wait until what transactions with such locks on these tables had in the log before this call is
        seen by each statement after it.

        A transaction is in the log before others see it, and holds its locks, and that of its number, until
        they do. One that is idle has not begun to commit. Raises Unavailable with the process ids of those
        that do not end."""
        end = SYSTEM.monotonic() + _OPEN_SECONDS
        locks = (list(tables), list(modes))
        running = dict(self.rows(_RUNNING, *locks))
        while running:
            if SYSTEM.monotonic() > end:
                pids = ", ".join(str(pid) for pid in running.values())
                raise Unavailable(
                    f"{title_of(self.address)}: transactions of processes {pids} (0: prepared) are still "
                    "open: end them; GRANT pg_read_all_stats to the role, so that idle ones are not waited "
                    "for"
                )
            SYSTEM.sleep(0.005)
            now = dict(self.rows(_RUNNING, *locks))
            running = {number: pid for number, pid in running.items() if number in now}

    @contextlib.contextmanager
    def view(self) -> Iterator[None]:
        """A read view while the block runs; it begins with the first statement that reads."""
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            with contextlib.suppress(TablestoreError):
                self.run("ROLLBACK")

    @contextlib.contextmanager
    def view_of(self, table: int) -> Iterator[None]:
        """A view with all changes of a table that were in the log before; a crash takes nothing of it back,
        and the table keeps its columns. Raises NotFound for a table that is gone."""
        self.wait_until_visible([table], WRITING)
        spelled = self.rows(_SPELLED, table)
        if not spelled:
            raise NotFound(f"{title_of(self.address)}: table {table} is gone")
        with self.view():
            renamed = Unavailable(f"{title_of(self.address)}: {spelled[0][0]} was renamed at this moment")
            try:
                self.run(f"LOCK TABLE {in_statement(spelled[0][0])} IN ACCESS SHARE MODE")
            except NotFound:
                raise renamed from None
            if self.rows(_SPELLED, table) != spelled:  # the view begins here
                raise renamed
            with Connection.open(self.address) as other:
                other.log_end()  # what the view shows is on disk from here on
            yield


def in_statement(text: str) -> str:
    """Names as a statement has them, in which `%` stands for a value."""
    return text.replace("%", "%%")


@contextlib.contextmanager
def own_errors(address: Address) -> Iterator[None]:
    """Errors of the client and of the server as ours, by what the caller does next."""
    psycopg = required("psycopg", by="a PostgreSQL source")
    try:
        yield
    except psycopg.Error as e:
        raise _error(address, e) from None


def error_of_fields(code: str, text: str) -> Exception:
    """The client's error for one of the server, by its SQLSTATE."""
    psycopg = required("psycopg", by="a PostgreSQL source")
    try:
        kind = psycopg.errors.lookup(code)
    except KeyError:
        kind = psycopg.DatabaseError
    error: Exception = kind(text)
    return error


def _error(address: Address, error: Any) -> TablestoreError:
    code, text = error.sqlstate or "", f"{title_of(address)}: {str(error).strip()}"
    if code.startswith("28") or "password authentication failed" in text or "no password supplied" in text:
        return InvalidRequest(f"{text}; the password comes from {address.place_of_password}")
    if not code and ("certificate" in text or "does not support SSL" in text):
        return InvalidRequest(f"{text}; tls_ca names a file of the CAs that are trusted")
    if code == "42501":
        return InvalidRequest(
            f"{text}; ALTER ROLE {address.user} REPLICATION; GRANT SELECT ON … TO {address.user}"
        )
    if code in ("42P01", "3D000", "3F000", "42703", "42704"):  # no table, database, schema, column, object
        return NotFound(text)
    if not code or code[:2] in ("08", "53", "57", "40", "58") or code in ("55006", "55P03"):
        return Unavailable(text)  # connection, resources, shutdown, rollback, system; in use, locked
    return InvalidRequest(text)
