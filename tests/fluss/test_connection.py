"""One connection: answers by id, refusals by name, silence and losses bounded in time."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from tablestore.core.env import Env
from tablestore.core.errors import Corrupt, Unavailable, Unsupported
from tablestore.fluss import apis
from tablestore.fluss.connection import FlussConnection
from tablestore.fluss.errors import FlussError
from tablestore.fluss.frames import Request, error_frame, response_frame
from tablestore.fluss.messages import pb
from tests.fluss.scripted_server import connected, databases, scripted

KEYS = (1000, 1003, 1010, 1042)


def echo(request: Request) -> bytes:
    """Lists the number of the request as the only database."""
    return response_frame(request.request_id, listed(str(request.request_id)))


def listed(*names: str) -> bytes:
    return pb.ListDatabasesResponse(database_names=names).SerializeToString()


def test_a_server_is_asked_first_what_it_serves_and_nothing_else_is_sent() -> None:
    with connected(KEYS, echo) as (server, connection):
        assert connection.keys() == set(KEYS)
        with pytest.raises(Unsupported, match=r"FetchLog at 127.0.0.1:\d+ \(that server does not serve"):
            connection.call(apis.FETCH_LOG, pb.FetchLogRequest(follower_server_id=-1, max_bytes=1))
        assert server.requests == []


def test_answers_find_their_requests_in_any_order() -> None:
    """The server keeps four requests back and answers them in the opposite order."""
    kept: list[Request] = []

    def late(request: Request) -> bytes | None:
        kept.append(request)
        return b"".join(map(echo, reversed(kept))) if len(kept) == 4 else None

    with connected(KEYS, late, timeout=240) as (_, connection):
        pending = [connection.send(apis.LIST_DATABASES, pb.ListDatabasesRequest()) for _ in range(4)]
        assert [list(call.result().database_names) for call in pending] == [["1"], ["2"], ["3"], ["4"]]


def test_threads_share_a_connection() -> None:
    with connected(KEYS, echo, timeout=240) as (server, connection):
        with ThreadPoolExecutor(4) as threads:
            names = threads.map(lambda _: databases(connection), range(200))
            assert sorted(int(name) for [name] in names) == list(range(1, 201))
        assert server.connections == 1


def test_a_refusal_has_code_name_and_words() -> None:
    with connected(KEYS, lambda r: error_frame(r.request_id, 7, "no such table")) as (_, connection):
        with pytest.raises(FlussError, match="Fluss error 7 TABLE_NOT_EXIST: no such table") as raised:
            databases(connection)
        assert (raised.value.code, raised.value.name, raised.value.retriable) == (7, "TABLE_NOT_EXIST", False)


def test_silence_ends_with_the_time_out_and_the_next_call_opens_another_connection() -> None:
    silent = [True]
    with connected(KEYS, lambda r: None if silent.pop() else echo(r)) as (server, connection):
        silent.insert(0, False)
        assert connection.keys() == set(KEYS)  # it is open before its silence is timed
        with pytest.raises(Unavailable, match="did not answer ListDatabases in time"):
            databases(connection, timeout=0.2)
        assert databases(connection) == ["1"]
        assert server.connections == 2


def test_an_idempotent_call_is_sent_again_when_the_connection_is_lost() -> None:
    lost = [False, True, True]

    def answer(request: Request) -> bytes:
        if lost.pop():
            raise ConnectionError
        return response_frame(request.request_id, listed("a"))

    with connected(KEYS, answer) as (server, connection):
        assert databases(connection) == ["a"]
        assert (len(server.requests), server.connections) == (3, 3)


def test_a_call_that_may_have_been_carried_out_is_sent_once() -> None:
    def lose(request: Request) -> bytes:
        raise ConnectionError

    with connected(KEYS, lose) as (server, connection):
        with pytest.raises(Unavailable, match="was lost"):
            connection.call(apis.LAKE_TIERING_HEARTBEAT, pb.LakeTieringHeartbeatRequest(request_table=True))
        assert len(server.requests) == 1


def test_calls_under_way_fail_with_their_connection() -> None:
    with connected(KEYS, lambda r: None, timeout=240) as (server, connection):
        pending = [connection.send(apis.LIST_DATABASES, pb.ListDatabasesRequest()) for _ in range(3)]
        server.drop()
        for call in pending:
            with pytest.raises(Unavailable, match="was lost"):
                call.result()


def test_a_server_that_is_gone_is_tried_until_the_time_out() -> None:
    with scripted(KEYS, echo) as server:
        port = server.port
    waits: list[float] = []

    class SleptClock(Env):
        def monotonic(self) -> float:
            return sum(waits)

        def sleep(self, seconds: float) -> None:
            waits.append(seconds)

    with pytest.raises(Unavailable, match="cannot be reached"):
        databases(FlussConnection("127.0.0.1", port, timeout=3, env=SleptClock()))
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


FAILURE = pb.ErrorResponse(error_code=3, error_message="what was that?").SerializeToString()


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (struct.pack(">ib", 1 + len(FAILURE), 2) + FAILURE, FlussError, "CORRUPT_MESSAGE: what was that"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Corrupt, "this is no server of Fluss"),
        (struct.pack(">ibi", 5, 9, 1), Corrupt, "of 5 bytes and of kind 9: this is no server"),
        (struct.pack(">ib", 1, 0), Corrupt, "of 1 bytes and of kind 0: this is no server"),
        (response_frame(1, b"\xff\xff"), Corrupt, "the answer to ListDatabases: DecodeError"),
    ],
)
def test_an_answer_that_is_none_ends_the_calls_of_its_connection_by_name(
    answer: bytes, error: type[Exception], text: str
) -> None:
    with connected(KEYS, lambda r: answer) as (_, connection), pytest.raises(error, match=text):
        databases(connection)


def test_versions_are_told_by_keys() -> None:
    seven = frozenset(range(1000, 1043))
    assert apis.version_of(frozenset(range(1000, 1038))) == (0, 6)
    assert apis.version_of(seven) == (0, 7)
    assert apis.version_of(seven | {1043, 1044, 1045, 1046}) == (0, 8)
    assert apis.version_of(frozenset(range(1000, 1060))) == (0, 9)
