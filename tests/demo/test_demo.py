"""The whole demo at a tiny scale, as a user runs it: killed, gone on with, verified again, tampered with."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tablestore as ts
from notebooks.cli import demo as verb
from notebooks.demo.journal import Journal, Places
from notebooks.demo.resources import MemoryWatch, tree_bytes
from tests.peers.pypaimon import PyPaimon

ROOT = Path(__file__).parents[2]
KEYS = {
    "verified",
    "rows",
    "load_seconds",
    "compact_seconds",
    "data_bytes_loaded",
    "data_bytes_compacted",
    "pairs",
    "snapshots",
    "peak_rss_bytes",
    "rows_per_second",
}


HELD = """
import sys
from notebooks.cli.demo import main
from notebooks.demo.journal import Journal
add = Journal.add
def add_and_wait(journal, event, **facts):
    add(journal, event, **facts)
    if event == "batch":
        print("held", flush=True)
        sys.stdin.read()
Journal.add = add_and_wait
sys.exit(main(sys.argv[1:]))
"""


def started(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=python_path(),
        start_new_session=True,
    )


def demo(*arguments: str) -> tuple[int, str]:
    process = started("-m", "notebooks.cli", "demo", *arguments)
    said, _ = process.communicate(timeout=1800)
    return process.returncode, said


@dataclass(frozen=True)
class Finished:
    """A warehouse whose first run was killed, and what the second, which ended, said and wrote."""

    warehouse: Path
    code: int
    said: str
    figures: Path
    page: Path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("demo")
    warehouse, figures, page = folder / "a lake", folder / "demo.json", folder / "demo.html"
    options = ["--warehouse", str(warehouse), "--scale-factor", "0.002", "--pairs", "3"]
    options += ["--chunks-per-batch", "1"]
    kill_after_first_batch(*options)
    assert Journal(Places(warehouse).journal).events("batch")
    code, said = demo(*options, "--json", str(figures), "--html", str(page))
    return Finished(warehouse, code, said, figures, page)


@pytest.mark.spark
@pytest.mark.large
def test_the_demo_survives_a_kill_and_verifies_itself(finished: Finished):
    assert finished.code == 0, finished.said
    assert "going on after chunk" in finished.said
    document = json.loads(finished.figures.read_text())
    assert document.keys() >= KEYS
    assert document["verified"] is True
    assert (document["pairs"], document["rows"]) == (3, 11_957)
    assert 0 < document["data_bytes_compacted"] <= document["data_bytes_before_compaction"]
    assert document["read_amplification"] == 1.0
    assert document["peak_rss_bytes"] > 200_000_000
    html = finished.page.read_text()
    assert "<title>tpch.dwd_lineitem</title>" in html
    assert "http://" not in html.replace("http://www.w3.org", "")


@pytest.mark.spark
@pytest.mark.large
def test_a_finished_warehouse_is_verified_again_and_its_next_commands_work(
    finished: Finished, tmp_path: Path
):
    code, said = demo("--warehouse", str(finished.warehouse))
    assert (code, "this warehouse is finished" in said) == (0, True), said
    commands = said.partition("next:\n")[2].strip().splitlines()[:2]
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command, comments=True)
        assert words[0] == str(ROOT / "workbench")
        done = subprocess.run([sys.executable, *words[2:]], cwd=tmp_path, check=False, env=python_path())
        assert done.returncode == 0
    code, said = demo("--warehouse", str(finished.warehouse), "--scale-factor", "0.003")
    assert (code, "--fresh" in said) == (2, True), said


@pytest.mark.spark
@pytest.mark.peer
@pytest.mark.large
def test_pypaimon_reads_what_the_demo_left_at_snapshots_of_each_kind(finished: Finished):
    peer = PyPaimon(finished.warehouse)
    names = ["l_orderkey", "l_linenumber", "l_comment", "l_year", "l_month", "l_extendedprice", "l_shipdate"]
    order = [(n, "ascending") for n in names[:2]]
    table = ts.open(str(finished.warehouse / "tpch.db" / "dwd_lineitem"))
    snapshots = table.inspect.snapshots()["snapshot_id"].to_pylist()
    assert len(snapshots) == 4 + 3 + 1, "chunks, pairs, the compaction"
    for snapshot in (None, snapshots[0], snapshots[3], snapshots[6]):
        theirs = peer.read("tpch.dwd_lineitem", snapshot=snapshot, columns=names).sort_by(order)
        then = table if snapshot is None else table.at(snapshot=snapshot)
        ours = then.scan(names).to_arrow().sort_by(order)
        assert theirs.select(names).cast(ours.schema).equals(ours), f"snapshot {snapshot}"
    kept = ts.open(str(finished.warehouse / "tpch.db" / "ads_pricing_summary")).scan().to_arrow()
    seen = peer.read("tpch.ads_pricing_summary").select(kept.schema.names).cast(kept.schema)
    by_group = [("l_returnflag", "ascending"), ("l_linestatus", "ascending")]
    assert seen.sort_by(by_group).equals(kept.sort_by(by_group))


@pytest.mark.spark
@pytest.mark.large
def test_the_demo_notices_a_missing_row(finished: Finished, tmp_path: Path):
    """The last to use the warehouse, which it spoils."""
    warehouse, figures = finished.warehouse, tmp_path / "demo.json"
    table = ts.open(str(warehouse / "tpch.db" / "dwd_lineitem"))
    order, line = (c[0].as_py() for c in table.scan(["l_orderkey", "l_linenumber"]).head(1).to_arrow())
    table.delete((ts.col("l_orderkey") == order) & (ts.col("l_linenumber") == line))
    code, said = demo("--warehouse", str(warehouse), "--json", str(figures))
    assert code == 1, said
    assert "DIFFERS" in said
    assert json.loads(figures.read_text())["verified"] is False


def python_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def kill_after_first_batch(*options: str) -> None:
    process = started("-c", HELD, *options)
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if line == "held\n":
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "".join(said)


def test_the_journal_outlives_a_torn_last_line(tmp_path: Path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.add("run", time=1)
    with journal.path.open("a") as file:
        file.write('{"event": "ba')
    journal.add("run", time=2)
    assert [e["time"] for e in journal.events("run")] == [1, 2]
    assert journal.last("batch") is None


def test_memory_of_children_counts(tmp_path: Path):
    grown = "import sys; x = bytearray(80_000_000); print('up', flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grown!r}])"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        MemoryWatch(every_seconds=600) as watch,
        subprocess.Popen([sys.executable, "-c", parent], text=True, **pipes) as process,
    ):
        assert process.stdout.readline() == "up\n"
        assert tree_bytes(process.pid) > 80_000_000
        process.stdin.close()
    assert watch.peak_bytes > 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--scale-factor", "0.0015"], "use a multiple of 0.001"),
        (["--scale-factor", "abc"], "abc"),
        (["--pairs", "-1"], "--pairs -1: use 0 to 999"),
        (["--chunks-per-batch", "0"], "use at least 1"),
    ],
)
def test_arguments_that_cannot_be_are_refused_and_leave_no_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
):
    assert verb.main([*arguments, "--warehouse", str(tmp_path)]) == verb.REFUSED
    assert text in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / ".demo" / "journal.jsonl").exists()


def test_a_warehouse_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("not a directory")
    assert verb.main(["--warehouse", str(tmp_path / "file" / "lake")]) == verb.REFUSED
    assert "Not a directory" in " ".join(capsys.readouterr().err.split())
