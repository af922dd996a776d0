"""Every exit code, of a process that ends by it: what a supervisor sees. `PAUSED` is in `test_cdc_verb.py`
with a real MariaDB, `GROWS` in `tests/demo/test_soak.py`."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tablestore as ts
from notebooks.cli.places import ROOT
from tablestore.cli.door import ExitCode

pytestmark = pytest.mark.large
_DROP_FROM_BOUNDING_SET, _DAC_OVERRIDE = 24, 1


def obey_modes() -> None:
    """Let the modes of files bind the program that this process starts, also where it is root's."""
    ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDING_SET, _DAC_OVERRIDE, 0, 0, 0)  # others may not, and need not


def ended(*arguments: str, timeout: float = 240) -> tuple[int, str]:
    """The exit code of a command, and what it said to people."""
    command = (sys.executable, "-P", "-m", "tablestore.cli", *arguments)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        preexec_fn=obey_modes,
    )
    return done.returncode, done.stderr.strip()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "lake"
    table = ts.connect(place).create_table(
        "d.t", schema={"id": ts.BIGINT}, primary_key=["id"], options={"bucket": 1, "write-only": True}
    )
    for n in range(6):
        table.write([{"id": n}])
    yield place
    for folder, _, _ in os.walk(place):
        os.chmod(folder, 0o700)


def test_work_that_is_done_is_no_failure(lake: Path) -> None:
    code, said = ended("maintain", "--warehouse", str(lake), "--once")
    assert (code, said.count("\n")) == (ExitCode.DONE, 0)
    assert said.startswith("ended: 1 table")
    assert ts.connect(lake).table("d.t").inspect.health().most_runs == 1


def test_a_broken_table_is_looked_at(lake: Path) -> None:
    (data, *_) = (lake / "d.db/t/bucket-0").iterdir()
    data.unlink()
    assert ended("doctor", str(lake))[0] == ExitCode.WRONG


@pytest.mark.parametrize(
    "command",
    [
        ("maintain", "--once"),
        ("tier", "--serve"),
    ],
    ids=lambda command: command[0],
)
def test_a_lake_that_may_not_be_written_is_refused_by_name_and_not_started_again(
    lake: Path, command: tuple[str, ...]
) -> None:
    for folder, _, _ in os.walk(lake):
        os.chmod(folder, 0o500)
    code, said = ended(*command, "--warehouse", str(lake))
    assert (code, said.count("\n")) == (ExitCode.REFUSED, 0), said
    assert said.startswith(f"{command[0]}: [Errno 13] {lake}")
    assert said.endswith("Permission denied (give the user of this process the right to it)")


def test_what_cannot_be_served_or_read_is_refused_in_one_line(lake: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = "Address already in use: name another"
        for command in (
            ("maintain", "--warehouse", str(lake), "--metrics", f"127.0.0.1:{port}"),
            ("tier", "--serve", "--warehouse", str(lake), "--port", port),
            ("sql", str(lake), "--serve", "--port", port),
        ):
            code, said = ended(*command)
            assert (code, said.count("\n")) == (ExitCode.REFUSED, 0), said
            assert words in said
            assert port in said
    missing = str(tmp_path / "no.toml")
    code, said = ended("maintain", "--warehouse", str(lake), "--policy", missing)
    assert (code, said) == (ExitCode.REFUSED, f"maintain: --policy {missing}: No such file or directory")


def test_what_is_away_is_started_again(lake: Path) -> None:
    code, said = ended("tier", "--from", "fluss://127.0.0.1:1", "--wait", "10ms", "--warehouse", str(lake))
    assert code == ExitCode.FAILED
    assert said.splitlines()[-1].startswith("tier: failed: no server of fluss://127.0.0.1:1 answers")


def test_a_table_that_cannot_be_read_leaves_the_others_alone_and_is_named(lake: Path) -> None:
    shutil.copytree(lake / "d.db/t", lake / "d.db/u")
    (lake / "d.db/u/schema/schema-0").write_text("{")
    code, said = ended("maintain", "--warehouse", str(lake), "--once")
    assert code == ExitCode.FAILED
    assert "schema-0" in said
    assert ts.connect(lake).table("d.t").inspect.health().most_runs == 1


def test_a_command_that_there_is_not_is_unknown() -> None:
    assert ended("maintian")[0] == ExitCode.UNKNOWN


def test_sigterm_is_a_good_end(lake: Path) -> None:
    command = (sys.executable, "-P", "-m", "tablestore.cli", "tier", "--serve", "--warehouse", str(lake))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("fluss://")
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(120) == ExitCode.INTERRUPTED
