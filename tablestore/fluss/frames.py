"""Frames of the protocol, big-endian, of both sides of a connection.

    request   int32 length | int16 API key | int16 version (0) | int32 request id | message
    response  int32 length | int8 kind | …   kind 0: int32 request id | message
                                             kind 1: int32 request id | ErrorResponse
                                             kind 2: ErrorResponse, of the connection as a whole
The length counts the bytes behind it. Who reads a frame says how long it may be, and memory is taken as bytes
arrive.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tablestore.core.errors import Corrupt
from tablestore.fluss.errors import FlussError
from tablestore.fluss.messages import pb
from tablestore.fluss.messages.decoding import decoded

LENGTH = struct.Struct(">i")
ERROR_BYTES = 1 << 20
"""The longest refusal."""
_REQUEST = struct.Struct(">ihhi")
_REQUEST_HEAD = struct.Struct(">hhi")
_RESPONSE = struct.Struct(">ibi")
_OK, _ERROR, FAILURE = 0, 1, 2


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


def received(receive_into: Callable[[memoryview], int], size: int) -> memoryview | None:
    """So many bytes of a stream, None where it ends before. `receive_into` is that of a socket. Memory that
    was never written takes none, so a length alone costs nothing."""
    whole = np.empty(size, np.uint8).data
    at = 0
    while at < size:
        count = receive_into(whole[at:])
        if not count:
            return None
        at += count
    return whole


def read_request(frame: memoryview) -> Request:
    """The request in a frame without its length."""
    key, version, request_id = _REQUEST_HEAD.unpack_from(frame)
    return Request(key, version, request_id, frame[_REQUEST_HEAD.size :])


def read_answer_head(head: memoryview, peer: str) -> tuple[int, int]:
    """(kind of frame, bytes behind that kind) of the first five bytes of an answer. Raises Corrupt for what
    no server of Fluss sends; the bytes are not bounded yet, except those of refusals."""
    (size,) = LENGTH.unpack_from(head)
    kind = head[LENGTH.size]
    if size < 1 or kind not in (_OK, _ERROR, FAILURE) or (kind != FAILURE and size < 5):
        raise Corrupt(peer, f"a frame of {size} bytes and of kind {kind}: this is no server of Fluss")
    if kind != _OK and size > ERROR_BYTES:
        raise Corrupt(peer, f"a refusal of {size} bytes; {ERROR_BYTES} are the most")
    return kind, size - 1


def read_response(kind: int, request_id: int | None, body: memoryview, peer: str) -> Response:
    """The answer that a frame of this kind holds, behind the request id; raises Corrupt for a refusal that
    cannot be read."""
    if kind == _OK:
        return Response(request_id, body)
    said = decoded(pb.ErrorResponse, body, peer, "a refusal")
    return Response(request_id, None, FlussError(said.error_code, said.error_message))
