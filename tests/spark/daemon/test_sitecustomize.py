"""Daemons of Spark import the engine once and have one thread when they fork; other processes are as ever."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tablestore.spark.daemon.sitecustomize import JOBS_ONLY

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tablestore" / "spark" / "daemon"
SAYS = """
import sys
{before}
threads = next(line for line in open("/proc/self/status") if line.startswith("Threads:")).split()[1]
print(threads, *(name in sys.modules for name in ("tablestore.spark.datasource", {worker!r})))
"""
WORKER = "pyspark.sql.worker.plan_data_source_read"


def said(program: str, *folders: Path) -> str:
    """What a Python says that starts with these folders in its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_daemon_has_what_its_processes_import_and_no_thread() -> None:
    before = f"import sitecustomize as s; s.import_once(['python', '-m', s.DAEMON, {WORKER!r}])"
    assert said(SAYS.format(before=before, worker=WORKER), ROOT, FOLDER) == "1 True True"


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize(
    ("worker", "jobs_only", "engine"),
    [
        ("pyspark.sql.worker.lookup_data_sources", False, False),
        (WORKER, True, False),
        ("pyspark.worker", True, True),
    ],
)
def test_a_daemon_that_hands_a_stream_on_has_no_engine(
    worker: str, jobs_only: bool, engine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if jobs_only:
        monkeypatch.setenv(JOBS_ONLY, "1")
    before = f"import sitecustomize as s; s.import_once(['python', '-m', s.DAEMON, {worker!r}])"
    assert said(SAYS.format(before=before, worker=worker), ROOT, FOLDER) == f"1 {engine} True"


def test_the_source_of_works_needs_no_engine_until_it_plans() -> None:
    program = """
import sys
from tablestore.spark.work_source import WorkSource
WorkSource({"plan": "gANdLg=="}).streamReader(None)
print("tablestore.table.table" in sys.modules)
"""
    assert said(program, ROOT) == "False"


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_any_other_process_imports_nothing() -> None:
    assert said(SAYS.format(before="", worker=WORKER), ROOT, FOLDER) == "1 False False"


@pytest.mark.parametrize(("name", "first"), [("pyspark.daemon", "folder"), ("any.other", "archive")])
def test_a_daemon_imports_the_pyspark_that_is_installed_and_not_its_archive(name: str, first: str) -> None:
    archives = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    program = f"""
import sitecustomize as s
s.without_archives(['python', '-m', {name!r}, {WORKER!r}])
import pyspark, py4j
print(*("archive" if ".zip" in m.__file__ else "folder" for m in (pyspark, py4j)))
"""
    assert len(archives) == 2
    assert said(program, *archives, ROOT, FOLDER) == f"{first} {first}"


def test_a_sitecustomize_of_the_users_runs_as_without_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.of_the_user = __file__\n")
    program = "import sys; print(sys.of_the_user)"
    assert said(program, ROOT, FOLDER, tmp_path) == said(program, tmp_path)


def test_a_planner_of_a_stream_connects_before_it_imports_anything(tmp_path: Path) -> None:
    """Spark waits ten seconds for it; here its imports never end."""
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text("import sys\nsys.stdin.read()\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (FOLDER, tmp_path)))}
        environment |= {
            "PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": "whisper",
        }
        planner = [sys.executable, "-m", "pyspark.sql.streaming.python_streaming_source_runner"]
        process = subprocess.Popen(
            planner, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            server.settimeout(120)
            connection, _ = server.accept()
            with connection:
                connection.settimeout(120)
                assert connection.makefile("rb").read(11) == b"\0\0\0\7whisper"
        finally:
            process.kill()
            process.communicate()


@pytest.mark.spark
@pytest.mark.large
def test_a_process_of_a_session_finds_the_engine_imported(spark: object) -> None:
    def imported(_: int) -> tuple[bool, bool]:
        daemon = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        return "pyspark.daemon" in daemon, "tablestore.spark.datasource" in sys.modules

    assert spark.sparkContext.parallelize([0], 1).map(imported).collect() == [(True, True)]
