"""One connection: answers by id, refusals by name, silence and losses bounded in time."""

from __future__ import annotations

import struct
import threading

import pytest

from tablestore.core.env import Env
from tablestore.core.errors import Corrupt, Unavailable, Unsupported
from tablestore.fluss import apis
from tablestore.fluss.connection import FlussConnection
from tablestore.fluss.errors import FlussError
from tablestore.fluss.frames import Request, error_frame, response_frame
from tablestore.fluss.messages import pb
from tests.fluss.scripted_server import scripted

KEYS = (1000, 1003, 1010, 1042)


def exists(name: str) -> object:
    return pb.DatabaseExistsRequest(database_name=name)


def echo(request: Request) -> bytes:
    """Lists the number of the request as the only database."""
    return response_frame(request.request_id, listed(str(request.request_id)))


def listed(*names: str) -> bytes:
    return pb.ListDatabasesResponse(database_names=names).SerializeToString()


def test_a_server_is_asked_first_what_it_serves_and_nothing_else_is_sent() -> None:
    with scripted(KEYS, echo) as server:
        connection = FlussConnection("127.0.0.1", server.port)
        assert connection.keys() == set(KEYS)
        with pytest.raises(Unsupported, match=r"FetchLog at 127.0.0.1:\d+ \(that server does not serve"):
            connection.call(apis.FETCH_LOG, pb.FetchLogRequest(follower_server_id=-1, max_bytes=1))
        assert server.requests == []
        connection.close()


def test_answers_find_their_requests_in_any_order() -> None:
    """The server keeps four requests back and answers them in the opposite order."""
    kept: list[Request] = []

    def late(request: Request) -> bytes | None:
        kept.append(request)
        return b"".join(map(echo, reversed(kept))) if len(kept) == 4 else None

    with scripted(KEYS, late) as server:
        connection = FlussConnection("127.0.0.1", server.port, timeout=240)
        pending = [connection.send(apis.LIST_DATABASES, pb.ListDatabasesRequest()) for _ in range(4)]
        assert [list(one.result().database_names) for one in pending] == [["1"], ["2"], ["3"], ["4"]]
        connection.close()


def test_threads_share_a_connection() -> None:
    with scripted(KEYS, echo) as server:
        connection = FlussConnection("127.0.0.1", server.port, timeout=240)
        found: list[str] = []

        def ask() -> None:
            for _ in range(50):
                found.extend(connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest()).database_names)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(map(int, found)) == list(range(1, 201))
        assert server.connections == 1
        connection.close()


def test_a_refusal_has_code_name_and_words() -> None:
    with scripted(KEYS, lambda r: error_frame(r.request_id, 7, "no such table")) as server:
        connection = FlussConnection("127.0.0.1", server.port)
        with pytest.raises(FlussError, match="Fluss error 7 TABLE_NOT_EXIST: no such table") as raised:
            connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest())
        assert (raised.value.code, raised.value.name, raised.value.retriable) == (7, "TABLE_NOT_EXIST", False)
        connection.close()


def test_silence_ends_with_the_time_out_and_the_next_call_opens_another_connection() -> None:
    silent = [True]
    with scripted(KEYS, lambda r: None if silent.pop() else echo(r)) as server:
        silent.insert(0, False)
        connection = FlussConnection("127.0.0.1", server.port)
        assert connection.keys() == set(KEYS)  # it is open before its silence is timed
        with pytest.raises(Unavailable, match="did not answer ListDatabases in time"):
            connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest(), timeout=0.2)
        assert list(connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest()).database_names) == ["1"]
        assert server.connections == 2
        connection.close()


def test_an_idempotent_call_is_sent_again_when_the_connection_is_lost() -> None:
    lost = [False, True, True]

    def answer(request: Request) -> bytes:
        if lost.pop():
            raise ConnectionError
        return response_frame(request.request_id, listed("a"))

    with scripted(KEYS, answer) as server:
        connection = FlussConnection("127.0.0.1", server.port)
        assert list(connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest()).database_names) == ["a"]
        assert (len(server.requests), server.connections) == (3, 3)
        connection.close()


def test_a_call_that_may_have_been_carried_out_is_sent_once() -> None:
    def lose(request: Request) -> bytes:
        raise ConnectionError

    with scripted(KEYS, lose) as server:
        connection = FlussConnection("127.0.0.1", server.port)
        with pytest.raises(Unavailable, match="was lost"):
            connection.call(apis.LAKE_TIERING_HEARTBEAT, pb.LakeTieringHeartbeatRequest(request_table=True))
        assert len(server.requests) == 1
        connection.close()


def test_calls_under_way_fail_with_their_connection() -> None:
    with scripted(KEYS, lambda r: None) as server:
        connection = FlussConnection("127.0.0.1", server.port, timeout=240)
        pending = [connection.send(apis.LIST_DATABASES, pb.ListDatabasesRequest()) for _ in range(3)]
        server.drop()
        for one in pending:
            with pytest.raises(Unavailable, match="was lost"):
                one.result()
        connection.close()


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
        FlussConnection("127.0.0.1", port, timeout=3, env=SleptClock()).call(
            apis.LIST_DATABASES, pb.ListDatabasesRequest()
        )
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


def test_a_failure_of_the_connection_reaches_every_call() -> None:
    body = pb.ErrorResponse(error_code=3, error_message="what was that?").SerializeToString()
    with scripted(KEYS, lambda r: struct.pack(">ib", 1 + len(body), 2) + body) as server:
        connection = FlussConnection("127.0.0.1", server.port)
        with pytest.raises(FlussError, match="CORRUPT_MESSAGE: what was that"):
            connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest())
        connection.close()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "this is no server of Fluss"),
        (struct.pack(">ibi", 5, 9, 1), "of 5 bytes and of kind 9: this is no server"),
        (struct.pack(">ib", 1, 0), "of 1 bytes and of kind 0: this is no server"),
    ],
)
def test_an_answer_in_another_protocol_is_named(answer: bytes, text: str) -> None:
    with scripted(KEYS, lambda r: answer) as server:
        connection = FlussConnection("127.0.0.1", server.port)
        with pytest.raises(Corrupt, match=text):
            connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest())
        connection.close()


def test_an_answer_that_is_no_message_is_named() -> None:
    with scripted(KEYS, lambda r: response_frame(r.request_id, b"\xff\xff")) as server:
        connection = FlussConnection("127.0.0.1", server.port)
        with pytest.raises(Corrupt, match="the answer to ListDatabases: DecodeError"):
            connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest())
        connection.close()


def test_versions_are_told_by_keys() -> None:
    seven = frozenset(range(1000, 1043))
    assert apis.version_of(frozenset(range(1000, 1038))) == (0, 6)
    assert apis.version_of(seven) == (0, 7)
    assert apis.version_of(seven | {1043, 1044, 1045, 1046}) == (0, 8)
    assert apis.version_of(frozenset(range(1000, 1060))) == (0, 9)
