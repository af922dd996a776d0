"""What the options of a stranger's table cannot have: passwords, variables, files and the identity of whoever
opens it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.core.options import environment
from tablestore.core.options.environment import TRUSTED_SERVERS, require_trusted, trust
from tablestore.fluss import apis
from tablestore.fluss.frames import Request, error_frame, response_frame
from tablestore.fluss.messages import pb
from tablestore.fluss.sign_in import PASSWORD_VARIABLE
from tablestore.io.fileio import LocalFileIO
from tablestore.log.kafka.cluster import require_trusted_servers
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.read.table_log import settings_of
from tablestore.table.lake import Lake
from tests.fluss.scripted_server import scripted

SECRET = "s3kret-of-the-reader"
KEYED = {"k": ts.BIGINT, "v": ts.STRING}


@pytest.fixture(autouse=True)
def trusts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRUSTED_SERVERS, raising=False)
    monkeypatch.setattr(environment, "_named", set())
    monkeypatch.setenv(PASSWORD_VARIABLE, SECRET)
    monkeypatch.setenv("READERS_OWN", SECRET)


@pytest.fixture
def ear() -> Iterator[tuple[int, Callable[[], bool]]]:
    """A port that a stranger listens at, and whether anybody came."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.setblocking(False)

        def came() -> bool:
            try:
                listening.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        yield listening.getsockname()[1], came


def strangers(warehouse: Path, options: dict[str, Any]) -> ts.Table:
    """A table whose files say these options, whoever wrote them."""
    table = ts.connect(warehouse).create_table("s.t", schema=KEYED, primary_key=["k"], options={"bucket": 1})
    table.write([{"k": 1, "v": "a"}])
    [path] = warehouse.rglob("schema-0")
    schema = json.loads(path.read_text())
    schema["options"] |= options
    path.write_text(json.dumps(schema))
    return ts.connect(warehouse).table("s.t")


