"""The server of the coordinator: frames of the protocol on a socket of 127.0.0.1, a thread a connection.

Every frame gets an answer: what cannot be read, is not known or fails gets an error. A frame that is too
long, or a connection too many, is answered by an error and the end of the connection, since what follows
cannot be told apart. Memory: one request and one answer a connection.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable

from tablestore.core.errors import brief
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.frames import LENGTH, error_frame, read_request, response_frame

log = logging.getLogger(__name__)
HOST = "127.0.0.1"
_MOST_BYTES, _MOST_CONNECTIONS, _IDLE_SECONDS = 16 << 20, 64, 600.0
_HEAD_BYTES = 8
"""API key, version and request id of a request."""
_BACKLOG = 64


class Server:
    """Answers frames by `answer(api key, body)`, which raises FlussError for an error. `port` 0: any that is
    free."""

    def __init__(self, answer: Callable[[int, bytes], bytes], *, port: int = 0) -> None:
        self._answer = answer
        self._listening = socket.create_server((HOST, port), backlog=_BACKLOG)
        self.port: int = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name="coordinator", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """End all connections; returns when nothing is answered any more."""
        with self._lock:
            self._closed = True
            connections = list(self._connections.items())
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection, _ in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for _, thread in connections:
            thread.join(timeout=5)
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                closed, full = self._closed, len(self._connections) >= _MOST_CONNECTIONS
                if not (closed or full):
                    self._connections[connection] = thread
                    thread.start()
            if closed:
                connection.close()
            elif full:
                with contextlib.suppress(OSError), connection:
                    connection.sendall(error_frame(0, ErrorCode.NETWORK, "too many connections"))

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_IDLE_SECONDS)
            with connection:
                while self._answered(connection):
                    pass
        except OSError as e:
            log.debug("a connection ended: %s", e)
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def _answered(self, connection: socket.socket) -> bool:
        """Answer the next request; False where there is none any more."""
        head = _received(connection, LENGTH.size)
        if head is None:
            return False
        (size,) = LENGTH.unpack(head)
        if not _HEAD_BYTES <= size <= _MOST_BYTES:
            text = f"a request of {size} bytes; {_MOST_BYTES} are the most"
            connection.sendall(error_frame(0, ErrorCode.CORRUPT_MESSAGE, text))
            return False
        frame = _received(connection, size)
        if frame is None:
            return False
        request = read_request(memoryview(frame))
        try:
            answer = response_frame(request.request_id, self._answer(request.api_key, bytes(request.body)))
        except FlussError as e:
            answer = error_frame(request.request_id, e.code, e.message)
        except Exception as e:  # the client waits for an answer, whatever went wrong
            log.exception("API %d failed", request.api_key)
            answer = error_frame(request.request_id, ErrorCode.UNKNOWN_SERVER_ERROR, brief(e))
        connection.sendall(answer)
        return True


def _received(connection: socket.socket, size: int) -> bytearray | None:
    """So many bytes, None where the connection ends before."""
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            return None
        at += count
    return found
