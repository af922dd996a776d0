"""What the guide shows to supervisors holds: exit codes, units of systemd, a Compose file."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tablestore.cli.door import Door, ExitCode

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "notebooks" / "guide" / "supervision.md").read_text(encoding="utf-8")
COMMANDS = ("cdc", "tier", "maintain")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.S)


def unit(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys of systemd keep their letters
    parser.read_string(text)
    return parser


def asked(command: str) -> Any:
    """The options of a command line, as the command reads them."""
    program, name, *arguments = shlex.split(command)
    assert Path(program).name == "tablestore"
    assert name in COMMANDS
    return import_module(f"tablestore.cli.{name}.options").parsed(arguments, Door())


def test_the_table_of_exit_codes_is_that_of_the_code():
    rows = re.findall(r"^\| (\d+) \| `([A-Z]+)` \| (.+) \|$", GUIDE, re.MULTILINE)
    assert [(int(code), name, text) for code, name, text in rows] == [
        (code.value, code.name, code.remedy) for code in ExitCode
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_names_only_codes_that_there_are(command: str):
    text = import_module(f"tablestore.cli.{command}.options").__doc__
    codes = re.findall(r"\b(\d+) (?=[a-z])", " ".join(text.split()).partition("Exit codes:")[2])
    assert {0, 2, 3, 130} <= {int(code) for code in codes} <= {code.value for code in ExitCode}


@pytest.mark.parametrize("text", blocks("ini"))
def test_units_of_systemd_start_what_there_is_and_not_what_is_refused(text: str):
    service = unit(text)["Service"]
    options = asked(service["ExecStart"])
    assert options.log == "json"
    assert options.metrics.startswith("127.0.0.1:")
    assert service["Restart"] == "on-failure"
    kept = {int(code) for code in service["RestartPreventExitStatus"].split()}
    good = {ExitCode.DONE, ExitCode(int(service["SuccessExitStatus"]))}
    assert good == {ExitCode.DONE, ExitCode.INTERRUPTED}
    assert kept == {*ExitCode} - good - {ExitCode.FAILED}
    assert int(service["TimeoutStopSec"]) >= 60


def test_units_are_of_two_commands_with_ports_of_their_own():
    services = [unit(text)["Service"] for text in blocks("ini")]
    assert [shlex.split(s["ExecStart"])[1] for s in services] == ["cdc", "maintain"]
    assert len({asked(s["ExecStart"]).metrics for s in services}) == 2


def test_the_compose_file_starts_what_there_is():
    (text,) = blocks("yaml")
    compose = yaml.safe_load(text)
    for service in compose["services"].values():
        assert re.fullmatch(r"on-failure:\d", service["restart"])  # it knows no codes: it starts so often
        options = asked(service["command"])
        assert options.log == "json"
        assert f"http://{options.metrics}/healthz" in service["healthcheck"]["test"][-1]
        for volume in service["volumes"]:
            name, _, place = volume.partition(":")
            assert name in compose["volumes"]
            assert options.warehouse == place
    capture = compose["services"]["capture"]
    (secret,) = capture["secrets"]
    assert secret in compose["secrets"]
    assert asked(capture["command"]).password_file == f"/run/secrets/{secret}"


def test_the_line_of_a_log_is_one_of_ours():
    (text,) = blocks("json")
    line = json.loads(text)
    assert list(line)[:4] == ["time", "level", "command", "event"]
    assert {"table", "snapshot", "rows", "message"} <= set(line)
