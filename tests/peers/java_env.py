"""Java Paimon as a peer process: the fat jar from Maven, Hadoop and slf4j from PySpark's own jars, our
drivers compiled once."""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
ARTIFACT = "org.apache.paimon:paimon-flink-2.0:2.0.0"
DRIVERS = ("org.xerial:sqlite-jdbc:3.46.1.3", "org.postgresql:postgresql:42.7.4")
"""Of databases that hold a catalog."""
CACHE = HERE.parents[1] / ".venv" / "peers" / "java"


class Missing(Exception):
    """Why the peer cannot be had; the text completes `needs Java Paimon: `."""


def is_made() -> bool:
    """Whether all is fetched and compiled."""
    jars = [local_jar(artifact) for artifact in (ARTIFACT, *DRIVERS)]
    return all(jar.exists() for jar in jars) and are_compiled(HERE / "java", CACHE / "classes")


def make() -> None:
    """Fetch and compile all; raises Missing."""
    class_path()
    driver_jars()


@functools.cache
def class_path() -> str:
    """Class path of the drivers, everything fetched and compiled; raises Missing."""
    need("java", "javac", "mvn")
    path = ":".join(map(str, [fat_jar(), *hadoop_jars(), spark_jar("slf4j-api")]))
    return f"{path}:{compiled(HERE / 'java', path=path, classes=CACHE / 'classes')}"


def driver_jars() -> list[Path]:
    """The JDBC drivers; raises Missing."""
    return [fat_jar(artifact) for artifact in DRIVERS]


def are_compiled(folder: Path, classes: Path) -> bool:
    """Whether `classes` holds the drivers in `folder` as they are now."""
    sources = sorted(folder.glob("*.java"))
    created = [classes / f"{source.stem}.class" for source in sources]
    newest = max(source.stat().st_mtime for source in sources)
    return all(path.exists() and path.stat().st_mtime >= newest for path in created)


def compiled(folder: Path, *, path: str, classes: Path) -> Path:
    """`classes` with the drivers in `folder` compiled against the class path `path`, if they were not yet."""
    classes.mkdir(parents=True, exist_ok=True)
    with classes.with_suffix(".turn").open("w") as lock_file:  # two test runs take turns
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        if not are_compiled(folder, classes):
            sources = map(str, sorted(folder.glob("*.java")))
            command = ["javac", "-nowarn", "-cp", path, "-d", str(classes), *sources]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise AssertionError(f"the drivers do not compile:\n{done.stderr}")
    return classes


def need(*tools: str) -> None:
    """Raises Missing if a tool is not on the path."""
    for tool in tools:
        if shutil.which(tool) is None:
            raise Missing(f"no {tool} on the path")


def local_jar(artifact: str) -> Path:
    """Where Maven keeps the jar of an artifact, `group:name:version`."""
    group, name, version = artifact.split(":")
    return Path.home() / ".m2/repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"


def fat_jar(artifact: str = ARTIFACT) -> Path:
    """One jar without those that it needs, Java Paimon if none is named, in Maven's local repository; raises
    Missing."""
    jar = local_jar(artifact)
    if not jar.exists():
        command = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode or not jar.exists():
            raise Missing(f"Maven could not fetch {artifact}: {done.stdout[-300:]}")
    return jar


def hadoop_jars() -> list[Path]:
    return [spark_jar(name) for name in ("hadoop-client-api", "hadoop-client-runtime", "snappy-java")]


def spark_jar(name: str) -> Path:
    """A jar that PySpark carries. PySpark itself is not imported: each run of pytest would load it."""
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    return next((Path(pyspark.origin).parent / "jars").glob(f"{name}-*.jar"))
