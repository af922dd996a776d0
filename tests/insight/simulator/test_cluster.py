"""The plan of a cluster: its sums add up, more load asks for more, and what cannot be is said."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.insight.simulator.cluster import ClusterSpec, Costs, Load, planned, simulated, snapshots
from tablestore.insight.simulator.simulator import compaction_options

RULES = compaction_options({})
SLOW = Costs(row=20e-6, merged_row=10e-6)
"""Of a core so slow that CPU decides."""


def test_a_minute_for_50_000_rows_a_second() -> None:
    plan = planned(ClusterSpec(50_000), RULES, keys=10_000_000, row_bytes=60.0)
    text = repr(plan).splitlines()
    assert text[0] == f"50,000 rows a second, visible within 1 min: {plan.answer}"
    assert plan.answer.startswith(f"{plan.buckets} bucket")
    assert plan.chosen.worst <= 60
    assert text[-1].startswith("with write-only, and a job that compacts: ")
    assert sum(line.endswith("  chosen") for line in text) == 1
    assert plan.chosen.rows == 50_000 * 30 / plan.buckets


def test_the_chosen_number_is_the_cheapest_that_does(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        asked = ClusterSpec(
            chance.choice([100.0, 5_000.0, 40_000.0]),
            freshness=chance.choice(["10 s", "1 min", "10 min"]),
            cores=chance.choice([2, 8]),
            latency=chance.choice(["1 ms", "50 ms"]),
            partitions=chance.choice([1, 3]),
            costs=chance.choice([Costs(), SLOW]),
        )
        keys = chance.choice([100_000, 3_000_000])
        plan = planned(asked, RULES, keys=keys, row_bytes=chance.choice([20.0, 200.0]))
        for proposal in (plan, plan.aside):
            assert proposal is not None
            able = [load for load in proposal.loads if not load.short_of]
            assert all(_does(load, asked) for load in able)
            if able:
                assert (proposal.workers, proposal.buckets) == min(
                    (load.workers, load.buckets) for load in able
                )
            assert proposal.chosen.cpu == pytest.approx(
                proposal.chosen.writing + proposal.chosen.merging + proposal.chosen.committing
            )


def _does(load: Load, asked: ClusterSpec) -> bool:
    many = load.buckets * asked.partitions
    slots = min(many, load.workers * asked.cores)
    fresh = load.worst <= asked.freshness_seconds and load.usual <= load.worst
    busy = load.busiest <= asked.busy and load.writing + load.merging <= slots * asked.busy
    rates = load.puts <= asked.puts_per_second and load.gets <= asked.gets_per_second
    return fresh and busy and rates


def test_where_cpu_decides_twice_the_rows_take_twice_the_writing() -> None:
    asked = ClusterSpec(20_000, costs=SLOW, freshness="10 min", latency="1 ms")
    once = planned(asked, RULES, keys=5_000_000, row_bytes=50.0)
    two = planned(replace(asked, rows_per_second=40_000), RULES, keys=5_000_000, row_bytes=50.0)
    assert two.chosen.writing == pytest.approx(2 * once.chosen.writing, rel=0.05)
    assert two.workers >= once.workers
    assert two.workers * asked.cores * asked.busy >= two.chosen.cpu


def test_no_number_of_buckets_does_where_the_store_is_too_slow() -> None:
    plan = planned(ClusterSpec(1_000, freshness="1 s", latency="100 ms"), RULES, keys=10_000, row_bytes=50.0)
    assert "no number of buckets up to 1,024 does: the slowest commit takes" in plan.answer
    few = planned(ClusterSpec(1_000, puts_per_second=0.01), RULES, keys=10_000, row_bytes=50.0)
    assert "the store takes fewer requests a second" in few.answer


def test_a_compaction_in_a_commit_makes_a_second_snapshot() -> None:
    commits = simulated(1_000, 10_000, 50.0, RULES, buckets=2, commits=40)
    merged = [any(task.outputs for task in commit) for commit in commits]
    assert 0 < sum(merged) < 40
    share = sum(task.outputs > 0 for commit in commits for task in commit) / 80
    assert snapshots(commits, 1) == pytest.approx(40 * (1 + share))
    assert snapshots(commits, 2) > snapshots(commits, 1)
    assert snapshots(commits, 1_000) == pytest.approx(80)
    assert all(task.input_rows > 0 for commit in commits for task in commit if task.outputs)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"rows_per_second": 0}, "rows_per_second 0 of a cluster must be above 0"),
        ({"rows_per_second": 1, "busy": 1.5}, "busy 1.5"),
        ({"rows_per_second": 1, "freshness": "soon"}, "freshness 'soon' of a cluster must be a duration"),
        ({"rows_per_second": 1, "commit_every": "2 min"}, "commit_every 2 min must be less than 1 min"),
        ({"rows_per_second": 1, "nodes": 3}, "nodes"),
        ({"rows_per_second": "many"}, "rows_per_second"),
        ({}, "rows_per_second"),
        (50_000, "cluster 50000 must be a mapping such as"),
    ],
)
def test_what_no_cluster_is_is_refused(given: Any, why: str, tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.BIGINT}, primary_key=["k"])
    table.write([{"k": 1}])
    with pytest.raises(ts.InvalidRequest, match=why):
        table.what_if(cluster=given)


def test_a_table_gives_its_keys_and_bytes(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    table = lake.create_table("d.t", schema={"k": ts.BIGINT, "v": ts.BIGINT}, primary_key=["k"])
    asked: dict[str, Any] = {"rows_per_second": 500, "freshness": "20 s"}
    with pytest.raises(ts.InvalidRequest, match="the table is empty: give keys and row_bytes"):
        table.what_if(cluster=asked)
    table.write([{"k": k, "v": k} for k in range(1_000)])
    (size,) = table.inspect.files()["file_size_in_bytes"].to_pylist()
    plan = table.what_if(cluster=asked)
    assert (plan.keys, plan.row_bytes) == (1_000, size / 1_000)
    described = table.what_if({"write-only": True}, cluster=asked | {"keys": 10**6, "row_bytes": 40.0})
    assert (described.keys, described.row_bytes, described.aside) == (10**6, 40.0, None)
    with pytest.raises(ts.InvalidRequest, match="leave baseline and progress out"):
        table.what_if(cluster=asked, baseline={})  # type: ignore[call-overload]  # what it refuses
    with pytest.raises(ts.InvalidRequest, match="or cluster="):
        table.what_if()  # type: ignore[call-overload]  # what it refuses
    appended = lake.create_table("d.a", schema={"k": ts.BIGINT})
    with pytest.raises(ts.Unsupported, match="without a primary key"):
        appended.what_if(cluster=asked)
