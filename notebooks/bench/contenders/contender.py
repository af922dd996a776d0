"""A contender: an engine in a process of its own, asked for one step at a time and measured from outside.

Wall time runs from the request to its answer. CPU seconds are those of the process and all its children.
Memory is the largest sum of their resident sizes, looked at twenty times a second (pages that processes
share count once in each). Start and imports of a process are not measured.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

_LOOK_SECONDS = 0.05


class Refused(Exception):
    """The contender answered with an error, or its process ended."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One step: what it took, and what it answered."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    written_bytes: int
    files: int
    answer: Mapping[str, str]


class Contender:
    """One running process. Not thread-safe."""

    def __init__(self, name: str, command: Sequence[str], *, folder: Path) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            cwd=folder,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def step(self, request: str, *fields: object, table: Path | None = None) -> Measured:
        """Carry out one step; files that appear below `table` count as written. Raises Refused."""
        before = _files(table)
        tree = _Tree(self._process.pid)
        with tree:
            began = time.perf_counter()
            answer = self._ask(request, *fields)
            seconds = time.perf_counter() - began
        new = {path: size for path, size in _files(table).items() if path not in before}
        return Measured(seconds, tree.cpu_seconds, tree.peak_bytes, sum(new.values()), len(new), answer)

    def _ask(self, *fields: object) -> dict[str, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer: dict[str, str] = {}
        try:
            self._process.stdin.write("\t".join(map(str, fields)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Refused(f"{self.name}: its process ended: {self._error_text()}") from None
        for line in self._process.stdout:
            if line == "OK\n":
                return answer
            if line.startswith("ERROR "):
                raise Refused(f"{self.name}: {line[6:].strip()}")
            key, _, value = line.rstrip("\n").partition("\t")
            answer[key] = value
        raise Refused(f"{self.name}: its process ended: {self._error_text()}")

    def _error_text(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:].strip()


class _Tree:
    """CPU seconds and peak memory of a process and its children while the block runs."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self.cpu_seconds = 0.0
        self.peak_bytes = 0

    def __enter__(self) -> None:
        self.cpu_seconds = -self._cpu()
        self._watch.start()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._watch.join()
        self.cpu_seconds += self._cpu()

    def _look(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, sum(map(_resident, self._alive())))
            if self._over.wait(_LOOK_SECONDS):
                return

    def _cpu(self) -> float:
        """Of the living, and through them of their children that ended."""
        times = [p.cpu_times() for p in self._alive()]
        return sum(t.user + t.system + t.children_user + t.children_system for t in times)

    def _alive(self) -> list[psutil.Process]:
        try:
            processes = [self._root, *self._root.children(recursive=True)]
            return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
        except psutil.NoSuchProcess:
            return []


def _resident(process: psutil.Process) -> int:
    """Bytes in memory, 0 of a process that has ended."""
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _files(folder: Path | None) -> dict[Path, int]:
    if folder is None or not folder.exists():
        return {}
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
