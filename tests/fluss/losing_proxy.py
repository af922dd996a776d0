"""A proxy before a server of Fluss that loses connections between requests and their answers."""

from __future__ import annotations

import contextlib
import socket
import threading

from tablestore.fluss.apis import API_VERSIONS


class LosingProxy:
    """Passes frames on to `target`; every third request, ApiVersions not counted, reaches the server, and
    its answer is lost with the connection. `lost` counts those."""

    def __init__(self, target: int) -> None:
        self._target, self._requests, self.lost = target, 0, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        """One request at a time."""
        with (
            contextlib.suppress(OSError),
            client,
            client.makefile("rb") as requests,
            socket.create_connection(("127.0.0.1", self._target)) as server,
            server.makefile("rb") as answers,
        ):
            while request := _frame(requests):
                server.sendall(request)
                answer = _frame(answers)
                if int.from_bytes(request[4:6], "big") != API_VERSIONS.key:
                    self._requests += 1
                    if self._requests % 3 == 0:
                        self.lost += 1
                        return
                client.sendall(answer)


def _frame(stream: object) -> bytes:
    head = stream.read(4)
    return head + stream.read(int.from_bytes(head, "big")) if head else b""
