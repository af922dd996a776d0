"""Making a source: same bytes, restart after a kill at any point, pace, refused requests."""

import json
import os
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from datasets import cdc, tpch
from datasets.errors import DatasetError

ARGUMENTS = {"pairs": 3, "seed": 4, "tables": ("lineitem", "orders"), "progress": False}


def contents(home: Path) -> dict[str, bytes]:
    files = [path for path in home.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    home = tmp_path_factory.mktemp("whole")
    cdc.generate(home, "0.01", **ARGUMENTS)
    return contents(home)


def test_a_source_is_complete_and_says_what_it_is(tmp_path: Path) -> None:
    source = cdc.generate(tmp_path, "0.01", **ARGUMENTS)
    assert json.loads((tmp_path / "source.json").read_bytes()) == {
        "version": 1,
        "tables": ["lineitem", "orders"],
        "keys": {"lineitem": ["l_orderkey", "l_linenumber"], "orders": ["o_orderkey"]},
        "scale": "0.01",
        "seed": 4,
        "pairs": 3,
        "sizes": "dbgen",
        "pace": None,
        "note": "",
    }
    assert [path.name for path in source.log_files()] == ["00001.jsonl", "00002.jsonl", "00003.jsonl"]
    assert source.finished()
    assert json.loads((tmp_path / "log" / "END").read_bytes()) == source.log_end()._asdict()
    assert source == cdc.open_source(tmp_path)


def test_chunks_cover_each_table_without_overlap(tmp_path: Path) -> None:
    source = cdc.generate(tmp_path, "0.01", **ARGUMENTS)
    assert [chunk.number for chunk in source.chunks] == list(range(1, 9))
    for table, rows in (("lineitem", 60_175), ("orders", 15_000)):
        chunks = [chunk for chunk in source.chunks if chunk.table == table]
        assert sum(chunk.rows for chunk in chunks) == rows
        for chunk in chunks:
            keys = pq.read_table(chunk.path, columns=[tpch.PRIMARY_KEYS[table][0]]).column(0).to_numpy()
            assert (chunk.lo, chunk.hi, chunk.rows) == (keys.min(), keys.max(), len(keys))
            assert chunk.position == cdc.LOG_START
        assert all(a.hi < b.lo for a, b in pairwise(chunks))


def test_chunks_are_links_where_the_file_system_allows_and_copies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = cdc.generate(tmp_path / "a", "0.01", pairs=0, progress=False)

    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    copied = cdc.generate(tmp_path / "b", "0.01", pairs=0, progress=False)
    assert {chunk.path.stat().st_nlink for chunk in copied.chunks} == {1}
    assert contents(linked.directory) == contents(copied.directory)


def test_same_arguments_same_bytes_and_calling_again_changes_nothing(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    cdc.generate(tmp_path, "0.01", **ARGUMENTS)
    assert contents(tmp_path) == whole
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.jsonl")}
    cdc.generate(tmp_path, "0.01", **ARGUMENTS)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.jsonl")}


KILLED_WITH = [
    {"source.json": None, "chunks.json": None, "log": 0},
    {"chunks.json": None, "chunks/00003.parquet": None, "log": 0},
    {"log": 1, ".torn": "log/.00002.jsonl"},
    {"log": 2},
    {"log": 3},
]


@pytest.mark.parametrize("state", KILLED_WITH)
def test_a_killed_generator_goes_on_to_the_same_bytes(
    state: dict, whole: dict[str, bytes], tmp_path: Path
) -> None:
    for name, content in whole.items():
        kept_log = not name.startswith("log/") or (name != "log/END" and int(name[4:9]) <= state["log"])
        if kept_log and state.get(name, "keep") is not None:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
    if torn := state.get(".torn"):
        (tmp_path / torn).write_bytes(b'{"topic":"srv.tr')
    cdc.generate(tmp_path, "0.01", **ARGUMENTS)
    assert contents(tmp_path) == whole


def test_a_generator_killed_for_real_goes_on_to_the_same_bytes(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "datasets.cdc", "generate", str(tmp_path), "--scale-factor", "0.01"]
    command += ["--pairs", "3", "--seed", "4", "--tables", "lineitem", "orders"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.Popen(command, env=environment)
    while child.poll() is None and not (tmp_path / "source.json").exists():
        threading.Event().wait(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert subprocess.run(command, env=environment, check=False).returncode == 0
    assert contents(tmp_path) == whole


def paced(home: Path, pace: object) -> cdc.Source:
    return cdc.generate(home, "0.01", pace=pace, **ARGUMENTS)


def test_a_paced_log_is_the_same_log(whole: dict[str, bytes], tmp_path: Path) -> None:
    source = paced(tmp_path, 0.01)
    assert source.log_files() == []
    assert (source.log_end(), source.finished()) == (cdc.LOG_START, False)
    cdc.pump(tmp_path)
    assert source.finished()
    logs = {name: content for name, content in whole.items() if name.startswith("log/")}
    assert {name: content for name, content in contents(tmp_path).items() if name.startswith("log/")} == logs


@pytest.mark.parametrize("length", [0, 1, 5_000, 5_001, 40_000, 10**9])
def test_a_killed_pump_goes_on_in_the_middle_of_a_line(
    length: int, whole: dict[str, bytes], tmp_path: Path
) -> None:
    paced(tmp_path, 0.001)
    (tmp_path / "log" / "00001.jsonl").write_bytes(whole["log/00001.jsonl"])
    (tmp_path / "log" / "00002.jsonl").write_bytes(whole["log/00002.jsonl"][:length])
    cdc.pump(tmp_path)
    logs = {name: content for name, content in whole.items() if name.startswith("log/")}
    assert {name: content for name, content in contents(tmp_path).items() if name.startswith("log/")} == logs


class Recorder(threading.Event):
    """A stop that is asked for after some waits; remembers how long each would have been."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._after = after

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return len(self.waits) > self._after


def test_the_articles_pace_waits_between_halves_and_pairs(tmp_path: Path) -> None:
    paced(tmp_path, "article")
    recorder = Recorder(10**6)
    cdc.pump(tmp_path, stop=recorder)
    assert [wait for wait in recorder.waits if wait] == [10.0, 120.0, 10.0, 120.0, 10.0]


def test_a_stopped_pump_has_written_whole_transactions_only(tmp_path: Path) -> None:
    source = paced(tmp_path, 3600)
    recorder = Recorder(7)
    cdc.pump(tmp_path, stop=recorder)
    assert not source.finished()
    path = source.log_files()[-1]
    assert source.log_end() == (path.name, path.stat().st_size)
    assert path.read_bytes().count(b'"status":"END"') == 7
    assert len({round(wait, 6) for wait in recorder.waits}) == 1


def test_two_writers_at_once_are_refused(tmp_path: Path) -> None:
    paced(tmp_path, "article")
    inner: list[str] = []

    class Second(Recorder):
        def wait(self, timeout: float | None = None) -> bool:
            with pytest.raises(DatasetError) as refused:
                cdc.pump(tmp_path)
            inner.append(str(refused.value))
            return True

    cdc.pump(tmp_path, stop=Second(0))
    assert inner == [f"another process is writing {tmp_path}"]


def test_empty_dbgen_sets_are_replaced_by_the_specifications_and_said(tmp_path: Path) -> None:
    source = cdc.generate(tmp_path, "0.002", pairs=2, progress=False)
    assert source.sizes == "spec"
    assert "empty at scale factor 0.002" in source.note
    assert "3 orders a set" in source.note
    rows = cdc.read_log(source, cdc.LOG_START, source.log_end())
    assert len(set(rows["l_orderkey"].to_pylist())) == 12


def test_sets_that_dbgen_leaves_empty_may_be_asked_for(tmp_path: Path) -> None:
    source = cdc.generate(tmp_path, "0.002", pairs=2, sizes="dbgen", progress=False)
    assert source.log_end() == cdc.LOG_START
    assert source.finished()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pairs": -1}, "pairs -1: use 0 to 999"),
        ({"pairs": 1000}, "pairs 1000"),
        ({"seed": -1}, "seed -1"),
        ({"pace": 0}, "pace 0"),
        ({"pace": "fast"}, "pace 'fast'"),
        ({"tables": ()}, "use lineitem, orders, or both"),
        ({"tables": ("part",)}, "use lineitem, orders, or both"),
        ({"sizes": "big"}, "sizes 'big'"),
        ({"scale_factor": "0.0015"}, "multiple of"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(
    arguments: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match=said):
        cdc.generate(**{"directory": tmp_path / "new", "scale_factor": "0.01", **arguments})
    assert not (tmp_path / "new").exists()


def test_another_source_in_the_directory_is_named_and_left_alone(tmp_path: Path) -> None:
    cdc.generate(tmp_path, "0.01", pairs=1, progress=False)
    before = contents(tmp_path)
    with pytest.raises(DatasetError, match=r"scale 0\.01 \(asked: 0\.02\), pairs 1 \(asked: 2\)"):
        cdc.generate(tmp_path, "0.02", pairs=2, progress=False)
    assert contents(tmp_path) == before


def test_opening_what_is_no_source_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"source\.json is missing"):
        cdc.open_source(tmp_path)
    (tmp_path / "source.json").write_text('{"version": 2}')
    with pytest.raises(DatasetError, match="version 2, this reads version 1"):
        cdc.open_source(tmp_path)
    (tmp_path / "source.json").write_text("{")
    with pytest.raises(DatasetError, match="damaged"):
        cdc.open_source(tmp_path)
