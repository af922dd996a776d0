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
from tablestore.sql.connectors.connector import Option, always, from_environment, whole

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


def require_key(declared: tuple[str, ...], key: tuple[str, ...], table: object) -> None:
    """Raise InvalidRequest for a primary key that is declared otherwise than the table has it."""
    if declared and {*declared} != {*key}:
        raise InvalidRequest(
            f"the primary key is declared as ({', '.join(declared)}), and that of {table} is "
            f"({', '.join(key)}): declare that one, or none"
        )
