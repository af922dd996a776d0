"""marimo's own environment, made once from `marimo.lock`, and a server of one notebook in it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peers.pypaimon_env import is_as, make

LOCK = Path(__file__).with_name("marimo.lock")
NOTEBOOK = Path(__file__).with_name("marimo_notebook.py")
ROOT = Path(__file__).parents[2]
VENV = Path(sys.prefix) / "peers" / "marimo"


def is_made() -> bool:
    """Whether the environment is there, as the lock says."""
    return is_as(VENV, LOCK)


def make_environment() -> None:
    """Make it. Raises RuntimeError where the packages cannot be had."""
    peer = make(VENV, lock=LOCK, what="marimo")
    if peer.path is None:
        raise RuntimeError(peer.reason)


@contextmanager
def serving(table: str, home: Path) -> Iterator[str]:
    """The address of the notebook on the table at `table`; its settings lie in `home`. The server ends
    with the block, and says why where it does not come up."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [VENV / "bin" / "marimo", "-q", "run", NOTEBOOK, "--headless", "--no-token"]
    settings = {
        "PYTHONPATH": str(ROOT),
        "WORKBENCH_PACKAGES": sysconfig.get_path("purelib"),
        "WORKBENCH_TABLE": table,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_CACHE_HOME": str(home),
    }
    with (home / "marimo.log").open("w+") as log:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env=os.environ | settings,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _await(server, port, log.name)
            yield f"http://127.0.0.1:{port}/"
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def _await(server: subprocess.Popen[bytes], port: int, log: str) -> None:
    """Wait until the server takes connections."""
    while server.poll() is None:
        with socket.socket() as connection:
            connection.settimeout(1)
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise RuntimeError(f"marimo ended with {server.returncode}: {Path(log).read_text()[-2000:]}")
