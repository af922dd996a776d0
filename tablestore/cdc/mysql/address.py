"""Address: where a source database is and who asks. The password is in none of it.

It comes from an environment variable, TABLESTORE_SOURCE_PASSWORD if none is named, or from a file, each
time a connection is made: an address can be shown, logged, pickled and stored.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from tablestore.core.errors import InvalidRequest

PASSWORD_VARIABLE = "TABLESTORE_SOURCE_PASSWORD"
_SCHEMES = ("mysql", "mariadb")
_FORM = "mysql://user@host:3306/database"


@dataclass(frozen=True, slots=True)
class Address:
    """A server, a user and, if named, a database. `password_variable` is the environment variable that holds
    the password, unless a file does; a connection is given up after `connect_seconds`."""

    user: str
    host: str
    port: int = 3306
    database: str = ""
    password_file: str | None = None
    password_variable: str = PASSWORD_VARIABLE
    connect_seconds: float = 10

    @classmethod
    def parse(cls, url: str, *, password_file: str | None = None) -> Address:
        """The address of mysql://user@host:port/database; raises InvalidRequest, without showing the text,
        for one that holds a password."""
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
        if query or parts.fragment:
            raise InvalidRequest(f"the address of the source has unknown parts after its path; write {_FORM}")
        database = unquote(parts.path.strip("/"))
        return cls(unquote(parts.username), parts.hostname, port or 3306, database, password_file)

    @property
    def place_of_password(self) -> str:
        """Where the password comes from, in words."""
        return self.password_file or f"environment variable {self.password_variable}"

    def password(self) -> str:
        """The password as it is now; empty without one."""
        if self.password_file is None:
            return os.environ.get(self.password_variable, "")
        try:
            with open(self.password_file, encoding="utf-8") as f:
                return f.read().rstrip("\r\n")
        except OSError as e:
            raise InvalidRequest(f"the file of the password cannot be read: {e.strerror}") from None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mysql://{self.user}@{host}:{self.port}" + (f"/{self.database}" if self.database else "")
