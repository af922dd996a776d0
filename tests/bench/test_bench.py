"""Each benchmark at its smallest size, so that none rots. No time is asserted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from notebooks.bench import cdc, cluster, commit, floor, imports, large, load, log, lsm, spark, widgets
from notebooks.bench.contenders import large_rows, line_items, registry
from notebooks.bench.contenders.contender import Contender, Refused
from notebooks.bench.parts import breakdown
from tests.peers import require
from tests.suite import counterparts


def peers(names: str) -> list[str]:
    """Those of the names that can be had here, and what to give to --peers."""
    actual, _ = registry.peers(names.split(","))
    return [entry.name for entry in actual]


def lines(text: str, *, second: str) -> list[list[str]]:
    """The lines of a printed table whose second column is `second`, as cells."""
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]
    return [line for line in cells if line[1:2] == [second]]


@pytest.mark.large
def test_load_measures_every_step_of_every_contender(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rounds.json"
    size = ["--scale-factor", "0.001", "--rounds", "1", "--table", "partitioned", "--peers", "none"]
    assert load.main([*size, "--directory", str(tmp_path), "--json", str(out)]) == 0
    text = capsys.readouterr().out
    for name in (registry.OURS, registry.TWO):
        assert [line[0] for line in lines(text, second=name)] == list(load.MEANING.values())
    rounds = json.loads(out.read_text())["rounds"]
    assert rounds[f"partitioned/scan/{registry.OURS}"][0]["answer"]["rows"] == "6005"
    assert rounds[f"partitioned/load/{registry.OURS}"][0]["written_bytes"] > 0
    assert list(tmp_path.iterdir()) == [out]


def test_the_requests_that_the_guide_names_are_counted() -> None:
    """Those to an object store, by number of buckets."""
    page = (Path(__file__).parents[2] / "notebooks" / "guide" / "scale.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (a .*?) \| (\d+) \| (\d+) \| \d+ \|$", page, flags=re.M)
    counted = cluster.counted_requests([1, 8])
    assert [list(map(int, row[1:])) for row in rows] == [[r.total for r in each] for each in counted.values()]


def test_load_stops_when_contenders_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = load.SHAPES["keyed"]
    ticks = iter(range(100))
    monkeypatch.setattr(Contender, "_ask", lambda *_: {"rows": str(next(ticks)), "quantity": "0"})
    with pytest.raises(load.Differs, match=r"rows .*, the others have"):
        load.measure(shape, [registry.ours(), registry.ours()], "0.001", 1, tmp_path)


def test_spark_stops_when_answers_differ_and_takes_rows_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"plain Parquet": [(1, 0.1 + 0.2), (2, None)], "by name": [(2, None), (1, 0.3)]}
    runs = {name: lambda text, rows=rows: rows for name, rows in answers.items()}
    monkeypatch.setattr(spark, "contenders", lambda *_: runs)
    assert len(spark.measure(None, tmp_path, {"Q1": ""}, 1, ["plain Parquet", "by name"])) == 4
    answers["by name"][1] = (1, 0.4)
    with pytest.raises(SystemExit, match=r"Q1, .*: the answers differ"):
        spark.measure(None, tmp_path, {"Q1": ""}, 1, ["plain Parquet", "by name"])


@pytest.mark.peer
@pytest.mark.large
def test_load_agrees_with_the_peers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = peers("pypaimon,java")
    if not there:
        pytest.skip("needs pypaimon or Java Paimon")
    size = ["--scale-factor", "0.001", "--rounds", "1", "--table", "keyed"]
    assert load.main([*size, "--peers", ",".join(there), "--directory", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    for name in there:
        assert [line[0] for line in lines(text, second=name)][:4] == list(load.MEANING.values())[:4]


@pytest.mark.large
def test_lsm_measures_every_step_and_shows_where_its_time_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rounds.json"
    size = ["--scale-factor", "0.001", "--rounds", "1", "--peers", "none"]
    assert lsm.main([*size, "--directory", str(tmp_path), "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert [line[0] for line in lines(text, second=registry.OURS)] == list(lsm.MEANING.values())
    for part in (breakdown.MERGE, breakdown.DECODED):
        assert {"full scan after them", "full compaction"} <= {line[0] for line in lines(text, second=part)}
    rounds = json.loads(out.read_text())["rounds"]
    scans = {rounds[f"{step}/{registry.OURS}"][0]["answer"]["rows"] for step in ("scan", "rescan")}
    assert scans == {str(6005 + 10 * 30 - 10 * 6)}  # half of an upsert's rows are new, deletes find theirs
    for step in ("gets", "get_many"):
        assert rounds[f"{step}/{registry.OURS}"][0]["answer"]["rows"] == "90"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.peer
@pytest.mark.large
@pytest.mark.parametrize("name", registry.LAKES)
@pytest.mark.sample(1, all=1)
def test_lsm_ends_with_the_same_rows_in_every_peer(name: str, tmp_path: Path) -> None:
    actual, missing = registry.peers([name])
    require(not missing, f"needs every peer: {'; '.join(missing)}")
    _, rounds = lsm.measure([registry.ours(), *actual], "0.001", 1, tmp_path)
    (peer,) = actual
    measured = {step for step, who in rounds if who == peer.name}
    lacks = peer.lacks | ({"rescan"} if "compact" in peer.lacks else set())
    assert measured == set(lsm.MEANING) - lacks
    assert rounds["scan", name][0].answer["rows"] == rounds["scan", registry.OURS][0].answer["rows"]


@pytest.mark.large
def test_commit_measures_each_size_of_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = ",".join(peers("pypaimon")) or "none"
    assert commit.main(["--snapshots", "4,9", "--peers", there, "--directory", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert [line[0] for line in lines(text, second=registry.OURS)] == ["4", "9"]


def test_floor_names_every_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--scale-factor", "0.001", "--rounds", "1", "--table", "keyed"]
    assert floor.main([*size, "--directory", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert [line[0] for line in lines(text, second=floor.LOAD)] == [*floor.PARTS, floor.REST, "all"]
    assert "6,005 rows: the load takes" in text


def test_a_clock_gives_each_second_to_the_innermost_part(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 3.0, 6.0])
    monkeypatch.setattr(floor.time, "perf_counter", lambda: next(now))
    clock = floor.Clock()
    with clock.part("outer"), clock.part("inner"):
        pass
    assert clock.seconds == {"outer": 1.0 + 3.0, "inner": 2.0}


def test_an_update_is_every_hundredth_row_of_a_file() -> None:
    files = load.source("0.001").split(",")
    whole = pa.Table.from_batches(line_items.read(files[:1], months=True))
    changed = pa.Table.from_batches(line_items.changed(files[:1], months=True))
    kept = [name for name in whole.schema.names if name != line_items.QUANTITY]
    picked = whole.take(list(range(0, len(whole), line_items.EVERY)))
    assert changed.select(kept) == picked.select(kept)
    assert {str(value) for value in changed[line_items.QUANTITY].to_pylist()} == {"99.00"}


def test_a_contender_that_fails_is_named_with_its_error() -> None:
    with registry.ours().start() as contender, pytest.raises(Refused, match=r"tablestore: .*no-such-table"):
        contender.step("scan", "/tmp/no-such-table")


def test_an_unknown_peer_is_refused() -> None:
    with pytest.raises(ValueError, match="pypaimon-rust, java, pypaimon"):
        registry.chosen("delta")
    assert registry.chosen("none") == ()


def test_large_rows_come_once_in_no_order_and_add_up_to_what_is_expected() -> None:
    rows = 5000
    first = pa.Table.from_batches(large_rows.batches(0, rows, rows))
    keys = first["k"].to_numpy()
    assert sorted(keys.tolist()) == list(range(rows))
    assert (keys[1:] > keys[:-1]).mean() < 0.9
    again = pa.Table.from_batches(large_rows.batches(0, rows // large_rows.UPDATED_IN, rows, version=1))
    sums = {"rows": rows, "keys": pc.sum(first["k"]).as_py()}
    sums["values"] = pc.sum(first["value"]).as_py() + len(again)
    assert large_rows.expected(rows) == sums
    assert again.drop_columns(["value"]) == first.slice(0, len(again)).drop_columns(["value"])


@pytest.mark.large
def test_a_write_takes_its_buffer_and_not_more_for_more_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collected = {}
    for rows in (750_000, 1_750_000):
        out = tmp_path / f"{rows}.json"
        size = ["--rows", str(rows), "--write-buffer", "8 mb", "--threads", "2", "--directory", str(tmp_path)]
        assert large.main([*size, "--json", str(out)]) == 0
        rounds = json.loads(out.read_text())["rounds"]
        collected[rows] = {step: rounds[step][0]["peak_bytes"] for step in large.MEANING}
    text = capsys.readouterr().out
    assert [line[0] for line in lines(text, second=registry.OURS)] == [*large.MEANING.values()] * 2
    few, many = collected.values()
    extra_bytes = 1_000_000 * large_rows.BYTES_A_ROW  # what the larger table has more
    assert many["write"] - few["write"] < extra_bytes * 2 // 3
    assert max(many.values()) < 700 << 20


@pytest.mark.large
def test_large_stops_when_rows_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_rows, "expected", lambda rows: {"rows": rows + 1})
    with pytest.raises(large.Wrong, match="scan, merging: found"):
        dict(large.measure(tmp_path, 100, {}))


@pytest.mark.large
def test_imports_are_measured_in_fresh_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert imports.main(["--rounds", "1"]) == 0
    text = capsys.readouterr().out
    assert all(f"{what}  " in text and program in text for what, program in imports.PROGRAMS.items())


@pytest.mark.large
def test_cdc_measures_every_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counterparts.need("MariaDB")
    out = tmp_path / "rounds.json"
    size = ["--scale", "0.001", "--images", "100", "--rounds", "1", "--peers", "none", "--no-ingest"]
    assert cdc.main([*size, "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert [line[0] for line in lines(text, second=registry.OURS)] == [cdc.ROWS, *cdc.KINDS]
    rounds = json.loads(out.read_text())["rounds"]
    counts = [rounds[f"{kind}/{registry.OURS}"][0]["answer"]["images"] for kind in cdc.KINDS]
    assert counts == ["100", "200", "100"]


def test_widgets_says_what_is_missing_of_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert widgets.main([]) == 2
    assert "./workbench pip install -r .ci/browser.lock" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr("tests.suite.counterparts.CHROMIUM", tmp_path / "chromium")
    assert widgets.main([]) == 2
    assert "WORKBENCH_CHROMIUM" in capsys.readouterr().err


@pytest.mark.large
def test_log_measures_waits_and_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures.json"
    size = ["--rows", "2000", "--keys", "500", "--messages", "3", "--rounds", "1", "--no-kafka"]
    assert log.main([*size, "--json", str(out)]) == 0
    text = capsys.readouterr().out
    for mode in log.MODES:
        assert [line[0] for line in lines(text, second=mode)] == ["embedded"]
    document = json.loads(out.read_text())
    for mode in log.MODES:
        assert len(document[f"embedded/{mode}"]["ms"]) == 3
        assert min(document[f"embedded/{mode}"]["cpu"]) > 0
    assert min(document["embedded/append"][0]) > 0
