"""A FileIO that fails on command, and an Env whose clock and chance are a test's own."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from tablestore.core.env import Env
from tablestore.core.errors import TablestoreError, Unavailable
from tablestore.io.fileio import FileStatus, LocalFileIO, Sync


class Killed(SystemExit):
    """The process is gone: no handler of ours may run anything that reaches the store. Threads beside end
    without a word, as those of a process do."""


class FaultyIO:
    """Local files; operation number `fail_at` (counted from 0) fails.

    `mode`: "error before": it raises Unavailable and does nothing; "error after": it is done, then raises;
    "kill before", "kill after": the same with Killed, and every later operation raises Killed too;
    "full": every write from there on finds the disk full.
    """

    MODES = ("error before", "error after", "kill before", "kill after")

    def __init__(self, fail_at: int | None = None, mode: str = "error before") -> None:
        self._inner, self.fail_at, self.mode = LocalFileIO(), fail_at, mode
        self.count, self.dead, self.log = 0, False, list[str]()
        self._outputs: list[_FaultyOutput] = []

    @property
    def open_outputs(self) -> list[str]:
        """Files that were begun and never closed; none may be left, whatever failed."""
        return [output.path for output in self._outputs if not output.closed]

    def _run(self, what: str, path: str, action: Any, *, writes: bool) -> Any:
        if self.dead:
            raise Killed(path)
        n, self.count = self.count, self.count + 1
        self.log.append(f"{what} {path}")
        if self.fail_at is None or n < self.fail_at or (n > self.fail_at and self.mode != "full"):
            return action()
        if self.mode == "full":
            if not writes:
                return action()
            raise Unavailable(28, f"{path}: No space left on device")
        if self.mode.endswith("after"):
            action()
        if self.mode.startswith("kill"):
            self.dead = True
            raise Killed(path)
        raise Unavailable(5, f"{path}: injected")

    def read(self, path: str) -> bytes:
        return self._run("read", path, lambda: self._inner.read(path), writes=False)

    def open_input(self, path: str) -> pa.NativeFile:
        return self._run("open", path, lambda: self._inner.open_input(path), writes=False)

    def open_output(self, path: str) -> Any:
        inner = self._run("create", path, lambda: self._inner.open_output(path), writes=True)
        self._outputs.append(created := _FaultyOutput(self, inner, path))
        return created

    def write(self, path: str, data: bytes) -> None:
        self._run("write", path, lambda: self._inner.write(path, data), writes=True)

    def write_new(self, path: str, data: bytes, *, after: Sync | None = None) -> bool:
        return self._run("put", path, lambda: self._inner.write_new(path, data, after=after), writes=True)

    def replace(self, path: str, data: bytes, *, after: Sync | None = None) -> None:
        self._run("replace", path, lambda: self._inner.replace(path, data, after=after), writes=True)

    def sync(self, what: Sync) -> list[str]:
        return self._run("sync", what.root, lambda: self._inner.sync(what), writes=False)

    def delete(self, path: str, *, below: str | None = None) -> None:
        self._run("delete", path, lambda: self._inner.delete(path, below=below), writes=False)

    def delete_tree(self, path: str) -> None:
        self._run("delete", path, lambda: self._inner.delete_tree(path), writes=False)

    def delete_empty(self, path: str) -> bool:
        return self._run("rmdir", path, lambda: self._inner.delete_empty(path), writes=False)

    def list(self, path: str, *, hidden: bool = False) -> list[FileStatus]:
        return self._run("list", path, lambda: self._inner.list(path, hidden=hidden), writes=False)

    def is_dir(self, path: str) -> bool:
        return self._run("is_dir", path, lambda: self._inner.is_dir(path), writes=False)

    def exists(self, path: str) -> bool:
        return self._run("exists", path, lambda: self._inner.exists(path), writes=False)

    def size(self, path: str) -> int:
        return self._run("size", path, lambda: self._inner.size(path), writes=False)

    def move(self, path: str, target: str) -> None:
        self._run("move", path, lambda: self._inner.move(path, target), writes=False)

    def make_dir(self, path: str) -> None:
        self._run("mkdir", path, lambda: self._inner.make_dir(path), writes=True)


READS = ("sync ", "read ", "open ", "list ", "is_dir ", "exists ", "size ")


def failures(log: Sequence[str]) -> list[tuple[int, str]]:
    """Every failure of the operations in `log` that leaves something else behind, as (number, mode).

    An error after a read is the error before it, and a death beside a read is the one before the next
    change; a death after a change is the one before the next, but for the last. Of the appends to a file the
    first and the last count: between them it is a file that nothing names yet.
    """
    between = {
        n
        for n in range(1, len(log) - 1)
        if log[n].startswith("append ") and log[n - 1] == log[n] == log[n + 1]
    }
    places = [n for n in range(len(log)) if n not in between]
    changes = [n for n in places if not log[n].startswith(READS)]
    errors = [(n, "error before") for n in places] + [(n, "error after") for n in changes]
    return sorted(errors + [(n, "kill before") for n in changes] + [(n, "kill after") for n in changes[-1:]])


@dataclass(frozen=True)
class FailedCall:
    """A copy of a lake on which a call failed at one operation. `lake` is as who comes next opens it; `error`
    is what the call raised, None where it ended well."""

    lake: ts.Lake
    root: Path
    mode: str
    operation: str
    error: BaseException | None

    @property
    def table(self) -> ts.Table:
        """`d.t` as it is now."""
        return self.lake.table("d.t")

    @property
    def place(self) -> str:
        """Where it failed, and how."""
        return f"{self.mode} {self.operation}, {self.error!r}"


Cases = list[tuple[int, str]]


def failed_calls(
    start: Path,
    scratch: Path,
    act: Callable[[ts.Lake], object],
    choose: Callable[[Cases], Cases] = lambda cases: cases,
) -> Iterator[FailedCall]:
    """`act` on copies of the lake `start`: at once one that does not fail, in `scratch`/whole; then one for
    each failure that leaves something else behind and is chosen. No file stays open."""
    shutil.copytree(start, scratch / "whole")
    counting = FaultyIO()
    act(ts.connect(scratch / "whole", io=counting))
    return _failed_calls(start, scratch / "try", act, counting.log, choose(failures(counting.log)))


def _failed_calls(
    start: Path, root: Path, act: Callable[[ts.Lake], object], log: Sequence[str], cases: Cases
) -> Iterator[FailedCall]:
    for number, mode in cases:
        shutil.copytree(start, root)
        io, error = FaultyIO(number, mode), None
        try:
            act(ts.connect(root, io=io))
        except (TablestoreError, Killed) as e:
            error = e
        call = FailedCall(ts.connect(root), root, mode, f"operation {number}: {log[number]}", error)
        assert io.open_outputs == [], call.place
        yield call
        shutil.rmtree(root)


class _FaultyOutput:
    """An output stream whose every write is an operation of its own. Arrow takes it as a Python file
    object."""

    def __init__(self, io: FaultyIO, inner: pa.NativeFile, path: str) -> None:
        self._io, self._inner, self.path = io, inner, path
        self.closed = False

    def write(self, data: Any) -> int:
        return self._io._run("append", self.path, lambda: self._inner.write(data), writes=True)

    def flush(self) -> None:
        self._inner.flush()

    def tell(self) -> int:
        return self._inner.tell()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._inner.close()


class SimEnv(Env):
    """A clock that moves when told or slept on, and seeded chance."""

    def __init__(self, seed: int = 0, now_ms: int = 1_700_000_000_000) -> None:
        super().__init__(random.Random(seed))
        object.__setattr__(self, "_now", now_ms)
        object.__setattr__(self, "_passed", now_ms)

    def now_ms(self) -> int:
        return self._now

    def local_ms(self, instant_ms: int) -> int:
        return instant_ms

    def monotonic(self) -> float:
        return self._passed / 1000

    def sleep(self, seconds: float) -> None:
        self.move(max(1, int(seconds * 1000)))

    def move(self, millis: int) -> None:
        """Let time pass, or the clock jump back."""
        object.__setattr__(self, "_now", self._now + millis)
        object.__setattr__(self, "_passed", self._passed + max(millis, 0))


class FullDisk(LocalFileIO):
    """Opens so many files for writing, then fails."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def open_output(self, path: str) -> Any:
        self.left -= 1
        if self.left < 0:
            raise OSError(28, "No space left on device")
        return super().open_output(path)
