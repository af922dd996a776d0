"""Starting a server and waiting until it answers."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def running(
    command: list[str],
    *,
    ready: Callable[[], bool],
    log: Path,
    environment: Mapping[str, str] | None = None,
    seconds: float = 180,
) -> Iterator[subprocess.Popen[bytes]]:
    """The process while the block runs. Fails with the end of its log if it does not get ready."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    try:
        end = time.monotonic() + seconds
        while not ready():
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{command[0]} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
