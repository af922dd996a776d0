"""One server: a socket that many threads may use at once, requests matched with answers by their ids.

A server of Fluss says nothing to a call that it does not know, so it is first asked what it serves, and every
call has a time-out for its whole answer. Where it requires that, a connection is signed in before anything
else is asked. One that was lost, was silent for too long, or answered what no server of Fluss does, is closed
with all calls that waited for it; the next call opens another. Calls that do the same when sent twice are
then sent again. An answer is no longer than its call allows, and memory is taken as it arrives.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field
from typing import Any

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Corrupt, TablestoreError, Unavailable, Unsupported, brief
from tablestore.fluss.apis import API_VERSIONS, AUTHENTICATE, Api
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.frames import (
    FAILURE,
    LENGTH,
    Response,
    decoded,
    read_answer_head,
    read_response,
    received,
    request_frame,
)
from tablestore.fluss.messages import pb
from tablestore.fluss.sign_in import MECHANISM, SignIn

Seconds = float
TIMEOUT: Seconds = 30.0
"""How long a call waits for its answer where nobody says otherwise."""
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0
_LEAST_SECONDS, _IDLE_SECONDS = 0.001, 86_400.0
CLIENT, _CLIENT_VERSION = "tablestore", "1"
"""What a connection of ours calls itself."""
_Receive = Callable[[memoryview], int]

log = logging.getLogger(__name__)


class Pending:
    """A call whose answer has not been read yet."""

    def __init__(self, link: _Link, api: Api, answer: Future[memoryview | None], deadline: float) -> None:
        self._link, self._api, self._answer, self._deadline = link, api, answer, deadline

    def result(self) -> Any:
        """The message of the answer. Raises FlussError where the server refuses, Corrupt for what is no
        answer, Unavailable where it does not answer in time or the connection is lost: it is then not known
        whether the call was carried out."""
        try:
            body = self._answer.result(max(0.0, self._deadline - self._link.env.monotonic()))
        except Late:
            error = Unavailable(f"{self._link.peer} did not answer {self._api} in time")
            self._link.close(error)
            raise error from None
        assert body is not None, "an answer that is no error has a body"
        return decoded(self._api.response, body, self._link.peer, f"the answer to {self._api}")

    @property
    def future(self) -> Future[Any]:
        """What is done when the answer has come or never will, to wait for one of many."""
        return self._answer

    @property
    def done(self) -> bool:
        """Whether `result` returns or raises at once."""
        return self._answer.done() or self._link.env.monotonic() >= self._deadline


class FlussConnection:
    """The calls of one server. Safe to share between threads; opened by the first call.

    `timeout`: seconds that a call waits for its answer, by default. `sign_in`: the user, None for a server
    that requires none.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout: Seconds = TIMEOUT,
        sign_in: SignIn | None = None,
        env: Env = SYSTEM,
    ) -> None:
        self.host, self.port, self.timeout = host, port, timeout
        self._sign_in, self._env = sign_in, env
        self._lock = threading.Lock()
        self._link: _Link | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"Connection({self.peer})"

    @property
    def peer(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"

    def keys(self) -> frozenset[int]:
        """The keys of the calls that the server serves."""
        return self._opened(self.timeout).keys

    def send(self, api: Api, request: Any, *, timeout: Seconds | None = None) -> Pending:
        """Send a request and return at once; many may be under way. Raises Unsupported for a call that the
        server does not serve, Unavailable where it cannot be reached."""
        seconds = self.timeout if timeout is None else timeout
        return self._opened(seconds).send(api, request, seconds)

    def call(self, api: Api, request: Any, *, timeout: Seconds | None = None, again: bool = True) -> Any:
        """The answer to a request. If the connection is lost and the call is idempotent, it is sent again
        until the time-out is over; never with `again` = False. Raises as `send` and `Pending.result`."""
        over = self._env.monotonic() + (self.timeout if timeout is None else timeout)
        wait = _FIRST_WAIT
        while True:
            try:
                return self.send(api, request, timeout=over - self._env.monotonic()).result()
            except Unavailable as e:
                if not (again and api.idempotent) or self._closed or self._env.monotonic() + wait >= over:
                    raise
                log.debug("%s: %s again in %.2f s after %s", self.peer, api, wait, e)
                self._env.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)

    def close(self) -> None:
        """Close the connection; calls under way fail, and so do later ones."""
        with self._lock:
            self._closed = True
            link, self._link = self._link, None
        if link is not None:
            link.close(Unavailable(f"the connection to {self.peer} was closed"))

    def _opened(self, timeout: Seconds) -> _Link:
        with self._lock:
            if self._closed:
                raise Unavailable(f"the connection to {self.peer} was closed")
            if self._link is None or self._link.error is not None:
                self._link = _Link(self.host, self.port, timeout, self._sign_in, self._env)
            return self._link


