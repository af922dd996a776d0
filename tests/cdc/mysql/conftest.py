"""A database of each test's own in the MariaDB of the run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tablestore.cdc.databases.address import PASSWORD_VARIABLE, Address
from tablestore.cdc.mysql.server import Connection
from tests.cdc.mysql.memory_lake import Source
from tests.servers import mariadb as servers
from tests.servers.mariadb import MariaDb


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, servers.PASSWORD)


@pytest.fixture
def database(mariadb: MariaDb) -> Iterator[str]:
    name = f"d{uuid.uuid4().hex[:12]}"
    mariadb.run(f"CREATE DATABASE {name}")
    yield name
    mariadb.run(f"DROP DATABASE {name}")


@pytest.fixture
def address(mariadb: MariaDb, database: str) -> Address:
    return Address.parse(f"{mariadb.url}/{database}")


@pytest.fixture
def connection(address: Address) -> Iterator[Connection]:
    with Connection.open(address) as opened:
        yield opened


@pytest.fixture
def source(mariadb: MariaDb, address: Address, tmp_path: Path) -> Source:
    return Source(mariadb, address, tmp_path)
