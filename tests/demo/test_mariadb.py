"""A private MariaDB: nothing of it stays, whatever ends its maker; nobody else gets in."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pymysql
import pytest

import tablestore as ts
from notebooks.demo.mariadb import MariaDb
from tests.suite import counterparts

_MAKER = """
from notebooks.demo.mariadb import MariaDb
server = MariaDb()
print(server.folder, server.port, server.process.pid, flush=True)
input()
"""


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_stays_when_the_maker_is_killed():
    counterparts.need("MariaDB")
    maker = subprocess.Popen([sys.executable, "-c", _MAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert maker.stdout is not None
    place, port, server = maker.stdout.readline().decode().split()
    folder = Path(place)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "password").stat().st_mode) == 0o600
    for name in ("root", "owner", "reader"):
        with pytest.raises(pymysql.OperationalError):
            pymysql.connect(host="127.0.0.1", port=int(port), user=name)
    password = (folder / "password").read_text()
    reader = pymysql.connect(host="127.0.0.1", port=int(port), user="reader", password=password)
    with reader, pytest.raises(pymysql.OperationalError):
        reader.query("CREATE DATABASE d")
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    until = time.monotonic() + 240
    while folder.exists() or alive(int(server)):
        assert time.monotonic() < until, "the server or its directory is still there"
        time.sleep(0.05)


def test_a_machine_without_it_learns_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(ts.Unsupported, match=r"mariadbd and mariadb-install-db not found; .*apt-get install"):
        MariaDb()
