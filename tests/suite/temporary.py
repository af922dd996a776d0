"""Where tests and what they start put their files: one folder a run, in memory where there is room, since
each commit of a table waits for its disk several times. What a failed test leaves stays and is named
at the end.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from multiprocessing import util
from pathlib import Path

import psutil
import pytest

from tests.suite import seeds

MEMORY = Path("/dev/shm")
LEAST_FREE_BYTES, LEAST_MEMORY_BYTES = 6 << 30, 12 << 30
RUNNING, FAILURES, FAILURES_KEPT = "workbench-tests-", "workbench-failures-", 3
"""How folders begin, in which a run works and in which failures stay; of how many runs these stay."""
_KEPT = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    if seeds.is_worker(config):
        return
    clear(Path(root()))
    kept = Path(tempfile.mkdtemp(prefix=f"{FAILURES}{os.getpid()}-", dir=root()))
    config.stash[_KEPT] = kept
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(kept))
    folder = tempfile.mkdtemp(prefix=f"{RUNNING}{os.getpid()}-", dir=root())
    os.chmod(kept, 0o711)  # PostgreSQL, as another user, has its own below them
    os.chmod(folder, 0o711)
    last = -1000  # after multiprocessing has removed what it keeps in it
    util.Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=last)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", spark_options(folder))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each of hundreds of processes compiles all sources


def clear(folder: Path) -> None:
    """Remove what runs that have ended left: files of those that were killed, failures but for the newest."""
    for each in ended(folder, RUNNING) + ended(folder, FAILURES)[:-FAILURES_KEPT]:
        shutil.rmtree(each, ignore_errors=True)


def ended(folder: Path, prefix: str) -> list[Path]:
    """The folders that begin so and whose run has ended, the newest last."""
    actual = [
        (each.stat().st_mtime, each)
        for each in folder.glob(f"{prefix}[0-9]*-*")
        if not psutil.pid_exists(int(each.name.removeprefix(prefix).partition("-")[0]))
    ]
    return [each for _, each in sorted(actual)]


def root() -> str:
    """`$TMPDIR` if there is one, memory if it is large enough, else the system's folder."""
    if "TMPDIR" not in os.environ and _is_roomy(MEMORY):
        return str(MEMORY)
    return tempfile.gettempdir()


def _is_roomy(folder: Path) -> bool:
    if psutil.virtual_memory().available < LEAST_MEMORY_BYTES or not os.access(folder, os.W_OK):
        return False
    mounts = {mount.mountpoint: mount.opts.split(",") for mount in psutil.disk_partitions(all=True)}
    executable = "noexec" not in mounts.get(str(folder), ["noexec"])
    return executable and psutil.disk_usage(str(folder)).free > LEAST_FREE_BYTES


def spark_options(folder: str) -> str:
    """A session of a test lives for seconds: a JVM's second compiler takes more of them than it saves. Python
    and the JVM wait minutes for each other, not 15 s: the machine is busy."""
    java = f"defaultJavaOptions=-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={folder}"
    settings = [f"spark.{side}.{java}" for side in ("driver", "executor")]
    settings.append("spark.python.authenticate.socketTimeout=240s")
    return " ".join([*(f"--conf {shlex.quote(each)}" for each in settings), "pyspark-shell"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """A failure's report names the folder of its test."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and folder is not None:
        report.user_properties.append(("files", str(folder)))
    return report


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    kept = config.stash.get(_KEPT, None)
    if kept is not None and not any(path.is_file() for path in kept.rglob("*")):
        shutil.rmtree(kept, ignore_errors=True)
