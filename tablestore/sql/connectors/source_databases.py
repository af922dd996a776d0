"""What the connectors of source databases have in common: where a server is, who asks, and what is taken
without effect.

The password is `${env:NAME}` or in a file, and in nothing that is stored, shown or sent to tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tablestore.cdc.databases.address import PASSWORD_VARIABLE, PREFERRED, TLS_MODES, Address
from tablestore.core.errors import InvalidOption, InvalidRequest
from tablestore.core.options.environment import ENVIRONMENT
from tablestore.core.options.values import boolean, duration_ms, one_of
from tablestore.sql.connectors.connector import (
    ConnectorOptions,
    Option,
    always,
    count,
    from_environment,
    whole,
)

_NO_EFFECT = "taken and without effect: "


def _port(text: str) -> int:
    port = whole(text)
    if not 0 < port < 65536:
        raise ValueError("a port, 1 to 65535")
    return port


def zone(text: str) -> str:
    """The name of a time zone."""
    try:
        pa.scalar(0, pa.timestamp("s", tz=text.strip())).cast(pa.string())
        return text.strip()
    except (pa.ArrowException, ValueError):
        raise ValueError("a time zone such as 'Europe/Berlin' or '+02:00'") from None


def zone_option(kind: str) -> Option:
    """The zone of times of a type of the source."""
    text = f"the zone in which a {kind} of the source is that is declared without one"
    return Option("server-time-zone", text, zone, default="UTC")


def require_rows(mode: str, initial: str, snapshot: str) -> None:
    """Raise InvalidRequest for a mode of start that gives no rows, in batch mode."""
    if mode not in (initial, snapshot):
        remedy = f"{snapshot!r} gives the rows, SET 'execution.runtime-mode' = 'streaming' the changes"
        raise InvalidRequest(f"option 'scan.startup.mode' is {mode!r} in batch mode: {remedy}")


def yes(text: str) -> bool:
    """True, the only value that there is."""
    if not boolean(text):
        raise ValueError("true: tables are read without a lock")
    return True


def where_options(port: int, rights: str) -> tuple[Option, ...]:
    """Where the server is and who asks, with `rights`."""
    return (
        Option("hostname", "the server's name or address", required=True),
        Option("port", "the server's port", _port, default=port),
        Option("username", f"a user with {rights}", required=True),
        Option(
            "password",
            f"${{env:NAME}}; without it, and without a file, what {PASSWORD_VARIABLE} holds",
            from_environment,
            late=True,
        ),
        Option("tablestore.password-file", "a file that holds the password and nothing else", place=always),
        Option(
            "tablestore.tls",
            "whether connections are encrypted and the server's certificate is verified",
            one_of(*TLS_MODES),
            default=PREFERRED,
        ),
        Option(
            "tablestore.tls-ca",
            "a PEM file of the CAs that are trusted, for the modes verify-ca and -identity",
            place=always,
        ),
        Option(
            "database-name", "the database; no pattern: lake.ingest follows whole databases", required=True
        ),
    )


_CHUNK_SIZE = "scan.incremental.snapshot.chunk.size"
_CHUNK_COLUMN = "scan.incremental.snapshot.chunk.key-column"
_CHUNKS = "tablestore.chunks-per-batch"
CHUNK_OPTIONS = (
    Option("scan.incremental.snapshot.enabled", "true", yes, default=True),
    Option(_CHUNK_SIZE, "rows of a chunk", count, default=200_000),
    Option(_CHUNK_COLUMN, "the column by which chunks are cut: the first one of the primary key"),
    Option(_CHUNKS, "chunks that a batch reads at most, each in a task", count, default=4),
)
"""How the rows that are there are read."""
_AS_MANY = "chunks have as many rows as they are to have"
WITHOUT_EFFECT = {
    "scan.snapshot.fetch.size": "rows are read as they come",
    "chunk-meta.group.size": "no list of chunks is kept",
    "chunk-key.even-distribution.factor.upper-bound": _AS_MANY,
    "chunk-key.even-distribution.factor.lower-bound": _AS_MANY,
    "scan.incremental.snapshot.unbounded-chunk-first.enabled": "the last chunk ends at its position",
    "connect.max-retries": "a server that is away is tried again for 15 minutes",
    "connection.pool.size": "a task has a connection of its own",
    "scan.incremental.close-idle-reader.enabled": "nothing is open between batches",
    "scan.incremental.snapshot.backfill.skip": "changes come once either way",
    "scan.newly-added-table.enabled": "a stream is one table",
}
REFUSED = (
    Option("scan.read-changelog-as-append-only.enabled", refused="updates and deletes stay what they are"),
    Option("scan.parse.online.schema.changes.enabled", refused="lake.ingest follows schema changes"),
    Option("jdbc.properties.*", refused="there is no JDBC"),
    Option("debezium.*", refused="changes are read from the log itself"),
)
TIMEOUT = Option(
    "connect.timeout",
    "how long a connection may take: `30 s`; the default is in seconds",
    lambda text: max(1, duration_ms(text) // 1000),
    default=10,
)


def without_effect(reasons: Mapping[str, str]) -> tuple[Option, ...]:
    """Options that are taken and change nothing, with the reason of each."""
    return tuple(Option(key, _NO_EFFECT + why) for key, why in reasons.items())


def address_of(values: Mapping[str, Any]) -> Address:
    """Where the server is; raises InvalidOption for two places of a password."""
    written, file = values["password"], values["tablestore.password-file"]
    if written and file:
        raise InvalidOption("option 'password' or 'tablestore.password-file', not both")
    named = written.removeprefix(ENVIRONMENT).removesuffix("}") if written else PASSWORD_VARIABLE
    return Address(
        values["username"],
        values["hostname"],
        values["port"],
        values["database-name"],
        password_file=file,
        password_variable=named,
        connect_seconds=values["connect.timeout"],
        tls=values["tablestore.tls"],
        tls_ca=values["tablestore.tls-ca"],
    )


def chunks_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a stream that `CHUNK_OPTIONS` are."""
    return {"chunk_rows": values[_CHUNK_SIZE], "chunks": values[_CHUNKS]}


def require_keys(options: ConnectorOptions, key: tuple[str, ...], table: object) -> None:
    """Raise InvalidRequest for a primary key that is declared otherwise than the table has it, InvalidOption
    for chunks by another column."""
    declared, by = options.primary_key, options.values[_CHUNK_COLUMN]
    if declared and {*declared} != {*key}:
        raise InvalidRequest(
            f"the primary key is declared as ({', '.join(declared)}), and that of {table} is "
            f"({', '.join(key)}): declare that one, or none"
        )
    if by is not None and by != key[0]:
        raise InvalidOption(
            f"option {_CHUNK_COLUMN!r} is {by!r}, and the primary key of {table} begins with {key[0]!r}: "
            "chunks are cut by that one"
        )
