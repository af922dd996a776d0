"""Java Paimon as a peer process: the fat jar from Maven, Hadoop and slf4j from PySpark's own jars, our
drivers compiled once."""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
from pathlib import Path

import pyspark

HERE = Path(__file__).parent
ARTIFACT = "org.apache.paimon:paimon-flink-2.0:2.0.0"
CACHE = HERE.parents[1] / ".venv" / "peers" / "java"


class Missing(Exception):
    """Why the peer cannot be had; the text completes `needs Java Paimon: `."""


@functools.cache
def class_path() -> str:
    """Class path of the drivers, everything fetched and compiled; raises Missing."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise Missing(f"no {tool} on the path")
    classes = CACHE / "classes"
    sources = sorted((HERE / "java").glob("*.java"))
    made = [classes / f"{source.stem}.class" for source in sources]
    classes.mkdir(parents=True, exist_ok=True)
    with (CACHE / "classes.turn").open("w") as held:  # two test runs take turns
        fcntl.flock(held, fcntl.LOCK_EX)
        path = ":".join(map(str, [_fat_jar(), *_spark_jars()]))
        newest = max(source.stat().st_mtime for source in sources)
        if not all(one.exists() and one.stat().st_mtime >= newest for one in made):
            _compile(sources, path=path, classes=classes)
    return f"{path}:{classes}"


def _compile(sources: list[Path], *, path: str, classes: Path) -> None:
    command = ["javac", "-nowarn", "-cp", path, "-d", str(classes), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"the drivers do not compile:\n{done.stderr}")


def _fat_jar() -> Path:
    group, name, version = ARTIFACT.split(":")
    jar = Path.home() / ".m2/repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    if not jar.exists():
        command = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={ARTIFACT}", "-Dtransitive=false"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode or not jar.exists():
            raise Missing(f"Maven could not fetch {ARTIFACT}: {done.stdout[-300:]}")
    return jar


def _spark_jars() -> list[Path]:
    folder = Path(pyspark.__file__).parent / "jars"
    names = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "slf4j-api-*.jar", "snappy-java-*.jar")
    return [next(folder.glob(n)) for n in names]
