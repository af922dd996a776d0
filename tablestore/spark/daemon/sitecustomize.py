"""Lets the daemons that fork Spark's Python processes import the engine once, before they fork.

PySpark's daemon imports nothing, so each process that it forks imports everything anew: a second of processor
time for each answer of a planner, which is a process of its own. Planners of a session for jobs only need no
engine (`work_source.py`), nor does the one that looks for sources that are installed. Python imports a module
of this name when it starts; in any process that is no daemon nothing happens here. Another `sitecustomize` of
the path runs as without this one.

The planner of a stream is no child of a daemon: Spark starts a process, and waits ten seconds until it
connects. Nobody can set that, and on a busy machine its imports take longer ("Python worker failed to connect
back"), so it connects here, before them.

A daemon may have no threads of its own when it forks: those that libraries start on import are switched off
by their variables.

Spark puts archives of PySpark first in the path of all these, whose modules Python compiles anew in each
process: a second of processor time. Where they lie in the PySpark that is installed, that one is imported.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import io
import os
import socket
import sys

DAEMON = "pyspark.daemon"
PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
LOOKUP = "pyspark.sql.worker.lookup_data_sources"
TASKS = "pyspark.worker"
JOBS_ONLY = "TABLESTORE_SPARK_JOBS_ONLY"
SOURCES = ("tablestore.spark.datasource", "tablestore.spark.work_source")
WITHOUT_THREADS = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def run_the_next() -> None:
    """What Python would have imported under this name, were this folder not in its path."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def without_archives(arguments: list[str]) -> None:
    """Take PySpark's own archives out of the path of a daemon or planner that has PySpark as a folder."""
    if DAEMON not in arguments and PLANNER not in arguments:
        return
    archives = os.path.join("pyspark", "python", "lib")
    for path in sys.path[:]:
        folder, name = os.path.split(path)
        packages = folder.removesuffix(os.sep + archives)
        if packages in sys.path and name.endswith(".zip") and os.path.isdir(os.path.join(packages, "py4j")):
            sys.path.remove(path)
            sys.path_importer_cache.pop(path, None)


def import_once(arguments: list[str]) -> None:
    """Import what the processes need that a daemon with these arguments forks. What cannot be imported here
    is named by the process that needs it."""
    if DAEMON not in arguments:
        return
    for name, value in WITHOUT_THREADS.items():
        os.environ.setdefault(name, value)
    runs = [argument for argument in arguments if argument.startswith("pyspark.") and argument != DAEMON]
    runs = runs or [TASKS]
    plans = JOBS_ONLY not in os.environ and LOOKUP not in runs
    for module in (*(SOURCES if plans or TASKS in runs else ()), *runs):
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # or the first collection of each process copies all pages


def connected(port: int, secret: str) -> tuple[io.IOBase, socket.socket]:
    """A connection to Spark that has told it the secret, as PySpark makes it: lengths of four bytes."""
    address = "::1" if os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((address, port))
    stream = connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", 65536)))
    text = secret.encode()
    stream.write(len(text).to_bytes(4, "big") + text)
    stream.flush()
    answer = stream.read(int.from_bytes(stream.read(4), "big"))
    if answer != b"ok":
        raise ConnectionError(f"Spark answers {answer!r}")
    return stream, connection


def connect_first(arguments: list[str]) -> None:
    """Connect a planner of a stream with these arguments now; PySpark gets the connection when it asks."""
    port, secret = (os.environ.get(f"PYTHON_WORKER_FACTORY_{name}") for name in ("PORT", "SECRET"))
    if PLANNER not in arguments or not port or not secret:
        return
    connection = connected(int(port), secret)
    users = importlib.import_module("pyspark.worker_util")
    usual = users.local_connect_and_auth

    def first(asked: object, *more: object) -> object:
        return connection if str(asked) == port else usual(asked, *more)

    setattr(users, "local_connect_and_auth", first)  # noqa: B010  # a module's name


if __name__ == "sitecustomize":
    run_the_next()
    without_archives(sys.orig_argv)
    connect_first(sys.orig_argv)
    import_once(sys.orig_argv)
