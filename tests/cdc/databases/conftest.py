"""A database of each test's own, in each kind of server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tablestore.cdc.databases.address import PASSWORD_VARIABLE
from tests.cdc.databases.sources import MariaDbSource, PostgresSource, Source, mariadb_source, postgres_source
from tests.servers.mariadb import PASSWORD


@pytest.fixture(params=[MariaDbSource.kind, PostgresSource.kind])
def source(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Source]:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    if request.param == MariaDbSource.kind:
        with mariadb_source(request.getfixturevalue("mariadb"), tmp_path) as source:
            yield source
    else:
        with postgres_source(request.getfixturevalue("postgres_server"), tmp_path) as source:
            yield source
