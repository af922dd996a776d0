"""The suite's own rules: a missing peer is a skip at home and a failure in CI; seeds are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import conftest
from tests.peers import require

pytest_plugins = ("pytester",)

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
    pytester.makeconftest((Path(__file__).parents[1] / "conftest.py").read_text(encoding="utf-8"))
    return pytester


def test_missing_peers_are_skips_at_home(suite: pytest.Pytester):
    suite.makepyfile(SKIPS)
    suite.runpytest_subprocess().assert_outcomes(skipped=3, xfailed=1)


def test_missing_peers_are_failures_in_ci(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_CI", "1")
    suite.makepyfile(SKIPS)
    done = suite.runpytest_subprocess()
    outcomes = done.parseoutcomes()
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 2
    assert (outcomes["skipped"], outcomes["xfailed"]) == (1, 1)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*must not be skipped with WORKBENCH_CI=1: needs pypaimon: no network*"])


def test_a_module_skipped_for_something_missing_fails_in_ci(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    suite.makepyfile("import pytest\npytest.skip('needs Java', allow_module_level=True)\n")
    suite.runpytest_subprocess().assert_outcomes(skipped=1)
    monkeypatch.setenv("WORKBENCH_CI", "1")
    assert suite.runpytest_subprocess().ret != 0


def test_seeds_are_as_many_as_asked_and_printed(suite: pytest.Pytester):
    suite.makepyfile("def test_seeds(seeds, rewrite):\n    assert (seeds, rewrite) == ((7, 8, 9), True)\n")
    done = suite.runpytest_subprocess("--rounds", "3", "--seed", "7", "--rewrite", "-s")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["seeds: --seed 7 --rounds 3", "*repeat with --seed 7 --rounds 3*"])


def test_require_skips_by_a_reason_that_begins_with_needs():
    require(True, "needs nothing")
    with pytest.raises(pytest.skip.Exception, match="needs a peer"):
        require(None, "needs a peer")
    with pytest.raises(AssertionError):
        require(None, "no peer")


QUICK = """
import pytest

@pytest.mark.parametrize("n", range(3))
def test_parameters(n, seeds):
    assert (n, len(seeds)) == (0, 1)

class TestA:
    def test_same_name(self): pass

class TestB:
    def test_same_name(self): pass
"""


def test_quick_runs_each_test_once_and_no_slow_file(suite: pytest.Pytester):
    suite.makepyfile(QUICK)
    slow = suite.mkdir("tests").joinpath("demo")
    slow.mkdir()
    slow.joinpath("test_demo.py").write_text("def test_slow(): raise AssertionError")
    suite.runpytest_subprocess("--quick").assert_outcomes(passed=3, deselected=3)
    assert suite.runpytest_subprocess("--quick", "--rounds", "2").parseoutcomes()["failed"] == 1


def test_the_files_that_quick_leaves_out_are_there():
    tests = Path(__file__).parents[1]
    assert [file for file in conftest.SLOW if not (tests / file).is_file()] == []
