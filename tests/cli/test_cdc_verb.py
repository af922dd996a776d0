"""`./workbench cdc`: its options, what it shows, and one capture of a real MariaDB."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from inspect import signature
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import tablestore as ts
from notebooks.cli.places import CHECKOUT, ROOT
from tablestore.cdc.capture import rules
from tablestore.cdc.capture.computed import METADATA
from tablestore.cdc.capture.functions import FUNCTIONS
from tablestore.cdc.capture.preview import preview
from tablestore.cdc.capture.report import BatchReport, ChunkReport, EventReport, TableReport
from tablestore.cdc.capture.rules import TYPE_MAPPINGS, CaptureRules
from tablestore.cdc.capture.source import SKIPPED
from tablestore.cdc.databases.address import PASSWORD_VARIABLE, TLS_MODES
from tablestore.cdc.mysql.columns import ZERO_DATES
from tablestore.cli.cdc import command as cdc
from tablestore.cli.cdc import options
from tablestore.cli.cdc.command import plan_lines
from tablestore.cli.cdc.screen import picture, plain_lines, summary
from tablestore.cli.door import ExitCode
from tablestore.cli.running import REFUSED
from tablestore.flow.runner import ENGINES
from tests.cdc.capture.fakes import FakeSource, FakeStep, captured, event, shape
from tests.servers.mariadb import PASSWORD, MariaDb

REPORT = BatchReport(
    3,
    planned=1000.0,
    started=1000.5,
    ended=1002.5,
    position="binlog.000004:77",
    bytes_behind=2_500_000,
    commits=((1001, 2),),
    snapshotting=("shop.orders",),
    tables=(TableReport("ods.orders", 6_000, 40, 2, 9),),
    chunks=(ChunkReport("shop.orders", None, "6000", False, 6_000, 1000.5, 1002.5),),
    events=(
        EventReport("captured", "shop.orders", "ods.orders", "", "p", 0, "created", 18_000),
        EventReport("altered", "shop.[b]x[/b]", "ods.x", "ALTER TABLE x ADD n INT", "p", 1001, "added n INT"),
    ),
)


def test_options_are_the_arguments_of_ingest() -> None:
    written = [
        *("--from", "mysql://u@h/shop", "--tables", "shop.*", "--tables", "crm.people", "--once"),
        *("--computed", "dt=date(created_at)", "--primary-keys", "*,dt", "--primary-keys", "shop.x=a,dt"),
        *("--partition-by", "dt", "--table-option", "bucket=4", "--chunk-rows", "500", "--merge-shards"),
        *("--leave-out", "shop.x=photo", "--read-again", "shop.x", "--read-again", "crm.*"),
    ]
    given = cdc.wanted(options.parsed(written, CHECKOUT))
    assert {name: value for name, value in given.items() if value not in ("", {}, None)} == {
        "tables": "shop.*,crm.people",
        "merge_shards": True,
        "primary_keys": {"shop.x": "a,dt", "*.*": "*,dt"},
        "partition_by": {"*.*": "dt"},
        "computed": {"dt": "date(created_at)"},
        "options": {"bucket": "4"},
        "schema_change": "evolve",
        "bad_rows": "fail",
        "keyless": "refuse",
        "follow": False,
        "chunk_rows": 500,
        "left_out": {"shop.x": "photo"},
        "read_again": "shop.x,crm.*",
    }


def test_the_words_of_options_are_those_of_the_engine() -> None:
    assert (*FUNCTIONS,) == options.FUNCTIONS
    assert (*METADATA,) == options.METADATA
    assert (*TYPE_MAPPINGS,) == options.TYPE_MAPPINGS
    assert (rules.BAD_ROWS, rules.KEYLESS, rules.SCHEMA_CHANGES) == (
        options.BAD_ROWS,
        options.KEYLESS,
        options.SCHEMA_CHANGES,
    )
    assert (TLS_MODES, ZERO_DATES, ENGINES) == (options.TLS_MODES, options.ZERO_DATES, options.ENGINES)


def test_the_commands_of_the_guide_are_ones() -> None:
    text = (ROOT / "notebooks" / "guide" / "capture.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("./workbench cdc ")]
    assert len(lines) == 4
    for line in lines:
        given = cdc.wanted(options.parsed(shlex.split(line, comments=True)[2:], CHECKOUT))
        names = signature(CaptureRules.of).parameters
        CaptureRules.of(given.pop("tables", "shop.*"), **{k: v for k, v in given.items() if k in names})


def test_computed_columns_of_some_tables() -> None:
    assert cdc.computed(["shop.*:y=year(at)", "z=upper(n)"]) == {
        "shop.*": {"y": "year(at)"},
        "*.*": {"z": "upper(n)"},
    }
    with pytest.raises(ts.InvalidRequest, match="NAME=EXPRESSION"):
        cdc.computed(["year(at)"])


def test_lines_say_what_a_batch_did() -> None:
    assert list(plain_lines(REPORT)) == [
        "00:16:42 captured shop.orders → ods.orders: created",
        "00:16:42 altered shop.[b]x[/b] → ods.x by ALTER TABLE x ADD n INT: added n INT",
        "00:16:42 batch 3: 6,040 rows in 2.0 s (ods.orders 6,040), 2 bad rows, visible 1.5 s after their "
        "commit, 2.38 MiB of log to read, reading shop.orders",
    ]
    assert list(plain_lines(BatchReport(4, 1.0, 1.0, 2.0, "p"))) == []


def test_the_picture_has_a_row_a_table_and_the_last_statement() -> None:
    model = ts.capture_model([REPORT], title="shop", now=1003.0, state="running")
    screen = Console(force_terminal=True, width=110, record=True, file=StringIO())
    screen.print(picture(model))
    text = screen.export_text()
    for part in (
        "running",
        "binlog.000004:77",
        "shop.orders → ods.orders",
        "6,000 of ≈ 18,000 rows",
        "3,000",  # rows a second
        "4.0 s",  # what is left
        "freshness p50 1.5 s",
        "log behind 2.38 MiB",
        "altered shop.[b]x[/b]: ALTER TABLE x ADD n INT → added n INT",
    ):
        assert part in text
    assert summary(model).startswith("2 tables · 6,000 rows read · 40 changes · 2 bad rows")
    done = replace(REPORT, number=4, snapshotting=(), events=(), chunks=())
    screen.print(picture(ts.capture_model([REPORT, done], title="shop", now=1003.0, state="ended")))
    assert "6,000 rows" in screen.export_text()


def test_a_plan_shows_columns_keys_and_what_is_left_out() -> None:
    orders = shape(("id", "INT NOT NULL"), ("at", "TIMESTAMP(0)"))
    stale = captured("orders", orders, rows=12, reason="rows go stale")
    source = FakeSource([FakeStep([stale, event(SKIPPED, "g", reason="no key")])])
    rules = CaptureRules.of(
        "shop.*",
        into="ods",
        computed={"dt": "date(at)"},
        primary_keys="*,dt",
        partition_by="dt",
        metadata="op_ts",
    )
    assert plan_lines(preview(source, rules)) == [
        "ods.orders  from shop.orders (about 12 rows)",
        "  primary key (id, dt), partitioned by (dt)",
        "  id     INT NOT NULL",
        "  at     TIMESTAMP(0)",
        "  dt     DATE NOT NULL             date(at)",
        "  op_ts  TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL  metadata",
        "  WARNING  shop.orders: rows go stale",
        "",
        "left out  shop.g: no key",
    ]


class FakeJob:
    """A capture that ends after a while, or once it is stopped."""

    name, error = "cdc-shop", None

    def __init__(self, looks: int) -> None:
        self.looks, self.state = looks, "running"

    @property
    def running(self) -> bool:
        self.looks -= 1
        if self.looks == 1:
            os.kill(os.getpid(), signal.SIGINT)
        if self.looks == 0 and self.state == "running":
            self.state = "ended"
        return self.state == "running"

    def stop(self) -> None:
        self.state = "stopped" if self.state == "running" else self.state

    def reports(self) -> list[BatchReport]:
        return [REPORT]

    def progress(self) -> None:
        """None between two batches."""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ts.Unavailable(0, "no server answers"), ExitCode.FAILED, "the same command goes on from here"),
        (
            ts.NotFound("table ods.t is gone"),
            ExitCode.REFUSED,
            "another start ends the same until that is mended",
        ),
    ],
)
def test_an_end_says_what_another_start_does(error: Exception, code: ExitCode, words: str) -> None:
    job = FakeJob(0)
    job.state, job.error = "failed", error
    screen = Console(width=110, file=StringIO())
    assert cdc.show(job, [], screen, None) == code
    assert words in screen.file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_first_interrupt_stops_between_two_batches(terminal: bool, tmp_path: Path, capsys) -> None:
    (log := tmp_path / "spark.log").touch()
    screen = Console(force_terminal=terminal, width=110, file=StringIO())
    before = signal.getsignal(signal.SIGINT)
    assert cdc.show(FakeJob(3), [REPORT], screen, log) == cdc.INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is before
    said = screen.file.getvalue()
    assert "stopping after this batch" in said
    assert "the same command goes on from here" in said
    assert ("batch 3" in capsys.readouterr().out) is not terminal
    assert not log.exists()


def test_an_end_is_a_success_and_an_error_keeps_the_log(tmp_path: Path) -> None:
    (log := tmp_path / "spark.log").touch()
    screen, failed = Console(width=110, file=StringIO()), FakeJob(0)
    failed.state, failed.error = "failed", ts.InvalidRequest("[b] no such thing")
    assert cdc.show(failed, [], screen, log) == REFUSED, "another start ends the same"
    assert "cdc: failed: [b] no such thing" in screen.file.getvalue()
    assert log.exists()
    ended = FakeJob(0)
    ended.state = "ended"
    assert cdc.show(ended, [], screen, log) == 0


def test_an_end_with_paused_tables_is_no_success_and_says_which_to_read_again(tmp_path: Path) -> None:
    (log := tmp_path / "spark.log").touch()
    screen, ended = Console(width=110, file=StringIO()), FakeJob(0)
    event = EventReport("paused", "shop.orders", "ods.orders", "", "p", 0, "XA transactions", None)
    last = replace(REPORT, number=4, events=(event,), snapshotting=(), paused=("shop.orders", "shop.b"))
    assert BatchReport.from_json(json.loads(json.dumps(last.to_json()))) == last
    ended.state, ended.reports = "ended", lambda: [REPORT, last]
    assert cdc.show(ended, [], screen, log) == ExitCode.PAUSED == 4
    said = screen.file.getvalue()
    assert "cdc: paused: shop.orders,shop.b" in said
    for option in ("--read-again ", "--exclude "):
        assert shlex.split(said.partition(option)[2])[0] == "shop.orders,shop.b"
    model = ts.capture_model(ended.reports(), title="shop", now=1.0, state="ended")
    assert model.lanes[0].text == "paused"
    assert next(plain_lines(last)).endswith("paused shop.orders → ods.orders: XA transactions")


@pytest.fixture
def shop(mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with a table of two rows, one that nothing can be captured of, and one that is left out."""
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    name = f"d{uuid.uuid4().hex[:12]}"
    for statement in (
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, at DATETIME NOT NULL, paid TINYINT(1))",
        f"INSERT INTO {name}.orders VALUES (1, '2024-01-05', 1), (2, '2024-02-05', 0)",
        f"CREATE TABLE {name}.keyless (n INT)",
        f"CREATE TABLE {name}.tmp_1 (id INT PRIMARY KEY)",
    ):
        mariadb.run(statement)
    yield name
    mariadb.run(f"DROP DATABASE {name}")


