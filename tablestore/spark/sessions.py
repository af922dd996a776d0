"""Spark sessions that listen on 127.0.0.1 only and whose Python workers can import this package.

`session()` makes one; `register(spark)` is for a session made elsewhere. Both make `format("tablestore")`
known and put the code where the workers find it. Called by pipelines, notebooks and tests.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterable, Iterator
from urllib.parse import quote
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tablestore import __path__ as _package_path
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options import environment
from tablestore.core.options.secrets import HIDDEN
from tablestore.spark.daemon.sitecustomize import JOBS_ONLY
from tablestore.spark.datasource import TablestoreSource
from tablestore.spark.query_planning import plan_queries
from tablestore.spark.work_source import WorkSource

_PACKAGE = os.path.abspath(next(iter(_package_path)))
_ROOT = os.path.dirname(_PACKAGE)
_DAEMON = os.path.join(_PACKAGE, "spark", "daemon")
_LOOPBACK = "127.0.0.1"
_NEEDED_JAVA = 17
_JVM = "-XX:+UseSerialGC -Duser.timezone=UTC -Djava.net.preferIPv4Stack=true"
CLASS_ARCHIVE = os.path.join(sys.prefix, "spark-classes.jsa")
"""Where `class_archive` puts what makes the JVM start in half the time."""
NO_ARCHIVE_LOG = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_LOGGING = os.path.join(_PACKAGE, "spark", "log4j2.properties")
_CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Renames as the default does, which starts 16 more processes a batch to ask for links."""
_REMEDY = "install a JDK (on Debian: apt install openjdk-17-jre-headless) and point JAVA_HOME at it"


def session(
    app: str = "tablestore",
    *,
    cores: int | None = None,
    memory: str = "1g",
    log_file: str | None = None,
    jobs_only: bool = False,
    **conf: str | int | bool,
) -> SparkSession:
    """A local session, or the running one. `memory` is the JVM's heap: rows stay in the Python workers, so
    1 GB is plenty.

    `log_file` gets the stderr of the JVM and the workers, which otherwise is that of this process. With
    `jobs_only` the JVM compiles its code once and quickly: that takes half the processor time where it only
    schedules work of Python, as captures and compactions do, and more where Spark computes itself. `conf` is
    any Spark setting, with dots written as double underscores or in a dict: `session(**{"spark.master": …})`.
    `spark.pyspark.python` is the Python of workers (that of this process unless it is set).
    Raises NotFound when Java is missing and InvalidRequest when it is too old.
    """
    _require_java()
    cores = cores or max(1, len(os.sched_getaffinity(0)))
    settings = _settings(cores, memory, jobs_only=jobs_only) | {
        k.replace("__", "."): str(v).lower() if isinstance(v, bool) else str(v) for k, v in conf.items()
    }
    master = settings.pop("spark.master")
    local = master.startswith("local[")
    if not local:
        del settings["spark.executorEnv.PYTHONPATH"]  # workers elsewhere get the code shipped
    builder = SparkSession.builder.appName(app).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with (
        _launch_environment(local, settings["spark.pyspark.python"], jobs_only=jobs_only),
        _stderr_to(log_file),
        _own_interrupts(),
    ):
        spark = builder.getOrCreate()
    if local and jobs_only:
        threading.Thread(target=_start_workers, args=(spark.sparkContext,), daemon=True).start()
    return register(spark)


def _start_workers(context: SparkContext) -> None:
    """Have the daemon of tasks import the engine while other processes are being started."""
    with contextlib.suppress(Exception):  # the session may have ended
        context.parallelize([0], 1).count()


def register(spark: SparkSession) -> SparkSession:
    """The session, to which `format("tablestore")` is now known. Workers elsewhere get the code, and the
    variables of this process that say how object stores are reached (`AWS_…`)."""
    master = spark.sparkContext.master
    if master is None or not master.startswith("local["):
        _ship(spark.sparkContext)  # before the sources: they remember what goes with them
        pass_environment(spark, environment.store_variables())
    _register_sources(spark)
    plan_queries(spark)
    return spark


def _ship(context: SparkContext) -> None:
    """Send the code to the workers of a context, once: Spark refuses a second file of that name."""
    if context not in _shipped:
        context.addPyFile(_zipped())
        _shipped.add(context)


_shipped: WeakSet[SparkContext] = WeakSet()


