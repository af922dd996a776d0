"""TableHealth: the grid is what snapshots held, the words are the engine's, what is chosen is compacted."""

from __future__ import annotations

import itertools
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
import widgets
from widgets.health.grid import Edits, grid_of
from widgets.health.model import MAX_ROWS, estimate
from widgets.kit.jobs import ViewJob

TEXT = "{http://www.w3.org/2000/svg}text"
BUCKETS = 3
PARTS = [f"p={n}" for n in range(4)]


def made(path: Path, *, rounds: int = 8, compact_at: int = 4) -> ts.Table:
    """Four partitions of three buckets; every commit writes to two partitions, one compacts all."""
    table = ts.connect(path).create_table(
        "shop.items",
        schema={"p": ts.INT, "k": ts.BIGINT, "v": ts.STRING},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": BUCKETS, "write-only": True},
    )
    for number in range(rounds):
        if number == compact_at:
            table.compact(full=True)
        count = 60
        some = [(number + n % 2) % 4 for n in range(count)]
        table.write({"p": some, "k": list(range(count)), "v": ["x"] * count})
    return table


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> ts.Table:
    return made(tmp_path_factory.mktemp("health"))


def expected(table: ts.Table, snapshot: int) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Runs, files and bytes of each bucket as `inspect.levels` has them."""
    collected: dict[tuple[str, int], list[Any]] = {}
    for row in table.inspect.levels(snapshot).to_pylist():
        runs, files, size = collected.setdefault((row["partition"], row["bucket"]), [set(), 0, 0])
        runs.add(row["run"])
        collected[row["partition"], row["bucket"]] = [runs, files + 1, size + row["bytes"]]
    return {place: (len(runs), files, size) for place, (runs, files, size) in collected.items()}


def test_every_cell_is_what_the_snapshot_held(items: ts.Table) -> None:
    edits = Edits.of(items.inspect.stays())
    ids = items.inspect.commits()["snapshot_id"].to_pylist()
    for columns in (100, 4):
        grid = grid_of(edits, ids, columns=columns)
        assert grid.columns == min(columns, len(ids)) or grid.columns <= columns
        assert int(grid.ends[-1]) == ids[-1]
        for column, end in enumerate(grid.ends.tolist()):
            cells = expected(items, end)
            for row, place in enumerate(grid.places):
                cell = (grid.runs[row, column], grid.files[row, column], grid.bytes[row, column])
                assert cell == cells.get(place, (0, 0, 0)), (place, end)
    touched = edits.touched(np.array(ids))
    changed = [
        len(
            {
                (r["partition"], r["bucket"])
                for r in items.inspect.diff(a, b).to_pylist()
                if r["change"] != "kept"
            }
        )
        for a, b in itertools.pairwise(ids)
    ]
    assert touched[1:].tolist() == changed


def test_a_file_that_was_there_before_the_oldest_snapshot_is_there(tmp_path: Path) -> None:
    table = made(tmp_path, rounds=5, compact_at=9)
    table.expire_snapshots(keep=2)
    stays = table.inspect.stays()
    assert stays["added"].null_count > 0
    edits = Edits.of(stays)
    state = edits.at(table.inspect.latest_snapshot_id() or 0)
    cells = expected(table, table.inspect.latest_snapshot_id() or 0)
    assert {
        p: (int(r), int(f)) for p, r, f in zip(edits.places, state["runs"], state["files"], strict=True)
    } == {place: cell[:2] for place, cell in cells.items()}


def test_the_view_says_what_the_engine_says(items: ts.Table) -> None:
    view = widgets.TableHealth(items).wait(120)
    health = items.inspect.health()
    assert view.verdict == health.verdict
    assert view.verdict in view.to_svg()
    assert view.verdict in str(view)
    assert view.opened == view.model.worst[0].id
    assert view.data().equals(health.buckets)
    worst = health.buckets.slice(0, 1).to_pylist()[0]
    assert view.model.worst[0].reason == worst["reason"]
    assert view.model.amplification == items.inspect.amplification().to_pylist()[0]
    last = view.model.bought[0]
    compaction = items.inspect.commits().filter(
        pa.compute.equal(items.inspect.commits()["commit_kind"], "COMPACT")
    )
    number = compaction["snapshot_id"].to_pylist()[-1]
    files = [items.inspect.levels(at).num_rows for at in (number - 1, number)]
    assert last.startswith(f"#{number} COMPACT: {files[0]} → {files[1]} files, a read opens ")
    view.close()


def test_a_past_snapshot_has_its_own_verdict_and_is_read_only(items: ts.Table) -> None:
    view = widgets.TableHealth(items).wait(120)
    timeline = widgets.SnapshotTimeline(items)
    timeline.link(view)
    timeline.snapshot = 3
    assert view.verdict == items.inspect.health(3).verdict
    assert view.frame["off"] == "viewing the past: read-only"
    view.chosen = ["p=1/0"]
    assert view.compact().done == ()
    assert not view.busy
    view.close()


def test_a_cell_opens_its_snapshot_and_the_worst_of_its_buckets(items: ts.Table) -> None:
    view = widgets.TableHealth(items).wait(120)
    levels = widgets.LsmLevels(items)
    view.link(levels)
    grid = view.model.grid
    assert grid is not None
    view._on_verb(view, {"verb": "open", "row": 4, "column": 2}, [])
    assert view.snapshot == levels.snapshot == int(grid.ends[2])
    partition, bucket = grid.places[4]
    assert view.opened == levels.opened == f"{partition}/{bucket}"
    for wrong in ({"row": 999, "column": 0}, {"row": 0, "column": -1}, {"row": "0", "column": None}):
        view._on_verb(view, {"verb": "open", **wrong}, [])
    assert view.snapshot == int(grid.ends[2])
    view.close()


def test_chosen_buckets_are_compacted_and_no_others(tmp_path: Path) -> None:
    table = made(tmp_path, rounds=12, compact_at=20)
    view = widgets.TableHealth(table).wait(120)
    due = [bad.id for bad in view.model.worst if bad.due]
    chosen = [due[0], next(b for b in due if b.rpartition("/")[0] != due[0].rpartition("/")[0])]
    before = {(r["partition"], r["bucket"]): r for r in view.data().to_pylist()}
    view.chosen = chosen
    read = sum(before[p, int(b)]["due_bytes"] for p, _, b in (c.rpartition("/") for c in chosen))
    assert view.frame["estimate"].startswith("2 buckets chosen: ≈ ")
    assert estimate(view.data(), chosen, [(1000, 500)])[1:] == (read, read / 2000)
    assert "nothing is due there" in widgets.TableHealth(table, chosen=["p=0/99"]).frame["estimate"]
    view.compact().wait(120)
    assert len(view.done) == 2, "a commit a partition"
    after = {(r["partition"], r["bucket"]): r for r in view.data().to_pylist()}
    for place, row in after.items():
        if f"{place[0]}/{place[1]}" in chosen:
            assert row["runs"] < before[place]["runs"]
        else:
            assert row == before[place]
    assert view.chosen == []
    assert view.frame["says"].startswith("snapshot ")
    view.choose_due()
    assert len(view.chosen) == table.inspect.health().due
    assert " with work" not in view.frame["estimate"]
    assert "≈ " in view.frame["estimate"].split(",")[-1], "the last compactions were measured"
    assert table.check() == []
    view.close()


def test_a_compaction_that_is_cancelled_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, rounds=12, compact_at=20)
    view = widgets.TableHealth(table).wait(120)
    snapshot, seen = table.inspect.latest_snapshot_id(), []
    shown = view._show_progress

    def cancelled(job: ViewJob, *rest: Any) -> None:
        assert view.frame["busy"], "Cancel is there"
        seen.append(rest)
        view.cancel()
        shown(job, *rest)

    monkeypatch.setattr(view, "_show_progress", cancelled)
    view.chosen = ["p=1/0", "p=1/1", "p=2/0"]
    view.compact().wait(120)
    assert len(seen) == 1
    assert not view.frame["busy"]
    assert not view.frame["off"], "nothing is at work any more"
    assert view.done == ()
    assert view.chosen == ["p=1/0", "p=1/1", "p=2/0"]
    assert table.inspect.latest_snapshot_id() == snapshot
    assert table.check() == []
    view.close()


def test_a_failure_is_said_and_the_choice_stays(tmp_path: Path) -> None:
    view = widgets.TableHealth(made(tmp_path, rounds=3, compact_at=9)).wait(120)
    view.chosen = ["p=7/0"]
    with pytest.raises(ts.TablestoreError):
        view.compact().wait(120)
    assert view.frame["failed"]
    assert "p=7" in view.frame["says"]
    assert view.chosen == ["p=7/0"]
    view.close()


def test_tables_without_levels_or_snapshots_are_shown(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    empty = lake.create_table("d.e", schema={"k": ts.INT})
    view = widgets.TableHealth(empty).wait(120)
    assert view.verdict == "empty: no snapshot yet"
    ET.fromstring(view.to_svg())
    empty.write([{"k": 1}])
    view.refresh().wait(120)
    assert view.verdict == "healthy: 1 bucket, 1 file, nothing due"
    assert "No files to combine." in view.to_svg()
    view.close()


@pytest.mark.parametrize("width", [700, 900, 1440])
@pytest.mark.parametrize("colour_by", ["runs", "bytes", "files", "due"])
def test_pictures_stand_at_every_width(items: ts.Table, width: int, colour_by: str) -> None:
    view = widgets.TableHealth(items, width=width, colour_by=colour_by).wait(120)
    root = ET.fromstring(view.to_svg(width=width))
    boxes = [e for e in root.iter() if e.tag.endswith("rect")]
    assert all(
        float(b.get("x", 0)) + float(b.get("width", 0)) <= width for b in boxes if b.get("class") != "hit"
    )
    view.close()


def test_a_thousand_buckets_over_ten_thousand_snapshots_are_quick() -> None:
    count = 100_000
    rng = np.random.default_rng(5)
    added = np.sort(rng.integers(1, 10_001, count))
    removed = added + rng.integers(1, 400, count)
    stays = pa.table(
        {
            "partition": pa.array([f"p={n % 100}" for n in range(count)]),
            "bucket": pa.array(rng.integers(0, 10, count), pa.int32()),
            "level": pa.array(np.where(rng.random(count) < 0.8, 0, rng.integers(1, 6, count)), pa.int32()),
            "bytes": rng.integers(1, 1 << 20, count),
            "rows": rng.integers(1, 1000, count),
            "added": added,
            "removed": pa.array(removed, mask=removed > 10_000),
        }
    )
    started = time.monotonic()
    edits = Edits.of(stays)
    grid = grid_of(edits, np.arange(1, 10_001), columns=230)
    touched = edits.touched(np.arange(1, 10_001))
    assert time.monotonic() - started < 60
    assert grid.runs.shape == (1000, grid.columns)
    assert grid.columns <= 230
    assert touched.shape == (10_000,)
    state = edits.at(int(grid.ends[100]))
    assert (state["runs"] == grid.runs[:, 100]).all()
    assert (state["bytes"] == grid.bytes[:, 100]).all()
    assert -(-1000 // -(-1000 // MAX_ROWS)) <= MAX_ROWS


@pytest.mark.parametrize("width", [376, 760, 1280, 1560])
def test_no_verdict_name_or_reason_is_cut(items: ts.Table, width: int) -> None:
    view = widgets.TableHealth(items)
    view.opened = view.model.worst[0].id
    words = [element.text or "" for element in ET.fromstring(view.to_svg(width=width)).iter(TEXT)]
    assert view.model.verdict in " ".join(words)
    assert [word for word in words if word.endswith("…")] == []


def test_the_same_commits_under_the_same_options_are_measured_once(tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table(
        "shop.orders", schema={"k": ts.BIGINT}, primary_key=["k"], options={"bucket": 2, "write-only": True}
    )
    for at in range(3):
        table.write({"k": list(range(at, at + 50))})
    view = widgets.TableHealth(table)
    before = view._state(view.snapshot)
    assert view.refresh()._state(view.snapshot) is before
    table.rollback(snapshot=2)
    table.write({"k": [7]})  # another snapshot 3
    assert view.refresh()._state(3) is not before
    assert view.data().num_rows == widgets.TableHealth(table).data().num_rows
