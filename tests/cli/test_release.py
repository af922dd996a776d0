"""The release check, and what the package claims of versions of Python."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from packaging.specifiers import SpecifierSet

from notebooks.cli.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHON = "Programming Language :: Python :: "


def test_classifiers_are_the_versions_that_may_be_used() -> None:
    claimed = [line.removeprefix(PYTHON) for line in PROJECT["classifiers"] if line.startswith(PYTHON)]
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert claimed == [f"3.{minor}" for minor in range(50) if allowed.contains(f"3.{minor}.0")]


@pytest.mark.large
def test_the_built_package_works_where_nothing_of_the_checkout_is() -> None:
    done = subprocess.run(
        [ROOT / ".ci" / "release", sys._base_executable], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].startswith("== the package works")
