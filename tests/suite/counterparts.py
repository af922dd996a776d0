"""The real programs that tests compare with: which are there, how the others are had.

`./workbench test` makes beforehand, once and with a word, what this machine can make: no test waits for a
download or a build. `python -m tests.suite.counterparts` does that alone, `--packages` prints Debian's
packages that are missing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from notebooks.bench.contenders import flink_jars
from notebooks.demo import fluss, kafka
from tests.peers import flink_env, java_env, pypaimon_env

ROOT = Path(__file__).parents[2]
CHROMIUM = Path(os.environ.get("WORKBENCH_CHROMIUM", "/usr/bin/chromium"))
_JDK, _MAVEN = "openjdk-17-jdk-headless", "maven"


@dataclass(frozen=True)
class Counterpart:
    """A program that tests compare with. `make` fetches or builds it with `tools`, program → Debian's
    package, at a `cost` that is shown before; without it `tools` are the whole of it."""

    name: str
    tools: dict[str, str]
    made: Callable[[], bool] = lambda: True
    make: Callable[[], object] | None = None
    cost: str = ""

    def absent_tools(self) -> list[str]:
        return [program for program in self.tools if not _is_there(program)]

    def missing(self) -> str:
        """What is missing and how it is had; empty where all is there."""
        if absent := self.absent_tools():
            packages = " ".join(dict.fromkeys(self.tools[program] for program in absent))
            return f"{' and '.join(absent)} not found: apt-get install {packages}"
        if not self.made():
            return f"`./workbench test --prepare` makes it ({self.cost})"
        return ""


def _is_there(program: str) -> bool:
    if program == "chromium":
        return CHROMIUM.exists()
    if program == "initdb":
        return any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or shutil.which(program) is not None
    return shutil.which(program) is not None


def _install_browser_driver() -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(ROOT / ".ci" / "browser.lock")], check=True)


def _versitygw_made() -> bool:
    from tests.servers import s3

    return s3.binary_path().exists()


def _build_versitygw() -> None:
    from tests.servers import s3

    if problem := s3.build():
        raise RuntimeError(problem)


def _hive_made() -> bool:
    from tests.servers import hive

    return hive.TEMPLATE.exists()


def _make_hive() -> None:
    from tests.servers import hive

    hive.make_template()


def _pypaimon() -> None:
    created = pypaimon_env.python()
    if created.path is None:
        raise RuntimeError(created.reason)


def _pyfluss_made() -> bool:
    from tests.servers import pyfluss_env

    return pyfluss_env.is_made()


def _make_pyfluss() -> None:
    from tests.servers import pyfluss_env

    pyfluss_env.make_environment()


def _marimo_made() -> bool:
    from tests.peers import marimo_env

    return marimo_env.is_made()


def _make_marimo() -> None:
    from tests.peers import marimo_env

    marimo_env.make_environment()


def _pyodide_there() -> bool:
    from widgets.playground import pyodide  # every process of a run would load all widgets for it

    return pyodide.cached().exists()


def _fetch_pyodide() -> None:
    from widgets.playground import pyodide

    pyodide.package()


JAVA_TOOLS = {"java": _JDK}
MAVEN_TOOLS = {"java": _JDK, "javac": _JDK, "mvn": _MAVEN}
COUNTERPARTS = (
    Counterpart("Java", JAVA_TOOLS),
    Counterpart("MariaDB", {"mariadbd": "mariadb-server-core", "mariadb-install-db": "mariadb-client-core"}),
    Counterpart("PostgreSQL", {"initdb": "postgresql", "setpriv": "util-linux"}),
    Counterpart("openssl", {"openssl": "openssl"}),
    Counterpart(
        "Chromium",
        {"chromium": "chromium"},
        lambda: all(importlib.util.find_spec(name) for name in ("playwright", "axe_playwright_python")),
        _install_browser_driver,
        "its driver, 45 MB from PyPI",
    ),
    Counterpart("Pyodide", {"npm": "npm"}, _pyodide_there, _fetch_pyodide, "6 MB from npm"),
    Counterpart("marimo", {}, _marimo_made, _make_marimo, "52 MB from PyPI"),
    Counterpart("pypaimon", {}, pypaimon_env.is_made, _pypaimon, "200 MB from PyPI"),
    Counterpart("Java Paimon", MAVEN_TOOLS, java_env.is_made, java_env.make, "90 MB from Maven"),
    Counterpart("Flink", MAVEN_TOOLS, flink_env.is_made, flink_env.class_path, "250 MB from PyPI"),
    Counterpart("Kafka", MAVEN_TOOLS, kafka.is_fetched, kafka.fetch, "45 MB from Maven"),
    Counterpart("Fluss", MAVEN_TOOLS, fluss.is_fetched, fluss.client_jars, "150 MB from Maven"),
    Counterpart(
        "Fluss 0.9",
        MAVEN_TOOLS,
        partial(fluss.is_fetched, fluss.NEWEST),
        partial(fluss.client_jars, fluss.NEWEST),
        "250 MB from Maven",
    ),
    Counterpart(
        "Fluss's tiering job", MAVEN_TOOLS, fluss.job_is_fetched, fluss.job_jars, "120 MB from Maven"
    ),
    Counterpart("pyfluss", {}, _pyfluss_made, _make_pyfluss, "130 MB from PyPI"),
    Counterpart(
        "Flink with Fluss's connector",
        MAVEN_TOOLS,
        flink_jars.is_made,
        flink_jars.class_path,
        "350 MB from PyPI and Maven",
    ),
    Counterpart("Hive metastore", JAVA_TOOLS, _hive_made, _make_hive, "its tables, 20 seconds"),
    Counterpart("versitygw", {"go": "golang-go"}, _versitygw_made, _build_versitygw, "two minutes of Go"),
)
_BY_NAME = {each.name: each for each in COUNTERPARTS}


def missing(name: str) -> str:
    """What is missing of the counterpart of that name and how it is had; empty where it is there."""
    return _BY_NAME[name].missing()


def need(name: str) -> None:
    """Skip unless the counterpart is there; in CI that is a failure."""
    if problem := missing(name):
        pytest.skip(f"needs {name}: {problem}")


def prepare() -> list[str]:
    """Make what is not there and can be made here, each with a word; the names of what could not be made."""
    failed = []
    for each in COUNTERPARTS:
        if each.make is None or each.made() or each.absent_tools():
            continue
        print(f"workbench: making {each.name}, once ({each.cost}) …", end="", flush=True)
        started = time.monotonic()
        try:
            each.make()
            print(f" {time.monotonic() - started:.0f} s", flush=True)
        except Exception as e:  # whatever a package index, a compiler or a server may raise
            failed.append(each.name)
            print(f" not made: {str(e).strip()[-300:]}", flush=True)
    return failed


def main(arguments: list[str]) -> int:
    if arguments == ["--packages"]:
        tools = {program: package for each in COUNTERPARTS for program, package in each.tools.items()}
        for package in sorted({package for program, package in tools.items() if not _is_there(program)}):
            print(package)
        return 0
    return 1 if prepare() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
