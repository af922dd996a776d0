"""Making `.venv`: real environments from a lock without packages, so no network is used."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from notebooks.cli import environment

pytestmark = pytest.mark.large

ROOT = Path(__file__).resolve().parents[2]


def checkout(folder: Path) -> Path:
    """A folder whose lock asks for no package."""
    folder.mkdir()
    (folder / "requirements.lock").write_text("# nothing\n")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return checkout(tmp_path / "check out")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with its environment, which tests copy: to make one takes seconds."""
    folder = checkout(tmp_path_factory.mktemp("first") / "check out")
    finish(start(folder))
    return folder


@pytest.fixture
def complete(first: Path, tmp_path: Path) -> Path:
    """A checkout of the test's own with an environment: a copy, mended as one that was moved."""
    folder = shutil.copytree(first, tmp_path / "check out", symlinks=True)
    assert "making" not in finish(start(folder))
    return folder


def start(root: Path, *, stamp: str = "sum") -> subprocess.Popen[str]:
    script = ROOT / "notebooks" / "cli" / "environment.py"
    command = [sys.executable, str(script), str(root), f"{stamp}\n{root}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def test_two_at_once_make_one_environment_and_say_where_it_is(root: Path):
    said = [finish(process) for process in [start(root), start(root)]]
    assert sum("making the environment in" in text for text in said) == 1
    assert any(f"{root}/.venv" in text and "clean` removes it" in text for text in said)
    assert (root / ".venv" / "workbench.stamp").read_text() == f"sum\n{root}"
    assert not (root / ".venv" / "workbench.unfinished").exists()


def test_an_interrupted_creation_is_made_anew(complete: Path):
    (complete / ".venv" / "workbench.stamp").unlink()
    (complete / ".venv" / "workbench.unfinished").touch()
    (complete / ".venv" / "half").touch()
    finish(start(complete))
    assert not (complete / ".venv" / "half").exists()
    assert (complete / ".venv" / "workbench.stamp").exists()


def test_a_changed_lock_keeps_what_is_there(complete: Path):
    (complete / ".venv" / "own").touch()
    assert "up to requirements.lock" in finish(start(complete, stamp="other sum"))
    assert (complete / ".venv" / "own").exists()
    assert (complete / ".venv" / "workbench.stamp").read_text() == f"other sum\n{complete}"


def test_a_failed_install_leaves_no_stamp_and_names_the_log(root: Path):
    (root / "requirements.lock").write_text("no-such-package-of-ours @ file:///nowhere/at-all.whl\n")
    process = start(root)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "install.log" in said
    assert "remedy:" in said
    assert not (root / ".venv" / "workbench.stamp").exists()


def test_a_moved_checkout_is_mended_without_pip(complete: Path):
    probe = [str(complete / ".venv" / "bin" / "pip"), "--version"]
    assert subprocess.run(probe, check=False, capture_output=True).returncode == 0
    moved = complete.rename(complete.with_name("moved"))
    shutil.rmtree(next(moved.glob(".venv/lib/python3*/ensurepip"), moved / "none"), ignore_errors=True)
    assert "making" not in finish(start(moved))
    done = subprocess.run(
        [str(moved / ".venv" / "bin" / "pip"), "--version"], capture_output=True, text=True, check=True
    )
    assert str(moved) in done.stdout


def test_sources_of_the_checkout_are_importable(complete: Path):
    package = complete / "tablestore"
    alias = package / "spark" / "pyspark_tablestore"
    alias.mkdir(parents=True)
    (package / "__init__.py").write_text("name = 'ours'\n")
    (alias / "__init__.py").write_text("import tablestore\nname = tablestore.name\n")
    command = [
        str(complete / ".venv" / "bin" / "python"),
        "-P",
        "-c",
        "import pyspark_tablestore as p; print(p.name)",
    ]
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", env=bare)
    assert done.stdout == "ours\n"


@pytest.mark.parametrize(("old", "new"), [("/x", "/y z"), ("/x y", "/z"), ("/x", "/" + "long" * 40)])
def test_scripts_name_the_python_of_their_new_place(tmp_path: Path, old: str, new: str):
    venv = Path(f"{tmp_path}{new}") / ".venv"
    scripts = venv / "bin"
    scripts.mkdir(parents=True)
    before = Path(f"{tmp_path}{old}") / ".venv"
    python = before / "bin" / "python3.11"
    header = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n" if " " in old else f"#!{python}\n"
    (scripts / "tool").write_text(f"{header}print('tool')\n")
    (scripts / "other").write_text("#!/usr/bin/python3\n")
    (scripts / "python").write_text('#!/bin/sh\necho "new python $1"\n')
    for script in scripts.iterdir():
        script.chmod(0o755)
    environment.relocate(venv, old=before)
    done = subprocess.run([str(scripts / "tool")], capture_output=True, text=True, check=True)
    assert done.stdout == f"new python {scripts / 'tool'}\n"
    assert (scripts / "other").read_text() == "#!/usr/bin/python3\n"


def test_the_next_call_waits_for_a_pip_whose_parent_was_killed(root: Path):
    """The orphan would otherwise write into the environment that the next call makes."""
    (root / "requirements.lock").write_text(f"slow @ {(root / 'slow-1.tar.gz').as_uri()}\n")
    write_slow_package(root / "slow-1.tar.gz", started=root / "started", go_on=root / "go on")
    first = start(root)
    until((root / "started").exists, process=first)
    first.kill()
    first.wait()
    (root / "requirements.lock").write_text("# nothing\n")
    second = start(root)
    assert second.stderr is not None
    assert "waiting" in second.stderr.readline()
    (root / "go on").touch()
    finish(second)
    assert (root / ".venv" / "workbench.stamp").exists()


def write_slow_package(path: Path, *, started: Path, go_on: Path) -> None:
    """A source package whose build says that it started, then waits for a file; it needs no network."""
    build = (
        "import pathlib, time\n"
        "def build_wheel(*a, **k):\n"
        f"    pathlib.Path({str(started)!r}).touch()\n"
        f"    while not pathlib.Path({str(go_on)!r}).exists():\n"
        "        time.sleep(0.05)\n"
        "    raise SystemExit('never a wheel')\n"
    )
    project = '[build-system]\nrequires = []\nbuild-backend = "slow"\nbackend-path = ["."]\n'
    information = "Metadata-Version: 2.1\nName: slow\nVersion: 1\n"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (("slow.py", build), ("pyproject.toml", project), ("PKG-INFO", information)):
            entry = tarfile.TarInfo(f"slow-1/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def until(condition: Callable[[], bool], *, process: subprocess.Popen[str]) -> None:
    """Wait while the process lives; a process that ended first fails the test with what it said."""
    while not condition():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
            assert condition(), process.communicate()[1]
