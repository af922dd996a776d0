"""The server of the coordinator: frames of the protocol on a socket of 127.0.0.1, a thread a connection.

Every frame gets an answer: what cannot be read, is not known or fails gets an error. A frame that is too long
is answered by an error and the end of the connection, since what follows cannot be told apart. Before a
connection has signed in with the password, it learns only what is served.

Nobody takes what others need. A connection that has not signed in asks in few bytes, ends after some seconds,
and gives way, the oldest first, when many others come. Those that have are limited in number. A request that
has begun arrives in its time, an answer is taken in its time. Memory: one request and one answer a
connection, each as long as it is and no longer than its limit.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import TablestoreError, brief
from tablestore.fluss.apis import API_VERSIONS, AUTHENTICATE, SMALL
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.frames import LENGTH, Request, error_frame, read_request, received, response_frame
from tablestore.fluss.messages import pb
from tablestore.fluss.messages.decoding import decoded
from tablestore.fluss.sign_in import MECHANISM, password_of

log = logging.getLogger(__name__)
HOST = "127.0.0.1"
_MOST_BYTES = 16 << 20
"""Of a request; clients of Fluss send 10 MB of rows at most, unless they are set up otherwise."""
_MOST_STRANGERS, _MOST_CLIENTS = 64, 64
_SIGN_IN_SECONDS, _IDLE_SECONDS, _FRAME_SECONDS = 10.0, 600.0, 30.0
_HEAD_BYTES = 8
"""API key, version and request id of a request."""
_BACKLOG = 64


@dataclass(eq=False, slots=True)
class _Peer:
    """A connection. `signs_in_by`: when it ends, until it has signed in. `client`: what it calls itself."""

    connection: socket.socket
    signs_in_by: float
    signed_in: bool = False
    client: str = ""
    thread: threading.Thread | None = None

    def end(self) -> None:
        """Wake its thread, which closes it."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Server:
    """Answers frames by `answer(api key, body, client)`, which raises FlussError for an error; `client` is
    what the connection calls itself. `port` 0: any that is free."""

    def __init__(
        self, answer: Callable[[int, bytes, str], bytes], *, port: int = 0, env: Env = SYSTEM
    ) -> None:
        self._answer, self._password, self._env = answer, b"", env
        self._listening = socket.create_server((HOST, port), backlog=_BACKLOG)
        self.port: int = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._peers: list[_Peer] = []  # the oldest first
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name="coordinator", daemon=True)

    def start(self, password: str) -> None:
        """Begin to answer clients that have the password, whatever their user."""
        self._password = password.encode()
        self._thread.start()

    def close(self) -> None:
        """End all connections; returns when nothing is answered any more."""
        with self._lock:
            self._closed = True
            peers = list(self._peers)
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for peer in peers:
            peer.end()
        for peer in peers:
            if peer.thread is not None:
                peer.thread.join(timeout=5)
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            peer = _Peer(connection, self._env.monotonic() + _SIGN_IN_SECONDS)
            peer.thread = threading.Thread(target=self._serve, args=(peer,), daemon=True)
            with self._lock:
                closed = self._closed
                strangers = [other for other in self._peers if not other.signed_in]
                if not closed:
                    self._peers.append(peer)
                    peer.thread.start()
            if closed:
                connection.close()
                continue
            for other in strangers[: len(strangers) + 1 - _MOST_STRANGERS]:
                other.end()

    def _serve(self, peer: _Peer) -> None:
        try:
            peer.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with peer.connection:
                while self._answered(peer):
                    pass
        except OSError as e:
            log.debug("a connection ended: %s", e)
        finally:
            with self._lock:
                self._peers.remove(peer)

    def _answered(self, peer: _Peer) -> bool:
        """Answer the next request; False where there is none any more."""
        by = self._env.monotonic() + _IDLE_SECONDS if peer.signed_in else peer.signs_in_by
        head = self._received(peer, LENGTH.size, by)
        if head is None:
            return False
        (size,) = LENGTH.unpack(head)
        most = _MOST_BYTES if peer.signed_in else SMALL
        if not _HEAD_BYTES <= size <= most:
            text = f"a request of {size} bytes; {most} are the most"
            self._send(peer, error_frame(0, ErrorCode.CORRUPT_MESSAGE, text))
            return False
        frame = self._received(peer, size, self._env.monotonic() + _FRAME_SECONDS)
        if frame is None:
            return False
        request, goes_on = read_request(frame), True
        try:
            answer = response_frame(request.request_id, self._answer_to(peer, request))
        except FlussError as e:
            answer = error_frame(request.request_id, e.code, e.message)
            goes_on = peer.signed_in or request.api_key != AUTHENTICATE.key
        except Exception as e:  # the client waits for an answer, whatever went wrong
            log.exception("API %d failed", request.api_key)
            answer = error_frame(request.request_id, ErrorCode.UNKNOWN_SERVER_ERROR, brief(e))
        self._send(peer, answer)
        return goes_on

    def _answer_to(self, peer: _Peer, request: Request) -> bytes:
        """Raises FlussError for every request that cannot be answered, or not yet."""
        if request.api_key == AUTHENTICATE.key:
            self._sign_in(peer, request)
            return bytes(pb.AuthenticateResponse().SerializeToString())
        if not peer.signed_in and request.api_key != API_VERSIONS.key:
            text = "the connection has not signed in: the address that the coordinator shows has its user"
            raise FlussError(ErrorCode.AUTHENTICATE, text)
        if request.api_key == API_VERSIONS.key:
            with contextlib.suppress(TablestoreError):  # which the answer is
                hello = decoded(pb.ApiVersionsRequest, request.body, HOST, "an ApiVersions request")
                peer.client = hello.client_name
        return self._answer(request.api_key, bytes(request.body), peer.client)

    def _sign_in(self, peer: _Peer, request: Request) -> None:
        try:
            asked = decoded(pb.AuthenticateRequest, request.body, HOST, "an Authenticate request")
        except TablestoreError as e:
            raise FlussError(ErrorCode.CORRUPT_MESSAGE, str(e)) from None
        given = password_of(asked.token) if asked.protocol == MECHANISM else None
        if given is None:
            text = f"the mechanism is {MECHANISM}: a user and a password"
            raise FlussError(ErrorCode.AUTHENTICATE, text)
        if not hmac.compare_digest(given, self._password):
            text = "this is not the password of the coordinator that runs now: each start makes another one"
            raise FlussError(ErrorCode.AUTHENTICATE, text)
        with self._lock:
            clients = sum(other.signed_in for other in self._peers if other is not peer)
            if clients >= _MOST_CLIENTS:
                raise FlussError(ErrorCode.RETRIABLE_AUTHENTICATE, f"{clients} connections are open already")
            peer.signed_in = True

    def _received(self, peer: _Peer, size: int, by: float) -> memoryview | None:
        """So many bytes, None where the connection ends before. Raises TimeoutError where they are not there
        by then."""

        def receive(into: memoryview) -> int:
            left = by - self._env.monotonic()
            if left <= 0:
                raise TimeoutError("it is silent for too long")
            peer.connection.settimeout(left)
            return peer.connection.recv_into(into)

        return received(receive, size)

    def _send(self, peer: _Peer, frame: bytes) -> None:
        """Raises TimeoutError where it is not taken in time."""
        peer.connection.settimeout(_FRAME_SECONDS)
        peer.connection.sendall(frame)
