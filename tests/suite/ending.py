"""How a run ends: a command that repeats each fault, its files, seconds by folder, no process left.

Processes that a run starts inherit the name of the run. Whoever has it when all workers are gone is ended
and named; after a run that was not interrupted, that is a fault of the run.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import uuid
from collections import Counter

import psutil
import pytest

from tests.suite import seeds

RUN = "WORKBENCH_TEST_RUN"
"""The variable that names the run a process belongs to."""
SHOWN_FAULTS = 12
SERVERS = ("forkserver", "resource_tracker")
PATIENCE_SECONDS = 5.0
"""For processes that are about to end by themselves: a guard, a JVM that was asked to."""
_LEFT = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    if not seeds.is_worker(config):
        begin_run()


def begin_run() -> str:
    """Give the run a name, which its processes inherit, and let SIGTERM end it as Ctrl-C does; the name."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a run in the background has inherited deafness
        signal.signal(number, signal.default_int_handler)
    os.environ[RUN] = uuid.uuid4().hex
    return os.environ[RUN]


def processes_of(run: str) -> list[psutil.Process]:
    """Living processes of that run, without this one and those that it stems from."""
    ours = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
    collected = []
    for process in psutil.process_iter():
        try:
            named = process.pid not in ours and process.environ().get(RUN) == run
            if named and _lives(process) and not _serves_this(process):
                collected.append(process)
        except (psutil.Error, OSError):  # gone, or somebody else's
            continue
    return collected


def below(pid: int, words: str) -> list[psutil.Process]:
    """The processes below one whose commands have these words now."""
    collected = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if words in " ".join(process.cmdline()):
                collected.append(process)
    return collected


def _serves_this(process: psutil.Process) -> bool:
    """Whether `multiprocessing` keeps it for tests of this process, with which it ends."""
    server = any(f"from multiprocessing.{name} " in " ".join(process.cmdline()) for name in SERVERS)
    return server and process.ppid() == os.getpid()


def _lives(process: psutil.Process) -> bool:
    return process.status() != psutil.STATUS_ZOMBIE


def end_leftovers(run: str, *, patience_seconds: float = PATIENCE_SECONDS) -> list[str]:
    """End what is left of a run; the commands of what did not end by itself."""
    _, alive = psutil.wait_procs(processes_of(run), timeout=patience_seconds)
    named = []
    for process in alive:
        try:
            named.append(f"{process.pid} {shlex.join(process.cmdline())[:160]}")
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(alive, timeout=patience_seconds)
    return named


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    if seeds.is_worker(config):  # its siblings may be at work still
        return
    _seconds_by_folder(terminalreporter)
    _faults(terminalreporter, config)
    beside = sys.modules.get("tablestore.io.process")  # tests ran in this process, which lives on
    if beside is not None:
        beside.end_waiting()
    interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
    left = end_leftovers(os.environ[RUN], patience_seconds=1.0 if interrupted else PATIENCE_SECONDS)
    config.stash[_LEFT] = bool(left) and not interrupted
    if left:
        terminalreporter.section("processes that were left, ended now", red=not interrupted)
        for line in left:
            terminalreporter.line(line)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> object:
    result = yield
    if session.config.stash.get(_LEFT, False) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result


def _seconds_by_folder(reporter: pytest.TerminalReporter) -> None:
    spent = Counter[str]()
    for report in (each for reports in reporter.stats.values() for each in reports):
        if isinstance(report, pytest.TestReport):
            folder, _, rest = report.nodeid.removeprefix("tests/").partition("/")
            spent[folder if rest else "files of none"] += report.duration
    if len(spent) > 1:
        reporter.section("seconds of the tests by folder")
        reporter.line(" · ".join(f"{folder} {round(each)}" for folder, each in spent.most_common()))


def _faults(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [each for name in ("failed", "error") for each in reporter.stats.get(name, [])]
    if not reports:
        return
    reporter.section("to repeat a fault")
    for report in reports[:SHOWN_FAULTS]:
        reporter.line(repeat_command(report.nodeid, seed=config.option.seed, rounds=config.option.rounds))
        for name, value in getattr(report, "user_properties", ()):
            if name == "files":
                reporter.line(f"    its files: {value}")
    if len(reports) > SHOWN_FAULTS:
        reporter.line(f"and {len(reports) - SHOWN_FAULTS} more")


def repeat_command(nodeid: str, *, seed: int, rounds: int) -> str:
    """What repeats one fault, to be pasted into a shell in the checkout."""
    return f"./workbench test {shlex.quote(nodeid)} --seed {seed} --rounds {rounds}"
