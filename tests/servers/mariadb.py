"""MariaDB from Debian's packages, as an ordinary user, with a binlog that change capture can read."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from tests.peers import require
from tests.servers.process import free_port, listens, running

PASSWORD = "a secret: of tests@/%"
SETTINGS = """
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
innodb-buffer-pool-size=64M
performance-schema=OFF
"""
DURABLE = ("sync-binlog=1", "innodb-flush-log-at-trx-commit=1")  # where the binlog is ahead of the tables
FAST = ("sync-binlog=0", "innodb-flush-log-at-trx-commit=2")


@dataclass
class MariaDb:
    """A private server; `stop`, `kill` and `start` as often as a test likes."""

    folder: Path
    port: int
    _running: contextlib.ExitStack
    process: Any = None

    @property
    def url(self) -> str:
        """Address of a user who may read everything and follow the binlog, with `PASSWORD`."""
        return f"mysql://reader@127.0.0.1:{self.port}"

    def start(self) -> None:
        command = ["mariadbd", f"--defaults-file={self.folder / 'my.cnf'}", *_user()]
        self.process = self._running.enter_context(
            running(
                command,
                ready=lambda: listens(self.port),
                log=self.folder / "out.log",
                environment=_environment(self.folder),
            )
        )

    def stop(self) -> None:
        """An orderly end."""
        self.process.terminate()
        self.process.wait(60)
        self._running.close()

    def kill(self) -> None:
        """The end by SIGKILL."""
        self.process.kill()
        self.process.wait(60)
        self._running.close()

    def connect(self, **options: Any) -> pymysql.Connection:
        """A connection of the owner."""
        known = {"user": "root", "host": "127.0.0.1", "port": self.port, "charset": "utf8mb4"}
        return pymysql.connect(**known, autocommit=True, local_infile=True, **options)

    def run(self, *statements: str) -> Sequence[Any]:
        """The rows of the last statement."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()


@contextlib.contextmanager
def mariadb(durability: Sequence[str] = DURABLE) -> Iterator[MariaDb]:
    """A server in a directory of its own, which ends with the block."""
    found = shutil.which("mariadbd") and shutil.which("mariadb-install-db")
    require(found, "needs MariaDB (apt: mariadb-server-core mariadb-client-core)")
    folder = Path(tempfile.mkdtemp(prefix="workbench-mariadb-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        data, port = folder / "data", free_port()
        made = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", *_user(), "--skip-test-db"]
        made += ["--auth-root-authentication-method=normal", "--skip-name-resolve"]
        subprocess.run(made, check=True, capture_output=True, cwd=folder, env=_environment(folder))
        lines = [f"datadir={data}", f"socket={folder / 's'}", f"port={port}", f"log-bin={data / 'binlog'}"]
        (folder / "my.cnf").write_text(SETTINGS + "\n".join([*lines, *durability]) + "\n")
        with contextlib.ExitStack() as stack:
            server = MariaDb(folder, port, stack)
            server.start()
            rights = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT, BINLOG MONITOR"
            server.run(f"GRANT {rights} ON *.* TO reader@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    """Its temporary files lie where it may write."""
    return {**os.environ, "TMPDIR": str(folder)}


def _user() -> list[str]:
    """mariadbd refuses to be root."""
    return ["--user=nobody"] if os.geteuid() == 0 else []
