"""A guard process beside private servers: it removes servers and directory when we are gone, however that
came about."""

from __future__ import annotations

import subprocess
from pathlib import Path

# Reads the ids of the servers that run (a line; empty: none); once its input ends, nobody is there any more.
_GUARD = """
while read -r line; do servers=$line; done
if [ -n "$servers" ]; then kill -9 $servers 2>/dev/null; fi
rm -rf -- "$1" 2>/dev/null || { sleep 1; rm -rf -- "$1"; }
"""


class Guard:
    """The process that survives us, for a moment; `close` ends servers and directory now."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, *servers: int) -> None:
        """The ids of the servers that run now."""
        assert self._process.stdin is not None, "it was opened with a pipe"
        self._process.stdin.write(f"{' '.join(map(str, servers))}\n".encode())
        self._process.stdin.flush()

    def close(self) -> None:
        """End what is watched, and remove the directory."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
            self._process.wait()
