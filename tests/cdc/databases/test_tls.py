"""Connections to a source are encrypted as their address says; nobody else takes the place of the server, and
what does not fit is refused at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from notebooks.demo.private_database import PrivateDatabase, give_to_nobody
from tablestore.cdc.databases.address import PASSWORD_VARIABLE, Address
from tablestore.cdc.mysql import server as mysql
from tablestore.cdc.mysql.stream import MysqlTable
from tablestore.cdc.postgres import server as postgres
from tablestore.cdc.postgres.copy_rows import copied, values_of
from tablestore.core.errors import InvalidRequest
from tests.servers import mariadb as mariadb_servers
from tests.servers import postgres as postgres_servers
from tests.suite import counterparts

KINDS = ["MariaDB", "PostgreSQL"]


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """A CA, a certificate of 127.0.0.1 by it, and a CA that has nothing to do with them; the server reads
    them as a user of its own."""
    counterparts.need("openssl")
    folder = Path(tempfile.mkdtemp(prefix="workbench-tls-"))
    folder.chmod(0o755)
    new = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    for name in ("ca", "stranger"):
        created = f"{new} -x509 -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        subprocess.run(created.split(), cwd=folder, check=True, capture_output=True)
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    subprocess.run(
        f"{new} -subj /CN=server -keyout server.key -out server.csr".split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    signed = (
        "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days 2 -extfile names -out server.pem"
    )
    subprocess.run(signed.split(), cwd=folder, check=True, capture_output=True)
    for file in folder.iterdir():
        file.chmod(0o644)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module", params=KINDS)
def encrypted(request: pytest.FixtureRequest, certificates: Path) -> Iterator[PrivateDatabase]:
    """A server that takes both kinds of connections."""
    certificate, key = certificates / "server.pem", certificates / "server.key"
    server: AbstractContextManager[PrivateDatabase]
    if request.param == KINDS[0]:
        ssl = [f"ssl-cert={certificate}", f"ssl-key={key}", f"ssl-ca={certificates / 'ca.pem'}"]
        server = mariadb_servers.mariadb([*mariadb_servers.FAST, *ssl])
    else:
        own = Path(shutil.copy(key, certificates / "own.key"))  # which nobody else may read
        give_to_nobody(own)
        os.chmod(own, 0o600)
        server = postgres_servers.postgres(
            "ssl=on", f"ssl_cert_file='{certificate}'", f"ssl_key_file='{own}'"
        )
    with server as opened:
        yield opened


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, mariadb_servers.PASSWORD)


def address_of(url: str, **security: str) -> Address:
    if url.startswith("mysql"):
        return Address.parse(url, **security)
    return postgres.parse_address(url.replace("reader@", "postgres@") + "/postgres", **security)


def is_encrypted(server: PrivateDatabase, address: Address) -> bool:
    if server.scheme == "mysql":
        with mysql.Connection.open(address) as connection:
            return bool(connection.rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1])
    with postgres.Connection.open(address) as other:
        return bool(other.rows("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")[0][0])


def test_an_address_says_how_connections_are_encrypted(
    encrypted: PrivateDatabase, certificates: Path
) -> None:
    ca, url = str(certificates / "ca.pem"), encrypted.url
    assert is_encrypted(encrypted, address_of(url))
    assert not is_encrypted(encrypted, address_of(url, tls="off"))
    assert is_encrypted(encrypted, address_of(url, tls="required"))
    assert is_encrypted(encrypted, address_of(url, tls="verify-ca", tls_ca=ca))
    identity = address_of(url, tls="verify-identity", tls_ca=ca)
    assert is_encrypted(encrypted, identity)
    elsewhere = replace(identity, host="localhost")
    with pytest.raises(InvalidRequest, match=r"Hostname mismatch.*localhost|does not match host name"):
        is_encrypted(encrypted, elsewhere)
    assert is_encrypted(encrypted, replace(elsewhere, tls="verify-ca"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("stranger.pem", r"certificate verify failed[\s\S]*tls_ca names a file of the CAs"),
        ("no-such.pem", r"cannot be read|does not exist"),
    ],
)
def test_a_certificate_that_is_not_trusted_is_refused_at_once(
    encrypted: PrivateDatabase, certificates: Path, name: str, why: str
) -> None:
    address = address_of(encrypted.url, tls="verify-ca", tls_ca=str(certificates / name))
    with pytest.raises(InvalidRequest, match=why):
        is_encrypted(encrypted, address)


@pytest.mark.parametrize("encrypted", KINDS[1:], indirect=True)
def test_rows_are_read_by_an_encrypted_connection(encrypted: PrivateDatabase) -> None:
    numbers = "SELECT 7, generate_series(1, 100000), NULL"
    with postgres.Connection.open(address_of(encrypted.url, tls="required")) as connection:
        blocks = [s.binary(1).to_pylist() for s in values_of(connection, numbers, 3)]
        assert len(blocks) > 1
        assert [int(v) for block in blocks for v in block] == [*range(1, 100_001)]
        for rows in (0, 100_000):
            of_binary = copied(connection, f"SELECT generate_series(1, {rows})", binary=True)
            assert sum(len(block.starts) for block in of_binary) == rows


@pytest.mark.parametrize("fixture", ["mariadb", "postgres_server"])
def test_a_server_without_tls(request: pytest.FixtureRequest, fixture: str) -> None:
    server: PrivateDatabase = request.getfixturevalue(fixture)
    assert not is_encrypted(server, address_of(server.url))
    with pytest.raises(InvalidRequest, match=r"SSL is required but the server doesn't|does not support SSL"):
        is_encrypted(server, address_of(server.url, tls="required"))


def test_words_of_an_address_say_the_same_and_others_are_refused() -> None:
    assert Address.parse("mysql://u@h/d?tls=off") == Address.parse("mysql://u@h/d", tls="off")
    with pytest.raises(InvalidRequest, match=r"tls='yes' is none of off, preferred, required, verify-ca"):
        Address.parse("mysql://u@h/d?tls=yes")
    with pytest.raises(InvalidRequest, match="tls_ca without effect: tls=preferred"):
        Address.parse("mysql://u@h/d?tls_ca=/a")


@pytest.mark.parametrize("encrypted", KINDS[:1], indirect=True)
def test_rows_and_changes_come_through_it(encrypted: mariadb_servers.MariaDb, certificates: Path) -> None:
    encrypted.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (k INT PRIMARY KEY, v LONGTEXT)",
        "INSERT INTO d.t SELECT seq, REPEAT('x', 20 + seq) FROM mysql.seq_1_to_3000",
    )
    address = Address.parse(f"{encrypted.url}/d", tls="verify-ca", tls_ca=str(certificates / "ca.pem"))
    table = MysqlTable.open(address, "t", chunk_rows=1000)
    collected: dict[int, int] = {}
    offset = table.initial()
    for _ in range(3):
        end = table.next(offset)
        for piece in table.pieces(offset, end):
            for batch, _kinds in piece.read(["k", "v"]):
                collected |= {row["k"]: len(row["v"]) for row in batch.to_pylist()}
        offset = end
        encrypted.run("REPLACE INTO d.t VALUES (0, REPEAT('y', 20000000))")
    assert collected == {0: 20_000_000} | {k: 20 + k for k in range(1, 3001)}
