"""The machine: one table of what tablestore stands on, with remedies.

Every check is a function that looks and returns a `DoctorLine`; what it means is decided by the pure
functions, so tests need no broken machine.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tablestore.cli.places import cache_folder, human, size_bytes
from tablestore.core.extras import DISTRIBUTION, remedy

OLDEST_PYTHON, NEWEST_PYTHON, OLDEST_JAVA = (3, 11), (3, 13), 17
PORTS = {8888: "JupyterLab", 4040: "the Spark UI"}
GB = 1_000_000_000
OF_CHECKOUTS = ("test", "workbench")
GET_JAVA = "Debian, Ubuntu: sudo apt install openjdk-17-jre-headless; macOS: brew install openjdk@17"
SIGNS = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "missing": "[red]missing[/]"}


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One line of the table. `state`: ok, note (works, worth knowing) or missing (something needed)."""

    name: str
    found: str
    state: str = "ok"
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class JavaVersion:
    """A java program and the major version it says; `major` 0: it does not run."""

    path: str
    major: int
    version: str


def report(findings: list[DoctorLine], *, as_json: bool) -> int:
    """Print the findings; 1 if something needed is missing."""
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        Console().print(as_table(findings))
    return exit_code(findings)


def examine() -> list[DoctorLine]:
    """Every finding about this machine and an installed package, in the order of the table."""
    return [python_finding(), *extra_findings(), *machine_findings()]


def machine_findings() -> list[DoctorLine]:
    """Java, the disk of the current directory, temporary files, the cache, memory and ports."""
    findings = java_findings(*look_for_java(os.environ))
    findings += [
        disk_finding(Path.cwd(), need=2 * GB),
        temporary_finding(),
        cache_finding(),
        memory_finding(),
    ]
    return [*findings, *(port_finding(port, user) for port, user in PORTS.items())]


def extra_findings() -> list[DoctorLine]:
    """A finding for each extra: whether all its packages are installed, or the command that brings them."""
    wanted = extras_of(importlib.metadata.requires(DISTRIBUTION) or ())
    findings = []
    for extra, packages in wanted.items():
        absent = [name for name in packages if not installed(name)]
        if absent:
            findings.append(
                DoctorLine(f"[{extra}]", f"not installed: {', '.join(absent)}", "note", remedy(extra))
            )
        else:
            findings.append(
                DoctorLine(f"[{extra}]", ", ".join(f"{name} {installed(name)}" for name in packages))
            )
    return findings


def extras_of(requirements: Iterable[str]) -> dict[str, list[str]]:
    """Extra → its packages, of requirements as metadata has them; extras made of others, `test` and
    `workbench`, are left out."""
    by_extra: dict[str, list[str]] = {}
    for line in requirements:
        match = re.match(r"""([\w.-]+)[^;]*;.*extra == ["']([\w-]+)["']""", line)
        if match and match[2] not in OF_CHECKOUTS:
            by_extra.setdefault(match[2], []).append(match[1])
    return by_extra


def exit_code(findings: list[DoctorLine]) -> int:
    """1 if something needed is missing."""
    return int(any(finding.state == "missing" for finding in findings))


