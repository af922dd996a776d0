"""Partitions past `partition.expiration-time` leave the table."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest
from tests.faults import SimEnv
from tests.tables import TableSpec

HOUR = 3_600
NOON = int(datetime(2024, 5, 10, 12, 30, tzinfo=UTC).timestamp() * 1000)


BY_DAY = TableSpec(
    {"dt": ts.STRING, "k": ts.INT},
    primary_key=("dt", "k"),
    partition_by=("dt",),
    new_env=lambda: SimEnv(now_ms=NOON),
)
BY_HOUR = replace(
    BY_DAY,
    columns={"dt": ts.STRING, "hr": ts.STRING, "k": ts.INT},
    primary_key=("dt", "hr", "k"),
    partition_by=("dt", "hr"),
)


def days(*names: str) -> list[dict[str, Any]]:
    return [{"dt": name, "k": k} for name in names for k in (1, 2)]


def left(t: ts.Table) -> list[str]:
    return sorted(set(t.scan(["dt"]).to_arrow().column(0).to_pylist()))


def test_old_partitions_go_by_their_values(tmp_path: Path) -> None:
    t = BY_DAY.create(tmp_path)
    t.write(days("2024-05-01", "2024-05-09", "2024-05-10", "none"))
    asked = t.expire_partitions("37 h", dry_run=True)
    assert (asked.partitions, asked.files, asked.without_time) == (("dt=2024-05-01",), 1, ("dt=none",))
    assert asked.bytes == t.inspect.files().column("file_size_in_bytes").to_pylist()[0]
    assert left(t) == ["2024-05-01", "2024-05-09", "2024-05-10", "none"]
    done = t.expire_partitions("12 h")
    assert done.partitions == ("dt=2024-05-01", "dt=2024-05-09", "dt=2024-05-10")
    assert done.snapshots == (2,)
    assert t.store.snapshots.get(2).commit_kind == "OVERWRITE"
    assert left(t) == ["none"]
    assert t.expire_partitions("12 h").snapshots == ()
    assert t.check() == []


def test_a_pattern_makes_one_time_of_several_columns(tmp_path: Path) -> None:
    how = {"partition.timestamp-pattern": "$dt $hr:00", "partition.timestamp-formatter": "yyyyMMdd HH:mm"}
    t = BY_HOUR.create(tmp_path, how | {"partition.expiration-time": "1 h"})
    t.write([{"dt": "20240510", "hr": f"{h:02}", "k": 1} for h in range(9, 14)])
    assert t.expire_partitions().partitions == ("dt=20240510/hr=09", "dt=20240510/hr=10", "dt=20240510/hr=11")


def test_the_age_by_update_is_that_of_the_newest_file(tmp_path: Path) -> None:
    env = SimEnv(now_ms=NOON)
    t = BY_DAY.create(tmp_path, env=env)
    t.write(days("a", "b"))
    env.sleep(2 * HOUR)
    t.write(days("b"))
    assert t.expire_partitions("1 h", expire_strategy="update-time").partitions == ("dt=a",)
    assert left(t) == ["b"]


def test_the_first_by_name_go_first_in_batches(tmp_path: Path) -> None:
    t = BY_DAY.create(tmp_path, {"partition.expiration-batch-size": 2})
    names = [f"2024-01-{d:02}" for d in range(1, 8)]
    t.write(days(*reversed(names)))
    done = t.expire_partitions("1 d", max_expires=5)
    assert done.partitions == tuple(f"dt={n}" for n in names[:5])
    assert done.snapshots == (2, 3, 4)
    assert left(t) == names[5:]


def test_commits_look_for_old_partitions_as_the_options_say(tmp_path: Path) -> None:
    for at_once in (
        {"partition.expiration-check-interval": "0 s"},
        {"end-input.check-partition-expire": True},
    ):
        t = BY_DAY.create(tmp_path / next(iter(at_once)), at_once | {"partition.expiration-time": "1 d"})
        done = t.write(days("2024-05-01", "2024-05-10"))
        assert "partitions dt=2024-05-01, " in repr(done.expired)
        assert left(t) == ["2024-05-10"]


def test_streams_look_once_an_interval(tmp_path: Path) -> None:
    env = SimEnv(now_ms=NOON)
    t = BY_DAY.create(tmp_path, {"partition.expiration-time": "1 d"}, env=env)
    t.write(days("2024-05-01"))
    assert left(t) == ["2024-05-01"], "a batch commit looks only where it is asked to"
    t.write(days("2024-05-02"), user="s", identifier=1)
    assert left(t) == ["2024-05-01", "2024-05-02"], "the same hour"
    env.sleep(HOUR)
    done = t.write(days("2024-05-10"), user="s", identifier=2)
    assert "partitions dt=2024-05-01, dt=2024-05-02, " in repr(done.expired)
    t.write(days("2024-05-01"), user="s", identifier=3)
    assert left(t) == ["2024-05-01", "2024-05-10"]
    assert t.write(days("2024-05-10"), user="s", identifier=3).replayed


def test_compactions_skip_old_partitions_if_an_option_says_so(tmp_path: Path) -> None:
    t = BY_DAY.create(
        tmp_path, {"partition.expiration-time": "1 d", "compaction.skip-expired-partitions": True}
    )
    for _ in range(2):
        t.write(days("2024-05-01", "2024-05-10"))
    picks = t.compact(full=True).picks
    assert [p.partition for p in picks] == ["dt=2024-05-10"]
    assert len(t.buckets_to_compact(full=True)) == 0


def test_without_an_age_it_is_refused_and_partitions_without_a_time_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    t = BY_DAY.create(tmp_path)
    with pytest.raises(InvalidRequest, match="expiration_time="):
        t.expire_partitions()
    for option in ({"partition.expiration-strategy": "age"}, {"partition.timestamp-formatter": "w"}):
        with pytest.raises(InvalidOption):
            t.alter(ts.set_options(option))
        with pytest.raises(InvalidOption):
            BY_DAY.create(tmp_path / "other", option)
    t.write([{"dt": "soon", "k": 1}])
    with caplog.at_level(logging.WARNING):
        assert t.expire_partitions("1 d").without_time == ("dt=soon",)
    assert "partition dt=soon stays" in caplog.text
