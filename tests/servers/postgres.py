"""PostgreSQL from Debian's packages, as an ordinary user (it refuses root)."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from notebooks.demo.ports import free_port, listens
from tests.servers.process import running
from tests.suite import counterparts


class PostgresServer:
    """A server that runs: `kill` and `start` it as often as you like. `url`: its URI, without a password."""

    def __init__(self, folder: Path, command: list[str], port: int, programs: str | None) -> None:
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self.folder = folder
        self._log, self._command = folder.with_suffix(".log"), command
        self._ready = partial(_answers, programs, port)
        self._running = contextlib.ExitStack()
        self.start()

    def start(self) -> None:
        """Start it; returns when it answers."""
        server = running(self._command, ready=self._ready, log=self._log)
        self._process = self._running.enter_context(server)

    def kill(self) -> None:
        """SIGKILL for it and all of its processes."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        self._process.send_signal(signal.SIGSTOP)  # it makes no more of them
        for child in map(int, children.read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.kill()
        self._running.close()

    def close(self) -> None:
        """Stop it."""
        self._running.close()


@contextlib.contextmanager
def postgres() -> Iterator[PostgresServer]:
    """A server without passwords; its data are gone afterwards."""
    counterparts.need("PostgreSQL")
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="workbench-postgres-"))
    port = free_port()
    try:
        user = _give_away(folder)
        data = folder / "data"
        made = [*user, f"{programs}/initdb", "-D", str(data), "-U", "postgres", "-A", "trust"]
        subprocess.run(
            [*made, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        command = [*user, f"{programs}/postgres", "-D", str(data), "-h", "127.0.0.1", "-p", str(port)]
        command += ["-k", str(folder), "-c", "fsync=off", "-c", "shared_buffers=64MB"]
        command += ["-c", "wal_level=logical", "-c", "max_replication_slots=40"]
        command += ["-c", "dynamic_shared_memory_type=mmap"]  # in its folder, which ends with it
        with contextlib.closing(PostgresServer(folder, command, port, programs)) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".log").unlink(missing_ok=True)


def _answers(programs: str | None, port: int) -> bool:
    """Whether connections are taken: the port is open before that."""
    command = [f"{programs}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    return listens(port) and subprocess.run(command, check=False).returncode == 0


def _programs() -> str | None:
    """Directory of `postgres` and `initdb`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=str)
    if found:
        return str(found[-1].parent)
    on_path = shutil.which("initdb")
    return str(Path(on_path).parent) if on_path else None


def _give_away(folder: Path) -> list[str]:
    """The prefix that runs a command as somebody who may own a database."""
    if os.geteuid() != 0:
        return []
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
