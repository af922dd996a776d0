"""Jars of Maven for private servers, fetched once for a machine."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tablestore.core.errors import Unavailable

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tablestore</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{}</dependencies>
</project>"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def jars_folder(name: str) -> Path:
    """Where the jars of that name are or would be: `kafka-4.3.0`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tablestore-workbench" / name


def copy_jars(folder: Path, artifacts: Sequence[str]) -> None:
    """Put the jars of these artifacts into a folder, without what they need. Raises Unavailable where Maven
    does not bring them."""
    for artifact in artifacts:
        _run_maven("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}", what=artifact)


def _run_maven(*arguments: str, what: str) -> None:
    done = subprocess.run(["mvn", "-q", "-B", *arguments], capture_output=True, text=True, timeout=900)
    if done.returncode:
        problem = (done.stdout + done.stderr).strip()[-300:]
        raise Unavailable(f"{what} could not be had from Maven: {problem}")


def fetched_jars(
    name: str, artifacts: Sequence[str], *, add: Callable[[Path], None] = lambda folder: None
) -> Path:
    """The folder of these artifacts, `group:artifact:version`, with what they need; whole or not at all.

    `add` puts more into a folder that is made. Raises Unavailable where Maven does not bring them.
    """
    folder = jars_folder(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name.partition('-')[0]}.turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            pom, copied = Path(scratch) / "pom.xml", Path(scratch) / "jars"
            pom.write_text(
                _POM.format("".join(_DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts))
            )
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={copied}", "-DincludeScope=runtime"]
            _run_maven("-f", str(pom), *goal, what=name)
            add(copied)
            copied.rename(folder)
    return folder
