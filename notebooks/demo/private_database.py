"""A private server of one database system, in a directory of its own. The password of the user who captures
is in a file that only this user of the machine can read."""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from notebooks.demo.private_servers import PrivateServers

HOST, READER = "127.0.0.1", "reader"


class PrivateDatabase(PrivateServers, ABC):
    """A private server, running when made; `stop`, `kill` and `start` it as often as you like, `close` (or
    the end of its `with` block) removes it with all it holds. Not thread-safe; its connections are yours."""

    program: ClassVar[str]
    """The name of its process."""
    title: ClassVar[str]
    """Its name for people."""
    scheme: ClassVar[str]
    """Of its addresses."""
    stop_seconds = 60.0
    port: int

    @property
    def url(self) -> str:
        """Address of the user who may read everything and follow the log, and nothing else; a database is
        to be added to it."""
        return f"{self.scheme}://{READER}@{HOST}:{self.port}"

    @property
    def password_file(self) -> Path:
        """The file that holds the password of that user."""
        return self.folder / "password"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server that runs."""
        return self._processes[self.program]

    @abstractmethod
    def start(self) -> None:
        """Start it where it was stopped or killed; returns when it answers."""

    def stop(self) -> None:
        """An orderly end."""
        self._stop(self.program)

    def kill(self) -> None:
        """The end by SIGKILL."""
        self._kill(self.program)

    @abstractmethod
    def connect(self, *, database: str) -> Any:
        """A connection of the owner, each statement its own transaction unless it says otherwise."""

    @abstractmethod
    def run(self, *statements: str) -> object:
        """Statements of the owner."""

    def _write_secret(self, name: str, text: str) -> Path:
        """A file of the directory that only this user can read."""
        file = self.folder / name
        file.touch(mode=0o600)
        file.write_text(text)
        return file


def give_to_nobody(path: Path) -> None:
    """Where we are root, give a path to the user whom a server runs as: servers of databases refuse root."""
    if os.geteuid() == 0:
        shutil.chown(path, "nobody")
