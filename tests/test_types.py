"""mypy checks every package (pyproject.toml: [tool.mypy]; .ci/run calls it); every exception says why."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tablestore as ts

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


USER = """
import tablestore as ts

lake = ts.connect("lake")
reveal_type(lake.sql("SELECT 1"))
reveal_type(lake.ingest("mysql://me@here/shop"))
reveal_type(lake.tier("fluss://here:9123"))
reveal_type(lake.coordinator())
reveal_type(lake.table("d.t").inspect)
reveal_type(lake.table("d.t").mend())
reveal_type(ts.mend("lake/d.db/t"))
lake.sql("SELECT 1").to_arow()
"""
GIVEN = (
    *("sql.result.Result", "cdc.capture.job.CaptureJob", "tiering.service.TieringService"),
    *("tiering.coordinator.coordinator.Coordinator", "insight.inspect.inspect.Inspect"),
    *("insight.doctor.mending.Mended", "insight.doctor.mending.Repair"),
)


@pytest.mark.large
def test_the_file_of_a_user_sees_what_verbs_give(tmp_path: Path) -> None:
    file = tmp_path / "user.py"
    file.write_text(USER)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert re.findall(r'Revealed type is "tablestore\.([\w.]+)"', done.stdout) == list(GIVEN), done.stdout
    assert re.findall(r"error: (.*)", done.stdout) == [
        '"Result" has no attribute "to_arow"; maybe "to_arrow"?  [attr-defined]'
    ]


def test_the_verbs_of_a_lake_name_what_they_give() -> None:
    verbs = (ts.Lake.sql, ts.Lake.ingest, ts.Lake.tier, ts.Lake.coordinator)
    given = [inspect.signature(verb).return_annotation for verb in verbs]
    assert given == ["Result", "CaptureJob", "TieringService", "Coordinator"]
