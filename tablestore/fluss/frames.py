"""Frames of the protocol, big-endian, of both sides of a connection, and the messages in them.

    request   int32 length | int16 API key | int16 version (0) | int32 request id | message
    response  int32 length | int8 kind | …   kind 0: int32 request id | message
                                             kind 1: int32 request id | ErrorResponse
                                             kind 2: ErrorResponse, of the connection as a whole

The length counts the bytes behind it. Who reads a frame says how long it may be, and memory is taken as bytes
arrive. A message is taken whole, with every text a text: protobuf itself takes one without its required
fields, and gives bytes where a text is no UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tablestore.core.errors import Corrupt, brief
from tablestore.fluss.errors import FlussError
from tablestore.fluss.messages import pb

_with_texts: dict[str, tuple[tuple[str, bool, bool], ...]] = {}


def decoded(kind: Any, body: bytes | memoryview, sender: str, what: str) -> Any:
    """The message of class `kind` in `body`. Raises Corrupt, naming `sender` and `what` it is, for a body
    that holds none."""
    try:
        message = kind.FromString(body)
    except Exception as e:  # protobuf's DecodeError, of a package imported when first used
        raise Corrupt(sender, f"{what}: {brief(e)}") from e
    if not message.IsInitialized():
        raise Corrupt(sender, f"{what} lacks {', '.join(message.FindInitializationErrors()[:3])}")
    wrong = _no_text(message)
    if wrong:
        raise Corrupt(sender, f"{what}: its {wrong} is no text in UTF-8")
    return message


def _no_text(message: Any) -> str | None:
    """The name of a field, at any depth, that should be a text and is none."""
    for name, repeated, nested in _fields(message.DESCRIPTOR):
        if not repeated and not message.HasField(name):
            continue
        value = getattr(message, name)
        for each in value if repeated else (value,):
            wrong = _no_text(each) if nested else None if isinstance(each, str) else name
            if wrong:
                return wrong
    return None


def _fields(descriptor: Any) -> tuple[tuple[str, bool, bool], ...]:
    """(name, is repeated, is a message) of the fields that are texts or hold some: rows are not looked at."""
    if descriptor.full_name not in _with_texts:
        _with_texts[descriptor.full_name] = tuple(
            (field.name, field.is_repeated, field.message_type is not None)
            for field in descriptor.fields
            if field.type == field.TYPE_STRING or (field.message_type and _fields(field.message_type))
        )
    return _with_texts[descriptor.full_name]


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
