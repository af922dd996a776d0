"""Signing in: before the first call, by the user of the address and the password of the environment."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable

import pytest

from tablestore.core.errors import InvalidRequest, Unavailable, Unsupported
from tablestore.fluss import apis
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.connection import FlussConnection
from tablestore.fluss.errors import FlussError
from tablestore.fluss.frames import Request, error_frame, response_frame
from tablestore.fluss.messages import pb
from tablestore.fluss.sign_in import PASSWORD_VARIABLE, Credentials
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tests.fluss.scripted_server import connected, databases, scripted

SECRET = "pa:ss@\u00fc"
READER = Credentials("reader", SECRET)
KEYS = (1000, 1003, 1012, 1038, 1042)


def server(refusal: tuple[int, str] | None = None) -> Callable[[Request], bytes]:
    def answer(request: Request) -> bytes:
        if request.api_key == apis.AUTHENTICATE.key and refusal is not None:
            return error_frame(request.request_id, *refusal)
        return response_frame(request.request_id, b"")

    return answer


def test_a_connection_is_signed_in_before_the_first_call() -> None:
    with scripted(KEYS, server()) as there:
        for calls in (2, 1):  # another connection is signed in, too
            before = len(there.requests)
            with contextlib.closing(FlussConnection("127.0.0.1", there.port, sign_in=READER)) as connection:
                for _ in range(calls):
                    databases(connection)
            assert [request.api_key for request in there.requests[before:]] == [1038, *[1003] * calls]
        sent = pb.AuthenticateRequest.FromString(bytes(there.requests[0].body))
        assert (sent.protocol, sent.token) == ("PLAIN", b"\0reader\0" + SECRET.encode())


def test_a_user_who_is_refused_is_named_and_the_password_is_not() -> None:
    with connected(KEYS, server((46, "Authentication failed")), sign_in=READER) as (_, connection):
        with pytest.raises(FlussError, match=r"does not sign in 'reader': Fluss error 46 AUTHENTICATE") as e:
            databases(connection)
        assert PASSWORD_VARIABLE in str(e.value)
        assert SECRET not in str(e.value)
    with (
        connected(KEYS, server((51, "not yet")), sign_in=READER) as (_, connection),
        pytest.raises(Unavailable, match="does not sign in 'reader' now: not yet"),
    ):
        databases(connection, again=False)


def test_a_server_before_0_7_takes_no_user() -> None:
    refused = pytest.raises(Unsupported, match="leave out the user")
    with connected((1000, 1003), server(), sign_in=READER) as (_, connection), refused:
        databases(connection)


def test_the_user_is_in_the_address_and_the_password_in_the_environment(monkeypatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, SECRET)
    cluster = Cluster("fluss://rea@der@a:1,b:2")
    assert (cluster.user, cluster.bootstrap) == ("rea@der", (("a", 1), ("b", 2)))
    assert repr(cluster) == "Cluster(fluss://rea@der@a:1,b:2)"
    tiered = FlussTieringCluster("fluss://reader@a:1")
    shown = repr((READER, cluster, tiered)) + str(vars(tiered))
    assert "reader" in shown
    assert SECRET not in shown
    assert SECRET.encode() not in pickle.dumps(tiered)
    monkeypatch.delenv(PASSWORD_VARIABLE)
    with pytest.raises(InvalidRequest, match=f"'reader': set the environment variable {PASSWORD_VARIABLE}"):
        Cluster("reader@a:1")
    for address in ("reader:secret@a:1", "@a:1"):
        with pytest.raises(InvalidRequest, match="user@host:port") as e:
            Cluster(address)
        assert "secret" not in str(e.value)
