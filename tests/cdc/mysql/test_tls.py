"""Connections to a source are encrypted as their address says; nobody else takes the place of the server."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.mysql.stream import MysqlTable
from tablestore.core.errors import InvalidRequest
from tests.servers import mariadb as servers
from tests.servers.mariadb import MariaDb
from tests.suite import counterparts


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """A CA, a certificate of 127.0.0.1 by it, and a CA that has nothing to do with them; the server reads
    them as a user of its own."""
    counterparts.need("openssl")
    folder = Path(tempfile.mkdtemp(prefix="workbench-tls-"))
    folder.chmod(0o755)
    new = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    for name in ("ca", "stranger"):
        made = f"{new} -x509 -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        subprocess.run(made.split(), cwd=folder, check=True, capture_output=True)
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


@pytest.fixture(scope="module")
def encrypted(certificates: Path) -> Iterator[MariaDb]:
    files = [f"ssl-cert={certificates}/server.pem", f"ssl-key={certificates}/server.key"]
    with servers.mariadb([*servers.FAST, *files, f"ssl-ca={certificates}/ca.pem"]) as server:
        yield server


def is_encrypted(address: Address) -> bool:
    with Connection.open(address) as connection:
        return bool(connection.rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1])


def test_an_address_says_how_connections_are_encrypted(encrypted: MariaDb, certificates: Path) -> None:
    ca, url = str(certificates / "ca.pem"), encrypted.url
    assert is_encrypted(Address.parse(url))
    assert not is_encrypted(Address.parse(f"{url}?tls=off"))
    assert is_encrypted(Address.parse(f"{url}/?tls=required"))
    assert is_encrypted(Address.parse(f"{url}?tls=off", tls="verify-ca", tls_ca=ca))
    identity = Address.parse(f"{url}?tls=verify-identity&tls_ca={ca}")
    assert is_encrypted(identity)
    elsewhere = replace(identity, host="localhost")
    with pytest.raises(InvalidRequest, match=r"certificate verify failed: Hostname mismatch.*localhost"):
        Connection.open(elsewhere)
    assert is_encrypted(replace(elsewhere, tls="verify-ca"))


def test_a_certificate_that_is_not_trusted_is_refused_at_once(encrypted: MariaDb, certificates: Path) -> None:
    for tls_ca in (str(certificates / "stranger.pem"), None):
        with pytest.raises(
            InvalidRequest, match=r"certificate verify failed.*tls_ca names a file of the CAs"
        ):
            Connection.open(Address.parse(encrypted.url, tls="verify-ca", tls_ca=tls_ca))
    for absent in ("no-such.pem", "names"):
        with pytest.raises(InvalidRequest, match="cannot be read"):
            Connection.open(Address.parse(encrypted.url, tls="verify-ca", tls_ca=str(certificates / absent)))


def test_a_server_without_tls(mariadb: MariaDb) -> None:
    assert not is_encrypted(Address.parse(mariadb.url))
    with pytest.raises(InvalidRequest, match="SSL is required but the server doesn't support it"):
        Connection.open(Address.parse(mariadb.url, tls="required"))


def test_words_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"tls='yes' is none of off, preferred, required, verify-ca"):
        Address.parse("mysql://u@h/d?tls=yes")
    with pytest.raises(InvalidRequest, match="tls_ca without effect: tls=preferred"):
        Address.parse("mysql://u@h/d?tls_ca=/a")


def test_rows_and_changes_come_through_it(encrypted: MariaDb, certificates: Path) -> None:
    encrypted.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (k INT PRIMARY KEY, v LONGTEXT)",
        "INSERT INTO d.t SELECT seq, REPEAT('x', 20 + seq) FROM mysql.seq_1_to_3000",
    )
    address = Address.parse(f"{encrypted.url}/d", tls="verify-ca", tls_ca=str(certificates / "ca.pem"))
    table = MysqlTable.open(address, "t", chunk_rows=1000)
    found: dict[int, int] = {}
    offset = table.initial()
    for _ in range(3):
        end = table.next(offset)
        for piece in table.pieces(offset, end):
            for batch, _kinds in piece.read(["k", "v"]):
                found |= {row["k"]: len(row["v"]) for row in batch.to_pylist()}
        offset = end
        encrypted.run("REPLACE INTO d.t VALUES (0, REPEAT('y', 20000000))")
    assert found == {0: 20_000_000} | {k: 20 + k for k in range(1, 3001)}
