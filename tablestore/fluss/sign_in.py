"""Signing in to servers that require it: SASL/PLAIN, a user and a password, since Fluss 0.7.

The user is part of the address, `fluss://reader@host:9123`, which services and lake tables keep. The password
is in the environment of every process that reads or writes, and nowhere else: in no address, option, text or
file of ours. It is sent as it is: Fluss encrypts nothing itself. An address that a lake table keeps gets it
only if the user trusts its servers: `core/options/environment.py`.

The password of a lake's coordinator is a file of the lake, for those who may write the lake:

    <warehouse>/.tablestore/coordinator/tokens/<port>     made anew at each start, gone with the coordinator

The address names the lake in the place of a user, fluss://<warehouse>@127.0.0.1:<port>, with %XX for what an
address cannot hold. A client that may read the file signs in with it, again after each start; another one
gets what it holds by the environment. It is sent to that port of 127.0.0.1 alone, and is worth nothing when
its coordinator has ended: who listens there then learns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, unquote

from tablestore.core.env import Env
from tablestore.core.errors import InvalidOption, InvalidRequest, TablestoreError
from tablestore.core.options.environment import resolved
from tablestore.io.confined import confined
from tablestore.io.fileio import FileIO
from tablestore.io.paths import is_object_location, join
from tablestore.io.private_file import write_private
from tablestore.io.routed import file_io_for

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


DIRECTORY = ".tablestore/coordinator"
_HOST = (
    "127.0.0.1"  # where coordinators listen: at the same port of ::1, of which localhost is one, others may
)
_MOST_BYTES = 200


def lake_user(warehouse: str) -> str:
    """The lake in the place of a user.

    >>> lake_user("/data/my lake")
    '/data/my%20lake'
    """
    return quote(warehouse)


def token_path(warehouse: str, port: int) -> str:
    """The file of the coordinator that listens at a port."""
    return join(warehouse, DIRECTORY, "tokens", str(port))


def make_token(io: FileIO, warehouse: str, port: int, env: Env) -> str:
    """A new password for the coordinator that listens at a port, in its file."""
    token = env.uuid().replace("-", "")
    write_private(io, token_path(warehouse, port), token.encode(), below=warehouse, env=env)
    return token


def sign_in_at(user: str, host: str, port: int) -> SignIn:
    """How a user of an address signs in to one of the cluster's servers. Raises InvalidRequest where a
    password of the environment is not there, and for a lake's password elsewhere than on this machine."""
    warehouse = unquote(user)
    if not (warehouse.startswith("/") or is_object_location(warehouse)):
        return Credentials.from_environment(user)
    if host != _HOST:
        raise InvalidRequest(
            f"the password of the coordinator of {warehouse} is sent to {_HOST} alone, where it listens, "
            f"and not to {host}:{port}: write fluss://{user}@{_HOST}:{port}"
        )
    return LakeToken(warehouse, port)


@dataclass(frozen=True, slots=True)
class LakeToken:
    """Signs in to the coordinator of a lake. The file is read each time."""

    warehouse: str
    port: int

    @property
    def user(self) -> str:
        """The lake, as the address has it."""
        return lake_user(self.warehouse)

    @property
    def token(self) -> bytes:
        """What is sent, by RFC 4616. Raises InvalidRequest where neither the file nor the environment has
        the password."""
        path = token_path(self.warehouse, self.port)
        try:
            password = confined(file_io_for(path), self.warehouse).read(path)[:_MOST_BYTES].decode().strip()
        except (FileNotFoundError, TablestoreError, UnicodeDecodeError) as e:
            try:
                return Credentials.from_environment(self.user).token
            except InvalidRequest:
                raise InvalidRequest(
                    f"the password of the coordinator at port {self.port} is in {path}, which cannot be read "
                    f"here ({e.strerror if isinstance(e, OSError) else e}): give {PASSWORD_VARIABLE} what it "
                    "holds"
                ) from e
        return Credentials(self.user, password).token
