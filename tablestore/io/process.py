"""Python processes beside this one, for decoders that damaged bytes may end.

A request is bytes. While it is carried out the process asks for ranges of the file that the request is about,
so that it needs no access to a store. It gives up memory and CPU time beyond limits, and ends with this
process. Frames on both pipes:

| bytes | what |
|---|---|
| 1 | kind: q request, r range (offset, length), d bytes of a range, b bytes of the answer, z its end |
| 8 | length, little-endian |
| n | bytes |

`borrowed` gives a process that waits, or starts one. Not thread-safe: one borrower at a time.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, NoReturn

import pyarrow as pa

from tablestore.core.errors import Unavailable

MEMORY_BYTES = 8 << 30
"""Address space that a request may take."""
CPU_SECONDS = 120
"""CPU time that a request may take, more for large files."""
_BYTES_A_SECOND = 1 << 20
_KEPT = 2  # waiting processes
_FRAME = struct.Struct("<cQ")
_RANGE = struct.Struct("<QQ")
_ENDED_BY_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
Fetch = Callable[[int, int], bytes]
"""Bytes of a file from an offset on, of a length."""


class ProcessLost(Exception):
    """A process ended before it answered; `by` is the signal, 0 if it exited by itself."""

    def __init__(self, by: int) -> None:
        self.by = by
        super().__init__(signal.Signals(by).name if by else "an exit")

    @property
    def by_others(self) -> bool:
        """Whether somebody ended it, or the machine lacked memory."""
        return self.by in _ENDED_BY_OTHERS


class Process:
    """A Python process that runs a function of a module, which calls `serve`."""

    def __init__(self, module: str, function: str) -> None:
        code = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
            f"from {module} import {function}; {function}()"
        )
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-c", code, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
                start_new_session=True,  # an interrupt is the borrower's affair
            )
        except OSError as e:
            raise Unavailable(e.errno or 0, f"no process beside this one can be started: {e}") from e

    def ask(self, request: bytes, fetch: Fetch) -> tuple[list[pa.Buffer], bytes]:
        """The parts of an answer, and how it ends; raises ProcessLost if the process ends before that, and
        what `fetch` raises. After an error the process is ended."""
        parts: list[pa.Buffer] = []
        try:
            _send(self._child.stdin, b"q", request)
            while True:
                kind, data = _receive(self._child.stdout)
                if kind == b"z":
                    return parts, data.to_pybytes()
                if kind == b"r":
                    at, length = _RANGE.unpack(data)
                    _send(self._child.stdin, b"d", fetch(at, length))
                else:
                    parts.append(data)
        except (EOFError, BrokenPipeError):
            raise ProcessLost(max(-self._child.wait(), 0)) from None
        except BaseException:
            self.end()
            raise

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self._child.poll() is None

    def end(self) -> None:
        """End the process now."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()


_waiting: list[tuple[tuple[str, str], Process]] = []
_lock = threading.Lock()  # of `_waiting`


@contextlib.contextmanager
def borrowed(module: str, function: str) -> Iterator[Process]:
    """A process that runs the function, for this context; afterwards it waits for the next borrower."""
    entry = module, function
    with _lock:
        idle = next((pair for pair in _waiting if pair[0] == entry), None)
        if idle is not None:
            _waiting.remove(idle)
    process = idle[1] if idle is not None and idle[1].runs else Process(module, function)
    try:
        yield process
    finally:
        with _lock:
            kept = process.runs and len(_waiting) < _KEPT
            if kept:
                _waiting.append((entry, process))
        if not kept:
            process.end()


def end_waiting() -> None:
    """End the processes that wait for a borrower; the end of this process does so, too."""
    with _lock:
        while _waiting:
            _waiting.pop()[1].end()


def _forget() -> None:
    """In a forked process: the waiting ones are those of its parent."""
    global _lock
    _lock = threading.Lock()
    _waiting.clear()


atexit.register(end_waiting)
os.register_at_fork(after_in_child=_forget)


def serve(answer: Callable[[bytes, Fetch], Generator[Any, None, bytes]]) -> NoReturn:
    """Answer requests until the other side ends; `answer` yields the parts of an answer, and returns how it
    ends."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)  # libraries may print
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def fetch(at: int, length: int) -> bytes:
        _send(answers, b"r", _RANGE.pack(at, length))
        kind, data = _receive(requests)
        if kind != b"d" or len(data) != length:
            raise OSError(f"{len(data)} bytes of {length} came at {at}")
        return data.to_pybytes()

    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _, request = _receive(requests)
            parts = answer(request.to_pybytes(), fetch)
            while True:
                try:
                    _send(answers, b"b", next(parts))
                except StopIteration as e:
                    _send(answers, b"z", e.value)
                    break
    sys.exit(0)


@contextlib.contextmanager
def limited(file_bytes: int) -> Iterator[None]:
    """A context with limits of memory and CPU time, for a request about a file of this size."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + CPU_SECONDS + file_bytes // _BYTES_A_SECOND
    space = _address_space() + MEMORY_BYTES
    for what, limit in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, space)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    yield


def _address_space() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        return 0


def _send(pipe: Any, kind: bytes, data: Any) -> None:
    pipe.write(_FRAME.pack(kind, len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: Any) -> tuple[bytes, pa.Buffer]:
    head = pipe.read(_FRAME.size)
    if len(head) < _FRAME.size:
        raise EOFError
    kind, length = _FRAME.unpack(head)
    data = pa.allocate_buffer(length)
    view = memoryview(data)
    while view:
        count = pipe.readinto(view)
        if not count:
            raise EOFError
        view = view[count:]
    return kind, data
