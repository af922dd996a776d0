"""Flink as a peer process: its jars from PyPI (Maven lacks some), Java Paimon's fat jar, Hadoop from PySpark.

The jars are 256 MB, so one copy serves all environments of a user: they are kept under `$XDG_CACHE_HOME`
(`~/.cache`), complete or not at all.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.peers import java_env
from tests.peers.java_env import HERE, Missing, compiled, fat_jar, hadoop_jars, need

PACKAGE, VERSION = "apache-flink-libraries", "2.0.0"
JARS = (
    "dist",
    "table-planner-loader",
    "table-api-java-uber",
    "table-runtime",
    "connector-files",
    "cep",
    "csv",
    "json",
)
CLASSES = HERE.parents[1] / ".venv" / "peers" / "flink" / "classes"


def is_made() -> bool:
    """Whether all is fetched and compiled."""
    fetched = folder_of(VERSION).exists() and java_env.local_jar(java_env.ARTIFACT).exists()
    return fetched and java_env.are_compiled(HERE / "flink", CLASSES)


@functools.cache
def class_path() -> str:
    """Class path of the driver, everything fetched and compiled; raises Missing."""
    need("java", "javac", "mvn")
    path = ":".join(map(str, [*flink_jars(), fat_jar(), *hadoop_jars()]))
    return f"{path}:{compiled(HERE / 'flink', path=path, classes=CLASSES)}"


def folder_of(version: str) -> Path:
    """Where the jars of Flink of that version are or would be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tablestore-workbench" / f"flink-{version}"


def flink_jars(version: str | None = None) -> list[Path]:
    """The jars of Flink of that version, that of the peer if none is named; raises Missing."""
    version = version or VERSION
    folder = folder_of(version)
    cache = folder.parent
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "flink.turn").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                archive = _downloaded(Path(scratch), version)
                _unpack(archive, version, into=Path(scratch) / "jars").rename(folder)
    return [folder / f"flink-{name}-{version}.jar" for name in JARS]


def _downloaded(folder: Path, version: str) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += ["--no-deps", "--no-cache-dir", "--no-binary", ":all:", "--retries", "1"]
    wanted = [f"--dest={folder}", f"{PACKAGE}=={version}"]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True, timeout=900)
    actual = next(folder.glob("*.tar.gz"), None)
    if actual is None:
        raise Missing(f"pip could not fetch {PACKAGE}=={version}: {done.stderr.strip()[-300:]}")
    return actual


def _unpack(archive: Path, version: str, *, into: Path) -> Path:
    wanted = {f"flink-{name}-{version}.jar" for name in JARS}
    into.mkdir()
    with tarfile.open(archive) as members:
        for member in members:
            name = Path(member.name).name
            if name in wanted and Path(member.name).parent.name == "lib":
                with (into / name).open("wb") as jar:
                    shutil.copyfileobj(members.extractfile(member), jar)
    return into
