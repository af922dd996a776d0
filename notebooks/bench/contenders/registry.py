"""Every contender by name: how it is started, and why one is missing."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from notebooks.bench.contenders import flink_jars
from notebooks.bench.contenders.contender import Contender
from tests.peers import java_env, pypaimon_env

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
OURS = "tablestore"
TWO = "tablestore ×2"
SYNCED = "tablestore, synced"
PEERS = ("pypaimon-rust", "java", "pypaimon")
SOURCES = ("connectorx", "mysqlclient", "mysql-replication")  # what `bench cdc` compares with
STREAMS = ("flink",)  # what `bench tier` compares with
LAKES = ("pypaimon-rust", "java", "delta", "duckdb")  # what `bench lsm` compares with
JAVA_HEAP = "4g"


class Absent(Exception):
    """Why a peer cannot take part."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender: `command` starts it; `lacks` are the steps it has not."""

    name: str
    command: tuple[str, ...]
    lacks: frozenset[str] = frozenset()

    def start(self) -> Contender:
        return Contender(self.name, self.command, folder=ROOT)


def ours() -> Entry:
    """This engine in one process."""
    return Entry(OURS, python(sys.executable, "notebooks.bench.contenders.ours", "1"))


def ours_twice() -> Entry:
    """This engine in two processes that share the work."""
    return Entry(TWO, python(sys.executable, "notebooks.bench.contenders.ours", "2"))


def ours_synced() -> Entry:
    """This engine in one process, on tables whose commits outlast a loss of power. Reads are the same."""
    return replace(ours(), name=SYNCED, lacks=frozenset({"read", "gets", "get_many", "rescan"}))


def ours_of_mysql() -> Entry:
    """Our reader of MariaDB and MySQL."""
    return Entry(OURS, python(sys.executable, "notebooks.bench.contenders.mysql_ours"))


def peers(names: Sequence[str]) -> tuple[list[Entry], list[str]]:
    """The peers of these names that can be had, and a line for each that cannot."""
    entries, missing = [], []
    for name in names:
        try:
            entries.append(_PEERS[name]())
        except Absent as reason:
            missing.append(f"{name} is not measured: {reason}")
    return entries, missing


def chosen(text: str, there: Sequence[str] = PEERS) -> tuple[str, ...]:
    """The names in `text`, separated by commas; "none" and "all" are understood. Raises ValueError."""
    names = {"none": (), "all": tuple(there)}.get(text, tuple(text.split(",")))
    if unknown := [name for name in names if name not in there]:
        raise ValueError(f"no peer {unknown[0]!r}; there are: {', '.join(there)}, all, none")
    return names


def python(executable: str | Path, module: str, *arguments: str) -> tuple[str, ...]:
    bootstrap = f"import runpy, sys; sys.path.insert(0, {os.fspath(ROOT)!r}); "
    bootstrap += f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return (os.fspath(executable), "-P", "-c", bootstrap, *arguments)


def _environment(name: str) -> Path:
    """The Python of a peer's own environment, made from its lock file on first use. Raises Absent."""
    python = pypaimon_env.make(Path(sys.prefix) / "peers" / name, lock=HERE / f"{name}.lock", what=name)
    if python.path is None:
        raise Absent(python.reason)
    return python.path


@functools.cache
def _rust() -> Entry:
    command = python(_environment("pypaimon-rust"), "notebooks.bench.contenders.pypaimon", "native")
    return Entry("pypaimon-rust", command, frozenset({"compact", "get_many"}))


@functools.cache
def _delta() -> Entry:
    command = python(_environment("delta"), "notebooks.bench.contenders.delta")
    return Entry("delta", command, frozenset({"get_many"}))


@functools.cache
def _duckdb() -> Entry:
    return Entry("duckdb", python(_environment("duckdb"), "notebooks.bench.contenders.duckdb"))


def _of_mysql(name: str, module: str, lacks: str) -> Entry:
    command = python(_environment(name), f"notebooks.bench.contenders.{module}")
    return Entry(name, command, frozenset({lacks, "spark", "ingest"}))


@functools.cache
def _connectorx() -> Entry:
    return _of_mysql("connectorx", "mysql_connectorx", "images")


@functools.cache
def _mysqlclient() -> Entry:
    return _of_mysql("mysqlclient", "mysql_client", "images")


@functools.cache
def _mysql_replication() -> Entry:
    return _of_mysql("mysql-replication", "mysql_replication", "rows")


@functools.cache
def _pypaimon() -> Entry:
    contender = pypaimon_env.python()
    if contender.path is None:
        raise Absent(contender.reason)
    return Entry(
        "pypaimon",
        python(contender.path, "notebooks.bench.contenders.pypaimon", "python"),
        frozenset({"compact"}),
    )


@functools.cache
def _java() -> Entry:
    try:
        path = java_env.class_path()
    except java_env.Missing as reason:
        raise Absent(f"needs Java Paimon: {reason}") from None
    command = ("java", "-Duser.timezone=UTC", f"-Xmx{JAVA_HEAP}", "-cp", path, "PaimonBench")
    return Entry("java", command, frozenset({"get_many"}))


@functools.cache
def _flink() -> Entry:
    try:
        path = flink_jars.class_path()
    except java_env.Missing as reason:
        raise Absent(f"needs Flink: {reason}") from None
    opened = "--add-opens=java.base/java.nio=ALL-UNNAMED"  # Arrow's buffers
    return Entry(
        "flink", ("java", opened, "-Duser.timezone=UTC", f"-Xmx{JAVA_HEAP}", "-cp", path, "FlinkTier")
    )


_PEERS = {
    "flink": _flink,
    "pypaimon-rust": _rust,
    "java": _java,
    "pypaimon": _pypaimon,
    "delta": _delta,
    "duckdb": _duckdb,
    "connectorx": _connectorx,
    "mysqlclient": _mysqlclient,
    "mysql-replication": _mysql_replication,
}