@pytest.mark.spark
@pytest.mark.large
def test_a_database_is_planned_and_captured_to_its_end(shop: str, mariadb: MariaDb, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    written = [
        *("--from", f"{mariadb.url}/{shop}", "--exclude", "*.tmp_*", "--warehouse", str(lake)),
        *("--into", "ods", "--prefix", "o_", "--computed", "dt=date_format(at, yyyy-MM)"),
        *("--primary-keys", f"{shop}.orders=*,dt", "--partition-by", f"{shop}.orders=dt"),
        *("--metadata", "table_name", "--type-mapping", "tinyint1-to-bool", "--table-option", "bucket=2"),
    ]
    planned = cdc_verb(*written, "--plan")
    assert planned.returncode == 0, planned.stderr
    assert f"ods.o_orders  from {shop}.orders (about 2 rows)" in planned.stdout
    assert re.search(r"paid +BOOLEAN +tinyint\(1\)", planned.stdout)
    assert re.search(rf"left out  {shop}.keyless: .*key", planned.stdout)
    assert "tmp_1" not in planned.stdout
    assert not lake.exists()

    done = cdc_verb(*written, "--once")
    assert done.returncode == 0, done.stderr
    assert f"captured {shop}.orders → ods.o_orders: created" in done.stdout
    assert f"skipped {shop}.keyless" in done.stdout
    assert "2 rows read" in done.stderr
    table = ts.connect(lake).table("ods.o_orders")
    assert (table.primary_key, table.partition_by) == (("id", "dt"), ("dt",))
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    actual = [(row["id"], row["paid"], row["dt"], row["table_name"]) for row in rows]
    assert actual == [(1, True, "2024-01", "orders"), (2, False, "2024-02", "orders")]


@pytest.mark.large
def test_a_paused_table_ends_with_its_exit_code_until_it_is_excluded(
    shop: str, mariadb: MariaDb, tmp_path: Path
) -> None:
    written = [*("--from", f"{mariadb.url}/{shop}", "--warehouse", str(tmp_path / "lake"), "--into", "ods")]
    written += ["--engine", "local"]
    done = cdc_verb(*written, "--once")
    assert done.returncode == 0, done.stderr
    mariadb.run(f"ALTER TABLE {shop}.orders MODIFY paid VARCHAR(9)")
    mariadb.run(f"INSERT INTO {shop}.orders VALUES (3, '2024-03-05', 'x')")
    mariadb.run(f"INSERT INTO {shop}.tmp_1 VALUES (1)")
    for _ in range(2):  # the second one has nothing to read
        done = cdc_verb(*written, "--once")
        assert done.returncode == ExitCode.PAUSED, done.stderr
        assert f"cdc: paused: {shop}.orders" in done.stderr
    tmp = ts.connect(tmp_path / "lake").table("ods.tmp_1")
    assert tmp.scan().to_arrow().num_rows == 1
    remedy = re.search(r"(--exclude) '([^']+)'", done.stderr)
    assert remedy is not None
    mariadb.run(f"INSERT INTO {shop}.tmp_1 VALUES (2)")
    done = cdc_verb(*written, *remedy.groups(), "--once")
    assert done.returncode == 0, done.stderr
    assert f"skipped {shop}.orders" in done.stdout
    assert tmp.scan().to_arrow().num_rows == 2


def test_a_capture_needs_no_java_with_the_local_engine(
    shop: str, mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    written = [*("--from", f"{mariadb.url}/{shop}", "--warehouse", str(tmp_path / "lake"), "--into", "ods")]
    refused = cdc_verb(*written, "--once")
    assert refused.returncode == REFUSED
    assert "no Java: none in PATH" in refused.stderr
    assert "--engine local" in refused.stderr.replace("\n", "")
    done = cdc_verb(*written, "--once", "--engine", "local", "--cores", "2")
    assert done.returncode == 0, done.stderr
    assert ts.connect(tmp_path / "lake").table("ods.orders").scan().to_arrow().num_rows == 2
    assert "Spark" not in done.stderr


def test_a_master_is_a_cluster_of_spark(tmp_path: Path) -> None:
    written = ["--from", "mysql://u@127.0.0.1:1/shop", "--warehouse", str(tmp_path / "lake"), "--master"]
    for more, why in (
        (["yarn"], "--master yarn is no address of a cluster: write spark://host:port"),
        (["spark://127.0.0.1:1", "--engine", "local"], "--master spark://127.0.0.1:1 is of --engine spark"),
    ):
        refused = cdc_verb(*written, *more, "--once")
        assert refused.returncode == REFUSED
        assert why in refused.stderr.replace("\n", "")
    assert not (tmp_path / "lake").exists()


def cdc_verb(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "notebooks.cli", "cdc", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_password_in_the_address_is_refused_and_not_shown(tmp_path: Path) -> None:
    done = cdc_verb("--from", "mysql://u:hunter2@h/shop", "--warehouse", str(tmp_path), "--plan")
    assert done.returncode == REFUSED
    assert PASSWORD_VARIABLE in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
