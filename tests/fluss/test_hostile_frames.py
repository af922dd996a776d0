"""Frames that no server of Fluss sends: too long, too slow, cut, or with nothing in them that can be read."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from tablestore.core.errors import Corrupt, TablestoreError, Unavailable
from tablestore.fluss import apis
from tablestore.fluss.connection import FlussConnection
from tablestore.fluss.frames import Request, response_frame
from tablestore.fluss.messages import pb
from tablestore.fluss.sign_in import Credentials
from tests.fluss.scripted_server import connected, databases, scripted, versions

KEYS = (1000, 1003, 1010, 1015, 1038)
ENDLESS = 120.0
"""Seconds of a call that must end by its cause."""


@contextlib.contextmanager
def raw(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that does with each connection what `serve` does."""

    def run(client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            serve(client)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=run, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def last_call(connection: FlussConnection, timeout: float = ENDLESS) -> list[str]:
    with contextlib.closing(connection):
        return databases(connection, timeout=timeout, again=False)


def peak_bytes(call: Callable[[], object], error: type[TablestoreError], match: str) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(error, match=match):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("size", [(1 << 20) + 1, (1 << 30) - 1, 0x7FFFFFFF])
def test_a_length_before_sign_in_takes_no_memory(kind: int, size: int) -> None:
    with raw(lambda client: client.sendall(struct.pack(">ibi", size, kind, 0)) or client.recv(1000)) as port:
        connection = FlussConnection("127.0.0.1", port, timeout=ENDLESS)
        assert peak_bytes(lambda: last_call(connection), Corrupt, "are the most|that allows 65536") < 1 << 20


@pytest.mark.parametrize("signs_in", [True, False])
def test_a_length_is_bounded_by_what_its_call_allows(signs_in: bool) -> None:
    def answer(request: Request) -> bytes:
        if signs_in or request.api_key != apis.AUTHENTICATE.key:
            return struct.pack(">ibi", apis.LISTS + 6, 0, request.request_id)
        return response_frame(request.request_id, b"")

    with scripted(KEYS, answer) as server:
        connection = FlussConnection("127.0.0.1", server.port, sign_in=Credentials("reader", "secret"))
        allowed = apis.SMALL if signs_in else apis.LISTS
        peak = peak_bytes(lambda: last_call(connection), Corrupt, f"to a call that allows {allowed}")
        assert peak < 1 << 20


def test_a_fetch_gets_what_it_asks_for_and_a_batch_more() -> None:
    request = pb.FetchLogRequest(follower_server_id=-1, max_bytes=5 << 20)
    assert apis.FETCH_LOG.most_bytes(request) == (5 << 20) + apis.ROWS
    assert max(api.answer_bytes for api in apis.APIS.values()) == apis.ROWS


def drip(client: socket.socket, data: bytes) -> None:
    """A byte now and then, each long before any time-out."""
    for byte in data:
        client.sendall(bytes([byte]))
        threading.Event().wait(0.02)


def test_an_answer_before_sign_in_that_drips_ends_with_the_time_out() -> None:
    frame = struct.pack(">ibi", 60_000, 0, 0) + bytes(60_000)
    with raw(lambda client: drip(client, frame)) as port, pytest.raises(Unavailable, match="timed out"):
        last_call(FlussConnection("127.0.0.1", port, timeout=0.3), 0.3)


def test_an_answer_that_drips_ends_with_the_time_out_and_the_connection() -> None:
    def serve(client: socket.socket) -> None:
        hello = client.recv(1000)
        assert hello
        client.sendall(response_frame(0, versions(KEYS)))
        client.recv(1000)
        drip(client, struct.pack(">ibi", 60_000, 0, 1) + bytes(60_000))
        ended.set()

    ended = threading.Event()
    with raw(serve) as port:
        connection = FlussConnection("127.0.0.1", port, timeout=ENDLESS)
        assert connection.keys() == set(KEYS)  # it is open before the answer is timed
        with pytest.raises(Unavailable, match="did not answer ListDatabases in time"):
            last_call(connection, 0.5)
    assert not ended.is_set()


def test_a_server_that_does_not_read_a_request_ends_with_the_time_out() -> None:
    def serve(client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.recv(1000)
        client.sendall(response_frame(0, versions([1016])))
        over.wait(ENDLESS)

    over = threading.Event()
    rows = [pb.RecordsForBucket(bucket_id=0, records=bytes(64 << 20))]
    request = pb.PutKvRequest(acks=-1, table_id=1, timeout_ms=1, buckets=rows)
    with raw(serve) as port:
        connection = FlussConnection("127.0.0.1", port, timeout=ENDLESS)
        assert connection.keys() == {apis.PUT_KV.key}  # it is open before the request is timed
        with contextlib.closing(connection), pytest.raises(Unavailable, match="was lost: timed out"):
            connection.call(apis.PUT_KV, request, timeout=0.5)
        over.set()


HOSTILE = {
    "a refusal that is none": struct.pack(">ibi", 7, 1, 1) + b"\xff\xff",
    "a refusal without its code": struct.pack(">ibi", 5, 1, 1),
    "a failure that is none": struct.pack(">ib", 3, 2) + b"\xff\xff",
    "an answer to nobody": struct.pack(">ibi", 5, 0, 77),
    "a negative length": struct.pack(">ibi", -2, 0, 1),
    "no length": struct.pack(">ibi", 0, 0, 1),
    "a text that is none": response_frame(1, b"\x0a\x02\xff\xfe"),
    "an answer that is none": response_frame(1, b"\xff\xff"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_answer_that_cannot_be_read_is_one_error_and_the_next_call_goes_on(what: str) -> None:
    """Without a time-out that helps: the thread that reads must say it."""
    left = [HOSTILE[what]]
    sound = pb.ListDatabasesResponse(database_names=["shop"]).SerializeToString()

    def answer(request: Request) -> bytes:
        return left.pop() if left else response_frame(request.request_id, sound)

    with connected(KEYS, answer, timeout=ENDLESS) as (server, connection):
        with pytest.raises(Corrupt, match=rf"127.0.0.1:{server.port}: "):
            databases(connection, again=False)
        assert databases(connection) == ["shop"]


def test_an_answer_without_a_field_that_it_must_have_is_named() -> None:
    with connected(KEYS, lambda r: response_frame(r.request_id, b"")) as (_, connection):
        path = pb.TablePath(database_name="shop", table_name="t")
        with pytest.raises(Corrupt, match="to TableExists lacks exists"):
            connection.call(apis.TABLE_EXISTS, pb.TableExistsRequest(table_path=path))


@pytest.mark.parametrize("host", ["a\0b", "x" * 300, "..", ""])
def test_a_host_that_cannot_be_one_is_unreachable(host: str) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        FlussConnection(host, 1, timeout=5).keys()
