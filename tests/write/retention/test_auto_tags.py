"""Automatic tags: which snapshot a period's tag is of, names, limits, late tags made up for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption
from tablestore.write.retention import auto_tags
from tablestore.write.retention.auto_tags import Periods, due
from tests.faults import SimEnv
from tests.tables import TableSpec

HOUR, DAY = 3_600_000, 86_400_000
BEGIN = 1_700_006_400_000  # 2023-11-15 00:00 UTC


KEYS = TableSpec({"k": ts.BIGINT}, primary_key=("k",), options={"sink.process-time-zone": "UTC"})


def row(k: int) -> pa.Table:
    return pa.table({"k": pa.array([k], pa.int64())})


def test_a_period_s_tag_is_of_the_first_snapshot_after_it() -> None:
    hourly = Periods(HOUR, "%Y-%m-%d %H")
    times = [(1, BEGIN + 5), (2, BEGIN + HOUR - 1), (3, BEGIN + HOUR), (4, BEGIN + 4 * HOUR)]
    assert due(times, None, hourly) == [
        (1, "2023-11-14 23"),
        (3, "2023-11-15 00"),
        (4, "2023-11-15 03"),
    ]
    assert due(times[3:], BEGIN, Periods(HOUR, "%Y-%m-%d %H", completes=True)) == [(4, "2023-11-15 01")]
    assert due(times, None, Periods(HOUR, "%Y-%m-%d %H", delay_ms=60_000))[1:] == [(4, "2023-11-15 03")]


def test_commits_make_them_and_old_ones_go(tmp_path: Path) -> None:
    env = SimEnv(now_ms=BEGIN + 10)
    t = KEYS.create(tmp_path, {"tag.automatic-creation": "process-time", "tag.num-retained-max": 2}, env=env)
    for day in range(4):
        for k in range(2):
            t.write(row(day * 2 + k))
        env.sleep(DAY / 1000)
    assert t.tags.names() == ["2023-11-16", "2023-11-17"]
    assert t.at(tag="2023-11-17").scan().count() == 7
    t.tags.create("mine")
    t.write(row(99))
    assert t.tags.names() == ["2023-11-17", "2023-11-18", "mine"]


def test_watermarks_may_be_the_clock(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "watermark", "tag.creation-period": "hourly"}
    t = KEYS.create(tmp_path, options | {"tag.period-formatter": "without_dashes"}, env=SimEnv())
    t.write(row(1))
    assert t.tags.names() == []
    t.write(row(2), watermark=BEGIN + 5)
    t.write(row(3), watermark=BEGIN + HOUR + 5)
    assert t.tags.names() == ["20231114 23", "20231115 00"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tag.automatic-creation": "sometimes"}, "must be one of none"),
        ({"tag.automatic-creation": "process-time", "tag.creation-period": "weekly"}, "creation-period"),
        ({"tag.automatic-creation": "process-time", "tag.creation-delay": "2 d"}, "shorter than the period"),
        ({"tag.automatic-creation": "process-time", "tag.period-formatter": "x"}, "period-formatter"),
    ],
)
def test_what_cannot_be_meant_is_said(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    t = KEYS.create(tmp_path, env=SimEnv())
    t.write(row(1))
    with pytest.raises(InvalidOption, match=text):
        auto_tags.make(t.with_options(options).store)
