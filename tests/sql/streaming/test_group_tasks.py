"""A batch brought into the state by tasks that may be anywhere."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.flow.batch import Streams, Work
from tablestore.flow.source import Offset
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming import job_part
from tablestore.sql.streaming.group_state import GroupState
from tablestore.sql.streaming.job_part import advance
from tablestore.sql.streaming.plan import StreamPlan, planned


class PickledBatch:
    """A batch whose tasks, items and results go through pickle, as to workers and back."""

    def __init__(self, streams: Streams, start: Offset, end: Offset, number: int) -> None:
        self._works, self.end, self.number = streams.works(start, end), end, number

    def works(self) -> list[Work]:
        return self._works

    def over(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        there = pickle.loads(pickle.dumps(task))
        return [pickle.loads(pickle.dumps(there(pickle.loads(pickle.dumps(item))))) for item in items]


def plan_of(lake: ts.Lake, sql: str) -> StreamPlan:
    session = ts.sql_session(lake)
    session.sql("USE d")
    return planned(session, reader(()).read(pieces(sql)[0]), sql)


@pytest.mark.parametrize("handed", [0, 1 << 20])
def test_a_million_rows_of_many_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handed: int) -> None:
    monkeypatch.setattr(job_part, "_HANDED_BYTES", handed)
    lake = ts.connect(tmp_path / "lake")
    table = lake.create_table("d.t", schema={"g": ts.INT, "x": ts.INT}, options={"bucket": -1})
    numbers = np.random.default_rng(0).integers(0, 150_000, 200_000).astype(np.int32)
    table.write(pa.table({"g": numbers, "x": numbers % 1000}))
    plan = plan_of(lake, "SELECT g, count(*) AS n, sum(x) AS s, max(x) AS hi FROM t GROUP BY g")
    state = GroupState.create(str(tmp_path / "state"), plan, user="job", buckets=2)
    streams = Streams(tuple(i.source for i in plan.inputs), plan.step.lookups)
    offset = streams.initial()
    for number in range(2):
        end = streams.next(offset)
        batch = PickledBatch(streams, offset, end, number)
        assert advance(state, batch, identifier=number, position=str(end))
        assert not advance(state, batch, identifier=number, position=str(end))
        table.write(pa.table({"g": numbers[:1000], "x": numbers[:1000] % 1000}))
        offset = end
    assert not (tmp_path / "state" / "exchange").exists()
    rows = state.groups.scan().to_arrow()
    weights = np.bincount(numbers, minlength=150_000) + np.bincount(numbers[:1000], minlength=150_000)
    groups = rows["__key_0"].to_numpy()
    assert len(groups) == np.count_nonzero(weights) > 100_000
    assert (rows["__rows"].to_numpy() == weights[groups]).all()
    total = rows["sum__argument_1"].cast(pa.int64()).to_numpy()
    assert (total == weights[groups] * (groups % 1000)).all()
    assert state.position() == (1, str(offset))


def test_looked_up_rows_are_those_of_the_batch(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path / "lake")
    facts = lake.create_table("d.t", schema={"k": ts.INT}, options={"bucket": -1})
    names = lake.create_table("d.names", schema={"k": ts.INT, "name": ts.STRING}, primary_key=["k"])
    facts.write([{"k": 1}, {"k": 2}, {"k": 1}])
    names.write([{"k": 1, "name": "a"}, {"k": 2, "name": "a"}])
    sql = (
        "SELECT n.name, count(*) AS n FROM (SELECT k, PROCTIME() AS p FROM t) AS t "
        "JOIN names FOR SYSTEM_TIME AS OF t.p AS n ON t.k = n.k GROUP BY n.name"
    )
    plan = plan_of(lake, sql)
    state = GroupState.create(str(tmp_path / "state"), plan, user="job")
    streams = Streams(tuple(i.source for i in plan.inputs), plan.step.lookups)
    start = streams.initial()
    end = streams.next(start)
    names.write([{"k": 2, "name": "changed"}])
    advance(state, PickledBatch(streams, start, end, 0), identifier=0, position="")
    assert state.groups.scan(["__key_0", "__rows"]).to_arrow().to_pylist() == [{"__key_0": "a", "__rows": 3}]
