"""mypy checks every package (pyproject.toml: [tool.mypy]; .ci/run calls it); every exception says why."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]


def test_mypy_checks_every_package() -> None:
    """A call of a public name is checked wherever it is written, notebooks excepted: those are run."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"notebooks"}
    assert set(SETTINGS["packages"]) == packages - {"tests"}


def test_every_ignored_error_has_its_reason() -> None:
    assert not [o for o in SETTINGS["overrides"] if o.get("ignore_errors")], "all packages are checked"
    bare = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for package in (*SETTINGS["packages"], "tests")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "type: ignore" in line and not re.search(r"# type: ignore\[[\w, -]+\]  # \w", line)
    ]
    assert not bare
