"""`demo --source`: a private MariaDB from start to end, and what is refused before anything is touched."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import tablestore as ts
from notebooks.cli import demo as verb
from notebooks.demo import postgres
from notebooks.demo.journal import Journal, Places
from notebooks.demo.ports import listens
from tests.servers.mariadb import MariaDb
from tests.suite import counterparts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--source", "shop"], "write mariadb or postgres for a private one, or mysql://user@host/database"),
        (["--source", "postgresql://me:secret@localhost/shop"], "`workbench cdc --from` captures it"),
        (["--source", "mysql://me@localhost"], "name a database, as mysql://me@localhost:3306/shop"),
        (["--source", "mysql://me:secret@localhost/shop"], "holds a password"),
        (["--source", "mysql://me@localhost/shop", "--refresh"], "--refresh needs --scale-factor"),
        (["--source", "mysql://me@localhost/shop", "--pace", "-1"], "--pace -1.0: use at least 0"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_no_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
):
    assert verb.main([*arguments, "--warehouse", str(tmp_path)]) == verb.REFUSED
    shown = " ".join(capsys.readouterr().err.split())
    assert text in shown
    assert "secret" not in shown
    assert not (tmp_path / ".demo" / "journal.jsonl").exists()


@pytest.mark.parametrize(
    ("source", "package"), [("mariadb", "mariadb-server-core"), ("postgres", "postgresql")]
)
def test_without_the_server_it_says_what_to_install(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    package: str,
):
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(postgres, "_programs", lambda: None)  # it is beside the PATH
    assert verb.main(["--source", source, "--warehouse", str(tmp_path)]) == verb.REFUSED
    assert re.search(rf"apt-get install .*{package}", " ".join(capsys.readouterr().err.split()))


def test_one_demo_never_goes_on_in_the_warehouse_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    counterparts.need("MariaDB")
    places = Places(tmp_path)
    places.own.mkdir()
    Journal(places.journal).add("plan", scale_factor="0.1", pairs=10)
    assert verb.main(["--source", "mariadb", "--warehouse", str(tmp_path)]) == verb.REFUSED
    assert "add --fresh" in capsys.readouterr().err
    Journal(places.journal).add("plan", source="mariadb", scale_factor="0.1", pairs=10)
    assert verb.main(["--warehouse", str(tmp_path)]) == verb.REFUSED
    assert "a demo of mariadb: add --fresh" in " ".join(capsys.readouterr().err.split())


def test_tables_that_are_not_there_or_taken_are_named(
    mariadb: MariaDb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    mariadb.run("CREATE OR REPLACE DATABASE named", "CREATE TABLE named.t (id INT PRIMARY KEY)")
    options = ["--source", f"{mariadb.url}/named", "--password-file", str(mariadb.password_file)]
    options += ["--warehouse", str(tmp_path)]
    assert verb.main([*options, "--tables", "x*"]) == verb.REFUSED
    assert "no table that matches x*" in " ".join(capsys.readouterr().err.split())
    assert verb.main([*options, "--refresh", "--scale-factor", "0.01"]) == verb.REFUSED
    assert "orders is not among the tables" in " ".join(capsys.readouterr().err.split())
    mariadb.run("DROP DATABASE named")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize(("source", "counterpart"), [("mariadb", "MariaDB"), ("postgres", "PostgreSQL")])
@pytest.mark.large
def test_no_server_outlives_a_demo_that_is_ended(
    tmp_path: Path, ending: signal.Signals, source: str, counterpart: str
):
    counterparts.need(counterpart)
    command = [sys.executable, "-m", "notebooks.cli", "demo", "--source", source, "--scale-factor", "0.1"]
    with tempfile.TemporaryDirectory(prefix="workbench-places-") as places:
        os.chmod(places, 0o755)  # the server is another user's where we are root
        port = started_and_ended([*command, "--warehouse", str(tmp_path / "lake")], places, ending)
        until = time.monotonic() + 240
        while listens(port) or list(Path(places).glob(f"workbench-{source}-*")):
            assert time.monotonic() < until, "the server or its directory is still there"
            time.sleep(0.05)


def started_and_ended(command: list[str], temporary: str, ending: signal.Signals) -> int:
    """The port of the server that there was."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": temporary, "PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    port = 0
    while not port:
        line = process.stderr.readline()
        assert line, "it ended before the server was there"
        match = re.search(r"sql://reader@127.0.0.1:(\d+)", line)
        port = int(match[1]) if match else 0
    assert listens(port)
    process.send_signal(ending)
    process.communicate()
    return port


@pytest.mark.spark
@pytest.mark.large
@pytest.mark.parametrize(
    ("source", "counterpart", "partitions"),
    [("mariadb", "MariaDB", ("l_year", "l_month")), ("postgres", "PostgreSQL", ())],
)
def test_a_private_server_is_captured_while_it_changes_and_both_sides_agree(
    tmp_path: Path, source: str, counterpart: str, partitions: tuple[str, ...]
):
    counterparts.need(counterpart)
    figures, page, lake = tmp_path / "demo.json", tmp_path / "demo.html", tmp_path / "lake"
    command = [sys.executable, "-m", "notebooks.cli", "demo", "--source", source, "--warehouse", str(lake)]
    command += ["--scale-factor", "0.001", "--pairs", "3", "--pace", "0.5", "--interval", "0.1"]
    done = subprocess.run(
        [*command, "--json", str(figures), "--html", str(page)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(figures.read_text())
    assert (document["verified"], document["pairs"], len(document["tables"])) == (True, 3, 8)
    assert document["transactions"] > 0
    assert document["freshness_while_loading"] or document["freshness_following"]
    table = ts.open(str(lake / "tpch.db" / "dwd_lineitem"))
    assert table.partition_by == partitions
    assert table.primary_key == ("l_orderkey", "l_linenumber", *partitions)
    assert {"l_year", "l_month"} <= {*table.schema.names}
    assert ts.open(str(lake / "tpch.db" / "ads_pricing_summary")).scan().to_arrow().num_rows == 4
    assert document["rows_final"] == sum(table["rows"] for table in document["tables"])
    assert "<title>tpch.dwd_lineitem</title>" in page.read_text()
    for place in lake.rglob("*"):
        assert "password" not in place.name
