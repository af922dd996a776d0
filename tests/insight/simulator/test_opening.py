"""`ts.simulator`, and what can be done by hand: another workload, more buckets."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc
import pytest

import tablestore as ts
from tablestore.insight.simulator import Workload
from tablestore.insight.simulator.simulator import Simulator

ORDERS = {"kind": "zipf", "rows": 500, "keys": 5_000, "row_bytes": 1024}


def tree(flushes: int = 6, **more: object) -> Simulator:
    simulator = ts.simulator(ORDERS | more, seed=3, write_only=True)
    for _ in range(flushes):
        simulator.flush()
    return simulator


def test_a_workload_is_given_in_any_form() -> None:
    assert ts.simulator("zipf").workload == ts.simulator({"kind": "zipf"}).workload == Workload("zipf")
    with pytest.raises(ts.InvalidRequest, match="row"):
        ts.simulator({"row": 3})
    with pytest.raises(ts.InvalidRequest, match="workload 'often' is none of"):
        ts.simulator("often")


def test_nothing_is_compacted_unasked_where_it_is_write_only() -> None:
    assert tree(7).advance(8).inspect.compactions().num_rows == 0


def test_another_workload_goes_on_in_the_same_tree() -> None:
    created = tree(2)
    created.set_workload(replace(created.workload, rows=2_000, deletes=0.5)).flush()
    rows, deletes = (created.inspect.levels()[name].to_pylist() for name in ("rows", "deletes"))
    assert rows[0] > 2 * max(rows[1:])
    assert deletes[0] > 0.3 * rows[0]
    again = tree(2)
    again.set_workload(replace(again.workload, rows=2_000, deletes=0.5)).flush()
    assert again.inspect.levels() == created.inspect.levels()


def test_new_keys_stand_behind_those_of_the_workload_before() -> None:
    simulator = ts.simulator({"kind": "sequential", "rows": 100}, write_only=True)
    simulator.set_workload(simulator.workload).flush()
    simulator.set_workload(replace(simulator.workload, rows=50)).flush()
    levels = simulator.inspect.levels()
    assert levels["min_key"].to_pylist() == ["[100]", "[0]"]
    assert levels["rows"].to_pylist() == [50, 100]


def test_a_sample_keeps_its_workload_and_its_buckets() -> None:
    simulator = ts.simulator("uniform", samples=100)
    for refused in (lambda: simulator.set_workload(Workload("zipf")), lambda: simulator.rescaled(2)):
        with pytest.raises(ts.InvalidRequest, match="leave samples out"):
            refused()


@pytest.mark.parametrize("deletes", [0.0, 0.3])
def test_more_buckets_hold_the_same_rows_each_once(deletes: float) -> None:
    single = tree(6, deletes=deletes)
    two = single.rescaled(2)
    four = two.rescaled(4)
    left = single.buckets[0].compacted().keys
    for many in (two, four):
        levels = many.inspect.levels()
        assert pc.sum(levels["rows"]).as_py() == len(left)
        assert set(levels["level"].to_pylist()) == {5}
        assert many.inspect.amplification("table")["space_amplification"].to_pylist() == [1.0]
    assert sorted(2 * two.buckets[1].compacted().keys + 1) == [key for key in left if key % 2]
    two.flush()
    assert two.inspect.levels()["level"].to_pylist().count(0) == 2
    with pytest.raises(ts.InvalidRequest, match="must be a multiple of 2"):
        two.rescaled(3)
