"""What a run on several processes shows: faults at once, and now and then how far it is and the time left.

The time left is the measured seconds of the files that remain, at the pace of those that are done.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import pytest

from tests.suite import schedule, seeds

LINE_SECONDS = 30.0
"""Between two lines; a terminal has one line that changes."""
PRIOR = 0.1
"""Share of all work that counts as done at the measured pace, so that the first files, which are short, say
little of the pace."""


class SuiteProgress:
    """Counts the tests of a run. `seconds` gives the measured ones of a file, `clock` those of the day."""

    def __init__(
        self,
        reporter: pytest.TerminalReporter,
        seconds: Callable[[str], float],
        *,
        processes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reporter, self._measured = reporter, seconds
        self._processes, self._clock = processes, clock
        self._started = self._shown = clock()
        self._seconds: dict[str, float] = {}
        self._done, self._total, self._done_seconds, self._faults = 0, 0, 0.0, 0

    def expect(self, nodeids: Iterable[str]) -> None:
        """These tests are to come."""
        files = Counter(map(schedule.below_tests, nodeids))
        self._total = files.total()
        self._seconds = {file: self._measured(file) / count for file, count in files.items()}
        self._all_seconds = sum(self._seconds[file] * count for file, count in files.items())

    def finished(self, nodeid: str) -> None:
        self._done += 1
        self._done_seconds += self._seconds.get(schedule.below_tests(nodeid), 0.0)
        now = self._clock()
        if now - self._shown >= (1.0 if self._alive else LINE_SECONDS):
            self._shown = now
            self._show(self.text())

    def failed(self, report: pytest.TestReport) -> None:
        self._faults += 1
        what = "FAILED" if report.when == "call" else "ERROR"
        self._clear()
        self._reporter.write_line(f"{what} {report.nodeid} ({clock_text(self._elapsed)})", red=True)

    def text(self) -> str:
        """`2:10 · 1,204 of 3,619 tests · no faults · about 6:40 left`."""
        faults = f"{self._faults} faults" if self._faults else "no faults"
        left = f"about {clock_text(self.seconds_left())} left"
        return f"{clock_text(self._elapsed)} · {self._done:,} of {self._total:,} tests · {faults} · {left}"

    def seconds_left(self) -> float:
        spent = self._elapsed * self._processes
        prior = max(PRIOR * self._all_seconds, 1.0)
        pace = (spent + prior) / (self._done_seconds + prior)
        return max(0.0, self._all_seconds - self._done_seconds) * pace / self._processes

    @property
    def _elapsed(self) -> float:
        return self._clock() - self._started

    @property
    def _alive(self) -> bool:
        return bool(self._reporter.isatty)

    def _show(self, text: str) -> None:
        if self._alive:
            self._reporter.rewrite(text, erase=True)
        else:
            self._reporter.write_line(text)
            sys.stdout.flush()

    def _clear(self) -> None:
        if self._alive:
            self._reporter.rewrite("", erase=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        if not self._total:
            self.expect(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed(report)
        if report.when == "teardown":
            self.finished(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No dots; pytest's own words in its summary."""
        if not isinstance(report, pytest.TestReport) or (report.passed and report.when != "call"):
            return None
        if hasattr(report, "wasxfail"):
            what = "xfailed" if report.skipped else "xpassed"
        else:
            what = "error" if report.failed and report.when != "call" else report.outcome
        return what, "", what.upper()


def clock_text(seconds: float) -> str:
    """130.4 → 2:10."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@pytest.hookimpl(trylast=True)  # the terminal is there
def pytest_configure(config: pytest.Config) -> None:
    processes = config.option.numprocesses if config.pluginmanager.hasplugin("dsession") else 0
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if processes and reporter and not seeds.is_worker(config) and config.option.verbose <= 0:
        seconds = partial(schedule.seconds, column=schedule.column(config))
        config.pluginmanager.register(
            SuiteProgress(reporter, seconds, processes=processes), "workbench-progress"
        )
