"""The frame of private servers: processes in a temporary directory, on 127.0.0.1 only, that end with whoever
made them. A guard process outside ours removes servers and directory when we are gone, however that came
about.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from notebooks.demo.guard import Guard
from notebooks.demo.resources import tree
from tablestore.core.errors import Unavailable

_SHOWN = 1500  # characters of what a server that does not start has said


class PrivateServers:
    """Servers by name, below `folder`; they start where a subclass says so. `close` (or the end of its `with`
    block) removes them with all they hold. Not thread-safe."""

    stop_seconds = 30.0
    """How long a server that is asked to end may take before it is killed."""

    def __init__(self, kind: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"workbench-{kind}-"))
        self._guard = Guard(self.folder)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End them and remove their directory."""
        for server in reversed(list(self._processes)):
            self._kill(server)  # nobody will read what it holds
        self._guard.close()

    def output(self, server: str) -> str:
        """What a server wrote to its terminal since it was started last."""
        return (self.folder / f"{server}.log").read_text(errors="replace")

    def signal(self, server: str, number: int) -> None:
        """Send a signal to a server that runs."""
        self._processes[server].send_signal(number)

    def freeze(self, server: str, *, on: bool) -> None:
        """Stop a server and its children as a machine without a free processor does, or let them go on."""
        for process in sorted(tree(self._processes[server].pid)):
            with contextlib.suppress(ProcessLookupError):  # ended meanwhile
                os.kill(process, signal.SIGSTOP if on else signal.SIGCONT)

    def _launch(
        self,
        server: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        folder: Path | None = None,
    ) -> None:
        with (self.folder / f"{server}.log").open("wb") as out:
            self._processes[server] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder,
                start_new_session=True,  # Ctrl-C is for us
            )
        self._watch()

    def _await(
        self, server: str, answers: Callable[[], bool], *, seconds: float, name: str, pause: float = 0.05
    ) -> None:
        """Wait until a server answers. Raises Unavailable, with its last words, where it ends or takes
        longer."""
        until = time.monotonic() + seconds
        while not answers():
            if self._processes[server].poll() is not None or time.monotonic() > until:
                raise Unavailable(f"{name} did not start: {self.output(server)[-_SHOWN:]}")
            time.sleep(pause)

    def _stop(self, server: str) -> None:
        """End it by SIGTERM: it says goodbye."""
        process = self._processes.pop(server)
        process.terminate()
        try:
            process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._watch()

    def _kill(self, server: str) -> None:
        """End it by SIGKILL."""
        process = self._processes.pop(server)
        process.kill()
        process.wait()
        self._watch()

    def _watch(self) -> None:
        self._guard.watch(*(process.pid for process in self._processes.values()))
