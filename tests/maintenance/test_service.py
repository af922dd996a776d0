"""The service: what is done, in which order, within limits, by one of several, through kills."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tablestore as ts
from tablestore.cli.maintain.command import MaintenanceMetrics
from tablestore.core.errors import Unavailable
from tablestore.flow.job import RUNNING, WAITING
from tablestore.io.fileio import LocalFileIO
from tablestore.maintenance import service as service_module
from tablestore.maintenance.opening import service_of
from tablestore.maintenance.report import History, MaintenanceReport, maintenance_report
from tablestore.maintenance.service import MaintenanceService
from tablestore.maintenance.work import TRIES, MaintenanceWork, WorkOutcome
from tablestore.table import compaction
from tests.faults import FaultyIO, Killed, SimEnv
from tests.tables import KEYED, WRITE_ONLY

HOUR_MS = 3_600_000
LEVELED = {"tablestore.compaction.strategy": "leveled"}


def rows(first: int, count: int = 200) -> pa.Table:
    return pa.table({"k": range(first, first + count), "v": [f"v{first}"] * count})


def filled(warehouse: Path, writes: int = 8, env: Any = None, **how: Any) -> ts.Table:
    """d.t with a file in each of its two buckets for each write."""
    table = KEYED.create(warehouse, {**WRITE_ONLY, "bucket": 2, **how}, env=env)
    for number in range(writes):
        table.write(rows(50 * number))
    return table


def service(warehouse: Path, env: SimEnv | None = None, **how: Any) -> MaintenanceService:
    env = env or SimEnv()
    lake = ts.connect(warehouse, env=env)
    return service_of(lake, LocalFileIO(env), env=env, follow=False, **how)


def worked(some: MaintenanceService) -> list[ts.WorkDone]:
    """All its turns, in this thread."""
    while some.turn():
        pass
    return list(some.done)


def runs(table: ts.Table) -> list[int]:
    return sorted(table.refresh().inspect.health().buckets["runs"].to_pylist())


def test_history_does_not_add_up_while_buckets_are_always_due(tmp_path: Path):
    few = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 4}
    table, maintainer = filled(tmp_path, 3, **few), service(tmp_path, policy=ts.MaintenancePolicy(runs=2))
    for number in range(3):  # compactions come before findings, so the finding has no turn
        for write in range(4):
            table.write(rows(number + write))
        assert maintainer.turn()
    assert {done.kind for done in maintainer.done} == {"compact"}
    assert table.refresh().inspect.snapshots().num_rows <= 4
    assert table.check() == []


@pytest.mark.parametrize("strategy", ["universal", "leveled"])
@pytest.mark.parametrize(
    ("policy", "most"),
    [(None, 5), (ts.MaintenancePolicy(runs=2), 2), (ts.MaintenancePolicy(freshness="1 h"), 2)],
)
@pytest.mark.sample(2)
def test_buckets_come_to_their_policy(
    tmp_path: Path, strategy: str, policy: ts.MaintenancePolicy | None, most: int
):
    env = SimEnv()
    how = LEVELED if strategy == "leveled" else {}
    table = filled(tmp_path, env=env, **how)
    before = table.scan().to_arrow().sort_by("k")
    env.move(2 * HOUR_MS)
    done = worked(service(tmp_path, env, policy=policy))
    assert max(runs(table)) <= most
    compacted = [work for work in done if work.kind == "compact"]
    assert {work.where for work in compacted} == {"bucket-0", "bucket-1"}
    assert all(work.runs_after < work.runs_before and not work.error and work.why for work in compacted)
    assert all(work.read == work.predicted_read > 0 and work.written > 0 for work in compacted)
    assert table.refresh().scan().to_arrow().sort_by("k").equals(before)
    assert table.check() == []
    assert worked(service(tmp_path, env, policy=policy)) == []  # nothing is left, and orphans come once a day


def test_fresh_level_0_waits(tmp_path: Path):
    env = SimEnv()
    filled(tmp_path, writes=3, env=env)
    policy = ts.MaintenancePolicy(freshness="1 h", orphans_every=None)
    assert service(tmp_path, env, policy=policy).plan() == ()
    env.move(HOUR_MS + 1)
    plan = service(tmp_path, env, policy=policy).plan()
    assert [work.where for work in plan] == ["bucket-0", "bucket-1"]
    assert all("freshness 1 h" in work.why for work in plan)


@pytest.mark.parametrize(("trigger", "lets_go"), [(5, {"compact": 2}), (50, {"finding": 1})])
def test_snapshots_orphans_partitions_and_statistics_are_kept(
    tmp_path: Path, trigger: int, lets_go: dict[str, int]
):
    env = SimEnv()
    how = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2, "snapshot.expire.limit": 100}
    how["num-sorted-run.compaction-trigger"] = trigger
    table = filled(tmp_path, writes=14, env=env, **how)
    orphan = Path(table.location) / "bucket-0" / "data-left.parquet"
    orphan.write_bytes(b"left by a killed writer")
    env.move(3 * 24 * HOUR_MS)
    os.utime(orphan, (0, 0))
    policy = ts.MaintenancePolicy(analyze_every="1 d")
    done = worked(service(tmp_path, env, policy=policy))
    assert Counter(work.kind for work in done) == {**lets_go, "orphans": 1, "analyze": 1}
    assert not [work.error for work in done if work.error]
    assert not orphan.exists()
    assert table.refresh().inspect.statistics().num_rows
    assert table.inspect.snapshots().num_rows <= 4  # two, and those that came after


def test_partitions_beyond_their_time_go(tmp_path: Path):
    env = SimEnv()
    table = ts.connect(tmp_path, env=env).create_table(
        "d.e",
        schema={"day": ts.STRING, "v": ts.INT},
        partition_by=["day"],
        options={"partition.expiration-time": "7 d", "partition.timestamp-formatter": "yyyy-MM-dd"},
    )
    table.write([{"day": "2020-01-01", "v": 1}, {"day": "2023-11-14", "v": 2}])
    done = worked(service(tmp_path, env, policy=ts.MaintenancePolicy(orphans_every=None)))
    assert [work.kind for work in done] == ["partitions"]
    assert table.refresh().scan().to_arrow()["v"].to_pylist() == [2]


def test_the_worst_bucket_comes_first_and_the_rest_waits_for_the_hour(tmp_path: Path):
    env = SimEnv()
    table = filled(tmp_path, env=env, **{"num-sorted-run.stop-trigger": 20})
    for _ in range(3):
        table.write([{"k": key, "v": "new"} for key in keys_of(table, bucket=1)[:5]])
    size = int(table.inspect.health().bytes * 0.6)
    maintainer = service(
        tmp_path, env, policy=ts.MaintenancePolicy(orphans_every=None), bytes_per_hour=f"{size} b"
    )
    assert [work.where for work in worked(maintainer)] == ["bucket-1"]
    (waiting,) = maintainer.report().waiting
    assert waiting.where == "bucket-0"
    assert "an hour, in 1:00:00" in waiting.waits_for
    again = service(
        tmp_path, env, policy=ts.MaintenancePolicy(orphans_every=None), bytes_per_hour=f"{size} b"
    )
    assert worked(again) == []  # what one spent, the next one of its name knows
    env.move(HOUR_MS)
    assert [work.where for work in worked(again)] == ["bucket-0"]


def keys_of(table: ts.Table, bucket: int) -> list[int]:
    splits = [s for s in table.scan(["k"]).plan().splits if s.bucket == bucket]
    return sorted(
        {k for split in splits for batch in table.read_split(split) for k in batch["k"].to_pylist()}
    )


def test_outside_its_hours_only_what_writers_wait_for_is_done(tmp_path: Path):
    env = SimEnv()  # 22:13 by its clock
    filled(
        tmp_path,
        env=env,
        **{
            "write-only": False,
            "num-sorted-run.stop-trigger": 20,
            "bucket": 1,
            "num-sorted-run.compaction-trigger": 19,
        },
    )
    policy = ts.MaintenancePolicy(runs=2, orphans_every=None)
    maintainer = service(tmp_path, env, policy=policy, windows="06:00-22:00")
    assert worked(maintainer) == []
    assert maintainer.report().waiting[0].waits_for == "its hours, 06:00-22:00"
    assert worked(service(tmp_path, env, policy=policy, windows="06:00-22:00,22:00-23:00"))


def test_services_divide_tables_and_one_goes_on_for_a_dead_one(tmp_path: Path):
    env = SimEnv()
    filled(tmp_path, env=env)
    first = service(tmp_path, env, name="first", lease="10 s")
    second = service(tmp_path, env, name="second", lease="10 s")
    assert first.turn()
    assert not second.turn()
    assert "the service first@" in second.report().waiting[0].waits_for
    env.move(10_001)  # the first one is dead
    assert second.turn()
    assert not first.turn()  # and would learn it
    assert [work.where for work in (*first.done, *second.done)] == ["bucket-0", "bucket-1"]


def test_work_that_fails_rests_for_longer_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    env = SimEnv()
    table = filled(tmp_path, env=env)
    (broken,) = (
        f for f in table.inspect.files().to_pylist() if f["bucket"] == 0 and f["min_sequence_number"] == 0
    )
    path = Path(broken["file_path"])
    rest = path.rename(tmp_path / "aside")
    maintainer = service(tmp_path, env, policy=ts.MaintenancePolicy(orphans_every=None))
    done = worked(maintainer)
    assert [bool(work.error) for work in done if work.where == "bucket-0"] == [True]
    assert path.name in done[0].error
    assert runs(table)[0] == 1  # the other bucket did not wait for it
    env.move(59_000)
    assert worked(maintainer) == done
    env.move(1_000)
    assert worked(maintainer)[-1].error
    rest.rename(path)
    env.move(60_000)
    assert worked(maintainer)[-1].error  # it rests for twice as long now
    env.move(60_000)
    assert [work.error for work in worked(maintainer)[len(done) + 1 :]] == [""]


@pytest.mark.parametrize("times", [1, TRIES])
def test_work_before_which_a_writer_comes_first_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
):
    """Between our plan and our commit, so often, all buckets are compacted, and files come again."""
    env = SimEnv()
    table = filled(tmp_path, env=env)
    commit, firsts = compaction.commit_or_discard, iter(range(times))

    def commit_second(*request: Any) -> Any:
        if next(firsts, None) is not None:
            with monkeypatch.context() as own:
                own.setattr(compaction, "commit_or_discard", commit)
                table.refresh().with_options({"write-only": "false"}).compact(full=True)
                for number in range(8):
                    table.write(rows(50 * number))
        return commit(*request)

    monkeypatch.setattr(compaction, "commit_or_discard", commit_second)
    maintainer = service(tmp_path, env, policy=ts.MaintenancePolicy(orphans_every=None))
    first = worked(maintainer)[0]
    if times < TRIES:
        assert first.error == ""
    else:
        assert first.error.startswith(f"others were first {TRIES} times: ")
        assert "not live any more" in first.error
    env.move(HOUR_MS)
    assert worked(maintainer)[-1].error == ""
    assert table.refresh().check() == []
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == list(range(550))


def test_a_table_that_cannot_be_opened_is_in_trouble_and_others_go_on(tmp_path: Path):
    env = SimEnv()
    table = filled(tmp_path, env=env)
    broken = ts.connect(tmp_path).create_table("d.broken", schema={"k": ts.INT})
    (Path(broken.location) / "schema" / "schema-0").write_text("{")
    maintainer = service(tmp_path, env)
    worked(maintainer)
    assert runs(table) == [1, 1]
    assert [name for name, _ in maintainer.report().troubles] == ["d.broken"]


def test_reports_are_read_by_others_as_they_are(tmp_path: Path):
    filled(tmp_path)
    maintainer = service(tmp_path)
    worked(maintainer)
    report = maintainer.report()
    assert MaintenanceReport.from_json(json.loads(json.dumps(report.as_json()))) == report
    assert report.to_arrow().num_rows == len(report.done)
    with pytest.raises(ts.NotFound, match="no maintenance service"):
        maintenance_report(tmp_path, "nobody")
    running = ts.connect(tmp_path).maintain(follow=False)
    assert running.wait(120)
    assert maintenance_report(tmp_path).state == "ended"
    html = running._repr_html_()
    assert "<td" in html
    assert "d.t" in html


def test_pause_lets_nothing_begin_and_stop_ends_it(tmp_path: Path):
    table = filled(tmp_path)
    lake = ts.connect(tmp_path)
    running = lake.maintain(poll="10 ms")
    running.pause()
    assert running.state == "paused"
    running.resume()
    table.write(rows(0))
    assert running.stop(120)
    running.pause()
    assert (running.state, running.running) == ("stopped", False)


@pytest.mark.parametrize(
    "wrong", [{"poll": "0 s"}, {"poll": 1 << 70}, {"lease": "2 d"}, {"lease": "10 ms"}, {"poll": "soon"}]
)
def test_times_that_nobody_can_keep_are_refused(tmp_path: Path, wrong: dict[str, Any]):
    lake = ts.connect(tmp_path)
    lake.create_database("d")
    with pytest.raises(ts.InvalidRequest, match=next(iter(wrong))):
        lake.maintain(**wrong)


def test_any_failure_of_the_store_leaves_the_table_sound(tmp_path: Path, seeds: tuple[int, ...]):
    for seed in seeds:
        draw = random.Random(seed)
        for mode in ("kill before", "kill after", "error before", "error after"):
            warehouse = tmp_path / f"{seed}-{mode}"
            table = filled(warehouse, writes=6)
            before = table.scan().to_arrow().sort_by("k")
            faulty = FaultyIO(draw.randrange(150), mode)
            env = SimEnv(seed)
            with contextlib.suppress(Killed, ts.TablestoreError, OSError):
                lake = ts.connect(warehouse, io=faulty, env=env)
                worked(service_of(lake, faulty, follow=False, env=env))
            env.move(HOUR_MS)
            done = worked(service(warehouse, env, name="after"))
            assert not [work.error for work in done if work.error]
            assert table.refresh().scan().to_arrow().sort_by("k").equals(before)
            assert table.check() == []
            assert max(runs(table)) <= 5


def test_two_services_beside_a_writer_lose_and_double_nothing(tmp_path: Path, seeds: tuple[int, ...]):
    for seed in seeds:
        warehouse, draw = tmp_path / str(seed), random.Random(seed)
        table = KEYED.create(warehouse, {**WRITE_ONLY, "bucket": 2, "snapshot.num-retained.min": 1000})
        policy, expected = ts.MaintenancePolicy(runs=1, orphans_every=None), dict[int, str]()
        lakes = [ts.connect(warehouse) for _ in range(2)]
        services = [
            lake.maintain(policy=policy, name=name, poll="1 ms", lease="1 s")
            for lake, name in zip(lakes, ("first", "second"), strict=True)
        ]
        for number in range(25):
            batch = {draw.randrange(300): f"{number}" for _ in range(20)}
            table.write([{"k": key, "v": value} for key, value in batch.items()])
            expected |= batch
        for maintainer in services:
            assert maintainer.stop(120)
            assert maintainer.error is None
        done = [work for maintainer in services for work in maintainer.done]
        assert any(work.kind == "compact" and not work.error for work in done)
        seen = table.refresh().scan().to_arrow().to_pylist()
        assert {row["k"]: row["v"] for row in seen} == expected
        assert len(seen) == len(expected)
        assert table.check() == []


@pytest.mark.large
def test_buckets_of_several_tables_are_compacted_at_a_time_in_processes(tmp_path: Path):
    tables = [filled(tmp_path, bucket=4)]
    other = ts.connect(tmp_path).create_table("d.append", schema={"v": ts.INT}, options={"bucket": -1})
    for number in range(6):
        other.write([{"v": number}])
    before = [table.scan().to_arrow().sort_by("k") for table in tables]
    running = ts.connect(tmp_path).maintain(policy=ts.MaintenancePolicy(runs=1), processes=3, follow=False)
    assert running.wait(300)
    assert running.error is None
    assert not [work.error for work in running.done if work.error]
    compacted = [work for work in running.done if work.table == "d.t" and work.kind == "compact"]
    assert sorted(work.where for work in compacted) == [f"bucket-{n}" for n in range(4)]
    first = compacted[:3]
    assert max(work.began for work in first) < min(work.began + work.seconds for work in first)
    assert runs(tables[0]) == [1] * 4
    assert [table.refresh().scan().to_arrow().sort_by("k") for table in tables] == before
    assert tables[0].check() == other.refresh().check() == []


@pytest.mark.large
def test_buckets_are_compacted_by_spark(tmp_path: Path, spark: SparkSession):
    table = filled(tmp_path)
    before = table.scan().to_arrow().sort_by("k")
    running = ts.connect(tmp_path).maintain(
        policy=ts.MaintenancePolicy(runs=1), engine="spark", spark=spark, follow=False
    )
    assert running.wait(300)
    assert not [work.error for work in running.done if work.error]
    assert runs(table) == [1, 1]
    assert table.refresh().scan().to_arrow().sort_by("k").equals(before)
    assert table.check() == []
    with pytest.raises(ts.InvalidRequest, match="processes"):
        ts.connect(tmp_path).maintain(engine="spark", spark=spark, processes=2)


class LostWorkers:
    """A pool whose worker is killed with its second item."""

    most = 2

    def run(self, task: Any, items: Any, *, done: Any = None) -> list[Any]:
        done(0, task(items[0]))
        raise Unavailable("a process was killed")

    def close(self) -> None:
        pass


def test_a_killed_worker_loses_its_own_piece_alone(tmp_path: Path):
    env = SimEnv()
    table = filled(tmp_path, env=env)
    some = service(tmp_path, env, policy=ts.MaintenancePolicy(runs=1, orphans_every=None))
    some._pool = LostWorkers()
    assert some.turn()
    good, lost = some.done
    assert (good.error, good.runs_after, lost.error) == ("", 1, "a process was killed")
    assert runs(table)[0] == 1 < runs(table)[1]
    assert [work.where for work in some.plan()] == []  # it rests
    env.move(HOUR_MS)
    assert [work.where for work in some.plan()] == [lost.where]


def test_a_service_remembers_the_newest_work_and_the_sums_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service_module, "MOST", 3)
    env = SimEnv()
    table = filled(tmp_path, 2, env)
    some = service(tmp_path, env, policy=ts.MaintenancePolicy(runs=1, orphans_every=None))
    all_of_it = list[ts.WorkDone]()
    for turn in range(5):
        table.write(rows(turn))
        while some.turn():
            all_of_it += some.done_after(len(all_of_it))
        assert some.done_after(len(all_of_it)) == ()
    assert len(all_of_it) == some.sums.count >= 10
    assert list(some.done) == all_of_it[-3:]
    metrics = {f.name: f.samples for f in MaintenanceMetrics(some).families()}
    kinds = Counter((work.table, work.kind, "done") for work in all_of_it)
    assert metrics["tablestore_maintenance_work_total"] == kinds
    for name in ("read", "written", "predicted_written"):
        of_all = sum(getattr(work, name) for work in all_of_it)
        assert metrics[f"tablestore_maintenance_{name}_bytes_total"] == {("d.t",): of_all}
    work = MaintenanceWork("d.t", "compact", "an error", 2)
    some._note_done(work, all_of_it[-1], WorkOutcome(error="lost"))
    some._note_done(replace(work, where="bucket-1"), all_of_it[-1], WorkOutcome())  # is no cure
    assert [each.error for each in some.failing] == ["lost"]
    assert not MaintenanceMetrics(some).health().healthy
    ts.connect(tmp_path).drop_table("d.t")
    assert not some.turn()
    assert MaintenanceMetrics(some).health().healthy
    assert some._resting == {}


def test_no_report_is_written_where_the_lake_was(tmp_path: Path):
    filled(lake := tmp_path / "lake")
    history = History(LocalFileIO(), str(lake), None)
    report = service(lake).report()
    history.begin()
    history.write(report)
    lake.rename(tmp_path / "away")
    history.write(report)  # nothing new
    with pytest.raises(Unavailable, match="mount what holds it"):
        history.write(replace(report, reason="another"))
    assert not lake.exists()


def test_a_store_that_is_away_is_waited_for_and_said(tmp_path: Path):
    filled(lake := tmp_path / "lake")
    some = ts.connect(lake).maintain(engine="local", poll="10 ms")
    metrics = MaintenanceMetrics(some)

    def until(state: str) -> None:
        while some.state != state:
            assert not some.wait(0.1)

    while len(some.done) < 2 or len(maintenance_report(lake).done) < 2:
        assert not some.wait(0.1)
    lake.rename(tmp_path / "away")
    until(WAITING)
    assert (metrics.health().healthy, "mount what holds it" in metrics.health().text) == (False, True)
    (tmp_path / "away").rename(lake)
    until(RUNNING)
    assert metrics.health().healthy
    assert some.stop(60)
