"""Which tests enter which module of the engine, and how long a file of tests takes.

`./workbench test --all --record` writes both down (`entered.json`, `measured.json`), without `--all` the
seconds alone. `./workbench test --of tablestore/lsm/compaction/universal.py` runs the tests of that module:
the file that mirrors its path, then those files that enter it and few others.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.suite import parts, schedule, seeds

ROOT = Path(__file__).parents[2]
ENTERED = Path(__file__).with_name("entered.json")
PACKAGES = ("tablestore", "widgets", "datasets", "notebooks")
MOST_FILES = 8
"""Files of tests that `--of` runs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "write down the seconds of each file of tests, with --all the modules it enters, too (slower)"
    parser.getgroup("workbench").addoption("--record", action="store_true", help=text)


class Entered:
    """Notes in a worker which source files are entered while tests of a file run, in threads too."""

    def __init__(self) -> None:
        self.sources = defaultdict[str, set[str]](set)
        self._file = ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        file = schedule.below_tests(nodeid)
        if file == self._file and sys.gettrace() is not None:
            return
        self._file, note = file, self.sources[file].add

        def trace(frame: FrameType, event: str, argument: object) -> None:
            note(frame.f_code.co_filename)

        threading.settrace(trace)
        sys.settrace(trace)

    def modules(self) -> dict[str, list[str]]:
        """Sources of ours by files of tests, both relative to the checkout."""
        return {file: sorted(filter(None, map(_source, names))) for file, names in self.sources.items()}

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> object:
        threading.settrace(None)
        sys.settrace(None)
        session.config.workeroutput["entered"] = self.modules()
        return (yield)


class Record:
    """Gathers in the process that was started what its workers note, and writes it at the end."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._entered: dict[str, set[str]] = defaultdict(set)
        self._seconds = defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[schedule.below_tests(report.nodeid)] += report.duration

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for file, sources in getattr(node, "workeroutput", {}).get("entered", {}).items():
            self._entered[file].update(sources)

    def pytest_sessionfinish(self) -> None:
        if self._entered:
            write(ENTERED, packed(self._entered))
        measured: dict[str, dict[str, float]] = {}
        if schedule.MEASURED.exists():
            measured = json.loads(schedule.MEASURED.read_text())
        for file, seconds in self._seconds.items():
            measured[file] = {**measured.get(file, {}), self._column: round(seconds, 1)}
        there = {file: measured[file] for file in sorted(measured) if (ROOT / "tests" / file).is_file()}
        write(schedule.MEASURED, there)


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.record:
        return
    if not seeds.is_worker(config):
        config.pluginmanager.register(Record(schedule.column(config)))
    elif parts.part(config) == parts.ALL:
        config.pluginmanager.register(Entered())


def write(path: Path, value: Mapping[str, Any]) -> None:
    """A line an entry, so that a difference can be read."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in value.items())
    path.write_text("{\n" + lines + "\n}\n")


def packed(entered: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """Of each source the files of tests that enter it, the most particular first: those that enter least
    else."""
    breadth = {file: len(sources) for file, sources in entered.items()}
    files = defaultdict[str, list[str]](list)
    for file in sorted(entered, key=lambda file: (breadth[file], file)):
        for source in entered[file]:
            files[source].append(file)
    return {source: files[source][:MOST_FILES] for source in sorted(files)}


def _source(path: str) -> str | None:
    """A path of the interpreter relative to the checkout; None for what is not ours."""
    start = f"{ROOT}/"
    relative = path.removeprefix(start)
    return (
        relative if relative != path and relative.startswith(tuple(f"{each}/" for each in PACKAGES)) else None
    )


def tests_of(source: str) -> list[str]:
    """The files of tests of a module, `tablestore/lsm/merge/keys.py`, the mirrored one first; at most
    `MOST_FILES`, below `tests`."""
    entered: dict[str, list[str]] = json.loads(ENTERED.read_text()) if ENTERED.exists() else {}
    noted = entered.get(source) or [file for each in importers(source) for file in entered.get(each, [])[:2]]
    actual = [*mirrored(source), *(file for file in noted if (ROOT / "tests" / file).is_file())]
    return list(dict.fromkeys(actual))[:MOST_FILES]


def importers(source: str) -> list[str]:
    """Modules that import a module, which may hold constants alone: nothing enters such a one."""
    parts = Path(source).with_suffix("").parts
    *inner, name = parts[:-1] if parts[-1] == "__init__" else parts
    package = re.escape(".".join(inner))
    names = re.compile(rf"from {package}\.{name}[ .]|from {package} import .*\b{name}\b")
    files = (ROOT / parts[0]).rglob("*.py")
    return sorted(each.relative_to(ROOT).as_posix() for each in files if names.search(each.read_text()))


def mirrored(source: str) -> list[str]:
    """Files of tests at the mirrored path: of a module its own, else those that begin with its name; of a
    package all of its folder."""
    folder, name = _mirror(Path(source))
    place = ROOT / "tests" / folder
    own = place / f"test_{name}.py"
    actual = [own] if own.exists() else sorted(place.glob(f"test_{name}_*.py" if name else "test_*.py"))
    return [each.relative_to(ROOT / "tests").as_posix() for each in actual]


def _mirror(source: Path) -> tuple[Path, str]:
    """The folder below `tests` and the name there; no name for a package."""
    top, *inner = source.parts
    if top == "widgets" and inner[1:]:
        return Path("widgets"), inner[0]
    if top == "datasets" and inner[1:]:
        return Path("datasets"), f"{inner[0]}_{source.stem}"
    path = Path(*inner) if top in ("tablestore", "notebooks") else source
    is_module = source.suffix == ".py" and source.name != "__init__.py"
    return (path.parent, source.stem) if is_module else (path if not source.suffix else path.parent, "")


def arguments_of(words: Sequence[str]) -> list[str]:
    """`--of MODULE …` as files of tests for pytest, absolute, with the other words. Raises ValueError."""
    at = list(words).index("--of")
    if at + 1 >= len(words):
        raise ValueError("--of needs a module: --of tablestore/lsm/compaction/universal.py")
    path = Path(words[at + 1]).resolve()
    if not path.exists() or ROOT not in path.parents:
        raise ValueError(f"{words[at + 1]} is no file of this checkout")
    files = tests_of(path.relative_to(ROOT).as_posix())
    if not files:
        raise ValueError(f"no test enters {words[at + 1]} in this process, as far as the last record knows")
    return [*words[:at], *words[at + 2 :], *(str(ROOT / "tests" / file) for file in files)]