def pasted(error: InvalidRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what an error says."""
    match = re.search(rf"set the variable ({TRUSTED_SERVERS})=(\S+)", str(error))
    assert match is not None
    monkeypatch.setenv(match[1], match[2])


DOORS: dict[str, Callable[[ts.Table, Lake], Any]] = {
    "scan": lambda t, _: t.scan(log=True).count(),
    "get": lambda t, _: t.get({"k": 1}, log=True),
    "stream": lambda t, _: next(iter(t.stream(start="latest-full"))),
    "write": lambda t, _: t.write([{"k": 2, "v": "b"}]),
    "compact": lambda t, _: t.compact(full=True),
    "repair": lambda t, _: t.log and t.log.repair(),
    "check": lambda t, _: t.check(),
    "drop": lambda t, lake: lake.drop_table("s.t"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("system", ["kafka", "fluss"])
def test_no_door_of_a_table_takes_a_secret_to_a_server_that_the_table_names(
    tmp_path: Path, ear: tuple[int, Callable[[], bool]], system: str, door: str
) -> None:
    port, came = ear
    kafka = {
        "log.system": "kafka",
        "kafka.bootstrap.servers": f"127.0.0.1:{port}",
        "kafka.topic": "t",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "u",
        "kafka.sasl.password": "${env:READERS_OWN}",
    }
    fluss = {
        "log.system": "fluss",
        "tablestore.fluss.bootstrap.servers": f"reader@127.0.0.1:{port}",
        "tablestore.fluss.table": "s.t",
    }
    table = strangers(tmp_path, kafka if system == "kafka" else fluss)
    assert table.scan().count() == 1  # files alone need no log
    said = ""
    try:
        DOORS[door](table, ts.connect(tmp_path))
    except TablestoreError as e:
        said = str(e)
    assert not came()
    assert SECRET not in said
    if door in ("scan", "get"):
        assert TRUSTED_SERVERS in said


def test_the_password_of_a_cluster_goes_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Request) -> bytes:
        if request.api_key == apis.AUTHENTICATE.key:
            return error_frame(request.request_id, 46, "no")
        return response_frame(request.request_id, b"")

    with scripted(apis.APIS, answer) as server:
        own = {"log.system": "fluss", "tablestore.fluss.table": "s.t"}
        own["tablestore.fluss.bootstrap.servers"] = f"reader@127.0.0.1:{server.port}"
        table = strangers(tmp_path, own)
        with pytest.raises(InvalidRequest, match="the password of 'reader'") as refused:
            table.scan(log=True).count()
        assert not server.connections
        pasted(refused.value, monkeypatch)
        with pytest.raises(TablestoreError, match="46 AUTHENTICATE"):
            table.scan(log=True).count()
        sent = pb.AuthenticateRequest.FromString(bytes(server.requests[0].body))
        assert sent.token == b"\0reader\0" + SECRET.encode()


SAFE = {"bootstrap.servers": "a:9092", "client.id": "x", "sasl.username": "u"}
TAKES = {
    "a variable": {"sasl.password": "${env:READERS_OWN}"},
    "a variable in the address": {"bootstrap.servers": "${env:READERS_OWN}.example.org:9092"},
    "another list of brokers": {"metadata.broker.list": "evil:9092", "client.id": "${env:READERS_OWN}"},
    "a file": {"ssl.certificate.location": "/home/me/cert.pem"},
    "an assertion": {"sasl.oauthbearer.assertion.file": "/home/me/token"},
    "the machine's identity": {"sasl.oauthbearer.metadata.authentication.type": "azure_imds"},
    "a page of tokens": {
        "sasl.oauthbearer.token.endpoint.url": "https://evil/token",
        "sasl.oauthbearer.client.secret": "${env:READERS_OWN}",
    },
}


@pytest.mark.parametrize("what", TAKES)
def test_properties_that_take_something_need_servers_that_are_trusted(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_trusted_servers(SAFE.items())
    given = {**SAFE, **TAKES[what]}
    trust("a:9092")
    if any(server in str(given) for server in ("evil", "example")):
        with pytest.raises(InvalidRequest, match="nothing is sent" if "address" in what else "set the"):
            require_trusted_servers(given.items())
    else:
        require_trusted_servers(given.items())
        monkeypatch.setattr(environment, "_named", set())
        with pytest.raises(InvalidRequest, match=TRUSTED_SERVERS) as refused:
            require_trusted_servers(given.items())
        pasted(refused.value, monkeypatch)
        require_trusted_servers(given.items())


def test_the_user_of_a_schema_registry_goes_to_one_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"log.system": "kafka", "kafka.bootstrap.servers": "a:1", "kafka.topic": "t"}
    own |= {"log.format": "debezium-avro", "debezium-avro-confluent.url": "http://reg/x"}
    own["debezium-avro-confluent.basic-auth.user-info"] = "${env:U}:${env:P}"
    settings = settings_of(strangers(tmp_path, own).store)
    assert settings is not None
    log = KafkaLog(settings, LocalFileIO())
    assert log.properties
    with pytest.raises(InvalidRequest, match="schema registry to http://reg/x") as refused:
        _ = log.format
    pasted(refused.value, monkeypatch)
    assert log.format


@pytest.mark.parametrize(
    ("trusted", "asked", "ok"),
    [
        ("a:1,b:2", "b:2,a:1", True),
        ("A:1", "a:1", True),
        ("a", "SASL_SSL://a:9092", True),
        ("https://r", "https://r:443/path", True),
        ("https://r", "http://r", False),
        ("[::1]:5", "[::1]:5", True),
        ("a:1", "a:1,evil:1", False),
        ("a:1", "a:1@evil:1", False),
        ("a:1", "evil:1/a:1", False),
        ("a:1", "a:1 evil:1", False),
        ("a:1", "http://a:1#@evil:1", False),
        ("a:1", "evil.a:1", False),
        ("a:1", "a:11", False),
        ("a:1", "", False),
        ("", "a:1", False),
    ],
)
def test_which_addresses_are_meant(
    trusted: str, asked: str, ok: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUSTED_SERVERS, trusted)
    if ok:
        require_trusted("it", [asked])
    else:
        with pytest.raises(InvalidRequest, match="would send it to"):
            require_trusted("it", [asked])
