"""The verbs behind the script: dispatch, doctor, lab, test, bench, clean."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from notebooks.cli import __main__ as dispatch
from notebooks.cli import bench, clean, lab, places
from notebooks.cli import test as test_verb
from tablestore.cli.commands import COMMANDS
from tablestore.cli.doctor import machine
from tablestore.cli.doctor.machine import DoctorLine, JavaVersion
from tablestore.cli.open import kernel

ROOT = places.ROOT
NEW, OLD = JavaVersion("/new/java", 17, "17.0.15"), JavaVersion("/old/java", 8, "1.8.0_392")


def cli(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "notebooks.cli", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_a_program_of_the_environment_runs_in_the_callers_directory(tmp_path: Path):
    done = cli("python", "-c", "import os, sys; print(os.getcwd()); sys.exit(5)", cwd=tmp_path)
    assert (done.stdout, done.returncode) == (f"{tmp_path}\n", 5)


def test_an_unknown_verb_names_the_nearest_one():
    done = cli("docter")
    assert done.returncode == 127
    assert "did you mean `doctor`?" in done.stderr


@pytest.mark.parametrize("verb", ["demo", "docs", "test"])
def test_help_of_a_verb_loads_neither_spark_nor_jupyter(verb: str):
    command = [sys.executable, "-P", "-X", "importtime", "-m", "notebooks.cli", verb, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert done.stdout.startswith(f"usage: ./workbench {verb} ")
    assert "tablestore.cli.door" in loaded
    assert len(loaded) < 300, sorted(loaded)  # 2,000 with what the verb itself needs
    heavy = {
        "pyspark",
        "pyarrow",
        "pandas",
        "IPython",
        "nbclient",
        "nbformat",
        "papermill",
        "widgets",
        "rich",
    }
    assert not heavy & loaded


@pytest.mark.large
def test_every_verb_but_a_missing_one_has_a_main():
    there = [verb for verb in dispatch.OWN if (ROOT / "notebooks" / "cli" / f"{verb}.py").exists()]
    names = [f"notebooks.cli.{verb}" for verb in there]
    names += [f"tablestore.cli.{name}.command" for name in COMMANDS]
    modules = ", ".join(names)
    callable_mains = " and ".join(f"callable({name}.main)" for name in names)
    done = cli("python", "-c", f"import {modules}; print({callable_mains})")
    assert done.stdout == "True\n", done.stderr


# doctor


def test_doctor_answers_in_a_table_and_in_json_alike():
    done = cli("doctor", "--json")
    findings = [DoctorLine(**finding) for finding in json.loads(done.stdout)]
    names = [finding.name for finding in findings]
    assert names[:2] == ["Python", "pyspark"]
    assert {"Java", "disk", "memory", "temporary files", "data cache", "port 8888", "port 4040"} <= set(names)
    assert done.returncode == machine.exit_code(findings)
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(machine.as_table(findings))
    text = console.export_text()
    assert all(finding.name in text for finding in findings)


def test_only_something_missing_fails_doctor():
    assert machine.exit_code([DoctorLine("a", ""), DoctorLine("b", "", "note", "x")]) == 0
    assert machine.exit_code([DoctorLine("a", ""), DoctorLine("b", "", "missing", "x")]) == 1


@pytest.mark.parametrize(
    ("at_home", "in_path", "state"),
    [(NEW, None, "ok"), (None, NEW, "ok"), (NEW, OLD, "ok"), (OLD, NEW, "note"), (OLD, None, "missing"),
     (None, OLD, "missing"), (None, None, "missing")],
)  # fmt: skip
def test_java_that_spark_will_start_is_judged(
    at_home: JavaVersion | None, in_path: JavaVersion | None, state: str, monkeypatch
):
    monkeypatch.setattr(machine, "vector_finding", lambda java: DoctorLine("Java vectors", java.path))
    first, *others = machine.java_findings(at_home, in_path)
    assert first.state == state
    assert bool(first.remedy) == (state != "ok")
    assert [finding.found for finding in others] == ([] if state == "missing" else [NEW.path])


def test_java_versions_old_and_new_are_understood(tmp_path: Path):
    for text, major in (
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("nothing", 0),
    ):
        program = tmp_path / f"java-{major}"
        program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
        program.chmod(0o755)
        assert machine.ask_java(str(program)).major == major
    assert machine.ask_java(str(tmp_path / "absent")).major == 0


def test_little_memory_and_little_disk_are_missing(tmp_path: Path):
    assert machine.memory_finding((1 * machine.GB, machine.GB)).state == "missing"
    assert machine.memory_finding((8 * machine.GB, 2 * machine.GB)).state == "note"
    assert machine.memory_finding((8 * machine.GB, 7 * machine.GB)).state == "ok"
    assert machine.disk_finding(tmp_path, need=1 << 60).state == "missing"


def test_unwritable_temporary_directory_is_missing(monkeypatch):
    monkeypatch.setattr(machine.tempfile, "gettempdir", lambda: "/nowhere")
    finding = machine.temporary_finding()
    assert (finding.state, "TMPDIR" in finding.remedy) == ("missing", True)


def test_a_taken_port_is_a_note():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert machine.port_finding(taken.getsockname()[1], "JupyterLab").state == "note"


# lab


def test_lab_has_a_kernel_of_this_environment_and_no_news(tmp_path: Path):
    (tmp_path / "lab" / "settings").mkdir(parents=True)
    (tmp_path / "lab" / "settings" / "overrides.json").write_text('{"theme": 1}')
    folder = kernel.install_kernel(tmp_path, python="/env/bin/python")
    lab.write_settings(tmp_path)
    spec = json.loads((folder / "kernel.json").read_text())
    settings = json.loads((tmp_path / "lab" / "settings" / "overrides.json").read_text())
    assert folder.name == "tablestore-workbench"
    assert spec["argv"][0] == "/env/bin/python"
    assert settings == {"theme": 1, **kernel.QUIET}


def test_lab_listens_on_loopback_only_and_keeps_its_token():
    command = lab.lab_command(port=9999, browser=False, root=True)
    assert "--ip=127.0.0.1" in command
    assert {"--port=9999", "--no-browser", "--allow-root"} <= set(command)
    assert not any("token" in part or "password" in part for part in command)
    assert not {"--no-browser", "--allow-root"} & set(lab.lab_command(port=1, browser=True, root=False))


def test_the_files_of_the_lab_are_notebooks_and_texts_without_code():
    from jupyter_server.serverapp import ServerApp
    from jupyter_server.services.contents.largefilemanager import LargeFileManager

    command = lab.lab_command(port=9999, browser=False, root=True)
    app = ServerApp()
    app.parse_command_line([part for part in command if part.startswith("--ContentsManager")])
    contents = LargeFileManager(config=app.config, root_dir=str(places.NOTEBOOKS))
    listed = {entry["name"] for entry in contents.get("")["content"]}
    assert {path.name for path in places.NOTEBOOKS.glob("*.ipynb")} <= listed
    assert {"guide", "pictures"} <= listed
    assert not {name for name in listed if name.endswith((".py", ".toml"))}
    assert not listed & {"bench", "cli", "course", "demo", "__pycache__"}
    assert contents.get("cli/lab.py")["type"] == "file", "it opens by its path"


# test, bench


def test_paths_for_pytest_are_those_of_the_caller(tmp_path: Path):
    (tmp_path / "test_x.py").touch()
    located = test_verb.located(["-q", "test_x.py::test_y[a]", "-k", "test_x.py"], start=tmp_path)
    assert located == ["-q", f"{tmp_path}/test_x.py::test_y[a]", "-k", "test_x.py"]
    assert test_verb.located(["-k", "x"], start=tmp_path) == ["-k", "x", f"{ROOT}/tests"]


def test_only_the_whole_suite_takes_several_processes(tmp_path: Path):
    def whole(*arguments: str) -> bool:
        return test_verb.is_whole(test_verb.located(list(arguments), start=tmp_path))

    (tmp_path / "test_x.py").touch()
    assert whole()
    assert whole("--rounds", "2")
    assert not whole("test_x.py")
    assert not whole("-k", "x")
    assert not whole("-n", "0")
    assert not whole("--rewrite")


def test_test_verb_gives_pytests_exit_code_and_the_slowest_tests(tmp_path: Path):
    (tmp_path / "test_red.py").write_text("def test_red():\n    assert False\n")
    done = cli("test", "test_red.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "1 failed" in done.stdout.splitlines()[-1]
    assert "slowest" in done.stdout


def test_benches_are_listed_by_their_first_line(tmp_path: Path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "__init__.py").touch()
    (tmp_path / "load.py").write_text('"""Rows a second.\n\nMore."""\n')
    assert bench.benches(tmp_path) == {"load": "Rows a second."}
    assert cli("bench").returncode == 0


def test_an_unknown_bench_is_refused():
    done = cli("bench", "no-such-bench")
    assert done.returncode == 2
    assert "no benchmark `no-such-bench`" in done.stderr


# clean


def test_clean_removes_what_was_made_and_nothing_else(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(clean, "ROOT", tmp_path)
    monkeypatch.setenv("TABLESTORE_CACHE", str(tmp_path / "cache"))
    for leftover in (".venv/lib", ".pytest_cache", "tests/x/__pycache__", "lake/shop.db", "cache/tpch"):
        (tmp_path / leftover).mkdir(parents=True)
        (tmp_path / leftover / "file").write_text("12345")
    assert clean.main([]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "lake", "tests"]
    said = capsys.readouterr().out
    assert f"removed {tmp_path}/.venv (5 B)" in said
    assert list((tmp_path / "tests").rglob("*")) == [tmp_path / "tests" / "x"]
    assert clean.main([]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"
    clean.main(["--data"])
    assert not (tmp_path / "cache").exists()
    assert (tmp_path / "lake" / "shop.db" / "file").exists()


def test_clean_removes_a_link_but_not_its_target(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert clean.remove(tmp_path / "link")
    assert (tmp_path / "real").is_dir()


def test_clean_needs_only_the_standard_library():
    command = [sys.executable, "-I", "-S", "-c"]
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import notebooks.cli.__main__, notebooks.cli.clean"
    )
    assert subprocess.run([*command, code], check=False).returncode == 0


def test_the_script_may_be_executed():
    assert (ROOT / "workbench").stat().st_mode & stat.S_IXUSR


def test_an_interrupted_run_still_ends_with_its_summary(tmp_path: Path):
    (tmp_path / "test_slow.py").write_text(
        "import os, signal\ndef test_green():\n    pass\n"
        "def test_slow():\n    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    signal.pause()\n"
    )
    done = cli("test", "test_slow.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "1 passed" in done.stdout.splitlines()[-1]
