"""A private MariaDB or PostgreSQL: nothing of it stays, whatever ends its maker; nobody else gets in."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

import tablestore as ts
from notebooks.demo import postgres
from notebooks.demo.mariadb import MariaDb
from notebooks.demo.postgres import Postgres
from tests.suite import counterparts

_MAKER = """
from notebooks.demo.{module} import {name}
server = {name}()
print(server.folder, server.port, server.process.pid, flush=True)
input()
"""
_HOST = "127.0.0.1"
Connect = Callable[..., Any]


def in_mariadb(port: int, **account: str) -> Any:
    return pymysql.connect(host=_HOST, port=port, autocommit=True, **account)


def in_postgres(port: int, **account: str) -> Any:
    return psycopg.connect(host=_HOST, port=port, dbname="postgres", autocommit=True, **account)


KINDS = [
    pytest.param("MariaDB", MariaDb, in_mariadb, "owner", id="MariaDB"),
    pytest.param("PostgreSQL", Postgres, in_postgres, "postgres", id="PostgreSQL", marks=pytest.mark.large),
]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(("counterpart", "server", "connect", "owner"), KINDS)
def test_nothing_stays_when_the_maker_is_killed(
    counterpart: str, server: type, connect: Connect, owner: str
) -> None:
    counterparts.need(counterpart)
    code = _MAKER.format(module=server.__module__.rpartition(".")[2], name=server.__name__)
    maker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert maker.stdout is not None
    place, port, process = maker.stdout.readline().decode().split()
    folder = Path(place)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "password").stat().st_mode) == 0o600
    refused = (pymysql.OperationalError, psycopg.OperationalError)
    for name in ("root", owner, "reader"):
        with pytest.raises(refused):
            connect(int(port), user=name)
    reader = connect(int(port), user="reader", password=(folder / "password").read_text())
    with reader, reader.cursor() as cursor:
        for statement in ("CREATE DATABASE d", "CREATE ROLE r"):
            with pytest.raises((pymysql.Error, psycopg.Error)):
                cursor.execute(statement)
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    until = time.monotonic() + 240
    while folder.exists() or alive(int(process)):
        assert time.monotonic() < until, "the server or its directory is still there"
        time.sleep(0.05)


@pytest.mark.large
def test_a_long_path_of_the_temporary_directory_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket's path may have 107 characters: PostgreSQL has none."""
    counterparts.need("PostgreSQL")
    with tempfile.TemporaryDirectory(prefix="x" * 100) as folder:
        os.chmod(folder, 0o711)  # the server is another user's where we are root
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with Postgres() as server:
            server.run("CREATE DATABASE d")
            assert len(str(server.folder)) > 107


def test_a_machine_without_it_learns_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(ts.Unsupported, match=r"mariadbd and mariadb-install-db not found; .*apt-get install"):
        MariaDb()
    monkeypatch.setattr(postgres, "_programs", lambda: None)
    with pytest.raises(ts.Unsupported, match=r"initdb not found; .*apt-get install .* postgresql"):
        Postgres()
