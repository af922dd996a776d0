"""`inspect` of simulations: shaped as a table's, true to the simulation's own levels and accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound
from tablestore.insight.simulator import Schedule, Simulator, Workload, simulate
from tests.faults import SimEnv

TRIGGER = "num-sorted-run.compaction-trigger"
STRATEGY = "tablestore.compaction.strategy"
DELETES = Workload("uniform", rows=200, keys=2_000, deletes=0.1)
BY_HAND = Schedule(write_only=True)


@pytest.fixture(scope="module")
def run():
    """Thirty flushes with their compactions."""
    return simulate(DELETES, {TRIGGER: 3}, flushes=30)


def test_the_columns_are_those_of_a_real_table(tmp_path: Path, run) -> None:
    table = ts.connect(str(tmp_path), env=SimEnv()).create_table(
        "d.t", schema={"k": ts.BIGINT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1}
    )
    table.write([{"k": 1, "v": 1}])
    for name in ("snapshots", "commits", "levels", "compactions"):
        assert getattr(run.inspect, name)().schema == getattr(table.inspect, name)().schema, name
    for per in ("table", "snapshot", "bucket", "level"):
        assert run.inspect.amplification(per).schema == table.inspect.amplification(per).schema, per


def test_a_flush_is_an_append_and_a_compaction_a_compact(run) -> None:
    commits = run.inspect.commits().to_pylist()
    assert [c["snapshot_id"] for c in commits] == list(range(1, len(commits) + 1))
    kinds = [c["commit_kind"] for c in commits]
    assert kinds.count("APPEND") == 30
    assert kinds.count("COMPACT") == run.summary.compactions == run.inspect.compactions().num_rows
    assert [s.kind == "compaction" for s in run.steps()] == [k == "COMPACT" for k in kinds]
    rows = sum(c["rows_added"] - c["rows_removed"] for c in commits)
    assert rows == sum(run.inspect.levels()["rows"].to_pylist())
    assert run.inspect.snapshots()["total_record_count"].to_pylist()[-1] == rows


def test_levels_of_every_snapshot_are_those_after_its_step(run) -> None:
    wanted = {}
    for snapshot, step in enumerate(run.steps(), start=1):
        wanted[snapshot] = sorted((f.level, f.file_name, f.file_size) for f in step.levels.files)
    for snapshot in (1, 40, 7, *wanted):
        levels = run.inspect.levels(snapshot=snapshot).select(["level", "file_name", "bytes"]).to_pylist()
        assert sorted(tuple(f.values()) for f in levels) == wanted[snapshot]
    newest = run.inspect.levels().to_pylist()
    assert all((f["snapshot_id"] is not None) == (f["level"] == 0) for f in newest)
    with pytest.raises(NotFound, match=rf"no snapshot 999; have 1\.\.{len(wanted)}"):
        run.inspect.levels(snapshot=999)


def test_pictures_of_all_snapshots_share_the_key_axis(run) -> None:
    places = set()
    for snapshot in range(1, 10):
        for f in run.inspect.levels(snapshot=snapshot).to_pylist():
            places.add((f["min_key"], f["min_key_pos"]))
    assert len(places) == len({key for key, _ in places})


@pytest.mark.parametrize("strategy", ["universal", "leveled"])
@pytest.mark.parametrize("kind", ["uniform", "sequential", "time-series", "zipf"])
def test_sums_are_those_of_the_engine_s_accounts(kind: str, strategy: str) -> None:
    workload = Workload(kind, rows=100, deletes=0.1)
    simulator = Simulator(workload, {TRIGGER: 3, STRATEGY: strategy}, buckets=2, seed=4).advance(25)
    accounts = [b.account for b in simulator.buckets]
    (whole,) = simulator.inspect.amplification().to_pylist()
    assert whole["bytes_ingested"] == sum(a.ingested for a in accounts)
    assert whole["bytes_compacted"] == sum(a.compacted for a in accounts)
    assert whole["bytes_moved"] == sum(a.moved for a in accounts)
    assert whole["runs"] == sum(a.runs for a in accounts)
    assert whole["compacted_bytes"] == sum(b.compacted_bytes() for b in simulator.buckets)
    by_level = simulator.inspect.amplification("level").to_pylist()
    assert sum(r["bytes_compacted"] for r in by_level) == whole["bytes_compacted"]
    assert sum(r["live_bytes"] for r in by_level) == whole["live_bytes"]
    by_bucket = simulator.inspect.amplification("bucket").to_pylist()
    assert [r["live_files"] for r in by_bucket] == [a.live_files for a in accounts]
    last = simulator.inspect.amplification("snapshot").to_pylist()[-1]
    assert {name: last[name] for name in ("write_amplification", "space_amplification", "runs")} == {
        name: whole[name] for name in ("write_amplification", "space_amplification", "runs")
    }


def test_space_of_a_sample_is_near_that_of_a_merge_of_all_files() -> None:
    simulator = Simulator(Workload("zipf", rows=10_000, keys=100_000), samples=200, seed=2).advance(60)
    (whole,) = simulator.inspect.amplification().to_pylist()
    assert not whole["space_exact"]
    assert whole["compacted_bytes"] == pytest.approx(simulator.buckets[0].compacted_bytes(), rel=0.03)


def test_a_dry_run_shows_what_the_compaction_then_does() -> None:
    simulator = Simulator(DELETES, {TRIGGER: 4}, schedule=BY_HAND)
    for _ in range(6):
        (step,) = simulator.flush()
    assert (step.kind, step.snapshot, simulator.buckets[0].account.runs) == ("flush", 6, 6)
    preview, again = (simulator.compact(dry_run=True) for _ in range(2))
    assert preview.text == again.text
    assert simulator.inspect.commits().num_rows == 6
    done = simulator.compact()
    assert done.committed.snapshots == (7,)
    (plan,), (did,) = preview.picks, done.picks
    assert (plan.decision.rule, plan.decision.text) == (did.decision.rule, did.decision.text)
    forecast, record = plan.forecast, did.record
    assert (forecast.bytes_read, forecast.output.rows, forecast.output.bytes) == (
        record.bytes_read,
        record.rows_out,
        record.bytes_written,
    )
    assert simulator.inspect.compactions()["explanation"][0].as_py() == did.decision.explain()


def test_until_quiet_leaves_nothing_to_do_and_full_brings_all_to_the_top() -> None:
    simulator = Simulator(DELETES, {TRIGGER: 3}, buckets=2, schedule=BY_HAND)
    for _ in range(9):
        simulator.flush()
    done = simulator.compact(until_quiet=True)
    assert len(done.committed.snapshots) == len(done.busy) >= 2
    assert not simulator.compact(dry_run=True).busy
    assert simulator.compact().committed.snapshots == ()
    simulator.flush()
    assert [p.decision.rule for p in simulator.compact(full=True, bucket=1).picks] == ["full"]
    assert simulator.buckets[1].levels.run_count == 1
    assert simulator.buckets[0].levels.run_count > 1
    with pytest.raises(InvalidRequest, match=r"buckets 0\.\.1 and no partitions"):
        simulator.compact(bucket=2)


def test_options_change_in_mid_run_and_the_files_stay() -> None:
    simulator = Simulator(DELETES, {TRIGGER: 5}, schedule=BY_HAND)
    for _ in range(4):
        simulator.flush()
    before = simulator.inspect.levels()
    assert not simulator.compact(dry_run=True).busy
    simulator.set_options({TRIGGER: 3})
    assert simulator.compact(dry_run=True).busy
    assert simulator.options[TRIGGER] == "3"
    simulator.set_options({STRATEGY: "leveled"})
    assert simulator.compact(dry_run=True).picks[0].decision.rule == "level 0"
    assert simulator.inspect.levels() == before
    with pytest.raises(InvalidOption):
        simulator.set_options({TRIGGER: "few"})
    assert simulator.options[TRIGGER] == "3"


def test_the_journal_keeps_the_newest_steps_and_all_sums() -> None:
    whole, short = (Simulator(DELETES, {TRIGGER: 3}, seed=1, keep=n).advance(40) for n in (1_000, 10))
    ids = short.inspect.commits()["snapshot_id"].to_pylist()
    assert len(ids) == 10
    assert ids == whole.inspect.commits()["snapshot_id"].to_pylist()[-10:]
    assert short.inspect.amplification() == whole.inspect.amplification()
    for snapshot in (ids[0], ids[-1], ids[4]):
        names = [s.inspect.levels(snapshot=snapshot)["file_name"].to_pylist() for s in (short, whole)]
        assert names[0] == names[1]
    with pytest.raises(NotFound, match=rf"have {ids[0]}\.\."):
        short.inspect.levels(snapshot=ids[0] - 1)


def test_without_a_journal_nothing_is_kept_and_steps_are_the_same() -> None:
    without, journaled = (Simulator(DELETES, {TRIGGER: 3}, keep=n).advance(20) for n in (0, 100))
    assert without.inspect.commits().num_rows == 0
    assert without.inspect.levels().num_rows == 0
    assert [f.file_name for f in without.levels().files] == [f.file_name for f in journaled.levels().files]
