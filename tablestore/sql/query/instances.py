"""Instances of DuckDB with locked settings: one query at a time has one, and leaves it to the next.

A new instance takes 17 ms of processor time, a connection to one that waits a tenth of a millisecond. What an
instance keeps are settings, limits and our own functions; views and temporary tables go with a connection.
Safe to share between threads; a forked process begins with none.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from dataclasses import dataclass
from typing import Any

import duckdb

from tablestore.core.env import SYSTEM
from tablestore.sql.text import literal_text

_MOST_WAITING = 4


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
