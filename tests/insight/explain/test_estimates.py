"""One estimator: the truth lies in its range, and every panel and dry run gives its figures."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core import quantities
from tablestore.insight.explain import learned_sizes
from tablestore.table.table import Table
from tests.insight.explain.random_trees import random_tree

TREES = 12  # a seed
ROUNDED = 0.005


def looked_up(table: Table) -> Table:
    return table.with_options({"write-only": False})


def held(path: Path, seed: int) -> str | None:
    """What is wrong with the range of the tree of a seed; None where the truth lies in it."""
    tree = random_tree(path, seed)
    (before,) = tree.table.inspect.amplification().to_pylist()
    looked_up(tree.table).compact(full=True)
    (after,) = tree.table.inspect.amplification().to_pylist()
    low, high = before["space_min"] or 0.0, before["space_max"] or np.inf
    truth = before["live_bytes"] / after["live_bytes"] if after["live_bytes"] else np.inf
    assert low <= (before["space_amplification"] or np.inf) <= high, tree.what
    right = low - ROUNDED <= truth <= high + ROUNDED or not before["compacted_bytes"]
    return None if right else f"{tree.what}: {truth:.2f}, not {before['why']}"


def test_the_truth_lies_in_the_range(
    tmp_path: Path, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all keys read, and with a budget for a part of them."""
    wrong, count = [], 0
    for seed in seeds:
        for number in range(TREES):
            if number == TREES // 2:
                monkeypatch.setattr(learned_sizes, "MOST_KEYS", 2_500)
            path = tmp_path / str(count)
            wrong += [text] if (text := held(path, TREES * seed + number)) else []
            shutil.rmtree(path)
            count += 1
        monkeypatch.undo()
    assert len(wrong) <= 1 + count // 20, "\n".join(wrong)


def six_runs(path: Path, seed: int) -> Table:
    """Six runs of 500 random keys of 20,000."""
    chance = np.random.default_rng(seed)
    table = ts.connect(str(path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "v": ts.INT},
        primary_key=["k"],
        options={"bucket": 1, "write-only": True},
    )
    for _ in range(6):
        keys = np.unique(chance.integers(0, 20_000, 500))
        values = pa.array(chance.integers(0, 1_000, len(keys)), pa.int32())
        table.write(pa.table({"k": keys, "v": values}))
    return table


def test_six_runs_of_few_of_many_keys_are_known_row_by_row(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        table = six_runs(tmp_path / str(seed), seed)
        planned = looked_up(table).compact(full=True, dry_run=True)
        (before,) = table.inspect.amplification().to_pylist()
        rows, live = table.scan().count(), before["live_rows"]
        assert (planned.picks[0].forecast.output.rows, planned.picks[0].forecast.output.exact) == (rows, True)
        assert f"{live:,} rows give {rows:,}: all keys were read" in before["why"]
        looked_up(table).compact(full=True)
        (after,) = table.inspect.amplification().to_pylist()
        truth = before["live_bytes"] / after["live_bytes"]
        assert before["space_min"] <= truth <= before["space_max"] < 2.8, (truth, before["why"])


def test_a_dry_run_a_replay_and_the_views_give_one_figure(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        tree = random_tree(tmp_path / str(seed), seed)
        table = tree.table
        views = {per: table.inspect.amplification(per).to_pylist() for per in ("table", "snapshot", "bucket")}
        whole, newest = views["table"][0], views["snapshot"][-1]
        for name in ("compacted_bytes", "space_amplification", "space_min", "space_max", "why"):
            assert whole[name] == newest[name], (tree.what, name)
        for row in views["bucket"]:
            if row["space_exact"]:
                continue
            planned = looked_up(table).compact(full=True, dry_run=True, bucket=row["bucket"])
            output = planned.picks[0].forecast.output
            assert output.bytes == row["compacted_bytes"], tree.what
            assert row["why"].endswith(output.why), tree.what
            replayed = table.what_if({"num-sorted-run.compaction-trigger": 7}).actual
            last = replayed.amplification((row["partition"], row["bucket"])).to_pylist()[-1]
            for name in ("space_amplification", "space_min", "space_max", "why"):
                assert last[name] == row[name], (tree.what, name)


def test_a_reason_repeats_its_own_sum(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        table = random_tree(tmp_path / str(seed), seed).table
        for row in table.inspect.amplification("bucket").to_pylist():
            if not row["space_exact"] and row["compacted_bytes"]:
                sizes = quantities.size(row["live_bytes"]), quantities.size(row["compacted_bytes"])
                upper = "or more" if row["space_max"] is None else f"to {row['space_max']:.2f}"
                ends = f"{row['space_min']:.2f} {upper}"
                assert row["why"].startswith(
                    f"{sizes[0]} / {sizes[1]} = {row['space_amplification']:.2f}, {ends}"
                )


def test_a_bucket_that_cannot_be_read_is_estimated_from_metadata(tmp_path: Path) -> None:
    table = six_runs(tmp_path, 1)
    entries = table.store.manifests.live_entries(table.store.snapshots.latest()).objects
    Path(table.store.file_path(entries[0].partition, 0, entries[0].file)).write_bytes(b"not a data file")
    assert learned_sizes.learned_sizes(table.store).samples == ()
    (actual,) = table.inspect.amplification().to_pylist()
    assert "as if every second row of smaller files were a new key" in actual["why"]
    assert actual["space_min"] < 1.2
    assert actual["space_max"] > actual["space_amplification"]


def test_a_model_is_kept_until_what_it_rests_on_changes(tmp_path: Path) -> None:
    table = six_runs(tmp_path, 3)
    first = learned_sizes.learned_sizes(table.store)
    assert learned_sizes.learned_sizes(table.store) is first
    small = table.with_options({"target-file-size": "1 mb"}).store
    assert learned_sizes.learned_sizes(small).target_bytes == 1 << 20 != first.target_bytes
    table.write(pa.table({"k": pa.array([1], pa.int64()), "v": pa.array([1], pa.int32())}))
    assert sum(sample.count for sample, _ in learned_sizes.learned_sizes(table.store).samples) == (
        sum(sample.count for sample, _ in first.samples) + 1
    )


def test_a_sample_stays_within_its_budget(tmp_path: Path) -> None:
    table = six_runs(tmp_path, 2)
    live = table.store.manifests.live_entries(table.store.snapshots.latest())
    (part,) = learned_sizes.key_samples(table.store, live, most_keys=1_200)
    assert not part.whole
    assert 0 < part.count <= 1_500
    assert learned_sizes.key_samples(table.store, live, most_files=5) == ()
    (whole,) = learned_sizes.key_samples(table.store, live)
    assert (whole.whole, whole.count) == (True, sum(f.row_count for f in whole.files))
