"""Branch coverage of the engine: `./workbench test --all --coverage`, or of any choice of tests.

Each process that runs tests measures itself; the one that was started adds up and prints a table. What runs
in processes that tests start (kills, Spark's workers) is not in it. Only with `--coverage`: before Python
3.14 a tracer follows every line.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.suite import seeds

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "io", "format", "meta", "catalog", "lsm", "log", "write", "read", "insight", "table")
"""Packages of `tablestore`, from the lowest layer to the highest that is measured."""
LEAST_SHOWN = 12
"""Modules that are named with their branches that no test takes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "print which branches of core … table the tests take, by package (slower)"
    parser.getgroup("workbench").addoption("--coverage", action="store_true", help=text)


class Coverage:
    """Measures in this process until its session ends; `folder` gets what it saw."""

    def __init__(self, folder: str) -> None:
        self._measured = measurement(folder)
        self._measured.start()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._measured.stop()
        self._measured.save()


class BranchReport:
    """Adds up what all processes of a run saw, and prints it at the end."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["coverage"] = self._folder

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = table(files_of(self._folder))
        terminalreporter.section("branches of the engine that the tests take")
        for line in lines:
            terminalreporter.line(line)

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.coverage:
        return
    if config.option.record:
        raise pytest.UsageError("--coverage and --record both trace the tests: give one of them")
    if seeds.is_worker(config):
        config.pluginmanager.register(Coverage(seeds.handed(config)["coverage"]))
        return
    folder = tempfile.mkdtemp(prefix="coverage-")
    config.pluginmanager.register(BranchReport(folder))
    if not config.getoption("numprocesses", None):
        config.pluginmanager.register(Coverage(folder))


def measurement(folder: str) -> Any:
    """A measurement of the measured packages that saves its data into the folder."""
    try:
        import coverage
    except ImportError:
        raise pytest.UsageError("--coverage needs the package coverage: `pip install coverage`") from None
    sources = [str(ROOT / "tablestore" / package) for package in PACKAGES]
    return coverage.Coverage(
        data_file=str(Path(folder, "data")), data_suffix=True, branch=True, source=sources, config_file=False
    )


def files_of(folder: str) -> Mapping[str, Mapping[str, int]]:
    """The sums of each measured file, by its path relative to the checkout."""
    measured = measurement(folder)
    measured.combine([folder], keep=True)
    to = Path(folder, "report.json")
    measured.json_report(outfile=str(to))
    files = json.loads(to.read_text(encoding="utf-8"))["files"]
    return {Path(ROOT, name).relative_to(ROOT).as_posix(): each["summary"] for name, each in files.items()}


def table(files: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line a package, one for all, and the modules with the most branches that no test takes."""
    lines = [f"{'package':10} {'files':>6} {'branches':>9} {'taken':>8} {'percent':>8}"]
    for package in PACKAGES:
        of_package = [each for name, each in files.items() if name.startswith(f"tablestore/{package}/")]
        lines.append(_line(package, of_package))
    lines.append(_line("all", list(files.values())))
    missed = {name: each["num_branches"] - each["covered_branches"] for name, each in files.items()}
    most = sorted((name for name in missed if missed[name]), key=lambda name: (-missed[name], name))
    return [*lines, *(f"{missed[name]:4} not taken in {name}" for name in most[:LEAST_SHOWN])]


def _line(name: str, files: Sequence[Mapping[str, int]]) -> str:
    branches, taken = (sum(each[key] for each in files) for key in ("num_branches", "covered_branches"))
    percent = 100 * taken / branches if branches else 100.0
    return f"{name:10} {len(files):6,} {branches:9,} {taken:8,} {percent:7.1f}%"
