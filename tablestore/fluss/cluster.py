"""A cluster: where its coordinator is, who leads which bucket, and what version it is.

What is known of leaders is kept until a server says that it is not one, or is gone (`forget`). Safe to share
between threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Corrupt, InvalidRequest, Unavailable
from tablestore.fluss.apis import METADATA, Api, version_of
from tablestore.fluss.connection import TIMEOUT, FlussConnection
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.messages import pb
from tablestore.fluss.sign_in import PASSWORD_VARIABLE, SignIn, sign_in_at
from tablestore.fluss.tables import FlussTable, TableBucket, TablePath

Seconds = float
Version = tuple[int, int]
MOVED = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TABLE_OR_BUCKET, ErrorCode.LEADER_NOT_AVAILABLE}
)
"""Refusals after which the leader of a bucket is looked up again."""
_PARTITIONS_A_CALL = 500
_PAUSE: Seconds = 0.1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerNode:
    """One server of the cluster."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Cluster:
    """A cluster reached by `bootstrap`, one or more `host:port` (with commas between them in a text, also
    with `fluss://` and a user before them, `fluss://reader@host:9123`, whose password is in the environment:
    a lake in the place of the user has its own: `sign_in.py`).

    `timeout`: seconds that a call waits for its answer, and that a bucket may be without a leader.
    """

    def __init__(
        self, bootstrap: str | Sequence[str], *, timeout: Seconds = TIMEOUT, env: Env = SYSTEM
    ) -> None:
        self.bootstrap, self.user = _addresses(bootstrap)
        self._sign_in(*self.bootstrap[0])  # without its password a user is refused at once
        self.timeout, self.env = timeout, env
        self._lock = threading.Lock()
        self._connections: dict[tuple[str, int], FlussConnection] = {}
        self._coordinator: ServerNode | None = None
        self._servers: dict[int, ServerNode] = {}
        self._leaders: dict[TableBucket, int] = {}
        self._epochs: dict[TableBucket, int] = {}
        self._closed = False

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Cluster({self})"

    def __str__(self) -> str:
        return f"fluss://{self.user + '@' if self.user else ''}" + ",".join(self.addresses)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
            connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()

    @property
    def addresses(self) -> list[str]:
        """`host:port` of each server of `bootstrap`."""
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.bootstrap]

    @property
    def version(self) -> Version:
        """(0, 6) to (0, 9), told by what the coordinator serves."""
        return version_of(self.coordinator().keys())

    @property
    def servers(self) -> tuple[ServerNode, ...]:
        """The tablet servers as they were known last, one or more. Raises Unavailable where there is none."""
        self.require_servers()
        return tuple(self._servers.values())

    def require_servers(self) -> None:
        """Raise Unavailable where the cluster has no tablet server yet."""
        if not self._servers:
            self.refresh()
        if not self._servers:
            raise Unavailable(f"{self} has no tablet server yet")

    def coordinator(self) -> FlussConnection:
        """The connection to the coordinator. Raises Unavailable where no server of `bootstrap` knows it."""
        if self._coordinator is None:
            self.refresh()
        if self._coordinator is None:
            raise Unavailable(f"{self} has no coordinator now")
        return self.connection_to(self._coordinator.host, self._coordinator.port)

    def connection(self, server: ServerNode) -> FlussConnection:
        """The connection to a server."""
        return self.connection_to(server.host, server.port)

    def call(self, api: Api, request: Any, *, timeout: Seconds | None = None) -> Any:
        """The coordinator's answer. Where it is gone, the next call looks for it anew."""
        try:
            return self.coordinator().call(api, request, timeout=timeout)
        except Unavailable:
            self._coordinator = None
            raise

    def leader(self, table: FlussTable, bucket: TableBucket) -> FlussConnection:
        """The connection to the server that leads a bucket now. Raises FlussError LEADER_NOT_AVAILABLE
        where there is none yet, Unavailable where the cluster does not answer."""
        return next(iter(self.by_leader(table, [bucket])))

    def by_leader(
        self, table: FlussTable, buckets: Iterable[TableBucket]
    ) -> dict[FlussConnection, list[TableBucket]]:
        """The buckets by the server that leads them; raises as `leader`."""
        led, leaderless = self.led(table, buckets)
        for bucket in leaderless:
            where = f"{table.path}: {bucket}"
            raise FlussError(ErrorCode.LEADER_NOT_AVAILABLE, "it has no leader now", where=where)
        return led

    def led(
        self, table: FlussTable, buckets: Iterable[TableBucket]
    ) -> tuple[dict[FlussConnection, list[TableBucket]], list[TableBucket]]:
        """The buckets by the server that leads them, and those that nobody leads now. Raises Unavailable
        where the cluster does not answer, FlussError where the table or a partition is gone."""
        wanted = list(buckets)
        unknown = [bucket for bucket in wanted if self._leaders.get(bucket, -1) not in self._servers]
        if unknown:
            self.refresh(table, {b.partition_id for b in unknown if b.partition_id is not None})
        by_leader: dict[FlussConnection, list[TableBucket]] = {}
        leaderless = []
        for bucket in wanted:
            server = self._servers.get(self._leaders.get(bucket, -1))
            if server is None:
                leaderless.append(bucket)
            else:
                by_leader.setdefault(self.connection(server), []).append(bucket)
        return by_leader, leaderless

    def leader_epochs(self, table: FlussTable, buckets: Iterable[TableBucket]) -> dict[TableBucket, int]:
        """The numbers of the leaders of buckets, which grow with each, as the cluster says now; without
        those of buckets that have none, and of clusters before 0.7."""
        wanted = list(buckets)
        self.refresh(table, {b.partition_id for b in wanted if b.partition_id is not None})
        return {bucket: self._epochs[bucket] for bucket in wanted if bucket in self._epochs}

    def forget(self, buckets: Iterable[TableBucket]) -> None:
        """Look the leaders of these buckets up again when they are needed next."""
        with self._lock:
            for bucket in buckets:
                self._leaders.pop(bucket, None)

    def retried(self, ask: Callable[[], T], buckets: Iterable[TableBucket]) -> T:
        """What `ask` returns; while it raises that leaders of the buckets have moved or are gone, they are
        looked up again, until the time-out is over."""
        concerned, over = tuple(buckets), self.env.monotonic() + self.timeout
        while True:
            try:
                return ask()
            except (FlussError, Unavailable) as e:
                if isinstance(e, FlussError) and e.code not in MOVED:
                    raise
                if self.env.monotonic() + _PAUSE >= over:
                    raise
                self.forget(concerned)
                self.env.sleep(_PAUSE)

    def refresh(self, table: FlussTable | None = None, partition_ids: Iterable[int] = ()) -> None:
        """Learn who is who and, of a table and its partitions, who leads. Raises Unavailable where nobody
        answers."""
        partitions = sorted(partition_ids)
        for at in range(0, max(len(partitions), 1), _PARTITIONS_A_CALL):
            request = pb.MetadataRequest(partition_ids=partitions[at : at + _PARTITIONS_A_CALL])
            if table is not None:
                request.table_paths.append(message_of(table.path))
            try:
                self._learn(self._anybody(request), table, set(request.partition_ids))
            except FlussError as e:
                raise FlussError(e.code, e.message, where=str(table.path if table else self)) from None

    def _learn(
        self, metadata: pb.MetadataResponse, table: FlussTable | None, partition_ids: Set[int]
    ) -> None:
        """Keep who is who, and who leads the buckets that were asked for; of others nothing."""
        coordinator = _node(metadata.coordinator, str(self)) if metadata.HasField("coordinator") else None
        servers = [_node(each, str(self)) for each in metadata.tablet_servers]
        with self._lock:
            self._coordinator = coordinator or self._coordinator
            self._servers = {each.node_id: each for each in servers}
            groups = [(each.table_id, None, each.buckets) for each in metadata.tables]
            groups += [(each.table_id, each.partition_id, each.buckets) for each in metadata.partitions]
            for table_id, partition_id, buckets in groups:
                if table is None or table_id != table.table_id:
                    continue
                if partition_id is not None and partition_id not in partition_ids:
                    continue
                for each in buckets:
                    if not 0 <= each.bucket_id < table.buckets:
                        continue
                    bucket = TableBucket(table_id, partition_id, each.bucket_id)
                    if each.HasField("leader_epoch"):
                        self._epochs[bucket] = each.leader_epoch
                    if each.HasField("leader_id") and each.leader_id >= 0:
                        self._leaders[bucket] = each.leader_id
                    else:
                        self._leaders.pop(bucket, None)

    def _anybody(self, request: pb.MetadataRequest) -> pb.MetadataResponse:
        """The answer of the first server that gives one: the coordinator, who knows best, then all others."""
        coordinators = [self._coordinator] if self._coordinator else []
        places = [(node.host, node.port) for node in (*coordinators, *self._servers.values())]
        failures: list[str] = []
        for host, port in dict.fromkeys((*places[:1], *self.bootstrap, *places[1:])):
            try:
                return self.connection_to(host, port).call(METADATA, request, again=False)
            except Unavailable as e:
                failures.append(str(e))
        raise Unavailable(f"no server of {self} answers: {'; '.join(failures)}")

    def connection_to(self, host: str, port: int) -> FlussConnection:
        """The connection to a server by its place; one each, opened by its first call."""
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self} was closed")
            connection = self._connections.get((host, port))
            if connection is None:
                sign_in = self._sign_in(host, port)
                connection = FlussConnection(host, port, timeout=self.timeout, sign_in=sign_in, env=self.env)
                self._connections[host, port] = connection
            return connection

    def _sign_in(self, host: str, port: int) -> SignIn | None:
        return None if self.user is None else sign_in_at(self.user, host, port)


