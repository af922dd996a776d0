"""Signing in to servers that require it: SASL/PLAIN, a user and a password, since Fluss 0.7.

The user is part of the address, `fluss://reader@host:9123`, which services and lake tables keep. The password
is in the environment of every process that reads or writes, and nowhere else: in no address, option, text or
file of ours. It is sent as it is: Fluss encrypts nothing itself. An address that a lake table keeps gets it
only if the user trusts its servers: `core/options/environment.py`. Where the user is a lake, its
coordinator is meant: `coordinator_token.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from tablestore.core.errors import InvalidOption, InvalidRequest
from tablestore.core.options.environment import resolved

PASSWORD_VARIABLE = "TABLESTORE_FLUSS_PASSWORD"
MECHANISM = "PLAIN"


class SignIn(Protocol):
    """Who signs in."""

    @property
    def user(self) -> str:
        """The user, as texts may show it."""
        ...

    @property
    def token(self) -> bytes:
        """What is sent, by RFC 4616. Raises InvalidRequest where the password is not there."""
        ...


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user of a cluster, with the password.

    >>> Credentials("reader", "secret")
    Credentials(user='reader')
    """

    user: str
    password: str = field(repr=False)

    @classmethod
    def from_environment(cls, user: str) -> Credentials:
        """That user with the password of the environment. Raises InvalidRequest where there is none."""
        try:
            return cls(user, resolved("password", f"${{env:{PASSWORD_VARIABLE}}}"))
        except InvalidOption:
            raise InvalidRequest(
                f"the address names the user {user!r}: set the environment variable {PASSWORD_VARIABLE} to "
                "the password"
            ) from None

    @property
    def token(self) -> bytes:
        """What is sent, by RFC 4616."""
        return b"\0".join((b"", self.user.encode(), self.password.encode()))


def password_of(token: bytes) -> bytes | None:
    """The password in what a client sent; None where it is nothing by RFC 4616."""
    parts = token.split(b"\0")
    return parts[2] if len(parts) == 3 else None
