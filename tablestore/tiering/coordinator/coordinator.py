"""Coordinator: tiering of the tables with a log of one lake, as a cluster on a port of 127.0.0.1.

Who may write the warehouse may ask it (`fluss/sign_in.py`). Its server has a thread a connection. Every frame
of the protocol gets an answer: what cannot be read, is not known or fails gets an error. A frame that is too
long is answered by an error and the end of the connection, since what follows cannot be told apart. Before a
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
from types import TracebackType

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, TablestoreError, brief
from tablestore.core.extras import required
from tablestore.core.options.environment import trust
from tablestore.fluss.apis import API_VERSIONS, AUTHENTICATE, SMALL
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.frames import (
    LENGTH,
    Request,
    decoded,
    error_frame,
    read_request,
    received,
    response_frame,
)
from tablestore.fluss.messages import pb
from tablestore.fluss.sign_in import (
    DIRECTORY,
    MECHANISM,
    PASSWORD_VARIABLE,
    lake_user,
    make_token,
    password_of,
    token_path,
)
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join
from tablestore.table.lake import Lake
from tablestore.tiering.coordinator.files import FileEpochs
from tablestore.tiering.coordinator.lake_snapshots import LakeSnapshots
from tablestore.tiering.coordinator.requests import CoordinatorRequests
from tablestore.tiering.coordinator.served_tables import ServedTables
from tablestore.tiering.coordinator.table_states import TableStatus

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


LARGEST_PORT = 65535
_TICK_SECONDS = 1.0


class Coordinator:
    """Serves and hands out the tables of `lake` with a log and `tablestore.tiering.enabled`.

    It answers from the moment it is made until `close`, or the end of its `with` block. `address` is what
    services and clients connect to, with the password of `token_file`, which ours find by themselves. Safe to
    share between threads. Raises InvalidRequest for a `host` that others reach.
    """

    def __init__(self, lake: Lake, io: FileIO, *, host: str = HOST, port: int = 0, env: Env = SYSTEM) -> None:
        required("google.protobuf", by="the coordinator of tiering")
        required("google_crc32c", by="the coordinator of tiering")
        _require_this_machine(host)
        if not 0 <= port <= LARGEST_PORT:
            raise InvalidRequest(
                f"port {port} must be a port, 1 to {LARGEST_PORT}, or 0 for any that is free"
            )
        self._ended = threading.Event()
        self._io, self._warehouse = io, lake.warehouse
        self._server = Server(lambda *asked: self._requests.answer(*asked), port=port, env=env)
        try:
            directory = join(lake.warehouse, DIRECTORY)
            epochs, lakes = FileEpochs(io, directory), LakeSnapshots(io, directory, env)
            self.epoch = epochs.coordinator
            tables = ServedTables(lake, env)
            self._requests = CoordinatorRequests(
                tables, epochs, lakes, env, host=HOST, port=self._server.port
            )
            self._requests.tick()
            password = make_token(io, lake.warehouse, self._server.port, env)
        except BaseException:
            self._server.close()
            raise
        self._server.start(password)
        trust(self.server)
        self._thread = threading.Thread(target=self._tick, name="coordinator clock", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """`lake@host:port`: what `lake.tier("fluss://…")` and `Cluster` take."""
        return f"{lake_user(self._warehouse)}@{self.server}"

    @property
    def server(self) -> str:
        """`host:port`: what other clients of Fluss take, which sign in by SASL/PLAIN as any user."""
        return f"{HOST}:{self._server.port}"

    @property
    def token_file(self) -> str:
        """Where the password is, for those who may write the lake."""
        return token_path(self._warehouse, self._server.port)

    @property
    def has_token(self) -> bool:
        """Whether its password is where services of ours look for it."""
        return self._io.exists(self.token_file)

    def tables(self) -> list[TableStatus]:
        """The tables that are tiered, with their states."""
        return self._requests.tables()

    def close(self) -> None:
        """End; services hold their tables until they hear of it, and the next coordinator fences them."""
        self._ended.set()
        self._server.close()
        self._io.delete(self.token_file)
        self._thread.join(timeout=5)

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            self._requests.tick_quietly()

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        states = [status.state for status in self.tables()]
        counts = ", ".join(f"{states.count(s)} {s}" for s in sorted(set(states)))
        return f"Coordinator({self.server}, epoch {self.epoch}: {counts or 'no table is tiered'})"


def _require_this_machine(host: str) -> None:
    """Raise InvalidRequest for an address that other machines reach."""
    if host not in (HOST, "localhost"):
        raise InvalidRequest(
            f"a coordinator listens on {HOST} alone, not on {host!r}: the protocol of Fluss encrypts neither "
            f"rows nor passwords. From another machine, forward the same port, ssh -L PORT:{HOST}:PORT, and "
            f"give {PASSWORD_VARIABLE} what the coordinator's token_file holds"
        )
