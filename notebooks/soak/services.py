"""The processes of a soak, each a command of its own as a user would start it, killed and started at will."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

from notebooks.cli.places import ROOT
from notebooks.demo.ports import free_port
from notebooks.demo.private_servers import PrivateServers
from notebooks.demo.resources import tree_bytes, tree_handles
from tablestore.meta import manifest_cache

_STOP_SECONDS = 300.0
CACHED_ENTRIES = 20_000
"""Entries of manifests that a process of a soak keeps, a tenth of the usual: a cache that is full soon does
not look like a leak, nor a leak like a cache."""
_HEALTH_SECONDS = 5.0


class Services(PrivateServers):
    """Processes by name; each begins when `start` says so. Not thread-safe."""

    stop_seconds = _STOP_SECONDS

    def __init__(self, *, trusted: str) -> None:
        """`trusted` is the host:port that the processes may send the password of a lake to."""
        super().__init__("soak")
        self._trusted = trusted
        self._commands: dict[str, Sequence[str]] = {}
        self._health: dict[str, str] = {}

    def add(self, name: str, *arguments: str, metrics: bool = True) -> None:
        """A module and its arguments; with `metrics` it answers how it is."""
        more: tuple[str, ...] = ()
        if metrics:
            address = f"127.0.0.1:{free_port()}"
            self._health[name] = f"http://{address}/healthz"
            more = ("--metrics", address)
        self._commands[name] = (sys.executable, "-m", *arguments, *more)

    @property
    def names(self) -> tuple[str, ...]:
        """All that were added."""
        return tuple(self._commands)

    def start(self, name: str) -> None:
        """Begin it."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        environment["TABLESTORE_TRUSTED_SERVERS"] = self._trusted
        environment[manifest_cache.CACHED_ENTRIES] = str(CACHED_ENTRIES)
        self._launch(name, self._commands[name], environment, folder=ROOT)

    def kill(self, name: str) -> None:
        """End it by SIGKILL."""
        self._kill(name)

    def stop(self, name: str) -> int | str:
        """Ask it to end; its exit code, or words where it does not end."""
        process = self._processes[name]
        process.terminate()
        try:
            return process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            return f"it does not end within {self.stop_seconds:.0f} s of SIGTERM"
        finally:
            self._kill(name)

    def ended(self) -> Mapping[str, int]:
        """Exit codes of those that have ended by themselves; they can be started again."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        gone = {name: code for name, code in codes.items() if code is not None}
        for name in gone:
            self._kill(name)
        return gone

    def numbers(self, name: str) -> tuple[int, int, int]:
        """The id of a process (0: it is away), and with its descendants the resident bytes and open files."""
        process = self._processes.get(name)
        if process is None or process.poll() is not None:
            return 0, 0, 0
        return process.pid, tree_bytes(process.pid), tree_handles(process.pid)

    def illness(self, name: str) -> str:
        """What /healthz says of one that is not well; empty where it is, or has no such answer."""
        if name not in self._health:
            return ""
        try:
            with urllib.request.urlopen(self._health[name], timeout=_HEALTH_SECONDS):
                return ""
        except urllib.error.HTTPError as e:
            return e.read().decode(errors="replace").strip()
        except OSError as e:
            return f"no answer: {e}"
