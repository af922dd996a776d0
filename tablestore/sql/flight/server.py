"""FlightSqlServer: SQL over the tables of a lake for clients of Arrow Flight SQL: ADBC, JDBC, Arrow.

Source: the Flight SQL protocol of Apache Arrow. It listens on 127.0.0.1 alone and asks for a token,
which a client shows as `Bearer TOKEN` or as the password of any user.
Statements see a lake, and no file beside it; unless it may write, none changes anything. Each runs in a
session of its own: there are no transactions, no SET and no USE from one statement to the next.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import pyarrow as pa
from pyarrow import flight

from tablestore import __version__
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, TablestoreError, Unsupported
from tablestore.core.quantities import many
from tablestore.sql.flight import listings
from tablestore.sql.flight.listings import new, packed, unpacked
from tablestore.sql.flight.statements import Statements
from tablestore.sql.forms import sql_session
from tablestore.table.lake import Lake

log = logging.getLogger(__name__)
HOST = "127.0.0.1"
_CREATE, _CLOSE = "CreatePreparedStatement", "ClosePreparedStatement"
Listing = tuple[pa.Schema, Callable[[Lake, Any], pa.Table]]
_LISTINGS: dict[str, Listing] = {
    "CommandGetCatalogs": (listings.CATALOGS, lambda lake, asked: listings.catalogs()),
    "CommandGetDbSchemas": (listings.DATABASES, listings.databases),
    "CommandGetTableTypes": (listings.TYPES, lambda lake, asked: listings.table_types()),
    "CommandGetPrimaryKeys": (listings.KEYS, listings.primary_keys),
}


class FlightSqlServer:
    """A server over a lake, at work when made; `close` (or the end of its `with` block) ends it.

    `port` 0 takes any that is free. `token` is what clients show (None: a new one is made). `roots` are
    directories that statements may name beside the lake's tables, none by default. With `writes`, statements
    that change something are carried out. Safe to share. Raises InvalidRequest for a port that is
    taken, MissingPackage without protobuf.

    Memory: that of the statements that are being fetched, each bounded as `Session.sql` is.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        port: int = 0,
        token: str | None = None,
        roots: Sequence[str] = (),
        writes: bool = False,
        env: Env = SYSTEM,
    ) -> None:
        new("CommandGetCatalogs")  # or what is missing is said now
        self.token = token or env.uuid().replace("-", "")
        statements = Statements(lambda: sql_session(lake, roots=roots), writes=writes, env=env)
        try:
            self._service = _Service(lake, statements, self.token, port=port, read_only=not writes)
        except pa.ArrowException as e:
            raise InvalidRequest(f"port {port} of {HOST} cannot be listened on: {e}") from None
        # It answers now, in threads of gRPC: Arrow's `serve` would only wait, and take Ctrl-C from its caller

    @property
    def address(self) -> str:
        """What a client connects to."""
        return f"grpc+tcp://{HOST}:{self._service.port}"

    def close(self) -> None:
        """End it; what is being fetched is finished first. Ctrl-C ends the waiting for it."""
        ending = threading.Thread(target=self._end, name="flight-sql-end", daemon=True)
        ending.start()
        ending.join()  # not in this thread: Arrow's waiting would not hear Ctrl-C

    def _end(self) -> None:
        self._service.shutdown()
        self._service.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Service(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow.flight has no types
    """The calls of the protocol. They run in threads of gRPC, many at once."""

    def __init__(self, lake: Lake, statements: Statements, token: str, *, port: int, read_only: bool) -> None:
        super().__init__(f"grpc+tcp://{HOST}:{port}", **sign_in(token))
        self._lake, self._statements, self._read_only = lake, statements, read_only

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """What a command will give, and the ticket for it."""
        with _errors():
            schema, ticket = self._asked(descriptor.command)
            endpoint = flight.FlightEndpoint(flight.Ticket(ticket), [])
            return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """The columns of what a command gives."""
        with _errors():
            name, asked = unpacked(descriptor.command)
            if name == "CommandStatementQuery":
                handle, schema = self._statements.ask(asked.query)
                self._statements.fetch(handle)
            else:
                schema, _ = self._asked(descriptor.command)
            return flight.SchemaResult(schema)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of a ticket, as they come."""
        with _errors():
            name, asked = unpacked(ticket.ticket)
            if name == "TicketStatementQuery":
                ready = self._statements.fetch(asked.statement_handle)
                return flight.GeneratorStream(ready.schema, _with_our_errors(ready.rows()))
            return flight.RecordBatchStream(self._listing(name, asked))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Statements that change something, and the values for a prepared one."""
        with _errors():
            name, asked = unpacked(descriptor.command)
            if name == "CommandStatementUpdate":
                _answer_count(writer, self._statements.change(asked.query))
            elif name == "CommandPreparedStatementUpdate":
                _answer_count(writer, self._changed(asked.prepared_statement_handle, reader))
            elif name == "CommandPreparedStatementQuery":
                handle = asked.prepared_statement_handle
                rows = _parameters(reader)
                if len(rows) != 1:
                    raise Unsupported(f"{len(rows)} rows of values for one query", "bind one")
                self._statements.bind(handle, rows[0])
                _answer(writer, new("DoPutPreparedStatementResult", prepared_statement_handle=handle))
            else:
                raise Unsupported(f"DoPut of {name}")

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Prepare a statement, or forget one."""
        with _errors():
            _, asked = unpacked(action.body.to_pybytes())
            if action.type == _CREATE:
                handle, schema = self._statements.prepare(asked.query)
                columns = b"" if schema is None else schema.serialize().to_pybytes()
                fields = {"prepared_statement_handle": handle, "dataset_schema": columns}
                return iter([flight.Result(packed("ActionCreatePreparedStatementResult", **fields))])
            if action.type == _CLOSE:
                self._statements.close(asked.prepared_statement_handle)
                return iter([])
            raise Unsupported(f"the action {action.type[:60]} of Flight SQL")

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """The actions that there are."""
        return [(_CREATE, "prepare a statement"), (_CLOSE, "forget a prepared statement")]

    def _asked(self, command: bytes) -> tuple[pa.Schema, bytes]:
        """The columns of what a command gives, and the ticket for its rows."""
        name, asked = unpacked(command)
        if name == "CommandStatementQuery":
            handle, schema = self._statements.ask(asked.query)
        elif name == "CommandPreparedStatementQuery":
            statement = self._statements.prepared(asked.prepared_statement_handle)
            handle, schema = self._statements.ask(statement.text, statement.parameters)
        else:
            return self._listing_schema(name, asked), command
        return schema, packed("TicketStatementQuery", statement_handle=handle)

    def _listing_schema(self, name: str, asked: Any) -> pa.Schema:
        if name == "CommandGetTables":
            return listings.TABLES_WITH_SCHEMA if asked.include_schema else listings.TABLES
        if name == "CommandGetSqlInfo":
            return listings.INFO
        if name in _LISTINGS:
            return _LISTINGS[name][0]
        raise Unsupported(f"{name} of Flight SQL as a question")

    def _listing(self, name: str, asked: Any) -> pa.Table:
        if name == "CommandGetTables":
            return listings.tables(self._lake, asked)
        if name == "CommandGetSqlInfo":
            return listings.server_info(asked, version=__version__, read_only=self._read_only)
        if name in _LISTINGS:
            return _LISTINGS[name][1](self._lake, asked)
        raise Unsupported(f"{name} of Flight SQL as a ticket")

    def _changed(self, handle: bytes, reader: Any) -> int:
        """Carry a prepared statement out, once for each row of values; how many rows were written. An error
        says how many rows of values came before."""
        text, counts = self._statements.prepared(handle).text, list[int]()
        for row in _parameters(reader) or [[]]:
            try:
                counts.append(self._statements.change(text, row))
            except TablestoreError as e:
                before = f"\ncarried out for {many(len(counts), 'row')} of values before" if counts else ""
                raise flight.FlightServerError(f"{e}{before}") from None
        return -1 if -1 in counts else sum(counts)


def _answer(writer: Any, message: Any) -> None:
    writer.write(pa.py_buffer(message.SerializeToString()))


def _answer_count(writer: Any, rows: int) -> None:
    _answer(writer, new("DoPutUpdateResult", record_count=rows))


def _parameters(reader: Any) -> list[list[Any]]:
    """Rows of values for the `?` of a statement; none where a client sends none."""
    table = reader.read_all()
    columns = [column.to_pylist() for column in table.columns]  # values of a statement, not rows of data
    return [list(row) for row in zip(*columns, strict=True)]


def _with_our_errors(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; an error in between is the client's to read."""
    with _errors():
        yield from rows


@contextmanager
def _errors() -> Iterator[None]:
    """Our errors as those of Flight, with their words; of others the client learns the kind alone."""
    try:
        yield
    except (flight.FlightError, GeneratorExit):
        raise
    except TablestoreError as e:  # Arrow's own errors would carry our traceback to the client
        raise flight.FlightServerError(str(e)) from None
    except Exception as e:
        log.exception("a call of Flight SQL failed")
        raise flight.FlightInternalError(f"the server failed: {type(e).__name__}") from None


_HEADER = "authorization"


def sign_in(token: str) -> dict[str, Any]:
    """Arguments of a server of Flight that asks for a token."""
    return {"auth_handler": _Handshake(), "middleware": {"token": _TokenRequired(token)}}


class _Handshake(flight.ServerAuthHandler):  # type: ignore[misc]  # pyarrow.flight has no types
    """Lets the handshake of user and password pass: the header was looked at before."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Nothing more is asked."""

    def is_valid(self, token: bytes) -> str:
        """Any: the header was looked at before."""
        return ""


class _Answer(flight.ServerMiddleware):  # type: ignore[misc]  # pyarrow.flight has no types
    """Gives a client that came with a password what it shows from then on."""

    def __init__(self, token: str) -> None:
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        return {_HEADER: f"Bearer {self._token}"}


class _TokenRequired(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow.flight has no types
    """Refuses each call without the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str]]) -> _Answer | None:
        """Raises FlightUnauthenticatedError."""
        del info
        written = next((values[0] for name, values in headers.items() if name.lower() == _HEADER), "")
        kind, _, value = written.partition(" ")
        given = _password(value) if kind.lower() == "basic" else value
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            raise flight.FlightUnauthenticatedError(
                "the token of this server is missing: it is what the server printed as it started; give it "
                "as a password, or as the header authorization: Bearer TOKEN"
            )
        return _Answer(self._token) if kind.lower() == "basic" else None


def _password(encoded: str) -> str:
    """The password of `user:password` in Base64, padded or not; empty where it is none."""
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
