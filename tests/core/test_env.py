"""The world of a process, sent to another one."""

from __future__ import annotations

import pickle
from pathlib import Path

import tablestore as ts
from tests.faults import SimEnv


def test_a_copy_keeps_the_clock_and_draws_names_of_its_own() -> None:
    env = SimEnv(seed=3, now_ms=5_000)
    data = pickle.dumps(env)
    copies = [pickle.loads(data) for _ in range(2)]
    assert [copy.now_ms() for copy in copies] == [5_000, 5_000]
    assert len({env.uuid(), *(copy.uuid() for copy in copies)}) == 3


def test_the_copy_of_a_store_has_its_clock(tmp_path: Path) -> None:
    table = ts.connect(tmp_path, env=SimEnv(now_ms=7_000)).create_table("d.t", schema={"k": ts.INT})
    assert pickle.loads(pickle.dumps(table.store)).env.now_ms() == 7_000
