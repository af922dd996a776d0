"""`check()`: what the notebooks stand on, in one small table with plain remedies; well under a second.

Nothing is started: the version of Java is read from its `release` file, Spark is not imported. The longer
look is `./workbench doctor`. Called first in every notebook.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path

import tablestore
from notebooks.cli.doctor import REMAKE
from notebooks.course import cards
from notebooks.course.cards import Card
from tablestore.cli.doctor import machine
from tablestore.cli.doctor.machine import DoctorLine
from tablestore.cli.places import human

PACKAGES = ("pyarrow", "pandas", "jupyterlab", "anywidget")
NEED_BYTES = 200_000_000


def check() -> Card:
    """The table: versions, Java, disk, memory. It never raises; what is missing says what to do."""
    rows = findings()
    missing = [finding for finding in rows if finding.state == "missing"]
    if missing:
        title, kind = f"Something is missing: {', '.join(finding.name for finding in missing)}", "wrong"
    else:
        title, kind = "Everything this notebook needs is here", "right"
    return cards.health(title, [(f.state, f.name, f.found, f.remedy) for f in rows], kind=kind)


def findings() -> list[DoctorLine]:
    """Every finding, in the order of the table."""
    return [python(), packages(), java(), disk(), machine.memory_finding()]


def python() -> DoctorLine:
    """Python's version, and whether it is the environment of this checkout."""
    version = sys.version_info[:2]
    text = f"{platform.python_version()}, tablestore {tablestore.__version__}"
    if machine.OLDEST_PYTHON <= version <= machine.NEWEST_PYTHON:
        return DoctorLine("Python", text)
    return DoctorLine(
        "Python", text, "missing", "choose the kernel of `./workbench lab`: Python 3.11 to 3.13"
    )


def packages() -> DoctorLine:
    """The packages the notebooks import."""
    versions = {name: machine.installed(name) for name in PACKAGES}
    if absent := [name for name, version in versions.items() if not version]:
        return DoctorLine(
            "packages", f"not installed: {', '.join(absent)}", "missing", f"in a shell: {REMAKE}"
        )
    return DoctorLine("packages", ", ".join(f"{name} {version}" for name, version in versions.items()))


def java() -> DoctorLine:
    """Java and PySpark, which only notebook 01 needs."""
    home, version = find_java()
    spark = "" if importlib.util.find_spec("pyspark") else "; PySpark is not installed"
    if not home:
        return DoctorLine(
            "Java", f"none found{spark}", "note", f"only notebook 01 needs it. {machine.GET_JAVA}"
        )
    leading = re.match(r"(?:1\.)?(\d+)", version)
    major = int(leading[1]) if leading else 0
    if version and major < machine.OLDEST_JAVA:
        return DoctorLine(
            "Java", f"{version} in {home}{spark}", "note", f"notebook 01 needs 17. {machine.GET_JAVA}"
        )
    return DoctorLine("Java", f"{version or 'some version'} in {home}{spark}", "note" if spark else "ok")


def find_java() -> tuple[str, str]:
    """(home, version) of JAVA_HOME or of the java in PATH, from its `release` file; two blanks for none."""
    in_path = shutil.which("java")
    homes = [os.environ.get("JAVA_HOME", "")]
    homes += [str(Path(in_path).resolve().parents[1])] if in_path else []
    for home in homes:
        if home and (Path(home) / "bin" / "java").exists():
            release = Path(home) / "release"
            text = release.read_text(encoding="utf-8", errors="replace") if release.exists() else ""
            stated = re.search(r'JAVA_VERSION="([^"]+)"', text)
            return home, stated.group(1) if stated else ""
    return "", ""


def disk() -> DoctorLine:
    """Room for temporary tables."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    text = f"{human(free)} free in {folder}"
    if free >= NEED_BYTES:
        return DoctorLine("disk", text)
    return DoctorLine("disk", text, "missing", f"{human(NEED_BYTES)} are needed: free some, or set TMPDIR")
