"""A database of each test's own in the MariaDB of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tablestore.cdc.databases.address import PASSWORD_VARIABLE, Address
from tablestore.cdc.mysql.server import Connection
from tests.cdc.databases.sources import MariaDbSource, mariadb_source
from tests.servers import mariadb as servers
from tests.servers.mariadb import MariaDb


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, servers.PASSWORD)


@pytest.fixture
def source_database(mariadb: MariaDb, tmp_path: Path) -> Iterator[MariaDbSource]:
    with mariadb_source(mariadb, tmp_path) as source:
        yield source


@pytest.fixture
def source(source_database: MariaDbSource) -> MariaDbSource:
    return source_database


@pytest.fixture
def database(source_database: MariaDbSource) -> str:
    return source_database.name


@pytest.fixture
def address(source_database: MariaDbSource) -> Address:
    return source_database.address


@pytest.fixture
def connection(address: Address) -> Iterator[Connection]:
    with Connection.open(address) as opened:
        yield opened
