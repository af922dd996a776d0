"""A client of the coordinator that speaks bytes."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from tablestore.fluss import apis
from tablestore.fluss.messages import pb
from tablestore.fluss.sign_in import Credentials
from tablestore.tiering.coordinator.coordinator import Coordinator


def connected(coordinator: Coordinator) -> socket.socket:
    """A connection of a stranger."""
    host, port = coordinator.server.split(":")
    return socket.create_connection((host, int(port)), timeout=240)


def signed_in(coordinator: Coordinator) -> socket.socket:
    """A connection of a client."""
    wire = connected(coordinator)
    assert sign_in(wire, Path(coordinator.token_file).read_text())[0] == 0
    return wire


def sign_in(wire: socket.socket, password: str, mechanism: str = "PLAIN") -> tuple[int, bytes]:
    request = pb.AuthenticateRequest(protocol=mechanism, token=Credentials("any", password).token)
    return asked(wire, apis.AUTHENTICATE.key, request.SerializeToString())


def asked(wire: socket.socket, key: int, body: bytes = b"", request_id: int = 1) -> tuple[int, bytes]:
    """(kind, what follows) of the answer."""
    wire.sendall(struct.pack(">ihhi", 8 + len(body), key, 0, request_id) + body)
    return answered(wire)


def answered(wire: socket.socket) -> tuple[int, bytes]:
    (size,) = struct.unpack(">i", received(wire, 4))
    frame = received(wire, size)
    return frame[0], frame[5:]


def received(wire: socket.socket, size: int) -> bytes:
    actual = b""
    while len(actual) < size:
        part = wire.recv(size - len(actual))
        assert part, "the connection ended"
        actual += part
    return actual


def ends(wire: socket.socket) -> bool:
    """Whether the server closes the connection, without a word more."""
    try:
        return wire.recv(1) == b""
    except ConnectionResetError:  # what it had not read is thrown away
        return True


def code_of(answer: tuple[int, bytes]) -> int:
    kind, body = answer
    assert kind == 1
    return pb.ErrorResponse.FromString(body).error_code
