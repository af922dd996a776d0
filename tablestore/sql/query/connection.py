"""A connection to DuckDB for one query: locked, bounded in memory, stopped by Ctrl-C; its errors are ours.

A query sees nothing of another: its views and tables are those of its connection. Queries that may do the
same have an instance of DuckDB one after another: a new one takes 17 ms of processor time, a connection to
one that waits a tenth of a millisecond. What an instance keeps are settings, limits and our own functions.
Instances are shared between threads; a forked process begins with none.

DuckDB does not count all that it takes, so the memory of the process is watched, too. Where the system does
not say it, as outside of Linux, nothing is known and nothing is stopped.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import duckdb
import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest
from tablestore.sql.query.own_functions import register
from tablestore.sql.text import literal_text

_MOST_WAITING = 4
BATCH_ROWS = 65_536
"""Rows of a batch of results."""


@dataclass(frozen=True, slots=True)
class DuckSettings:
    """What an instance may take and reach: `memory` as DuckDB writes it, empty for its own choice, the only
    `files` that it reads; `zone` is that of times without one."""

    memory: str = ""
    files: tuple[str, ...] = ()
    zone: str = "UTC"


class LockedDuck:
    """DuckDB with its settings locked, for one connection at a time. One that is `kept` waits for the next
    query; only the others know the progress of theirs. Functions are made known to `duck`, which keeps them:
    DuckDB calls those of a closed connection, too."""

    def __init__(self, allowed: DuckSettings, *, kept: bool) -> None:
        self.allowed, self.kept, self._place = allowed, kept, tempfile.gettempdir()
        self._spill = os.path.join(self._place, f"tablestore-sql-{SYSTEM.uuid()}")
        self.duck = _locked(self._spill, allowed, progress=not kept)
        limit = self.duck.execute("SELECT current_setting('memory_limit')").fetchall()
        self.memory_limit = str(limit[0][0])

    def connection(self) -> duckdb.DuckDBPyConnection:
        """A connection for one query."""
        return self.duck.cursor() if self.kept else self.duck

    def serves(self, allowed: DuckSettings) -> bool:
        """Whether a query that may do this can have it."""
        return self.allowed == allowed and self._place == tempfile.gettempdir()

    @property
    def spilled(self) -> bool:
        """Whether there is something of it on the disk."""
        return os.path.exists(self._spill)

    def close(self) -> None:
        """Let go of everything."""
        self.duck.close()
        shutil.rmtree(self._spill, ignore_errors=True)


_lock = threading.Lock()
_waiting: list[LockedDuck] = []  # the one that was used last is the last


def taken(allowed: DuckSettings, *, kept: bool) -> LockedDuck:
    """An instance for a connection; `given_back` must follow. Raises duckdb.Error for a setting that DuckDB
    does not take."""
    if kept:
        with _lock:
            for instance in reversed(_waiting):
                if instance.serves(allowed):
                    _waiting.remove(instance)
                    return instance
    return LockedDuck(allowed, kept=kept)


def given_back(instance: LockedDuck) -> None:
    """The connection of an instance is closed. Ends what is not kept, or has spilled, and of too many that
    wait the one that waits longest."""
    ended = [instance]
    if instance.kept and not instance.spilled:
        with _lock:
            _waiting.append(instance)
            ended = _waiting[:-_MOST_WAITING]
            del _waiting[:-_MOST_WAITING]
    for each in ended:
        each.close()


def close_all() -> None:
    """End all that wait."""
    with _lock:
        ended = _waiting[:]
        _waiting.clear()
    for instance in ended:
        instance.close()


_of_parents: list[list[LockedDuck]] = []  # kept in a forked process: their threads are not there to end them


def _forget() -> None:
    """In a forked process: instances, and who holds the lock, are its parent's."""
    global _lock, _waiting
    _of_parents.append(_waiting)
    _lock, _waiting = threading.Lock(), []


os.register_at_fork(after_in_child=_forget)


def _locked(spill: str, allowed: DuckSettings, *, progress: bool) -> duckdb.DuckDBPyConnection:
    """DuckDB with its settings locked, that may read the files and nothing else."""
    duck = duckdb.connect(config=_settings(spill, allowed.memory))
    listed = ", ".join(map(literal_text, allowed.files))
    shown = ("SET enable_progress_bar = true", "SET enable_progress_bar_print = false")
    statements = (
        *(shown if progress else ()),
        f"SET GLOBAL TimeZone = {literal_text(allowed.zone)}",
        *([f"SET allowed_paths = [{listed}]"] if allowed.files else []),
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    )
    duck.execute("; ".join(statements)).fetchall()
    return duck


def _settings(spill: str, memory: str) -> dict[str, Any]:
    settings = {
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_unsigned_extensions": "false",
        "python_enable_replacements": "false",
        "enable_external_file_cache": "false",  # an instance that waits holds nothing of tables
        "threads": str(os.cpu_count() or 2),
        "temp_directory": spill,
        "integer_division": "true",
    }
    return settings | ({"memory_limit": memory} if memory else {})


_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_MEMORY, _SYSTEM = Path("/proc/self/statm"), Path("/proc/meminfo")
_ROOM = 512 << 20  # for rows on their way in and out

T = TypeVar("T")
_OPEN: WeakSet[DuckConnection] = WeakSet()  # what results that nobody reads to their end keep open
Progress = Callable[[float], None]
_IN_FUNCTION = re.compile(r"^Python exception occurred while executing the UDF: (\w+: )?")
_NO_ROOM = "the query does not fit into memory: SET 'execution.memory-limit' = '80%', or a size of your own"
_LOOK_SECONDS = 0.1  # between two looks at Ctrl-C, memory and the progress


