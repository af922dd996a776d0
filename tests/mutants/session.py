"""One run of pytest against mutants of a module: `python -P -m tests.mutants.session MODULE FILE SEED N,N`.

The tests of the module are collected once. A first child of this process runs them as they are, and notes
what each takes and which functions it enters. Then each mutant gets a child. There the function has the
mutant's code, and the tests that enter it run, the quickest first, until one fails. No file of the checkout
is written. FILE gets the verdicts as JSON.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import TypeVar

import pytest

from tests.mutants.faults import Mutant, mutants
from tests.mutants.rules import EQUIVALENT, TESTS

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
SURVIVED, KILLED, NOT_ENTERED = "survived", "killed", "not entered"
LEFT_OUT = "not large and not spark and not browser"
"""Marks of the tests that run."""
LIMIT_FACTOR, LIMIT_SECONDS = 5, 4
"""How much longer than without a fault tests of a mutant compute before it counts as killed."""
PATIENCE = 20
"""The same by the clock of the day, as a factor of that: for mutants that wait on a busy machine."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of mutant `number`; `by`: the test that failed, or the limit that was passed."""

    number: int
    outcome: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a test needs as it is: CPU seconds; `enters`: functions of the module, by qualified names."""

    seconds: float
    enters: frozenset[str]


class TrialPlugin:
    """A plugin that runs the collected tests once without a fault and then against each mutant."""

    def __init__(self, module: str, numbers: Sequence[int]) -> None:
        self.path = str(ROOT / module)
        source = Path(self.path).read_text(encoding="utf-8")
        self.mutants = [each for each in mutants(module, source) if each.key not in EQUIVALENT]
        self.numbers = numbers
        self.verdicts: list[Verdict] = []
        self.broken = ""
        """The test that fails without a fault, if one does."""
        self._failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        costs, self.broken = in_child(lambda: self._measured(session.items), seconds=3600)
        if costs is None or self.broken:
            self.broken = self.broken or "a test that ends its process"
            return True
        codes = Codes(self.path)
        for number in self.numbers:
            mutant = self.mutants[number]
            items = [item for item in session.items if mutant.function in costs[item.nodeid].enters]
            items.sort(key=lambda item: costs[item.nodeid].seconds)
            self.verdicts.append(self._verdict(number, items, costs, codes))
        return True

    def _verdict(
        self, number: int, items: list[pytest.Item], costs: dict[str, Cost], codes: Codes
    ) -> Verdict:
        if not items:
            return Verdict(number, NOT_ENTERED)
        cpu = LIMIT_SECONDS + LIMIT_FACTOR * sum(costs[item.nodeid].seconds for item in items)

        def attempt() -> str:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 1))
            codes.put(self.mutants[number])
            run(items, until=lambda: bool(self._failed))
            return self._failed

        ended, by = in_child(lambda: (True, attempt()), seconds=PATIENCE * cpu)
        if ended is None:
            return Verdict(number, KILLED, "the limit of time, or the end of its process")
        return Verdict(number, KILLED if by else SURVIVED, by)

    def _measured(self, items: list[pytest.Item]) -> tuple[dict[str, Cost], str]:
        """The cost of each test, and a test that fails. What a fixture enters counts for all tests of its
        file, since a later one may use it."""
        entered, shared, seconds = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set), {}
        note: Callable[[str], object] = set[str]().add

        def profile(frame: FrameType, event: str, argument: object) -> None:
            if event == "call" and frame.f_code.co_filename == self.path:
                note(frame.f_code.co_qualname.partition(".<locals>")[0])

        class Notes:
            @pytest.hookimpl(tryfirst=True)
            def pytest_runtest_setup(self, item: pytest.Item) -> None:
                nonlocal note
                note = shared[str(item.path)].add

            @pytest.hookimpl(tryfirst=True)
            def pytest_runtest_call(self, item: pytest.Item) -> None:
                nonlocal note
                note = entered[item.nodeid].add

        items[0].config.pluginmanager.register(Notes())
        threading.setprofile(profile)
        sys.setprofile(profile)
        for n, item in enumerate(items):
            started = time.process_time()
            run([item, *items[n + 1 : n + 2]], until=lambda: True)
            seconds[item.nodeid] = time.process_time() - started
        sys.setprofile(None)
        return {
            item.nodeid: Cost(seconds[item.nodeid], frozenset(entered[item.nodeid] | shared[str(item.path)]))
            for item in items
        }, self._failed


def run(items: Sequence[pytest.Item], *, until: Callable[[], bool]) -> None:
    """Run tests as pytest does, up to the first after which `until` holds."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if until():
            return


class Codes:
    """The functions of a module as they are in this process, whose code can be changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._functions = defaultdict[tuple[str, int], list[FunctionType]](list)
        gc.unfreeze()  # a run of tests hides what was there before them
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename == path:
                self._functions[each.__code__.co_qualname, each.__code__.co_firstlineno].append(each)

    def put(self, mutant: Mutant) -> None:
        """Let the functions of that name run the mutant's code from now on."""
        for code in _codes(compile(mutant.source, self._path, "exec", dont_inherit=True)):
            if code.co_qualname == mutant.function:
                for function in self._functions[code.co_qualname, code.co_firstlineno]:
                    function.__code__ = code


def _codes(code: CodeType) -> list[CodeType]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [*inner, *(deeper for each in inner for deeper in _codes(each))]


def in_child(work: Callable[[], tuple[T, str]], *, seconds: float) -> tuple[T | None, str]:
    """What `work` gives in a copy of this process with a folder of its own for files; (None, "") if the copy
    ends otherwise, or not within so many seconds. Nothing of it stays."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer")
        child = os.fork()
        if child == 0:
            _answer(work, answer, folder)
        ended = _wait(child, time.monotonic() + seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and whatever its tests left
        if not ended:
            os.kill(child, signal.SIGKILL)  # it may not have got as far as a group of its own
            os.waitpid(child, 0)
        return pickle.loads(answer.read_bytes()) if answer.exists() else (None, "")


def _answer(work: Callable[[], object], to: Path, folder: str) -> None:
    """The life of the child."""
    try:
        os.setsid()
        os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = folder
        result = pickle.dumps(work())
        to.with_suffix(".part").write_bytes(result)
        to.with_suffix(".part").rename(to)
    finally:
        os._exit(0)


def _wait(child: int, deadline: float) -> bool:
    """Whether the child ends before the deadline."""
    pause = 0.002
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(pause)
        pause = min(0.1, 1.5 * pause)
    return False


def main(arguments: list[str]) -> int:
    module, to, seed, numbers = arguments
    trial = TrialPlugin(module, [int(each) for each in numbers.split(",")])
    files = [f"tests/{file}" for file in TESTS[module]]
    words = ["-q", "-n0", "-p", "no:cacheprovider", "-m", LEFT_OUT, "--seed", seed, "--rounds", "1"]
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp()  # examples of mutants are nobody's
    try:
        pytest.main([*words, *files], plugins=[trial])
    finally:
        shutil.rmtree(os.environ["HYPOTHESIS_STORAGE_DIRECTORY"], ignore_errors=True)
    answer = {"broken": trial.broken, "verdicts": [asdict(each) for each in trial.verdicts]}
    Path(to).write_text(json.dumps(answer), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
