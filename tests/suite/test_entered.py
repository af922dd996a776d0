"""From a module to its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite import entered

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "tablestore").rglob("*.py") if path.stat().st_size
)


@pytest.mark.parametrize(
    ("source", "first"),
    [
        ("tablestore/lsm/compaction/universal.py", "peers/test_picks.py"),
        ("tablestore/core/errors.py", "core/test_errors.py"),
        ("widgets/levels/view.js", "widgets/test_levels.py"),
        ("datasets/tpch/base.py", "datasets/test_tpch_base.py"),
        ("tablestore/cli/open/command.py", "cli/test_open.py"),
    ],
)
def test_the_particular_test_comes_first(source: str, first: str) -> None:
    assert entered.tests_of(source)[0] == first


@pytest.mark.large
def test_modules_of_the_engine_have_tests() -> None:
    """All but those that only other processes enter: Spark's workers, kernels."""
    without = [source for source in MODULES if not entered.tests_of(source)]
    assert len(without) <= len(MODULES) // 50, without


def test_particular_tests_come_before_general_ones() -> None:
    noted = {"all.py": {"a", "b", "c"}, "one.py": {"a"}, "two.py": {"a", "b"}}
    assert entered.packed(noted) == {
        "a": ["one.py", "two.py", "all.py"],
        "b": ["two.py", "all.py"],
        "c": ["all.py"],
    }


@pytest.mark.large
def test_the_verb_runs_the_tests_of_a_module() -> None:
    command = [
        sys.executable,
        "-m",
        "notebooks.cli",
        "test",
        "--of",
        "tablestore/core/errors.py",
        "--co",
        "-q",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "tests/core/test_errors.py::" in done.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--of"], "--of needs a module"),
        (["--of", "tablestore/none.py"], "tablestore/none.py is no file of this checkout"),
    ],
)
def test_what_is_no_module_is_named(words: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        entered.arguments_of(words)
