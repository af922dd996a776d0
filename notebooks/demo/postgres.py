"""A private PostgreSQL: a server in a temporary directory, on 127.0.0.1 only, that ends with whoever made it.

Its log is as change capture wants it. Passwords are random; the one of the user who captures is in a file
that only this user of the machine can read, the server itself knows hashes.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from notebooks.demo.ports import free_port, listens
from notebooks.demo.private_database import HOST, READER, PrivateDatabase, give_to_nobody
from tablestore.core.errors import Unavailable, Unsupported
from tablestore.core.extras import required

FAST = ("fsync=off",)
OWNER = "postgres"
_START_SECONDS = 120
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # its path is limited to 107 characters
    "wal_level": "logical",
    "max_replication_slots": "40",
    "dynamic_shared_memory_type": "mmap",  # in its folder, which ends with it
}
_REMEDY = (
    "on Debian and Ubuntu: apt-get install --no-install-recommends postgresql;"
    " on macOS: brew install postgresql"
)


def missing() -> str:
    """What to install so that there can be a private PostgreSQL; empty where it is there."""
    if _programs() is None:
        return f"initdb not found; {_REMEDY}"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "setpriv not found, and PostgreSQL refuses root; apt-get install util-linux"
    return ""


class Postgres(PrivateDatabase):
    """A private PostgreSQL.

    `settings` are lines of its configuration. With `trusting` everybody on this machine may be its owner,
    without a password. Raises Unsupported, with what to install, where there is none on the machine.
    """

    program, title, scheme = "postgres", "PostgreSQL", "postgresql"

    def __init__(self, settings: Sequence[str] = (), *, memory: str = "64MB", trusting: bool = False) -> None:
        if absent := missing():
            raise Unsupported("a private PostgreSQL", absent)
        super().__init__("postgres")
        self._programs = _programs() or ""
        self._password = "" if trusting else secrets.token_urlsafe(24)
        try:
            self.port = free_port()
            self._make_data([f"shared_buffers={memory}", *settings])
            self.start()
            if not trusting:
                self._add_reader()
        except BaseException:
            self.close()
            raise

    @property
    def owner_url(self) -> str:
        """Address of the user who may do everything, and database `postgres`."""
        return f"postgresql://{OWNER}@{HOST}:{self.port}/postgres"

    def start(self) -> None:
        """Start it where it was stopped or killed; returns when it answers."""
        command = [*_other_user(), f"{self._programs}/postgres", "-D", str(self.folder / "data")]
        self._launch(self.program, command, folder=self.folder)
        self._await(self.program, self._answers, seconds=_START_SECONDS, name=self.title, pause=0.02)

    def stop(self) -> None:
        """An end with all that is written on disk, and without waiting for clients."""
        self.process.send_signal(signal.SIGINT)
        self._stop(self.program)

    def kill(self) -> None:
        """The end by SIGKILL, for it and all of its processes."""
        pid = self.process.pid
        self.process.send_signal(signal.SIGSTOP)  # it makes no more of them
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._kill(self.program)

    def close(self) -> None:
        """End it and remove its directory."""
        if self.program in self._processes:
            self.process.send_signal(signal.SIGQUIT)  # at once: it lets go of the memory of its processes
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(self.stop_seconds)
        super().close()

    def connect(self, database: str = "postgres") -> Any:
        """A connection of the owner, by psycopg, each statement its own transaction unless it says
        otherwise."""
        psycopg = required("psycopg", by="a private PostgreSQL")
        account = {"user": OWNER, "password": self._password or None, "host": HOST, "port": self.port}
        return psycopg.connect(**account, dbname=database, autocommit=True)

    def publish(self, database: str) -> None:
        """Let all tables of a database be followed."""
        self.run("CREATE PUBLICATION tablestore FOR ALL TABLES", database=database)

    def withdraw(self, database: str) -> None:
        """Take away what a capture that has ended had here: its slot, which keeps the log, and the
        publication. Who still reads the slot is ended."""
        slots = "FROM pg_replication_slots WHERE database = current_database()"
        end = f"SELECT pg_terminate_backend(active_pid, 10000) {slots} AND active_pid IS NOT NULL"
        drop = "DROP PUBLICATION IF EXISTS tablestore"
        self.run(end, f"SELECT pg_drop_replication_slot(slot_name) {slots}", drop, database=database)

    def run(self, *statements: str, database: str = "postgres") -> None:
        """Statements of the owner."""
        with self.connect(database) as connection:
            for statement in statements:
                connection.execute(statement)

    def _make_data(self, settings: Sequence[str]) -> None:
        give_to_nobody(self.folder)
        command = [*_other_user(), f"{self._programs}/initdb", "-D", str(self.folder / "data"), "-U", OWNER]
        command += ["-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
        command += ["-A", "scram-sha-256" if self._password else "trust"]
        if self._password:
            secret = self._write_secret("owner", self._password)
            give_to_nobody(secret)
            command.append(f"--pwfile={secret}")
        done = subprocess.run(command, capture_output=True, cwd=self.folder)
        (self.folder / "owner").unlink(missing_ok=True)
        if done.returncode:
            text = (done.stdout + done.stderr).decode(errors="replace")[-1500:]
            raise Unavailable(f"initdb failed: {text}")
        own = {**_SETTINGS, "port": str(self.port)}
        lines = [f"{name} = '{value}'" for name, value in own.items()]
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write("\n".join(["", *lines, *settings]) + "\n")

    def _add_reader(self) -> None:
        password = secrets.token_urlsafe(24)
        self._write_secret(self.password_file.name, password)
        self.run(
            f"CREATE ROLE {READER} LOGIN REPLICATION PASSWORD '{password}'",
            f"GRANT pg_read_all_data, pg_read_all_stats TO {READER}",
        )

    def _answers(self) -> bool:
        """Whether connections are taken: the port is open before that."""
        command = [f"{self._programs}/pg_isready", "-q", "-h", HOST, "-p", str(self.port)]
        return listens(self.port) and subprocess.run(command, check=False).returncode == 0


def _programs() -> str | None:
    """The directory of `postgres` and `initdb`, of the newest version there is."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=str)
    if debian:
        return str(debian[-1].parent)
    on_path = shutil.which("initdb")
    return str(Path(on_path).parent) if on_path else None


def _other_user() -> list[str]:
    """The prefix that runs a command as somebody who may own a database: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return []
    nobody = pwd.getpwnam("nobody")
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