def as_table(findings: list[DoctorLine]) -> Table:
    """The findings as a terminal shows them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "what", "found", "remedy"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        table.add_row(SIGNS[finding.state], *map(Text, (finding.name, finding.found, finding.remedy)))
    return table


def python_finding() -> DoctorLine:
    """Whether this Python is supported."""
    version = sys.version_info[:2]
    python = f"{platform.python_version()} in {sys.prefix}"
    if OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        return DoctorLine("Python", python)
    return DoctorLine(
        "Python", python, "missing", f"{_dotted(OLDEST_PYTHON)} to {_dotted(NEWEST_PYTHON)} are supported"
    )


def look_for_java(environment: Mapping[str, str]) -> tuple[JavaVersion | None, JavaVersion | None]:
    """The java of JAVA_HOME and the one in PATH; None where there is none."""
    home = environment.get("JAVA_HOME")
    at_home = ask_java(str(Path(home) / "bin" / "java")) if home else None
    in_path = shutil.which("java", path=environment.get("PATH"))
    return at_home, ask_java(in_path) if in_path else None


def ask_java(path: str) -> JavaVersion:
    """What a java program says of itself."""
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return JavaVersion(path, 0, "does not run")
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', done.stderr + done.stdout)
    return JavaVersion(path, int(match[2]), match[1]) if match else JavaVersion(path, 0, "does not run")


def java_findings(at_home: JavaVersion | None, in_path: JavaVersion | None) -> list[DoctorLine]:
    """The java that Spark will start (JAVA_HOME before PATH), then whether it has the vector module."""
    used = at_home if at_home and at_home.major >= OLDEST_JAVA else in_path
    if used is None or used.major < OLDEST_JAVA:
        places = "; ".join(_described(where, java) for where, java in _places(at_home, in_path) if java)
        remedy = f"{GET_JAVA}; then set JAVA_HOME if an older one comes first"
        return [DoctorLine("Java", places or "none found", "missing", remedy)]
    said = f"{used.version}, {used.path}"
    if at_home and used is not at_home:
        note = f"unset JAVA_HOME: it is {_described('', at_home).strip()}; the verbs use the one in PATH"
        return [DoctorLine("Java", said, "note", note), vector_finding(used)]
    if in_path and used is not in_path and in_path.major < OLDEST_JAVA:
        said += f" (by JAVA_HOME; the one in PATH is {in_path.version})"
    return [DoctorLine("Java", said), vector_finding(used)]


def vector_finding(java: JavaVersion) -> DoctorLine:
    """`jdk.incubator.vector` is optional: Spark's own linear algebra is faster with it."""
    done = subprocess.run([java.path, "--list-modules"], capture_output=True, text=True, check=False)
    if "jdk.incubator.vector" in done.stdout:
        return DoctorLine("Java vectors", "jdk.incubator.vector is there (optional)")
    return DoctorLine(
        "Java vectors",
        "no jdk.incubator.vector (optional)",
        "note",
        "a full JDK has it; nothing here needs it",
    )


def disk_finding(path: Path, *, need: int) -> DoctorLine:
    """Whether `need` bytes are free at `path`."""
    free = shutil.disk_usage(path).free
    free_space = f"{human(free)} free in {path}"
    if free >= need:
        return DoctorLine("disk", free_space)
    return DoctorLine(
        "disk", free_space, "missing", f"{human(need)} are needed; the demo at scale 10 wants 10 GB"
    )


def temporary_finding() -> DoctorLine:
    """Whether temporary files can be written."""
    folder = tempfile.gettempdir()
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            probe.write(b"x" * 4096)
    except OSError as error:
        return DoctorLine(
            "temporary files", f"{folder}: {error.strerror}", "missing", "set TMPDIR to a writable directory"
        )
    return DoctorLine("temporary files", f"{folder}, {human(shutil.disk_usage(folder).free)} free")


def cache_finding() -> DoctorLine:
    """The size of the cache."""
    cache = cache_folder()
    if not cache.exists():
        return DoctorLine("data cache", f"{cache} (empty)")
    return DoctorLine("data cache", f"{cache}, {human(size_bytes(cache))}")


def memory_finding(memory: tuple[int, int] | None = None) -> DoctorLine:
    """`memory`: total and available bytes, asked of the system unless given."""
    total, available = memory or _memory()
    free_memory = f"{human(available)} of {human(total)} free, {os.cpu_count()} cores"
    if total < 2 * GB:
        return DoctorLine("memory", free_memory, "missing", "Spark and its workers need 2 GB")
    if available < 3 * GB:
        return DoctorLine("memory", free_memory, "note", "close other programs before scale factors above 1")
    return DoctorLine("memory", free_memory)


def port_finding(port: int, user: str) -> DoctorLine:
    """Whether a port of 127.0.0.1 is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return DoctorLine(f"port {port}", "taken", "note", f"{user} takes the next free one")
    return DoctorLine(f"port {port}", f"free on 127.0.0.1 ({user})")


def installed(name: str) -> str:
    """The version of a package, nothing where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _memory() -> tuple[int, int]:
    memory = psutil.virtual_memory()
    return memory.total, memory.available


def _places(
    at_home: JavaVersion | None, in_path: JavaVersion | None
) -> tuple[tuple[str, JavaVersion | None], ...]:
    return ("JAVA_HOME is", at_home), ("in PATH is", in_path)


def _described(where: str, java: JavaVersion) -> str:
    return f"{where} {java.version} ({java.path})"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
