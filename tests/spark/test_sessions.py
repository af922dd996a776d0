"""Sessions listen on the loopback address only, find the format by name, and say what is wrong with Java."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.spark import register, session, sessions

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
def test_nothing_of_a_session_listens_anywhere_but_on_the_loopback(spark):
    assert spark.range(10).mapInArrow(lambda batches: batches, "id long").count() == 10  # workers are up
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)
    listening = [
        (p.name(), c.laddr.ip)
        for p in (jvm, *jvm.children(recursive=True))
        for c in p.net_connections(kind="inet")
        if c.status == psutil.CONN_LISTEN
    ]
    assert any(name == "java" for name, _ in listening)
    assert {ip for _, ip in listening} == {"127.0.0.1"}


@pytest.mark.spark
def test_a_session_is_set_up_for_python_workers(spark):
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.pyspark.python") == sys.executable
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert session() is spark or session().sparkContext is spark.sparkContext
    assert register(spark) is spark


def test_a_class_archive_is_used_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    archive = tmp_path / "of classes.jsa"
    monkeypatch.setattr(sessions, "CLASS_ARCHIVE", str(archive))
    for there in (False, True):
        options = shlex.split(sessions._settings(1, "1g")["spark.driver.extraJavaOptions"])
        assert (f"-XX:SharedArchiveFile={archive}" in options) == there
        archive.touch()


def test_a_session_for_jobs_only_compiles_once_and_quickly():
    for jobs_only in (False, True):
        settings = sessions._settings(1, "1g", jobs_only=jobs_only)
        assert ("-XX:TieredStopAtLevel=1" in settings["spark.driver.extraJavaOptions"]) == jobs_only


@pytest.mark.spark
@pytest.mark.skipif(" " in sys.executable, reason="Spark 4.3 asks `command -v` for Python without quotes")
@pytest.mark.large
def test_a_session_of_its_own_finds_the_format_by_name(spark, tmp_path: Path):
    del spark
    program = (
        "from pyspark.sql import SparkSession\n"
        "b = SparkSession.builder.master('local[1]').config('spark.driver.host', '127.0.0.1')\n"
        "b = b.config('spark.driver.bindAddress', '127.0.0.1').config('spark.ui.enabled', 'false')\n"
        "s = b.getOrCreate()\n"
        "try:\n"
        f"    s.read.format('tablestore').load({str(tmp_path / 'none')!r}).schema\n"
        "except Exception as e:\n"
        "    print('no table at' in str(e), str(e)[-300:] if 'no table at' not in str(e) else '')\n"
        "s.stop()\n"
    )
    (tmp_path / "packages").mkdir()
    alias = tmp_path / "packages" / "pyspark_tablestore"
    alias.symlink_to(ROOT / "tablestore" / "spark" / "pyspark_tablestore")
    path = os.pathsep.join([str(ROOT), str(alias.parent)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
        check=False,
        timeout=600,
    )
    assert done.stdout.strip() == "True", done.stderr[-2000:]


def java_home(path: Path, version: str) -> Path:
    program = path / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return path


def test_an_old_java_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for version, major in (("1.8.0_402", "8"), ("11.0.22", "11")):
        monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / major, version)))
        with pytest.raises(InvalidRequest, match=rf"is Java {major}, 17 or newer is needed; install a JDK"):
            session()


def test_no_java_is_said_before_spark_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NotFound, match="JAVA_HOME"):
        session()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="none in PATH"):
        session()
