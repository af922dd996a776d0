"""PostgreSQL from Debian's packages, as an ordinary user (it refuses root)."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from notebooks.demo.ports import free_port, listens
from tests.servers.process import running
from tests.suite import counterparts


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Its URI; no password is asked for. The data are gone afterwards."""
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
        with running(command, ready=lambda: _answers(programs, port), log=folder.with_suffix(".log")):
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
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
