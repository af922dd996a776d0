"""Connections to PostgreSQL are encrypted as their address says; nobody else takes the place of the server,
and what does not fit is refused at once."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tablestore.cdc.postgres.server import Connection, parse_address
from tablestore.core.errors import InvalidRequest
from tests.cdc.mysql.test_tls import certificates
from tests.servers.postgres import Postgres

__all__ = ["certificates"]
SETTINGS = ("ssl", "ssl_cert_file", "ssl_key_file")


@pytest.fixture
def encrypted(postgres_server: Postgres, certificates: Path) -> Iterator[str]:
    """The URI of a server that takes both kinds of connections."""
    for name in ("server.pem", "server.key"):
        file = shutil.copy(certificates / name, postgres_server.folder)
        if os.geteuid() == 0:
            shutil.chown(file, "nobody")
        os.chmod(file, 0o600)
    places = [postgres_server.folder / name for name in ("server.pem", "server.key")]
    with psycopg.connect(postgres_server.owner_url, autocommit=True) as admin:
        try:
            for name, value in zip(SETTINGS, ("on", *places), strict=True):
                admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            admin.execute("SELECT pg_reload_conf()")
            until = time.monotonic() + 60
            while admin.execute("SHOW ssl").fetchone() != ("on",):
                assert time.monotonic() < until
                time.sleep(0.01)
            yield postgres_server.owner_url
        finally:
            for name in SETTINGS:
                admin.execute(f"ALTER SYSTEM RESET {name}")
            admin.execute("SELECT pg_reload_conf()")


def is_encrypted(url: str, **security: str) -> bool:
    with Connection.open(parse_address(url, **security)) as connection:
        return bool(connection.rows("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")[0][0])


def test_an_address_says_how_connections_are_encrypted(encrypted: str, certificates: Path) -> None:
    ca = str(certificates / "ca.pem")
    assert is_encrypted(encrypted)
    assert not is_encrypted(encrypted, tls="off")
    assert is_encrypted(encrypted, tls="required")
    assert is_encrypted(encrypted, tls="verify-ca", tls_ca=ca)
    assert is_encrypted(encrypted, tls="verify-identity", tls_ca=ca)
    elsewhere = replace(parse_address(encrypted, tls="verify-identity", tls_ca=ca), host="localhost")
    with pytest.raises(InvalidRequest, match="does not match host name"):
        Connection.open(elsewhere)


def test_a_certificate_that_is_not_trusted_is_refused_at_once(encrypted: str, certificates: Path) -> None:
    for name, why in (("stranger.pem", "certificate verify failed"), ("no-such.pem", "does not exist")):
        with pytest.raises(InvalidRequest, match=rf"{why}[\s\S]*tls_ca names a file of the CAs"):
            is_encrypted(encrypted, tls="verify-ca", tls_ca=str(certificates / name))


def test_a_server_without_tls(postgres: str) -> None:
    assert not is_encrypted(postgres)
    with pytest.raises(InvalidRequest, match="does not support SSL"):
        is_encrypted(postgres, tls="required")
