"""Who may ask: a client shows the server's token, as `Bearer TOKEN` or as the password of any user."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from pyarrow import flight

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
