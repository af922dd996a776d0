"""In what order files of tests run, and on which of the processes.

Cheap files come first, so that a fault shows within a minute; then rooms, the longest first; then the other
files, the longest first, so that all processes end together. A room is what takes seconds to start and
serves many files: a broker, a database, a browser, a JVM. One process has it and stays in it until its
files are done; another one opens it anew only when there is nothing else left to do.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.suite import parts

MEASURED = Path(__file__).with_name("measured.json")
"""Seconds of each file of tests in the last default run and the last run of all with `--record`."""
CHEAP_SECONDS = 3.0
UNKNOWN_SECONDS = 1.0
ROOMS: Mapping[str, tuple[str, ...]] = {
    "Fluss": ("servers/test_fluss", "servers/test_tier"),
    "Kafka": ("servers/test_kafka", "servers/test_engines_with_log"),
    "JupyterLab": ("lab/",),
    "MariaDB": (
        "cdc/mysql/",
        "cdc/databases/test_capture",
        "cdc/databases/test_streams",
        "cdc/databases/test_tls",
        "cli/test_cdc_verb",
        "demo/test_demo_database",
        "demo/test_private_databases",
        "demo/test_source_checksums",
        "demo/test_tpch_database",
    ),
    "Spark": ("spark/", "demo/test_demo", "demo/test_watermark", "servers/test_spark_s3"),
    "Chromium": ("widgets/test_browser", "widgets/test_xss", "widgets/test_static"),
    "Flink": ("peers/test_flink_sql", "peers/test_flink_definitions", "peers/test_sql_scripts"),
    "Java Paimon": ("peers/",),
    "Hive": ("servers/test_hive", "catalog/test_hive", "servers/test_races"),
    "PostgreSQL": ("servers/test_postgres", "servers/test_jdbc"),
    "S3": ("servers/test_s3", "servers/test_faulty_s3"),
}
"""Rooms with the beginnings of the paths of their files below `tests`; the first that fits is a file's
room."""


def room(file: str) -> str | None:
    """The room of a file, by its path below `tests`."""
    fitting = (name for name, starts in ROOMS.items() if file.startswith(starts))
    return next(fitting, None)


@cache
def measured(column: str) -> Mapping[str, float]:
    """Seconds of files by their paths below `tests`, in the runs of `column`: `default` or `all`."""
    document: dict[str, dict[str, float]] = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    return {file: both[column] for file, both in document.items() if column in both}


def seconds(file: str, column: str) -> float:
    """What the file took when it was last measured."""
    return measured(column).get(file, UNKNOWN_SECONDS)


def column(config: pytest.Config) -> str:
    """Which of the measured seconds are those of this run."""
    return "default" if parts.part(config) == parts.DEFAULT else "all"


def ordered(files: Iterable[str], seconds: Callable[[str], float]) -> list[str]:
    """Cheap ones, rooms, others: as the text above says. `seconds` gives those of a file."""
    files = list(dict.fromkeys(files))
    rooms: dict[str, float] = {}
    for file in files:
        if name := room(file):
            rooms[name] = rooms.get(name, 0) + seconds(file)

    def rank(file: str) -> tuple[float, ...]:
        name = room(file)
        if name is not None:
            return (1, -rooms[name], list(ROOMS).index(name), seconds(file))
        if seconds(file) <= CHEAP_SECONDS:
            return (0, seconds(file))
        return (2, -seconds(file))

    return sorted(files, key=rank)


def below_tests(nodeid: str) -> str:
    """The path below `tests` of the file that a test is in."""
    return nodeid.partition("::")[0].removeprefix("tests/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    files = ordered((below_tests(item.nodeid) for item in items), partial(seconds, column=column(config)))
    at = {file: i for i, file in enumerate(files)}
    items.sort(key=lambda item: at[below_tests(item.nodeid)])


class RoomScheduling(LoadScopeScheduling):
    """A file at a time in the order of the collection, each process in its room."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._room_of: dict[Any, str] = {}
        self._opened: dict[str, set[Any]] = {}
        self._places: dict[Any, dict[str, int]] = {}

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: Any) -> None:
        chosen = self._next_file(node)
        name = room(below_tests(chosen))
        if name is not None:
            self._opened.setdefault(name, set()).add(node)
            self._room_of[node] = name
        tests = self.workqueue.pop(chosen)
        self.assigned_work.setdefault(node, OrderedDict())[chosen] = tests
        if node not in self._places:
            collection = self.registered_collections[node]
            self._places[node] = {nodeid: at for at, nodeid in enumerate(collection)}
        places = self._places[node]
        node.send_runtest_some([places[nodeid] for nodeid, done in tests.items() if not done])

    def _reschedule(self, node: Any) -> None:
        """As its parent does; but a worker runs a test only when it knows the next one or that there is none,
        also one that replaces another late, for a file of a single test."""
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)
        if not self.workqueue and not node.shutting_down:
            node.shutdown()

    def _next_file(self, node: Any) -> str:
        """The first file of the room that the process is in; else the first of none, of a room that nobody
        has opened or of one that it has opened itself; else the first."""
        stays = self._room_of.get(node)
        free = None
        for file in self.workqueue:
            name = room(below_tests(file))
            if name is not None and name == stays:
                return str(file)
            opened = self._opened.get(name or "", set())
            if free is None and (not opened or node in opened):
                free = file
        return str(free or next(iter(self.workqueue)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> RoomScheduling | None:
    return RoomScheduling(config, log) if config.option.dist == "loadfile" else None
