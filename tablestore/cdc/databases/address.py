"""Address: where a source database is and who asks, and patience while it is away for a moment.

The password is in none of it: it comes from an environment variable, TABLESTORE_SOURCE_PASSWORD if none is
named, or from a file, each time a connection is made. So an address can be shown, logged, pickled and stored.
Longer waits are those of who restarts the stream, which then says that it waits, and for what.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, Unavailable
from tablestore.core.options.environment import value_of, without_environment

PASSWORD_VARIABLE = "TABLESTORE_SOURCE_PASSWORD"
OFF, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY = (
    "off",
    "preferred",  # encrypted if the server can
    "required",  # encrypted, whoever the server is
    "verify-ca",  # its certificate is of a CA that is trusted
    "verify-identity",  # and names the host
)
TLS_MODES = (OFF, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY)
_SCHEMES = ("mysql", "mariadb")
_FORM = "mysql://user@host:3306/database, with ?tls=verify-identity&tls_ca=/path if wanted"


@dataclass(frozen=True, slots=True)
class Address:
    """A server, a user and, if named, a database. `password_variable` is the environment variable that holds
    the password, unless a file does; a connection is given up after `connect_seconds`. `tls` is one of
    `TLS_MODES`; `tls_ca` a PEM file of the CAs that are trusted, where the system's are not meant. Raises
    InvalidRequest for another word, and for CAs that would not be asked."""

    user: str
    host: str
    port: int = 3306
    database: str = ""
    password_file: str | None = None
    password_variable: str = PASSWORD_VARIABLE
    connect_seconds: float = 10
    tls: str = PREFERRED
    tls_ca: str | None = None

    def __post_init__(self) -> None:
        if self.tls not in TLS_MODES:
            raise InvalidRequest(f"tls={self.tls!r} is none of {', '.join(TLS_MODES)}")
        if self.tls_ca is not None and not self.verifies:
            raise InvalidRequest(f"tls_ca without effect: tls={self.tls} asks no CA; write tls=verify-ca")

    @property
    def verifies(self) -> bool:
        """Whether the certificate of the server is looked at."""
        return self.tls in (VERIFY_CA, VERIFY_IDENTITY)

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        password_file: str | None = None,
        tls: str | None = None,
        tls_ca: str | None = None,
    ) -> Address:
        """The address of mysql://user@host:port/database?tls=…&tls_ca=…, in which arguments come before what
        is written; raises InvalidRequest, without showing the text, for one that holds a password."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidRequest(f"the address of the source is none; write {_FORM}") from None
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if parts.password is not None or "password" in query:
            raise InvalidRequest(
                f"the address of the source holds a password; give it in {PASSWORD_VARIABLE} or in a file"
            )
        if parts.scheme not in _SCHEMES or not parts.hostname or not parts.username:
            raise InvalidRequest(f"the address of the source needs a user and a host; write {_FORM}")
        tls = tls or query.pop("tls", PREFERRED)
        tls_ca = tls_ca or query.pop("tls_ca", None)
        if query.keys() - {"tls", "tls_ca"} or parts.fragment:
            raise InvalidRequest(f"the address of the source has unknown parts after its path; write {_FORM}")
        database = unquote(parts.path.strip("/"))
        user, host = unquote(parts.username), parts.hostname
        return cls(user, host, port or 3306, database, password_file, tls=tls, tls_ca=tls_ca)

    @property
    def place_of_password(self) -> str:
        """Where the password comes from, in words."""
        return self.password_file or f"environment variable {self.password_variable}"

    @property
    def variables(self) -> list[str]:
        """The environment variables that are looked up."""
        return [] if self.password_file else [self.password_variable]

    def password(self) -> str:
        """The password as it is now; empty without one."""
        if self.password_file is None:
            return value_of(self.password_variable) or ""
        try:
            with open(self.password_file, encoding="utf-8") as f:
                return f.read().rstrip("\r\n")
        except OSError as e:
            raise InvalidRequest(f"the file of the password cannot be read: {e.strerror}") from None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mysql://{self.user}@{host}:{self.port}" + (f"/{self.database}" if self.database else "")


log = logging.getLogger(__name__)
T = TypeVar("T")
AWAY_SECONDS = 20.0


def patiently(
    action: Callable[[], T], *, what: str, patience_seconds: float = AWAY_SECONDS, env: Env = SYSTEM
) -> T:
    """What the action gives; repeated while it raises Unavailable, with growing pauses of up to 10 s, for
    `patience_seconds` in all. The action must be one that may be done again."""
    end = env.monotonic() + patience_seconds
    pause = 0.1
    while True:
        try:
            return action()
        except Unavailable as e:
            left = end - env.monotonic()
            if left <= 0:
                raise Unavailable(f"{e}; given up after {patience_seconds:.0f} s") from e
            text = without_environment(f"{what}: {e}")
            log.warning("%s; again in %.1f s, for %.0f s more", text, pause, left)
            env.sleep(min(left, pause * (0.5 + env.jitter() / 2)))
            pause = min(10.0, pause * 2)


def patiently_begun(action: Callable[[], Iterator[T]], *, what: str) -> Iterator[T]:
    """What the action gives; until the first is there, as `patiently`."""

    def begun() -> Iterator[T]:
        items = action()
        first = next(items, None)
        return chain([] if first is None else [first], items)

    yield from patiently(begun, what=what)
