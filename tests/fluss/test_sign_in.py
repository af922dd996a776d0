"""Signing in: before the first call, by the user of the address and the password of the environment."""

from __future__ import annotations

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
from tests.fluss.scripted_server import scripted

SECRET = "pa:ss@\u00fc"
KEYS = (1000, 1003, 1012, 1038, 1042)


def server(refusal: tuple[int, str] | None = None) -> Callable[[Request], bytes]:
    def answer(request: Request) -> bytes:
        if request.api_key == apis.AUTHENTICATE.key and refusal is not None:
            return error_frame(request.request_id, *refusal)
        return response_frame(request.request_id, b"")

    return answer


def test_a_connection_is_signed_in_before_the_first_call() -> None:
    with scripted(KEYS, server()) as there:
        connection = FlussConnection("127.0.0.1", there.port, sign_in=Credentials("reader", SECRET))
        for _ in range(2):
            connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest())
        connection.close()
        assert [one.api_key for one in there.requests] == [1038, 1003, 1003]
        sent = pb.AuthenticateRequest.FromString(bytes(there.requests[0].body))
        assert (sent.protocol, sent.token) == ("PLAIN", b"\0reader\0" + SECRET.encode())
        there.drop()  # another connection is signed in, too
        connection = FlussConnection("127.0.0.1", there.port, sign_in=Credentials("reader", SECRET))
        connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest())
        connection.close()
        assert [one.api_key for one in there.requests[3:]] == [1038, 1003]


def test_a_user_who_is_refused_is_named_and_the_password_is_not() -> None:
    with scripted(KEYS, server((46, "Authentication failed"))) as there:
        connection = FlussConnection("127.0.0.1", there.port, sign_in=Credentials("reader", SECRET))
        with pytest.raises(FlussError, match=r"does not sign in 'reader': Fluss error 46 AUTHENTICATE") as e:
            connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest())
        assert PASSWORD_VARIABLE in str(e.value)
        assert SECRET not in str(e.value)
    with scripted(KEYS, server((51, "not yet"))) as there:
        connection = FlussConnection("127.0.0.1", there.port, sign_in=Credentials("reader", SECRET))
        with pytest.raises(Unavailable, match="does not sign in 'reader' now: not yet"):
            connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest(), again=False)


def test_a_server_before_0_7_takes_no_user() -> None:
    with scripted((1000, 1003), server()) as there:
        connection = FlussConnection("127.0.0.1", there.port, sign_in=Credentials("reader", SECRET))
        with pytest.raises(Unsupported, match="leave out the user"):
            connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest())


def test_the_user_is_in_the_address_and_the_password_in_the_environment(monkeypatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, SECRET)
    cluster = Cluster("fluss://rea@der@a:1,b:2")
    assert (cluster.user, cluster.bootstrap) == ("rea@der", (("a", 1), ("b", 2)))
    assert repr(cluster) == "Cluster(fluss://rea@der@a:1,b:2)"
    tiered = FlussTieringCluster("fluss://reader@a:1")
    shown = repr((Credentials("reader", SECRET), cluster, tiered)) + str(vars(tiered))
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
