"""Frames of the protocol, big-endian, of both sides of a connection.

    request   int32 length | int16 API key | int16 version (0) | int32 request id | message
    response  int32 length | int8 kind | …   kind 0: int32 request id | message
                                             kind 1: int32 request id | ErrorResponse
                                             kind 2: ErrorResponse, of the connection as a whole
The length counts the bytes behind it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tablestore.core.errors import Corrupt
from tablestore.fluss.errors import FlussError
from tablestore.fluss.messages import pb

LENGTH = struct.Struct(">i")
MAX_BYTES = 1 << 30
_REQUEST = struct.Struct(">ihhi")
_REQUEST_HEAD = struct.Struct(">hhi")
_RESPONSE = struct.Struct(">ibi")
_OK, _ERROR, _FAILURE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Request:
    """What a server is asked; `body` is the message."""

    api_key: int
    version: int
    request_id: int
    body: memoryview


@dataclass(frozen=True, slots=True)
class Response:
    """What a server answers: the bytes of a message, or an error. `request_id` is None where the error is
    of the connection as a whole."""

    request_id: int | None
    body: memoryview | None
    error: FlussError | None = None


def request_frame(api_key: int, request_id: int, body: bytes) -> bytes:
    """The frame of a request."""
    return _REQUEST.pack(_REQUEST_HEAD.size + len(body), api_key, 0, request_id) + body


def response_frame(request_id: int, body: bytes) -> bytes:
    """The frame of an answer."""
    return _RESPONSE.pack(5 + len(body), _OK, request_id) + body


def error_frame(request_id: int, code: int, message: str) -> bytes:
    """The frame of a refusal."""
    body = pb.ErrorResponse(error_code=code, error_message=message).SerializeToString()
    return _RESPONSE.pack(5 + len(body), _ERROR, request_id) + body


def frame_bytes(head: bytes | bytearray, peer: str) -> int:
    """How many bytes follow the length at the start of a frame; raises Corrupt for one that cannot be."""
    (size,) = LENGTH.unpack(head)
    if not 1 <= size <= MAX_BYTES:
        raise Corrupt(peer, f"a frame of {size} bytes: this is no server of Fluss")
    return size


def read_request(frame: memoryview) -> Request:
    """The request in a frame without its length."""
    key, version, request_id = _REQUEST_HEAD.unpack_from(frame)
    return Request(key, version, request_id, frame[_REQUEST_HEAD.size :])


def read_response(frame: memoryview, peer: str) -> Response:
    """The answer in a frame without its length; raises Corrupt for another kind of frame."""
    kind = frame[0]
    if kind not in (_OK, _ERROR, _FAILURE) or (kind != _FAILURE and len(frame) < 5):
        raise Corrupt(peer, f"a frame of kind {kind} with {len(frame)} bytes")
    if kind == _FAILURE:
        return Response(None, None, _error(frame[1:]))
    (request_id,) = LENGTH.unpack_from(frame, 1)
    body = frame[5:]
    return Response(request_id, body) if kind == _OK else Response(request_id, None, _error(body))


def _error(body: memoryview) -> FlussError:
    said = pb.ErrorResponse.FromString(bytes(body))
    return FlussError(said.error_code, said.error_message)