class DuckConnection:
    """DuckDB that reaches nothing but what is registered, and the spill directory of its instance.

    `files` are the only files that it may read, `zone` is that of times without one. `memory` is a limit as
    DuckDB writes it, '2GB', empty for its own choice. With `kept` a later query that may do the same gets its
    instance, but for one that failed or spilled, and progress is not known. Not thread-safe.
    """

    def __init__(
        self, *, memory: str = "", files: tuple[str, ...] = (), zone: str = "UTC", kept: bool = False
    ) -> None:
        self.problem: BaseException | None = None  # what a scan raised while DuckDB read it
        self.stopped = False
        with errors():
            self._instance = taken(DuckSettings(memory, files, zone), kept=kept)
            self.duck = self._instance.connection()
        _OPEN.add(self)

    def run(self, work: Callable[[], T], progress: Progress | None = None) -> T:
        """What `work` gives, done on a thread of its own, so that Ctrl-C stops it. It is stopped, too, once
        this process has grown by more than a query may take. Errors of DuckDB, and of scans that it reads,
        are ours; `progress` gets percent, or -1 where they are not known."""
        done, outcome = threading.Event(), _ThreadResult[T]()

        def target() -> None:
            try:
                outcome.value = work()
            except BaseException as e:  # it is raised below
                outcome.error = e
            finally:
                done.set()

        before, room = resident_bytes(), self._room()
        thread = threading.Thread(target=target, name="tablestore-query", daemon=True)
        thread.start()
        try:
            while not done.wait(_LOOK_SECONDS):
                now = resident_bytes()
                if before is not None and now is not None and room is not None and now - before > room:
                    raise InvalidRequest(_NO_ROOM)
                if progress is not None:
                    progress(self.duck.query_progress())
        except BaseException:
            self.stopped, self._instance.kept = True, False
            while not done.is_set():
                self.duck.interrupt()
                done.wait(_LOOK_SECONDS)
            raise
        if outcome.error is not None:
            self._instance.kept = False
            raise self.translated(outcome.error) from None
        return outcome.value  # type: ignore[return-value]  # there is one, as there is no error

    def batches(
        self, rows: pa.RecordBatchReader, progress: Progress | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a reader of this connection that have rows, each time as many as `BATCH_ROWS` need
        or there are."""

        def following() -> tuple[list[pa.RecordBatch], int]:
            batches, count = list[pa.RecordBatch](), 0
            while count < BATCH_ROWS and (batch := next(rows, None)) is not None:
                batches.append(batch)
                count += batch.num_rows
            return batches, count

        count = BATCH_ROWS
        while count >= BATCH_ROWS:
            batches, count = self.run(following, progress)
            yield from (batch for batch in batches if batch.num_rows)

    def relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        """The query as a relation, whose functions become known."""
        self.know(sql)
        return self.duck.sql(str(sql))

    def know(self, sql: str) -> None:
        """Make the functions known that this SQL names, for as long as the instance lives."""
        register(self._instance.duck, sql)

    def _room(self) -> int | None:
        """By how many bytes this process may grow while the connection works once."""
        return may_grow_bytes(self._instance.memory_limit)

    def translated(self, error: BaseException) -> BaseException:
        """The error that a caller sees for one of DuckDB."""
        if self.problem is not None:
            problem, self.problem = self.problem, None
            return problem
        streamed = isinstance(error, OSError) and _plain(str(error)) != str(error)  # Arrow's, of a stream
        return InvalidRequest(_plain(str(error))) if streamed or isinstance(error, duckdb.Error) else error

    def close(self) -> None:
        """Let go of everything; may be called again."""
        duck = self.__dict__.pop("duck", None)
        if duck is not None:
            with suppress(duckdb.Error):
                duck.close()
            given_back(self._instance)

    def watched(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches for DuckDB to read: keeps what they raise, ends when the query is stopped."""
        try:
            for batch in batches:
                if self.stopped:
                    return
                yield batch
        except Exception as e:
            self.problem = e
            raise

    def __enter__(self) -> DuckConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _ThreadResult(Generic[T]):
    """What a thread found."""

    value: T | None = None
    error: BaseException | None = None


@contextmanager
def errors() -> Iterator[None]:
    """DuckDB's errors as ours."""
    try:
        yield
    except duckdb.Error as e:
        raise InvalidRequest(_plain(str(e))) from None


def _plain(message: str) -> str:
    """DuckDB's message without its class, without its picture of a text that nobody wrote, and without its
    advice, which names settings that are not ours."""
    if message.startswith("Out of Memory"):
        return _NO_ROOM
    message = message.split("\n\n")[0].split(". Use TRY(")[0].split(" in expression (")[0]
    head, _, rest = message.partition(": ")
    message = rest if head.endswith("Error") and rest else message
    return _IN_FUNCTION.sub("", message)


@atexit.register
def _close_all() -> None:
    """Nothing stays open, or on the disk, when the process ends."""
    for connection in list(_OPEN):
        connection.close()
    close_all()


def resident_bytes() -> int | None:
    """What of this process is in memory; None where it is not known."""
    try:
        return int(_MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def may_grow_bytes(limit: str) -> int | None:
    """By how much a query may make this process grow: twice its limit, `476.8 MiB` as DuckDB shows it, and
    some room, or nine tenths of what the system has left; None where that is not known."""
    number, _, unit = limit.partition(" ")
    try:
        lines = dict(line.split(":", 1) for line in _SYSTEM.read_text().splitlines())
        left = int(lines["MemAvailable"].split()[0]) * 1024
        return min(2 * int(float(number) * _UNITS[unit]) + _ROOM, left * 9 // 10)
    except (OSError, ValueError, KeyError):
        return None
