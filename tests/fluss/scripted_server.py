"""A server of Fluss that answers as a test says: one thread a connection, on 127.0.0.1."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tablestore.fluss import apis
from tablestore.fluss.apis import API_VERSIONS
from tablestore.fluss.connection import FlussConnection
from tablestore.fluss.frames import LENGTH, Request, read_request, response_frame
from tablestore.fluss.messages import pb

Answer = Callable[[Request], bytes | None]
"""The frame that answers a request; None for silence. ConnectionError closes the connection."""


def versions(keys: Iterable[int]) -> bytes:
    """The answer to ApiVersions."""
    served = [pb.ApiVersion(api_key=key, min_version=0, max_version=0) for key in keys]
    return pb.ApiVersionsResponse(api_versions=served).SerializeToString()


class ScriptedServer:
    """Listens at `port`; `requests` are those that arrived, without ApiVersions; `connections` counts
    them."""

    def __init__(self, keys: Iterable[int], answer: Answer) -> None:
        self.keys, self.answer = list(keys), answer
        self.requests: list[Request] = []
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it wakes who accepts
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.drop()

    def drop(self) -> None:
        """Lose all connections."""
        for client in self._open:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.connections += 1
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, client.makefile("rb") as stream:
            while head := stream.read(4):
                request = read_request(memoryview(stream.read(*LENGTH.unpack(head))))
                if request.api_key == API_VERSIONS.key:
                    client.sendall(response_frame(request.request_id, versions(self.keys)))
                    continue
                self.requests.append(request)
                if (answer := self.answer(request)) is not None:
                    client.sendall(answer)


@contextlib.contextmanager
def connected(
    keys: Iterable[int], answer: Answer, **options: Any
) -> Iterator[tuple[ScriptedServer, FlussConnection]]:
    """A scripted server and a connection to it, with its options."""
    with scripted(keys, answer) as server:
        connection = FlussConnection("127.0.0.1", server.port, **options)
        with contextlib.closing(connection):
            yield server, connection


def databases(connection: FlussConnection, **options: Any) -> list[str]:
    """What the server lists."""
    return list(connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest(), **options).database_names)


@contextlib.contextmanager
def scripted(keys: Iterable[int], answer: Answer) -> Iterator[ScriptedServer]:
    server = ScriptedServer(keys, answer)
    try:
        yield server
    finally:
        server.close()
