"""`maintain`: its plan, one run by a file of policies, options that contradict, and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tablestore.cli.door import Door
from tablestore.cli.maintain import command, options
from tests.maintenance.test_service import filled, runs


def maintain(*arguments: str) -> int:
    return command.main(options.parsed(arguments, Door()))


def test_the_plan_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = filled(tmp_path)
    newest = table.inspect.snapshots().num_rows
    assert maintain("--warehouse", str(tmp_path), "--plan") == 0
    assert "d.t bucket-0 compact: " in capsys.readouterr().out
    assert table.refresh().inspect.snapshots().num_rows == newest
    assert not (tmp_path / "tablestore-maintenance" / "leases").exists()


def test_once_by_a_file_of_policies(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = filled(tmp_path, writes=4)
    policies = tmp_path / "policies.toml"
    policies.write_text('["d.*"]\nruns = 1\norphans_every = "7 d"\n')
    assert maintain("--warehouse", str(tmp_path), "--policy", str(policies), "--once") == 0
    assert "4 → 1 run, read" in capsys.readouterr().out
    assert runs(table) == [1, 1]
    policies.write_text("runs =")
    assert maintain("--warehouse", str(tmp_path), "--policy", str(policies), "--once") == 2
    assert "no TOML" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [(["--policy", "p.toml", "--runs", "2"], "leave --runs out"), (["--plan", "--once"], "leave --once out")],
)
def test_options_that_do_not_go_together(given: list[str], words: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        options.parsed(given, Door())
    assert words in capsys.readouterr().err


def test_the_command_follows_until_it_is_stopped(tmp_path: Path):
    filled(tmp_path)
    words = [
        sys.executable,
        "-m",
        "tablestore.cli",
        "maintain",
        "--warehouse",
        str(tmp_path),
        "--poll",
        "50 ms",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "d.t bucket-" in process.stdout.readline()
        finally:
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=120)
    assert (process.returncode, "stopped: 1 table" in err) == (130, True), err
