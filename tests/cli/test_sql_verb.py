"""`sql`: scripts with their output and exit codes, and the shell, typed at through a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from notebooks.cli.places import ROOT
from tablestore.cli.sql import options, output
from tablestore.cli.sql.shell import OwnHistory, help_text
from tablestore.sql import Result
from tablestore.sql.forms import FORMS
from tablestore.sql.settings import SETTINGS


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lake = ts.connect(tmp_path / "lake")
    orders = lake.create_table(
        "shop.orders",
        schema={"id": ts.INT, "name": ts.STRING, "amount": ts.DECIMAL(8, 2)},
        primary_key=["id"],
    )
    orders.write(pa.table({"id": [1, 2], "name": ["ann", 'b,"x'], "amount": [Decimal("1.50"), None]}))
    return tmp_path / "lake"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "notebooks.cli", "sql", *arguments]


def sql(*arguments: str | Path, stdin: str = "", home: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TABLESTORE_CACHE": str(home)}
    return subprocess.run(
        command(*map(str, arguments)),
        input=stdin,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_script_prints_plain_results(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "init.sql").write_text("USE shop;")
    (tmp_path / "more.sql").write_text("\ufeffINSERT INTO orders VALUES (3, NULL, 7);\n", encoding="utf-8")
    query = "SELECT * FROM orders ORDER BY id"
    done = sql(lake, "-i", tmp_path / "init.sql", "-f", tmp_path / "more.sql", "-e", query, home=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *table = done.stdout.splitlines()
    assert first.startswith("1 row into ")
    assert table == [
        "id │ name │ amount",
        "───┼──────┼───────",
        " 1 │ ann  │   1.50",
        ' 2 │ b,"x │   NULL',
        " 3 │ NULL │   7.00",
        "(3 rows)",
    ]


@pytest.mark.large
def test_roots_confine_the_statements(lake: Path, tmp_path: Path) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(f"{name}\n")
    options = "'connector' = 'filesystem', 'format' = 'csv', 'path' = '{1}'"
    create = f"CREATE TEMPORARY TABLE {{0}} (w STRING) WITH ({options});"
    script = "".join(create.format(name, tmp_path / name.strip("`")) for name in ("`in`", "`out`"))
    done = sql(lake, "--roots", tmp_path / "in", "-e", f"{script} SELECT * FROM `in`", "--csv", home=tmp_path)
    assert (done.returncode, done.stdout.split()[-1]) == (0, "in"), done.stderr
    done = sql(lake, "--roots", tmp_path / "in", "-e", f"{script} SELECT * FROM `out`", home=tmp_path)
    assert done.returncode == 1
    assert f"'{tmp_path}/out', and this session is confined: its roots are {tmp_path}/in" in done.stderr


@pytest.mark.large
def test_the_first_error_ends_a_script_and_points_at_its_place(lake: Path, tmp_path: Path) -> None:
    script = "SELECT 1 AS one;\nSELECT nme FROM shop.orders;\nDROP TABLE shop.orders"
    done = sql(lake, "--csv", stdin=script, home=tmp_path)
    assert done.returncode == 1
    assert done.stdout == "one\n1\n"
    assert "line 2, column 8: no column 'nme'; did you mean name?\n  SELECT nme FROM" in done.stderr
    assert "(statement 2 of 3; those before it were carried out)" in done.stderr
    assert "Traceback" not in done.stderr
    assert ts.connect(lake).tables() == ["shop.orders"]


@pytest.mark.large
def test_output_for_programs(lake: Path, tmp_path: Path) -> None:
    query = "SELECT * FROM shop.orders ORDER BY id"
    rows = [json.loads(line) for line in sql(lake, "--json", "-e", query, home=tmp_path).stdout.splitlines()]
    assert rows == [
        {"id": 1, "name": "ann", "amount": "1.50"},
        {"id": 2, "name": 'b,"x', "amount": None},
    ]
    done = sql(lake, "--csv", "-e", "USE shop; " + query, home=tmp_path)
    assert done.stdout == 'id,name,amount\n1,ann,1.50\n2,"b,""x",\n'
    assert "the current database is lake.shop" in done.stderr


@pytest.mark.large
def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    done = sql("-f", tmp_path / "nope.sql", home=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nope.sql" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sql("--option", "x", home=tmp_path).returncode == 2


@pytest.mark.large
def test_a_mistyped_lake_is_no_empty_one(lake: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "lakke"
    done = sql(wrong, "-e", "SHOW DATABASES", home=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"there is no lake {wrong}; did you mean {lake}? --create makes an empty one" in done.stderr
    assert not wrong.exists()
    assert sql(wrong, "--create", "-e", "CREATE DATABASE shop", home=tmp_path).returncode == 0
    assert sql(wrong, "-e", "SHOW DATABASES", "--csv", home=tmp_path).stdout == "database name\nshop\n"
    assert sql(lake, "--csv", "--json", home=tmp_path).returncode == 2


def test_long_results_are_printed_as_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.table({"n": range(2500)})
    output.as_text(Result(rows.to_reader(max_chunksize=700)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 2500 + 1
    assert lines[-1] == "(2,500 rows)"


@pytest.mark.parametrize(
    ("value", "kind", "csv", "as_json"),
    [
        (None, pa.string(), "", None),
        ("", pa.string(), '""', ""),
        ("a\nb", pa.string(), '"a\nb"', "a\nb"),
        (1.5, pa.float64(), "1.5", 1.5),
        (float("nan"), pa.float64(), "nan", "nan"),
        (Decimal("1.50"), pa.decimal128(5, 2), "1.50", "1.50"),
        (Decimal("0E-10"), pa.decimal128(20, 10), "0.0000000000", "0.0000000000"),
        (Decimal("1.00000E-7"), pa.decimal128(20, 12), "0.000000100000", "0.000000100000"),
        (Decimal("-0.05"), pa.decimal256(50, 2), "-0.05", "-0.05"),
        (25.2, pa.float32(), "25.2", 25.2),
        (1.0, pa.float64(), "1.0", 1.0),
        (True, pa.bool_(), "TRUE", True),
        (7, pa.int8(), "7", 7),
        ("\u00e4\x01\\", pa.string(), "\u00e4\x01\\", "\u00e4\x01\\"),
        (date(1500, 3, 1), pa.date32(), "1500-03-01", "1500-03-01"),
        ("a", pa.dictionary(pa.int8(), pa.string()), "a", "a"),
        ({"a": [1], "b": b"\x00"}, pa.struct({"a": pa.list_(pa.int8()), "b": pa.binary()}),
         "\"{a: [1], b: x'00'}\"", {"a": [1], "b": "00"}),
        ([("k", 1)], pa.map_(pa.string(), pa.int8()), "{'k': 1}", [["k", 1]]),
    ],
)  # fmt: skip
def test_values_for_programs(value: object, kind: pa.DataType, csv: str, as_json: object) -> None:
    column = pa.array([value, None], kind)
    assert output.csv_texts(column).to_pylist() == [csv, ""]
    first, second = output.json_texts(column).to_pylist()
    assert (json.loads(first), second) == (as_json, "null")


def test_help_names_every_statement() -> None:
    text = help_text()
    assert all(form.words in text for form in FORMS)
    assert help_text("alter table").startswith("ALTER TABLE [IF EXISTS] table {SET")
    assert "no statement begins with nope" in help_text("nope")


def test_the_engines_of_the_options_are_those_of_the_setting() -> None:
    setting = SETTINGS["execution.engine"]
    assert (options.ENGINES, options.ENGINES[0]) == (setting.values, setting.default)


def test_secrets_stay_out_of_the_history(tmp_path: Path) -> None:
    history = OwnHistory(str(tmp_path / "history"))
    for text in (
        "SELECT 1;",
        "CREATE CATALOG c WITH ('warehouse' = 's3://b', 's3.secret-key' = 'hidden-1');",
        "CREATE CATALOG c WITH ('uri' = 'postgresql://ann:hidden-2@host/db');",
        "CREATE CATALOG c WITH ('s3.secret-key' = 'hidden-3",
    ):
        history.append_string(text)
    kept = (tmp_path / "history").read_text()
    assert "SELECT 1;" in kept
    assert "hidden" not in kept
    assert "hidden-1" in history.get_strings()[1]  # as long as the shell runs


class TypedTerminal:
    """A program that thinks somebody types at it."""

    def __init__(self, arguments: list[str], home: Path) -> None:
        self._mine, theirs = pty.openpty()
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "TABLESTORE_CACHE": str(home),
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        beginning = "import os, sys; os.login_tty(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"
        self.process = subprocess.Popen(  # Ctrl-C reaches who has the terminal
            [sys.executable, "-c", beginning, str(theirs), *arguments], env=environment, pass_fds=(theirs,)
        )
        os.close(theirs)
        self._new = ""

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def wait_for(self, text: str, seconds: float = 240) -> str:
        """What appears until this text does; what comes after it is for the next."""
        end = time.monotonic() + seconds
        while text not in self._new:
            ready, _, _ = select.select([self._mine], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {text!r} in {self._new!r}"
            try:
                self._new += os.read(self._mine, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"it ended, without {text!r}: {self._new!r}") from None
        before, _, self._new = self._new.partition(text)
        return before + text

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._mine)


@pytest.fixture
def shell(lake: Path, tmp_path: Path) -> Iterator[TypedTerminal]:
    terminal = TypedTerminal(command(str(lake)), tmp_path)
    yield terminal
    terminal.close()


def test_the_shell_completes_runs_stops_and_ends(shell: TypedTerminal, tmp_path: Path) -> None:
    shell.wait_for("Ctrl-C stops a statement.")
    shell.wait_for("lake.default>")
    shell.type("USE shop;\r")
    shell.wait_for("the current database is lake.shop")
    shell.wait_for("lake.shop>")
    shell.type("SELECT count(*) AS how_many\r")  # goes on in the next line
    shell.wait_for("·")
    shell.type("FROM ord")
    shell.wait_for("orders")  # in the menu
    shell.type("\t")
    shell.type(" WHERE id < 9;\r")
    shell.wait_for("how_many\r\n")
    shell.wait_for("2\r\n1 row · ")
    shell.type("SELECT nope FROM orders;\r")
    shell.wait_for("no column 'nope'")
    shell.wait_for("lake.shop>")
    shell.type("SELECT count(*) FROM " + ", ".join(f"orders AS o{i}" for i in range(40)) + ";\r")
    shell.wait_for(" s, Ctrl-C stops")  # the bar, after a second
    shell.type("\x03")
    shell.wait_for("stopped")
    shell.wait_for("lake.shop>")
    shell.type("\\? show tables\r")
    shell.wait_for("SHOW TABLES [{FROM | IN}")
    shell.wait_for("lake.shop>")
    shell.type("\x04")
    assert shell.process.wait(240) == 0
    assert "USE shop;" in (tmp_path / "sql-history").read_text()
    assert (tmp_path / "sql-history").stat().st_mode & 0o077 == 0


@pytest.mark.large
def test_the_shell_follows_a_stream_until_ctrl_c(shell: TypedTerminal, lake: Path) -> None:
    shell.wait_for("lake.default>")
    shell.type("SET 'execution.runtime-mode' = 'streaming';\r")
    shell.wait_for("execution.runtime-mode is streaming")
    shell.wait_for("lake.default>")
    shell.type("SELECT id, name FROM shop.orders;\r")
    shell.wait_for("rows come until Ctrl-C")
    shell.wait_for("op │ id │ name")
    shell.wait_for("+I │  2 │ b")
    ts.connect(lake).table("shop.orders").delete("id = 2")
    shell.wait_for("-D │  2 │ b")
    shell.type("\x03")
    shell.wait_for("stopped: 3 changes (+I 2, -D 1) · ")
    shell.wait_for("lake.default>")
    shell.type("SELECT x FROM (VALUES (7)) AS t (x);\r")
    shell.wait_for("+I │ 7")
    shell.wait_for("1 change (+I 1) · ")
    shell.wait_for("lake.default>")


@pytest.mark.large
@pytest.mark.parametrize("form", ["", "--json", "--csv"])
@pytest.mark.sample(1)
def test_a_script_follows_a_stream_until_ctrl_c(lake: Path, tmp_path: Path, form: str) -> None:
    text = "SET 'execution.runtime-mode' = 'streaming'; SELECT id FROM shop.orders; SELECT 'later'"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TABLESTORE_CACHE": str(tmp_path)}
    arguments = command(str(lake), "-e", text, *([form] if form else []))
    running = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines = iter(running.stdout.readline, "")
    wanted = {"": "+I │  2", "--json": '{"op": "+I", "id": 2}', "--csv": "+I,2"}[form]
    assert any(line.strip() == wanted for line in lines)
    running.send_signal(signal.SIGINT)
    rest, problem = running.communicate(timeout=240)
    assert running.returncode == 130
    assert problem.splitlines()[-1].startswith("stopped: 2 changes (+I 2) · ")
    assert "later" not in rest


@pytest.mark.spark
@pytest.mark.large
def test_a_script_waits_for_its_jobs_and_ctrl_c_stops_them(lake: Path, tmp_path: Path) -> None:
    script = tmp_path / "jobs.sql"
    script.write_text(
        "USE shop; CREATE TABLE copied (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('bucket' = '1'); SET 'execution.runtime-mode' = 'streaming'; "
        "SET 'execution.checkpointing.interval' = '100 ms'; INSERT INTO copied SELECT id, name FROM orders;"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TABLESTORE_CACHE": str(tmp_path)}
    process = subprocess.Popen(
        command(str(lake), "-f", str(script)),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 300
    while not (actual := copied(lake)) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    said, problems = process.communicate(timeout=120)
    assert actual == [1, 2], problems
    assert process.returncode == 130, problems
    assert "job 'shop.copied' is running" in said
    assert problems.splitlines()[-1] == "stopped: shop.copied"
    (shown,) = ts.sql_session(ts.connect(lake)).sql("SHOW JOBS").to_arrow().to_pylist()
    assert (shown["status"], shown["rows"]) == ("STOPPED", 2)


def copied(lake: Path) -> list[int]:
    table = ts.connect(lake)
    if "shop.copied" not in table:
        return []
    return sorted(table.table("shop.copied").scan(["id"]).to_arrow()["id"].to_pylist())