def message_of(path: TablePath) -> pb.TablePath:
    """The path as messages have it."""
    return pb.TablePath(database_name=path.database, table_name=path.table)


def _node(node: pb.ServerNode, where: str) -> ServerNode:
    if not node.host or not 0 < node.port < 1 << 16:
        raise Corrupt(
            where, f"a server at {node.host[:100]!r}, port {node.port}", remedy="look at its settings"
        )
    return ServerNode(node.node_id, node.host, node.port)


def _addresses(bootstrap: str | Sequence[str]) -> tuple[tuple[tuple[str, int], ...], str | None]:
    """(addresses, user)."""
    texts = bootstrap.removeprefix("fluss://").split(",") if isinstance(bootstrap, str) else bootstrap
    users, at, first = texts[0].rpartition("@") if texts else ("", "", "")
    user = users.strip() if at else None
    if user is not None and (":" in user or not user):
        raise InvalidRequest(
            f"the address of a Fluss cluster holds {'a password' if user else 'no user before its @'}: it is "
            f"user@host:port, and the password is in the environment variable {PASSWORD_VARIABLE}"
        )
    texts = [first, *texts[1:]] if at else texts
    addresses = []
    for text in texts:
        host, colon, port = text.strip().rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise InvalidRequest(f"{text.strip()!r} is no address of a Fluss cluster: host:port")
        addresses.append((host.strip("[]"), int(port)))
    return tuple(addresses), user
