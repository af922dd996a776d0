"""A Java process that answers one request after the other, line by line."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO, Any, Self

FLAGS = ("-Duser.timezone=UTC", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaProcess:
    """The program `main` on a class path, until the context ends. `heap` is the most that it may take."""

    def __init__(
        self,
        main: str,
        path: str,
        *,
        heap: str = "1g",
        flags: Sequence[str] = (),
        said: IO[str] | int = subprocess.DEVNULL,
    ) -> None:
        folder = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
        self._process = subprocess.Popen(
            ["java", *FLAGS, f"-Xmx{heap}", *flags, folder, "-cp", path, main],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def send(self, line: str) -> None:
        """A line of a request."""
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def answer(self, request: Any) -> Any:
        """The answer to a request, both of them JSON; None where the process has ended."""
        self.send(json.dumps(request))
        line = self._process.stdout.readline()
        return json.loads(line) if line else None
