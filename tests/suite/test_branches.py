"""Branch coverage of a run: what its table says, over several processes too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.suite import branches
from tests.suite.test_runs import suite

pytest_plugins = ("pytester",)
__all__ = ["suite"]  # a fixture
CASE = """
from tablestore.meta.expiry_rules import duration

def test_hours(): assert duration(3_600_000) == "1 h"
"""


def test_a_line_a_package_and_the_modules_that_lack_most() -> None:
    files = {
        "tablestore/core/a.py": {"num_branches": 8, "covered_branches": 2},
        "tablestore/core/b/c.py": {"num_branches": 2, "covered_branches": 2},
        "tablestore/log/d.py": {"num_branches": 1000, "covered_branches": 999},
    }
    core, *others = branches.table(files)[1:]
    assert core.split() == ["core", "2", "10", "4", "40.0%"]
    assert others[0].split() == ["io", "0", "0", "0", "100.0%"]
    assert others[-3].split() == ["all", "3", "1,010", "1,003", "99.3%"]
    assert others[-2:] == ["   6 not taken in tablestore/core/a.py", "   1 not taken in tablestore/log/d.py"]


def test_packages_are_those_from_core_to_table() -> None:
    assert [name for name in branches.PACKAGES if not (branches.ROOT / "tablestore" / name).is_dir()] == []


@pytest.mark.large
@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_what_each_process_saw_is_added_up(suite: pytest.Pytester, processes: str) -> None:
    for name in ("test_a.py", "test_b.py"):
        Path(suite.path, name).write_text(CASE)
    done = suite.runpytest_subprocess("--coverage", processes)
    assert done.ret == 0
    meta = re.search(r"^meta +\d+ +[\d,]+ +(\d+) ", done.stdout.str(), re.MULTILINE)
    assert meta is not None
    assert int(meta[1]) >= 3, "the loop, and both ways of its condition"
    assert re.search(r"^insight +\d+ +[\d,]+ +0 ", done.stdout.str(), re.MULTILINE)


def test_two_tracers_are_refused(suite: pytest.Pytester) -> None:
    done = suite.runpytest_subprocess("--coverage", "--record")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*--coverage and --record both trace the tests*"])