@dataclass(slots=True)
class _Waiting:
    """A call under way: how long its answer may be, and where it goes."""

    most_bytes: int
    answer: Future[memoryview | None] = field(default_factory=Future)


class _Link:
    """One socket from its opening to its end; a thread of its own reads what arrives.

    Reading and sending have objects of their own over the socket, since a time-out belongs to an object.
    """

    def __init__(self, host: str, port: int, timeout: Seconds, sign_in: SignIn | None, env: Env) -> None:
        self.peer, self.env = f"{host}:{port}", env
        self.error: TablestoreError | None = None
        self._lock = threading.Lock()  # the calls under way and the end
        self._sending = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._last_id = 0
        self._deadline = env.monotonic() + timeout  # of what is asked before the thread reads
        try:
            self._socket = socket.create_connection((host, port), max(timeout, _LEAST_SECONDS))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, ValueError, OverflowError) as e:  # a name that cannot be one is a ValueError
            reason = getattr(e, "strerror", None) or e
            raise Unavailable(f"{self.peer} cannot be reached: {reason}") from e
        try:
            self.keys = self._served()
            if sign_in is not None:
                self._authenticate(sign_in)
            self._reading = self._socket.dup()
        except BaseException:
            self._socket.close()
            raise
        self._reading.settimeout(_IDLE_SECONDS)
        threading.Thread(target=self._read, name=f"fluss {self.peer}", daemon=True).start()

    def send(self, api: Api, request: Any, timeout: Seconds) -> Pending:
        if api.key not in self.keys:
            raise Unsupported(f"{api} at {self.peer}", "that server does not serve this call")
        deadline, body = self.env.monotonic() + timeout, request.SerializeToString()
        call = _Waiting(api.most_bytes(request))
        with self._lock:
            if self.error is not None:
                raise self.error
            self._last_id = self._last_id % 0x7FFFFFFF + 1
            request_id = self._last_id
            self._waiting[request_id] = call
        try:
            with self._sending:
                self._socket.settimeout(max(deadline - self.env.monotonic(), _LEAST_SECONDS))
                self._socket.sendall(request_frame(api.key, request_id, body))
        except OSError as e:
            error = Unavailable(f"the connection to {self.peer} was lost: {e.strerror or e}")
            self.close(error)
            raise error from e
        return Pending(self, api, call.answer, deadline)

    def close(self, error: TablestoreError) -> None:
        with self._lock:
            if self.error is None:
                self.error = error
            waiting, self._waiting = list(self._waiting.values()), {}
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for call in waiting:
            _fail(call.answer, self.error)

    def _served(self) -> frozenset[int]:
        """The keys of the calls that the server serves."""
        hello = pb.ApiVersionsRequest(client_name=CLIENT, client_version=_CLIENT_VERSION)
        answer = self._asked(API_VERSIONS, hello, "does not say what it serves")
        return frozenset(version.api_key for version in answer.api_versions)

    def _authenticate(self, sign_in: SignIn) -> None:
        """Sign in. Raises FlussError 46 where the server does not take the user and the password."""
        if AUTHENTICATE.key not in self.keys:
            raise Unsupported(f"signing in at {self.peer}", "it begins with Fluss 0.7: leave out the user")
        request = pb.AuthenticateRequest(protocol=MECHANISM, token=sign_in.token)
        try:
            self._asked(AUTHENTICATE, request, "does not answer a user who signs in")
        except FlussError as e:
            where = f"{self.peer} does not sign in {sign_in.user!r}"
            if e.code == ErrorCode.RETRIABLE_AUTHENTICATE:
                raise Unavailable(f"{where} now: {e.message}") from None
            raise FlussError(e.code, e.message, where=where) from None

    def _asked(self, api: Api, request: Any, silent: str) -> Any:
        """The answer to a request before the thread that reads has started. Raises as `Pending.result`."""
        self._waiting[0] = _Waiting(api.most_bytes(request))
        try:
            self._socket.settimeout(self._left())
            self._socket.sendall(request_frame(api.key, 0, request.SerializeToString()))
            response = self._response(self._receive_in_time)
        except OSError as e:
            what = silent if isinstance(e, TimeoutError) else "was lost"
            raise Unavailable(f"{self.peer} {what}: {e.strerror or e}") from e
        if response.error is not None:
            raise response.error
        assert response.body is not None, "an answer that is no error has a body"
        return decoded(api.response, response.body, self.peer, f"the answer to {api}")

    def _left(self) -> Seconds:
        """Until the deadline of the opening. Raises TimeoutError behind it."""
        left = self._deadline - self.env.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return max(left, _LEAST_SECONDS)

    def _receive_in_time(self, into: memoryview) -> int:
        self._socket.settimeout(self._left())
        return self._socket.recv_into(into)

    def _receive(self, into: memoryview) -> int:
        """What comes next, however late: who waits for an answer closes the link when its time is over."""
        while True:
            try:
                return self._reading.recv_into(into)
            except TimeoutError:
                continue

    def _read(self) -> None:
        error: TablestoreError
        try:
            while True:
                self._response(self._receive)
        except TablestoreError as e:
            error = e
        except OSError as e:
            error = Unavailable(f"the connection to {self.peer} was lost: {e.strerror or e}")
        except Exception as e:  # whoever waits must hear of it
            error = Corrupt(self.peer, f"an answer that cannot be read: {brief(e)}")
        self.close(error)
        self._reading.close()

    def _response(self, receive: _Receive) -> Response:
        """The next answer, which its call has got. Raises the error of the whole connection, Corrupt for what
        is none or is longer than the call allows, and ConnectionError at the end."""
        kind, size = read_answer_head(self._exactly(receive, LENGTH.size + 1), self.peer)
        if kind == FAILURE:
            failure = read_response(kind, None, self._exactly(receive, size), self.peer)
            assert failure.error is not None, "a failure is an error"
            raise failure.error
        (request_id,) = LENGTH.unpack(self._exactly(receive, LENGTH.size))
        with self._lock:
            call = self._waiting.get(request_id)
        if call is None:
            raise Corrupt(self.peer, f"an answer to the request {request_id}, for which nobody waits")
        if size - LENGTH.size > call.most_bytes:
            text = f"an answer of {size} bytes to a call that allows {call.most_bytes}"
            raise Corrupt(self.peer, text)
        body = self._exactly(receive, size - LENGTH.size)
        response = read_response(kind, request_id, body, self.peer)
        with self._lock:  # until here the end of the link is the end of the call
            self._waiting.pop(request_id, None)
        if response.error is not None:
            _fail(call.answer, response.error)
        elif not call.answer.done():
            call.answer.set_result(response.body)
        return response

    def _exactly(self, receive: _Receive, size: int) -> memoryview:
        data = received(receive, size)
        if data is None:
            raise ConnectionError("the server closed it")
        return data


def _fail(answer: Future[memoryview | None], error: TablestoreError | None) -> None:
    if not answer.done():
        answer.set_exception(error or FlussError(-1))
