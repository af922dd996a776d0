"""Coordinator: tiering of the tables with a log of one lake, as a cluster on a port of 127.0.0.1.

Who may write the warehouse may ask it (`fluss/coordinator_token.py`).
"""

from __future__ import annotations

import threading
from types import TracebackType

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest
from tablestore.core.extras import required
from tablestore.core.options.environment import trust
from tablestore.fluss.coordinator_token import DIRECTORY, lake_user, make_token, token_path
from tablestore.fluss.sign_in import PASSWORD_VARIABLE
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join
from tablestore.table.lake import Lake
from tablestore.tiering.coordinator.epochs import FileEpochs
from tablestore.tiering.coordinator.lake_snapshots import LakeSnapshots
from tablestore.tiering.coordinator.requests import CoordinatorRequests
from tablestore.tiering.coordinator.served_tables import ServedTables
from tablestore.tiering.coordinator.server import HOST, Server
from tablestore.tiering.coordinator.table_states import TableStatus

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
