"""`tablestore`, the program of the installed package: its helps, what is missing, and a statement."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import tablestore as ts
from notebooks.cli.places import CHECKOUT, ROOT
from tablestore.cli import commands
from tablestore.cli.commands import COMMANDS
from tablestore.cli.doctor import machine
from tablestore.cli.doctor.machine import extras_of
from tablestore.cli.door import Door
from tablestore.core.extras import DISTRIBUTION

HELP = """
import sys
from contextlib import suppress
from tablestore.cli import commands
from tablestore.cli.door import Door
for name in ("", *commands.COMMANDS):
    print(f"help of {name}:")
    with suppress(SystemExit):
        commands.main([*([name] if name else []), "--help"], Door(), commands.COMMANDS)
loaded = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"__main__"}
print("loaded:", *sorted(name for name in loaded if not name.startswith(("_", "sitecustomize"))))
"""
LACKING = """
import sys
from importlib.abc import MetaPathFinder
from tablestore.cli import commands
from tablestore.cli.door import Door

class Lacking(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Lacking())
sys.exit(commands.main(sys.argv[2:], Door(), commands.COMMANDS))
"""
NEEDED = {
    "open": ("jupyter_client", ["open", "nowhere"]),
    "sql": ("sqlglot", ["sql", "-e", "SELECT 1"]),
    "cdc": ("pyspark", ["cdc", "--from", "mysql://u@h/d"]),
}


def python(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [(), ("help",), ("--help",), ("--version",), ("sqll",)])
def test_the_program_names_its_commands(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code = commands.main(arguments, Door(), COMMANDS)
    said = capsys.readouterr()
    if arguments == ("sqll",):
        assert (code, said.out) == (127, "")
        assert said.err == "tablestore: there is no command `sqll`; did you mean `sql`?\n"
    elif arguments == ("--version",):
        assert (code, said.out) == (0, f"tablestore {ts.__version__}\n")
    else:
        assert code == 0
        assert [line.split()[0] for line in said.out.splitlines() if line[:2] == "  "] == [*COMMANDS]


def test_a_help_loads_nothing_of_others() -> None:
    """So it starts fast, and is there whatever is installed."""
    done = python("-c", HELP)
    for name in ("", *COMMANDS):
        assert f"help of {name}:\nusage: tablestore {name}".rstrip() in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: tablestore"


@pytest.mark.parametrize("name", COMMANDS)
def test_both_doors_show_one_help(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "9000")
    shown = []
    for door in (Door(), CHECKOUT):
        with pytest.raises(SystemExit, match="0"):
            import_module(f"tablestore.cli.{name}.options").parsed(["--help"], door)
        text = capsys.readouterr().out
        assert text.startswith(f"usage: {door.program} {name} ")
        shown.append(text.replace(door.program, "PROGRAM").replace(f"default {door.warehouse})", "default)"))
    assert shown[0].replace(" " * 4, "") == shown[1].replace(" " * 4, "")


@pytest.mark.parametrize("name", [name for name in NEEDED if name != "cdc"])
def test_what_is_missing_is_named_with_its_extra(name: str) -> None:
    module, arguments = NEEDED[name]
    done = python("-c", LACKING, module, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install '{DISTRIBUTION}[{commands.EXTRAS[name]}]'" in done.stderr
    assert done.stderr.startswith(f"tablestore {name}: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.large
def test_a_capture_without_spark_names_its_extra_and_the_other_engine() -> None:
    module, arguments = NEEDED["cdc"]
    done = python("-c", LACKING, module, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install '{DISTRIBUTION}[spark]'" in done.stderr
    assert "--engine local" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_statement_runs_over_a_new_lake(tmp_path: Path) -> None:
    done = python(
        "-m", "tablestore.cli", "sql", "shop", "--create", "--csv", "-e", "SELECT 1 AS n", cwd=tmp_path
    )
    assert (done.stdout, done.returncode) == ("n\n1\n", 0), done.stderr
    done = python("-m", "tablestore.cli", "doctor", "none", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        f"tablestore doctor: there is nothing at {tmp_path / 'none'}\n",
    )


def test_a_missing_extra_is_a_note_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.importlib.metadata, "requires", lambda name: ['pyorc; extra == "orc"'])
    monkeypatch.setattr(machine, "installed", lambda name: "")
    (finding,) = machine.extra_findings()
    assert (finding.name, finding.state) == ("[orc]", "note")
    screen = Console(width=200, file=StringIO())
    screen.print(machine.as_table([finding]))
    said = screen.file.getvalue()
    for part in ("note", "[orc]", "not installed: pyorc", f"pip install '{DISTRIBUTION}[orc]'"):
        assert part in said


def test_extras_are_read_from_the_metadata_of_the_package() -> None:
    lines = [
        "pyarrow<27,>=25",
        'zstd; python_version < "3.14"',
        'pymysql<2,>=1.2; extra == "mysql"',
        'psycopg[binary]<4,>=3.3; extra == "postgres"',
        "thrift; extra == 'hive'",
        'hmsclient; extra == "hive"',
        'pytest; extra == "test"',
    ]
    assert extras_of(lines) == {
        "mysql": ["pymysql"],
        "postgres": ["psycopg"],
        "hive": ["thrift", "hmsclient"],
    }
