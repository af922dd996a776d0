"""Runs of a small suite: what they take, with what seeds, what of it fails, what they leave behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.suite import ending

pytest_plugins = ("pytester",)
ROOT = Path(__file__).parents[2]
SETTINGS = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "--strict-markers"]
markers = ["large", "sample", "spark"]
testpaths = ["."]
"""
CASES = """
import pytest

def test_small(seeds): print("had", seeds)

@pytest.mark.large
def test_large(): pass

@pytest.mark.sample(2, all=7)
@pytest.mark.parametrize("n", range(10))
def test_cases(n): pass
"""
SKIPS = """
import pytest

def test_missing():
    pytest.skip("needs pypaimon: no network")

@pytest.mark.skipif(True, reason="needs a Chromium")
def test_marked():
    raise AssertionError

def test_other():
    pytest.skip("only on Mondays")

@pytest.mark.xfail(reason="needs nothing", strict=True)
def test_expected():
    raise AssertionError
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("WORKBENCH_CI", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.path.joinpath("pyproject.toml").write_text(SETTINGS)
    pytester.path.joinpath("conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    return pytester


def add(suite: pytest.Pytester, name: str, text: str) -> None:
    (suite.path / name).write_text(text)


def names(done: pytest.RunResult) -> set[str]:
    """Tests that passed, of a run with -rA."""
    return set(re.findall(r"PASSED \S+::(\S+)", done.stdout.str()))


@pytest.mark.large
def test_default_all_and_rest_fit_together(suite: pytest.Pytester) -> None:
    add(suite, "test_a.py", CASES)
    refused = suite.runpytest_subprocess("--rest")
    refused.stderr.fnmatch_lines(["*--rest is what the last default run left out*"])
    default = suite.runpytest_subprocess("-rA", "--seed", "7")
    rest = suite.runpytest_subprocess("-rA", "--rest")
    whole = suite.runpytest_subprocess("-rA", "--all", "--seed", "7")
    named = suite.runpytest_subprocess("test_a.py")
    default.assert_outcomes(passed=3, deselected=9)
    whole.assert_outcomes(passed=9, deselected=3)
    named.assert_outcomes(passed=12)
    assert names(default) | names(rest) == names(whole)
    assert names(default) & names(rest) == {"test_small"}, "again, with other seeds"
    default.stdout.fnmatch_lines(["*had (7,)"])
    rest.stdout.fnmatch_lines(["tests: rest, seeds: --seed 7 --rounds 2", "*had (8,)"])


IN_A_WORKER = """
import gc

def test_seed(seeds, request):
    assert seeds == (request.config.option.seed,)

def test_the_garbage_collector_passes_over_what_was_collected():
    assert gc.isenabled()
    assert gc.get_freeze_count() > 1000
"""


def test_workers_have_the_seed_of_the_run_and_choose_alike(suite: pytest.Pytester) -> None:
    add(suite, "test_a.py", CASES)
    add(suite, "test_b.py", IN_A_WORKER)
    done = suite.runpytest_subprocess("-n2", "--dist=loadfile")
    done.assert_outcomes(passed=5)
    actual = [int(each) for each in re.findall(r"--seed (\d+)", done.stdout.str())]
    assert actual, "it is printed"
    done.stdout.no_fnmatch_line("*Different tests were collected*")


def test_missing_peers_are_skips_at_home_and_failures_in_ci(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(suite, "test_a.py", SKIPS)
    add(suite, "test_b.py", "import pytest\npytest.skip('needs Java', allow_module_level=True)\n")
    home = suite.runpytest_subprocess()
    home.assert_outcomes(skipped=4, xfailed=1)
    home.stdout.fnmatch_lines(["not there, so not tried: Java · a Chromium · pypaimon: no network"])
    monkeypatch.setenv("WORKBENCH_CI", "1")
    done = suite.runpytest_subprocess("--continue-on-collection-errors")
    outcomes = done.parseoutcomes()
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 3
    assert (outcomes["skipped"], outcomes["xfailed"]) == (1, 1)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*must not be skipped with WORKBENCH_CI=1: needs pypaimon: no network*"])


FAULTS = """
import subprocess, sys

def test_leaves(tmp_path):
    (tmp_path / "evidence").write_text("x")
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600) # left"], start_new_session=True)

def test_fails(tmp_path):
    (tmp_path / "evidence").write_text("x")
    assert 1 == 2
"""


@pytest.mark.large
def test_a_red_run_says_how_to_repeat_its_faults_and_leaves_no_process(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_DEBUG_TEMPROOT", raising=False)
    add(suite, "test_a.py", FAULTS)
    done = suite.runpytest_subprocess("--seed", "7")
    done.stdout.fnmatch_lines(["./workbench test test_a.py::test_fails --seed 7 --rounds 1"])
    done.stdout.fnmatch_lines(["*processes that were left*", "*time.sleep(600) # left*"])
    evidence = Path(re.search(r"its files: (.*)", done.stdout.str())[1]) / "evidence"
    assert evidence.read_text() == "x"
    assert not [
        each for each in psutil.process_iter(["cmdline"]) if "# left" in " ".join(each.info["cmdline"] or ())
    ]
    add(suite, "test_a.py", FAULTS.replace("1 == 2", "1 == 1"))
    assert suite.runpytest_subprocess().ret == pytest.ExitCode.TESTS_FAILED, "a process that stays is a fault"


HANGS = """
import subprocess, sys, time

def test_hangs():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    print("hangs", file=sys.__stderr__, flush=True)
    time.sleep(600)
"""


@pytest.mark.large
@pytest.mark.parametrize("processes", [(), ("-n2", "--dist=loadfile")], ids=["one process", "two processes"])
def test_nothing_runs_on_after_ctrl_c(suite: pytest.Pytester, processes: tuple[str, ...]) -> None:
    add(suite, "test_a.py", HANGS)
    started = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-s", *processes],
        cwd=suite.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    until = time.monotonic() + 120
    while not (hanging := ending.below(started.pid, "sleep(600)")):
        assert started.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    run = hanging[0].environ()[ending.RUN]
    os.killpg(started.pid, signal.SIGINT)
    said, _ = started.communicate(timeout=120)
    assert started.returncode == pytest.ExitCode.INTERRUPTED, said.decode()
    assert ending.processes_of(run) == []


def test_a_worker_that_ends_leaves_its_siblings_alone(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a worker ends processes of the run")

    monkeypatch.setattr(ending, "end_leftovers", refused)
    monkeypatch.setattr(pytestconfig, "workerinput", {}, raising=False)
    ending.pytest_terminal_summary(None, pytest.ExitCode.OK, pytestconfig)
