"""The shell script alone: a copied tree, a fake environment and a PATH of fakes; nothing is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from notebooks.cli.__main__ import VERBS
from tablestore.cli.commands import COMMANDS, usage

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("sh", "cat", "cksum", "sed", "head", "df", "awk", "readlink", "env")
GOOD_JAVA, GOOD_PYTHON = "17.0.15", 11


class Checkout:
    """A checkout with the script in it, its directory's name holding a space, and the PATH it is run with."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a b" / "checkout"
        (self.root / "notebooks" / "cli").mkdir(parents=True)
        shutil.copy(ROOT / "workbench", self.root / "workbench")
        (self.root / "requirements.lock").write_text("nothing==1\n")
        self.path = folder / "fake path"
        self.path.mkdir()
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool) or pytest.fail(f"no {tool}"))
        self.python("python3", minor=GOOD_PYTHON)
        self.java(self.path / "java", version=GOOD_JAVA)

    def python(self, name: str, *, minor: int, venv: bool = True) -> None:
        """A program that says it is Python 3.`minor`, and repeats how it was called for anything else."""
        answers = f"*sys.version_info*) echo {minor} ;; *ensurepip*) exit {int(not venv)} ;;"
        called = 'echo "system python: $*"; exit 3'
        write_program(self.path / name, f'case "$*" in {answers} *) {called} ;; esac')

    def java(self, path: Path, *, version: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_program(path, f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")
        return path

    def environment(self, *, body: str = 'printf "%s|" "$@"; echo "home=${JAVA_HOME-unset}"') -> None:
        """A finished environment whose Python is a shell script."""
        python = self.root / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        write_program(python, body)
        lock = self.root / "requirements.lock"
        checksum = subprocess.run(
            ["cksum"], stdin=lock.open("rb"), capture_output=True, text=True, check=True
        )
        (self.root / ".venv" / "workbench.stamp").write_text(f"{checksum.stdout}{self.root.resolve()}")

    def run(
        self, *arguments: str, script: Path | None = None, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        command = [str(script or self.root / "workbench"), *arguments]
        environment = {"PATH": str(self.path), **variables}
        return subprocess.run(
            command, cwd=cwd or self.root.parent, env=environment, capture_output=True, text=True, check=False
        )


def write_program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize("arguments", [(), ("help",), ("-h",), ("--help",)])
def test_bare_call_prints_one_line_a_verb_and_needs_no_environment(
    checkout: Checkout, arguments: tuple[str, ...]
):
    (checkout.path / "python3").unlink()
    done = checkout.run(*arguments)
    lines = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert (done.returncode, done.stderr) == (0, "")
    assert lines == [*VERBS, "python"]
    shown = set(usage("./workbench", COMMANDS).splitlines())
    assert shown - {"", done.stdout.splitlines()[0]} <= set(done.stdout.splitlines())
    assert done.stdout.splitlines()[0] == "usage: ./workbench COMMAND [ARGUMENTS]"


def test_arguments_reach_the_environments_python_unchanged(checkout: Checkout):
    checkout.environment()
    done = checkout.run("python", "-c", "print('x  y')", "")
    assert done.stdout == "-P|-m|notebooks.cli|python|-c|print('x  y')||home=unset\n"
    assert done.stderr == ""


def test_exit_code_is_the_programs(checkout: Checkout):
    checkout.environment(body="exit 7")
    assert checkout.run("test").returncode == 7


def test_script_is_found_through_a_chain_of_symbolic_links(checkout: Checkout, tmp_path: Path):
    checkout.environment()
    first, second = tmp_path / "first link", tmp_path / "elsewhere" / "second"
    second.parent.mkdir()
    first.symlink_to(checkout.root / "workbench")
    second.symlink_to("../first link")
    done = checkout.run("python", script=second, cwd=tmp_path)
    assert done.stdout.startswith("-P|-m|notebooks.cli|python|")


def test_script_runs_by_its_bare_name(checkout: Checkout):
    checkout.environment()
    by_shell = subprocess.run(
        ["sh", "workbench", "python"],
        cwd=checkout.root,
        env={"PATH": str(checkout.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    (checkout.path / "workbench").symlink_to(checkout.root / "workbench")
    by_path = checkout.run("python", script=Path("workbench"))
    assert by_shell.stdout == by_path.stdout == "-P|-m|notebooks.cli|python|home=unset\n"


def test_second_call_makes_nothing(checkout: Checkout):
    checkout.environment()
    (checkout.path / "python3").unlink()
    (checkout.path / "df").unlink()
    assert checkout.run("python").stdout == checkout.run("python").stdout != ""


@pytest.mark.parametrize("damage", ["changed lock", "no stamp", "dangling python", "moved"])
def test_environment_is_made_again_when_it_does_not_fit(checkout: Checkout, damage: str):
    checkout.environment()
    if damage == "changed lock":
        (checkout.root / "requirements.lock").write_text("nothing==2\n")
    elif damage == "no stamp":
        (checkout.root / ".venv" / "workbench.stamp").unlink()
    elif damage == "dangling python":
        (checkout.root / ".venv" / "bin" / "python").unlink()
    else:
        checkout.root = checkout.root.rename(checkout.root.with_name("moved"))
    done = checkout.run("python")
    assert done.returncode == 3
    assert done.stdout.startswith(
        f"system python: {checkout.root}/notebooks/cli/environment.py {checkout.root} "
    )


def test_python_too_old_and_too_new_are_named_with_a_remedy(checkout: Checkout):
    checkout.python("python3", minor=9)
    checkout.python("python3.13", minor=14)
    done = checkout.run("doctor")
    assert done.returncode == 1
    assert "needs Python 3.11 to 3.13" in done.stderr
    assert "python3 is Python 3.9 (too old), python3.13 is Python 3.14 (too new)" in done.stderr
    assert "remedy: Debian, Ubuntu: sudo apt install python3" in done.stderr
    assert done.stdout == ""


def test_a_python_that_fits_is_found_beside_one_that_does_not(checkout: Checkout):
    checkout.python("python3", minor=14)
    checkout.python("python3.12", minor=12)
    assert "environment.py" in checkout.run("doctor").stdout


def test_no_python_at_all_is_named(checkout: Checkout):
    (checkout.path / "python3").unlink()
    done = checkout.run("lab")
    assert done.returncode == 1
    assert "no python3 found" in done.stderr


def test_missing_venv_module_is_named_with_debians_package(checkout: Checkout):
    checkout.python("python3", minor=GOOD_PYTHON, venv=False)
    done = checkout.run("doctor")
    assert done.returncode == 1
    assert "sudo apt install python3-venv" in done.stderr


@pytest.mark.parametrize(
    ("version", "named"), [(None, "no java found"), ("1.8.0_392", "Java 8"), ("11.0.2", "Java 11")]
)
def test_missing_or_old_java_is_named_with_a_remedy(checkout: Checkout, version: str | None, named: str):
    if version:
        checkout.java(checkout.path / "java", version=version)
    else:
        (checkout.path / "java").unlink()
    done = checkout.run("demo")
    assert done.returncode == 1
    assert "Spark needs Java 17 or newer" in done.stderr
    assert named in done.stderr
    assert "remedy: " in done.stderr


def test_full_disk_is_named_before_anything_is_fetched(checkout: Checkout):
    (checkout.path / "df").unlink()
    write_program(checkout.path / "df", "echo head; echo '/dev/x 100 10 51200 1% /'")
    done = checkout.run("doctor")
    assert (done.returncode, done.stdout) == (1, "")
    assert "only 50 MB free" in done.stderr


def test_all_problems_are_named_in_one_call(checkout: Checkout):
    checkout.python("python3", minor=14)
    (checkout.path / "java").unlink()
    done = checkout.run("doctor")
    assert done.stderr.count("remedy:") == 2


def test_java_home_wins_over_an_old_java_in_path(checkout: Checkout, tmp_path: Path):
    checkout.environment()
    checkout.java(checkout.path / "java", version="11.0.2")
    home = checkout.java(tmp_path / "jdk 21" / "bin" / "java", version="21.0.1").parents[1]
    done = checkout.run("demo", JAVA_HOME=str(home))
    assert done.stdout == f"-P|-m|notebooks.cli|demo|home={home}\n"
    assert done.stderr == ""


def test_an_old_java_home_gives_way_to_a_good_java_in_path(checkout: Checkout, tmp_path: Path):
    checkout.environment()
    home = checkout.java(tmp_path / "jdk 8" / "bin" / "java", version="1.8.0_392").parents[1]
    done = checkout.run("demo", JAVA_HOME=str(home))
    assert done.stdout == "-P|-m|notebooks.cli|demo|home=unset\n"
    assert "using the java in PATH (17)" in done.stderr


def test_only_verbs_that_need_java_stop_without_it(checkout: Checkout):
    checkout.environment()
    (checkout.path / "java").unlink()
    assert checkout.run("demo").returncode == checkout.run("lab").returncode == 1
    assert checkout.run("python").returncode == checkout.run("test").returncode == 0


def test_clean_needs_no_environment(checkout: Checkout):
    done = checkout.run("clean", "--data")
    assert done.stdout == "system python: -m notebooks.cli clean --data\n"


def test_script_is_posix(checkout: Checkout):
    text = (ROOT / "workbench").read_text()
    assert text.startswith("#!/bin/sh\n")
    for shell in ("dash", "bash", "busybox"):
        program = shutil.which(shell)
        if program:
            command = [program, *(["sh"] if shell == "busybox" else []), "-n", str(ROOT / "workbench")]
            assert subprocess.run(command, check=False).returncode == 0, shell
    assert os.access(ROOT / "workbench", os.X_OK)