def _register_sources(spark: SparkSession) -> None:
    for source in (TablestoreSource, WorkSource):
        spark.dataSource.register(source)


class _Unlogged(logging.Filter):
    """Takes values of the environment out of what py4j logs, which at level DEBUG is all that it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.values: set[str] = set()

    def add(self, values: Iterable[str]) -> None:
        """Take these values out, too, also as py4j writes them."""
        for value in filter(None, values):
            self.values |= {value, value.replace("\\", "\\\\")}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if any(value in text for value in self.values):
            for value in self.values:
                text = text.replace(value, HIDDEN)
            record.msg, record.args = text, ()
        return True


_unlogged = _Unlogged()
for _name in ("py4j.clientserver", "py4j.java_gateway"):
    logging.getLogger(_name).addFilter(_unlogged)


def pass_environment(spark: SparkSession, names: Iterable[str]) -> None:
    """Give the Python processes of a session these variables of this process as they are now: they have the
    environment in which the session was started. A secret gets into no setting, log or plan by it."""
    environment = spark.sparkContext.environment
    changed = {n: os.environ[n] for n in names if n in os.environ and environment.get(n) != os.environ[n]}
    if changed:
        _unlogged.add(changed.values())
        environment.update(changed)
        _register_sources(spark)  # which remember the environment


def _settings(cores: int, memory: str, *, jobs_only: bool = False) -> dict[str, str]:
    java = f"{_JVM}{' -XX:TieredStopAtLevel=1' if jobs_only else ''}{_archived()}"
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.python.worker.reuse": "true",
        "spark.python.authenticate.socketTimeout": "120s",  # 15 s are short where the machine is busy
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
        "spark.driver.extraJavaOptions": f"{java} -Dlog4j2.configurationFile=file://{quote(_LOGGING)}",
        "spark.executor.extraJavaOptions": _JVM,
        "spark.executorEnv.PYTHONPATH": _ROOT,
        "spark.executorEnv.OMP_NUM_THREADS": "1",
    }


def _archived() -> str:
    """JVM options that use the class archive, if it was made. The JVM passes over one that does not fit."""
    if not os.path.exists(CLASS_ARCHIVE):
        return ""
    return f" -XX:SharedArchiveFile={shlex.quote(CLASS_ARCHIVE)} {NO_ARCHIVE_LOG}"


@contextlib.contextmanager
def _launch_environment(local: bool, python: str, *, jobs_only: bool) -> Iterator[None]:
    """The environment that the JVM inherits at its start: where it may listen, which `python` workers are,
    and where they import from, those of a `local` master early: others may not have imported what is not yet
    shipped.
    """
    early = _DAEMON if local else ""
    path = os.pathsep.join(p for p in (_ROOT, early, os.environ.get("PYTHONPATH", "")) if p)
    wanted = {
        "SPARK_LOCAL_IP": _LOOPBACK,
        "SPARK_LOCAL_HOSTNAME": _LOOPBACK,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": python,
        "OMP_NUM_THREADS": "1",
        "SPARK_WORKER_DIR": os.environ.get(
            "SPARK_WORKER_DIR", os.path.join(tempfile.gettempdir(), "spark-work")
        ),
    }
    if jobs_only:
        wanted[JOBS_ONLY] = "1"
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Ctrl-C stays what it was: PySpark would let it cancel every Spark job, those of streams too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _stderr_to(path: str | None) -> Iterator[None]:
    """Within it, processes start with this file as their stderr."""
    if path is None:
        yield
        return
    sys.stderr.flush()
    kept, log = os.dup(2), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(log)
        os.close(kept)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        raise NotFound(
            f"no Java: {'JAVA_HOME=' + home + ' has no bin/java' if home else 'none in PATH'}; {_REMEDY}"
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match and int(match[1]) < _NEEDED_JAVA:
        raise InvalidRequest(f"{java} is Java {match[1]}, {_NEEDED_JAVA} or newer is needed; {_REMEDY}")


def _zipped() -> str:
    """The package as a zip for workers that do not share this file system; deleted when this process ends."""
    folder = tempfile.mkdtemp(prefix="tablestore-code-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = os.path.join(folder, "tablestore.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for folder, folders, names in os.walk(_PACKAGE):
            folders[:] = [f for f in folders if f != "__pycache__"]
            for name in sorted(names):
                path = os.path.join(folder, name)
                out.write(path, os.path.relpath(path, _ROOT))
    return target
