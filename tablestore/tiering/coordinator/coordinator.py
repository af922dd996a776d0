"""Coordinator: tiering of the tables with a log of one lake, as a cluster on a port of 127.0.0.1."""

from __future__ import annotations

import threading
from types import TracebackType

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest
from tablestore.core.extras import required
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join
from tablestore.table.lake import Lake
from tablestore.tiering.coordinator.epochs import FileEpochs
from tablestore.tiering.coordinator.requests import Requests
from tablestore.tiering.coordinator.served_tables import ServedTables
from tablestore.tiering.coordinator.server import HOST, Server
from tablestore.tiering.coordinator.table_states import TableStatus

DIRECTORY = ".tablestore/coordinator"
LARGEST_PORT = 65535
_TICK_SECONDS = 1.0


class Coordinator:
    """Serves the tables with a log of `lake`; those with `tablestore.tiering.enabled` are handed out.

    It answers from the moment it is made until `close`, or the end of its `with` block. `address` is what
    services and clients connect to. Safe to share between threads.
    """

    def __init__(self, lake: Lake, io: FileIO, *, port: int = 0, env: Env = SYSTEM) -> None:
        required("google.protobuf", by="the coordinator of tiering")
        required("google_crc32c", by="the coordinator of tiering")
        if not 0 <= port <= LARGEST_PORT:
            raise InvalidRequest(
                f"port {port} must be a port, 1 to {LARGEST_PORT}, or 0 for any that is free"
            )
        self._ended = threading.Event()
        self._server = Server(lambda key, body: self._requests.answer(key, body), port=port)
        try:
            epochs = FileEpochs(io, join(lake.warehouse, DIRECTORY))
        except BaseException:
            self._server.close()
            raise
        self.epoch = epochs.coordinator
        tables = ServedTables(lake, env)
        self._requests = Requests(tables, epochs, env, host=HOST, port=self._server.port)
        self._requests.tick()
        self._server.start()
        self._thread = threading.Thread(target=self._tick, name="coordinator clock", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{HOST}:{self._server.port}"

    def tables(self) -> list[TableStatus]:
        """The tables that are tiered, with their states."""
        return self._requests.tables()

    def close(self) -> None:
        """End; services hold their tables until they hear of it, and the next coordinator fences them."""
        self._ended.set()
        self._server.close()
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
        return f"Coordinator({self.address}, epoch {self.epoch}: {counts or 'no table is tiered'})"
