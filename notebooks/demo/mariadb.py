"""A private MariaDB: a server in a temporary directory, on 127.0.0.1 only, that ends with whoever made it.

Its binlog is as change capture wants it. Passwords are random; the one of the user who captures is in a file
that only this user of the machine can read, the server itself knows hashes.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from typing import Any

from notebooks.demo.ports import free_port, listens
from notebooks.demo.private_database import HOST, READER, PrivateDatabase, give_to_nobody
from tablestore.core.errors import Unavailable, Unsupported
from tablestore.core.extras import required

DURABLE = ("sync-binlog=1", "innodb-flush-log-at-trx-commit=1")  # where the binlog is ahead of the tables
FAST = ("sync-binlog=0", "innodb-flush-log-at-trx-commit=2")
RIGHTS = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT, BINLOG MONITOR"
"""What change capture needs."""
_OWNER = "owner"
_PROGRAMS = ("mariadbd", "mariadb-install-db")
_REMEDY = (
    "on Debian and Ubuntu: apt-get install --no-install-recommends mariadb-server-core mariadb-client-core;"
    " on macOS: brew install mariadb"
)
_SETTINGS = """
[mariadbd]
bind-address=127.0.0.1
skip-name-resolve
server-id=4711
binlog-format=ROW
binlog-row-image=FULL
binlog-row-metadata=FULL
gtid-strict-mode=ON
log-slave-updates=ON
local-infile=ON
character-set-server=utf8mb4
max-allowed-packet=1G
performance-schema=OFF
"""
_START_SECONDS = 120


def missing() -> str:
    """What to install so that there can be a private MariaDB; empty where it is there."""
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"{' and '.join(absent)} not found; {_REMEDY}" if absent else ""


class MariaDb(PrivateDatabase):
    """A private MariaDB.

    `settings` are lines of its option file; `password` is that of the user who captures, by default a random
    one. Raises Unsupported, with what to install, where there is no MariaDB on the machine.
    """

    program, title, scheme = "mariadbd", "MariaDB", "mysql"

    def __init__(
        self, settings: Sequence[str] = DURABLE, *, memory: str = "64M", password: str | None = None
    ) -> None:
        if absent := missing():
            raise Unsupported("a private MariaDB", absent)
        super().__init__("mariadb")
        self._owner_password = secrets.token_urlsafe(24)
        try:
            self._make_data(password if password is not None else secrets.token_urlsafe(24))
            lines = (f"innodb-buffer-pool-size={memory}", *settings)
            self._write_settings(free_port(), lines)
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start it where it was stopped or killed; returns when it answers."""
        command = ["mariadbd", f"--defaults-file={self.folder / 'my.cnf'}", *_user()]
        self._launch(self.program, command, self._environment)
        answers = partial(listens, self.port)
        self._await(self.program, answers, seconds=_START_SECONDS, name=self.title, pause=0.02)

    def output(self, server: str) -> str:
        """What it wrote to its log of errors."""
        return (self.folder / "error.log").read_text(errors="replace")

    def connect(self, **options: Any) -> Any:
        """A connection of the owner, by PyMySQL; `options` are those of its `connect`."""
        pymysql = required("pymysql", by="a private MariaDB")
        account = {"user": _OWNER, "password": self._owner_password, "host": HOST, "port": self.port}
        return pymysql.connect(
            **{**account, "charset": "utf8mb4", "autocommit": True, "local_infile": True, **options}
        )

    def run(self, *statements: str) -> Sequence[Any]:
        """The rows of the last statement."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            rows: Sequence[Any] = cursor.fetchall()
            return rows

    def _make_data(self, password: str) -> None:
        give_to_nobody(self.folder)
        self._write_secret(self.password_file.name, password)
        users = self.folder / "users.sql"
        everything = f"GRANT ALL ON *.* TO {_user_of(_OWNER, self._owner_password)} WITH GRANT OPTION;\n"
        reading = f"GRANT {RIGHTS} ON *.* TO {_user_of(READER, password)};\n"
        users.write_text("FLUSH PRIVILEGES;\n" + everything + reading)
        command = [
            *("mariadb-install-db", "--no-defaults", f"--datadir={self.folder / 'data'}", *_user()),
            *("--auth-root-authentication-method=socket", "--skip-test-db", "--skip-name-resolve"),
            f"--extra-file={users}",
        ]
        installed = subprocess.run(command, capture_output=True, cwd=self.folder, env=self._environment)
        if installed.returncode:
            text = (installed.stdout + installed.stderr).decode(errors="replace")[-1500:]
            raise Unavailable(f"mariadb-install-db failed: {text}")
        users.unlink()

    def _write_settings(self, port: int, lines: Sequence[str]) -> None:
        self.port = port
        data = self.folder / "data"
        places = [f"datadir={data}", f"log-bin={data / 'binlog'}", f"socket={self.folder / 's'}"]
        places += [f"port={port}", f"log-error={self.folder / 'error.log'}"]
        (self.folder / "my.cnf").write_text(_SETTINGS + "\n".join([*places, *lines]) + "\n")

    @property
    def _environment(self) -> dict[str, str]:
        """Its temporary files lie where it may write."""
        return {**os.environ, "TMPDIR": str(self.folder)}


def _user() -> list[str]:
    """mariadbd refuses to be root."""
    return ["--user=nobody"] if os.geteuid() == 0 else []


def _user_of(name: str, password: str) -> str:
    """A user from this machine, with the hash of a password (mysql_native_password)."""
    twice = hashlib.sha1(hashlib.sha1(password.encode()).digest()).hexdigest().upper()
    return f"'{name}'@'{HOST}' IDENTIFIED BY PASSWORD '*{twice}'"
