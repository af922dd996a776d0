"""Catalogs in PostgreSQL: a kept connection is that of one user, and is opened again where it broke."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

import tablestore as ts
from tablestore.core.errors import Unavailable
from tests.servers.postgres import Postgres


def options(server: Postgres, folder: Path, **more: str) -> dict[str, Any]:
    return {
        "metastore": "jdbc",
        "uri": server.owner_url,
        "warehouse": str(folder),
        "catalog_key": folder.name,
    } | more


@pytest.mark.large
def test_a_catalog_goes_on_when_its_server_was_away(postgres_server: Postgres, tmp_path: Path) -> None:
    lake = ts.connect(**options(postgres_server, tmp_path))
    lake.create_database("d")
    postgres_server.kill()
    try:
        with pytest.raises(Unavailable):
            lake.databases()
    finally:
        postgres_server.start()
    assert lake.databases() == ["d"]
    postgres_server.kill()  # while nobody uses it
    postgres_server.start()
    assert lake.databases() == ["d"]


def test_a_connection_is_kept_for_one_user(postgres_server: Postgres, tmp_path: Path) -> None:
    ts.connect(**options(postgres_server, tmp_path)).create_database("d")
    with psycopg.connect(postgres_server.owner_url, autocommit=True) as admin:
        admin.execute("CREATE ROLE nobody LOGIN")
        try:
            url = postgres_server.owner_url.replace("postgres@", "")
            as_nobody = options(postgres_server, tmp_path, uri=url) | {"jdbc.user": "nobody"}
            as_owner = options(postgres_server, tmp_path, uri=url) | {"jdbc.user": "postgres"}
            assert ts.connect(**as_owner).databases() == ["d"]
            with pytest.raises(Unavailable, match="permission denied"):
                ts.connect(**as_nobody).databases()
            assert ts.connect(**as_owner).databases() == ["d"]
        finally:
            admin.execute("DROP ROLE nobody")
