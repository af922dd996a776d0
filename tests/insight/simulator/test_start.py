"""A simulation that begins with the files of a table: its levels and its next pick are the table's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.lsm.compaction.decision import Decision
from tests.tables import KEYED

SAME = ("level", "run", "file_name", "rows", "deletes", "bytes", "creation_time", "file_source")


def lived(folder: Path, chance: random.Random) -> ts.Table:
    """A table of one bucket that was written, and compacted now and then, under options of chance."""
    options: dict[str, object] = {"bucket": 1, "num-sorted-run.compaction-trigger": chance.randint(2, 6)}
    if chance.random() < 0.4:
        options |= {
            "tablestore.compaction.strategy": "leveled",
            "tablestore.compaction.leveled.max-bytes-for-level-base": "8 kb",
            "target-file-size": "4 kb",
        }
    table = KEYED.create(folder, options)
    quiet = table.with_options({"write-only": True})
    for _ in range(chance.randint(1, 9)):
        keys = chance.sample(range(5_000), chance.randint(1, 800))
        quiet.write({"k": keys, "v": [f"value {k}" for k in keys]})
        if chance.random() < 0.3:
            table.refresh().compact(full=chance.random() < 0.3)
    return table.refresh()


def taken(decision: Decision) -> set[str]:
    return {f.file_name for f in decision.unit.files} if decision.unit is not None else set()


def begun(table: ts.Table, **more: object) -> object:
    workload = {"kind": "uniform", "rows": 300, "keys": 5_000}
    return ts.simulator(workload, table.options, start=table.inspect.levels(), write_only=True, **more)


def test_levels_and_the_next_pick_are_the_tables(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        table = lived(tmp_path / str(seed), random.Random(seed))
        tree, levels = begun(table), table.inspect.levels()
        assert tree.inspect.levels().select(SAME) == levels.select(SAME)
        for full in (False, True):
            (real,), (played,) = (each.compact(dry_run=True, full=full).picks for each in (table, tree))
            assert played.decision.rule == real.decision.rule
            assert played.decision.text == real.decision.text
            names = [taken(pick.decision) for pick in (real, played)]
            assert names[0] == names[1]
        assert table.check() == []


def test_played_on_no_row_comes_from_nowhere_and_runs_stay_disjoint(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        tree = begun(lived(tmp_path / str(seed), chance), seed=seed)
        for _ in range(4):
            before = tree.levels()
            tree.flush()
            assert tree.levels().run_count == before.run_count + 1
            held = sum(f.row_count for f in tree.levels().files)
            tree.compact(full=chance.random() < 0.5, dry_run=False)
            levels = tree.levels()
            assert 0 < sum(f.row_count for f in levels.files) <= held
            for run in levels.runs:
                ends = [levels.key(k) for f in run.files for k in (f.min_key, f.max_key)]
                assert ends == sorted(ends), f"I4: files of level {run.level} overlap"
        names = tree.inspect.levels()["file_name"].to_pylist()
        assert len(set(names)) == len(names)
        assert tree.inspect.commits()["rows_added"][0].as_py() > 0


def test_new_keys_come_behind_those_of_the_table(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path, {"bucket": 1, "write-only": True})
    table.write({"k": range(1_000), "v": ["v"] * 1_000})
    tree = ts.simulator({"kind": "sequential", "rows": 100}, start=table.inspect.levels(), write_only=True)
    tree.flush()
    positions = tree.inspect.levels().select(["min_key_pos", "max_key_pos"]).to_pylist()
    assert positions[0]["min_key_pos"] > positions[1]["max_key_pos"]


def test_what_no_simulation_begins_with_is_refused(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path, {"bucket": 2, "write-only": True})
    table.write({"k": range(100), "v": ["v"] * 100})
    levels = table.inspect.levels()
    with pytest.raises(ts.InvalidRequest, match="files of 2 buckets: give those of one"):
        ts.simulator("uniform", start=levels)
    of_a_bucket = table.inspect.levels(bucket=0)
    with pytest.raises(ts.InvalidRequest, match=r"has no .run.: give rows of table"):
        ts.simulator("uniform", start=of_a_bucket.drop_columns(["run"]))
    for wrong in (3, "levels", [3], {"level": 0}):
        with pytest.raises(ts.InvalidRequest, match=r"rows of table\.inspect\.levels\(\), not"):
            ts.simulator("uniform", start=wrong)
    with pytest.raises(ts.InvalidRequest, match="has no 'rows'"):
        ts.simulator("uniform", start=[{**of_a_bucket.to_pylist()[0], "rows": "many"}])
    with pytest.raises(ts.InvalidRequest, match="leave samples out"):
        ts.simulator("uniform", start=of_a_bucket, samples=10)
    with pytest.raises(ts.InvalidRequest, match="has one bucket"):
        ts.simulator("uniform", start=of_a_bucket, buckets=2)
