"""pyproject.toml, requirements.lock, environment.yml and the script agree with each other and with .venv."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tablestore.cli.doctor import machine

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Imported under another name than the package's, or not imported from Python at all.
MODULE_OF = {
    "backports-zstd": "backports",
    "protobuf": "google",
    "grpcio-tools": "grpc_tools",
    "tpchgen-cli": "",
    "jupyterlab": "",
    "ipykernel": "",
}
BROWSER_ONLY = {"playwright"}
ELSEWHERE = {
    "notebooks/bench/contenders/delta.py",
    "notebooks/bench/contenders/duckdb.py",
    "notebooks/bench/contenders/mysql_client.py",
    "notebooks/bench/contenders/mysql_connectorx.py",
    "notebooks/bench/contenders/mysql_replication.py",
    "notebooks/bench/contenders/pypaimon.py",
    "notebooks/course/by_pypaimon.py",
    "tests/peers/marimo_notebook.py",
    "tests/peers/pypaimon_driver.py",
    "tests/servers/pyfluss_calls.py",
}
"""Programs that run in environments of their own."""


def declared(*extras: str) -> list[Requirement]:
    """The packages of other people that the project with these extras asks for."""
    lines = [*PROJECT["dependencies"]]
    lines += [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    actual = [Requirement(line) for line in lines]
    inner = {
        extra for requirement in actual if requirement.name == PROJECT["name"] for extra in requirement.extras
    }
    outer = [requirement for requirement in actual if requirement.name != PROJECT["name"]]
    return [*outer, *(declared(*sorted(inner)) if inner else ())]


def ranges(*extras: str) -> dict[str, SpecifierSet]:
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in declared(*extras)}


def pins(path: Path) -> dict[str, str]:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    exact = [
        re.fullmatch(r"([\w.-]+)==([\w.+!-]+)", line) for line in lines if line and not line.startswith("#")
    ]
    assert all(exact), f"{path.name}: every line is name==version"
    return {canonicalize_name(match[1]): match[2] for match in exact if match}


def test_lock_satisfies_every_range():
    locked = pins(ROOT / "requirements.lock")
    wrong = {
        name: f"{locked.get(name)} is not {wanted}"
        for name, wanted in ranges("test").items()
        if name not in locked or not wanted.contains(locked[name], prereleases=True)
    }
    assert not wrong


def test_lock_is_what_the_project_needs_and_nothing_else():
    """The closure of the declared packages over their requirements, for this Python and system."""
    seen: set[tuple[str, str]] = set()
    pending = [
        (canonicalize_name(requirement.name), extra)
        for requirement in declared("test")
        for extra in ("", *requirement.extras)
    ]
    while pending:
        name, extra = pending.pop()
        seen.add((name, extra))
        for requirement in map(Requirement, importlib.metadata.requires(name) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                actual = {
                    (canonicalize_name(requirement.name), wanted) for wanted in ("", *requirement.extras)
                }
                pending += actual - seen
    needed = {name for name, _ in seen} - {"setuptools", "pip"}
    assert needed == pins(ROOT / "requirements.lock").keys()


def test_every_locked_package_takes_every_supported_python():
    """From the first patch on: Debian 12 ships 3.11.2."""
    supported = [f"3.{minor}.0" for minor in range(machine.OLDEST_PYTHON[1], machine.NEWEST_PYTHON[1] + 1)]
    strict = {
        name: wanted
        for name in pins(ROOT / "requirements.lock")
        if (wanted := importlib.metadata.metadata(name).get("Requires-Python"))
        if not all(SpecifierSet(wanted).contains(version) for version in supported)
    }
    assert not strict


def test_extras_of_users_are_in_the_environment_of_the_tests():
    tested = {str(requirement) for requirement in declared("test")}
    for extra in PROJECT["optional-dependencies"]:
        assert {str(requirement) for requirement in declared(extra)} <= tested, extra


def test_extras_of_users_share_nothing_with_what_all_have():
    for extra in PROJECT["optional-dependencies"]:
        own = [Requirement(line) for line in PROJECT["optional-dependencies"][extra]]
        assert own, extra
        assert not {requirement.name for requirement in own} & {
            requirement.name for requirement in declared()
        }, extra


def test_conda_file_states_the_same_ranges():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    plain = [line for line in conda["dependencies"] if isinstance(line, str)]
    stated = {
        requirement.name: requirement.specifier
        for requirement in map(Requirement, (line for line in plain if "=" in line and "openjdk" not in line))
    }
    python = stated.pop("python")
    assert python == SpecifierSet(PROJECT["requires-python"])
    assert stated == {name: wanted for name, wanted in ranges("workbench").items() if name in stated}
    assert "openjdk=17" in plain
    assert conda["dependencies"][-1] == {"pip": ["-e .[test]"]}


def test_script_doctor_and_project_support_the_same_versions():
    script = (ROOT / "workbench").read_text(encoding="utf-8")
    numbers = {name: int(value) for name, value in re.findall(r"\b(oldest_\w+|newest_\w+)=(\d+)", script)}
    assert (3, numbers["oldest_python"]) == machine.OLDEST_PYTHON
    assert (3, numbers["newest_python"]) == machine.NEWEST_PYTHON
    assert numbers["oldest_java"] == machine.OLDEST_JAVA
    upper = f"{machine.NEWEST_PYTHON[0]}.{machine.NEWEST_PYTHON[1] + 1}"
    lower = f"{machine.OLDEST_PYTHON[0]}.{machine.OLDEST_PYTHON[1]}"
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(f">={lower},<{upper}")


@pytest.mark.large
def test_every_import_of_the_project_is_declared():
    declared = {MODULE_OF.get(name, name.replace("-", "_").lower()) for name in ranges("test")}
    modules = (
        declared | set(sys.stdlib_module_names) | {"tablestore", "widgets", "datasets", "notebooks", "tests"}
    )
    modules |= {
        "absent",  # of widgets/playground/columns, in a page
        "compression",  # of Python 3.14
        "pyspark_tablestore",
        "py4j",
        "traitlets",
        "yaml",
        "packaging",
        "tqdm",
        "pygments",
        "jupyter_client",
        "jupyter_server",
        "jupyterlab_server",
        "axe_playwright_python",
        "xdist",
        "IPython",
    } | BROWSER_ONLY  # of declared packages
    strangers = {}
    for package in ("tablestore", "widgets", "datasets", "notebooks", "tests"):
        for path in (ROOT / package).rglob("*.py"):
            if path.relative_to(ROOT).as_posix() not in ELSEWHERE:
                strangers |= {name: str(path) for name in top_imports(path) if name not in modules}
    assert not strangers


def top_imports(path: Path) -> set[str]:
    collected = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            collected |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            collected.add(node.module.split(".")[0])
    return collected


def test_peer_lock_is_exact():
    assert pins(ROOT / "tests" / "peers" / "pypaimon.lock")["pypaimon"] == "2.1.0"


def test_top_level_is_what_it_is():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    top = {name.split("/")[0] for name in listed.stdout.split("\0") if name}
    files = {
        "README.md",
        "LICENSE",
        "environment.yml",
        "pyproject.toml",
        "requirements.lock",
        "workbench",
        ".gitignore",
    }
    assert top <= files | {"notebooks", "tablestore", "widgets", "datasets", "tests", ".ci"}
