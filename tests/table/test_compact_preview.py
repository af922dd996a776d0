"""`Table.compact(dry_run=True)`: what would be read, moved and written, and that it then happens."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.env import Env
from tablestore.core.errors import InvalidRequest
from tablestore.lsm.compaction.options import CompactionOptions
from tests.faults import SimEnv
from tests.tables import WRITE_ONLY, TableSpec

UNCOMPACTED = TableSpec(
    {"k": ts.BIGINT, "v": ts.BIGINT, "t": ts.STRING},
    primary_key=("k",),
    options=WRITE_ONLY | {"bucket": 2},
)


def put(table: ts.Table, keys: np.ndarray, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    texts = [rng.bytes(20).hex() for _ in keys]
    table.write(pa.table({"k": keys, "v": rng.integers(0, 1 << 40, len(keys)), "t": texts}))


def test_a_preview_reads_and_moves_what_then_is_read_and_moved(tmp_path, seeds):
    for seed in seeds[::5]:
        rng = np.random.default_rng(seed)
        table = UNCOMPACTED.create(
            tmp_path / str(seed), {"target-file-size": "16 kb", "num-sorted-run.compaction-trigger": 2}
        )
        for step in range(6):
            keys = (
                np.unique(rng.integers(0, 4000, 900))
                if step % 2
                else np.arange(step * 4000, step * 4000 + 900)
            )
            put(table, keys, seed)
            preview = table.compact(dry_run=True)
            done = table.with_options({"write-only": False}).compact()
            for was, now in zip(preview.picks, done.picks, strict=True):
                assert (was.partition, was.bucket, was.text) == (now.partition, now.bucket, now.text)
                assert (was.forecast is None) == (now.record is None)
                if was.forecast is None:
                    continue
                f, r = was.forecast, now.record
                assert (f.files_read, f.bytes_read, f.rows_in) == (r.files_read, r.bytes_read, r.rows_in)
                assert (f.files_moved, f.bytes_moved) == (r.files_moved, r.bytes_moved)
                assert f.output.rows_min <= r.rows_out <= f.output.rows_max
                assert not f.output.exact or f.output.rows == r.rows_out
                assert abs(f.output.bytes - r.bytes_written) <= 0.5 * r.bytes_written
            assert table.refresh().check() == []


def test_rows_of_disjoint_files_are_predicted_exactly(tmp_path):
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1})
    put(table, np.arange(500))
    put(table, np.arange(1000, 1500))
    compaction = table.compact(full=True, dry_run=True)
    (row,) = compaction.to_arrow().to_pylist()
    assert (row["rule"], row["rows_in"], row["rows_out"], row["measured"]) == ("full", 1000, 1000, False)
    assert row["how"] == "exact rows: no two files share keys"
    assert "1,000 rows\n  no two files share keys" in repr(compaction)
    assert compaction.committed is None


def test_overlapping_files_are_estimated_and_say_so(tmp_path):
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1})
    put(table, np.arange(0, 1000, 2))
    put(table, np.arange(0, 1500, 3))
    (row,) = table.compact(full=True, dry_run=True).to_arrow().to_pylist()
    assert row["how"].startswith("exact rows: 1,000 rows give 833: all keys were read"), "few are read"
    table.truncate()
    put(table, np.arange(0, 100_000, 2))
    put(table, np.arange(0, 150_000, 3))
    (row,) = table.compact(full=True, dry_run=True).to_arrow().to_pylist()
    assert row["how"].startswith("estimated: ")
    assert row["rows_min"] < row["rows_out"] < row["rows_max"]
    files = table.compact(full=True, dry_run=True).files()
    assert files.column("action").to_pylist() == ["rewrite"] * 2
    assert files.column("rows").to_pylist() == [50_000, 50_000]
    text = table.compact(full=True, dry_run=True).explain()
    assert "would: reads 2 files" in text
    assert "✓ full: asked for, 2 runs to L5" in text
    assert "dry run, 1 of 1 bucket: reads 2 files" in text


def test_files_that_only_move_cost_nothing(tmp_path):
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1, "target-file-size": "1 kb"})
    put(table, np.arange(500))
    (pick,) = table.compact(full=True, dry_run=True).picks
    assert (pick.forecast.bytes_read, pick.forecast.output.bytes) == (0, 0)
    assert pick.forecast.text.startswith("only moves ")
    (file,) = table.compact(full=True, dry_run=True).files().to_pylist()
    assert (file["action"], file["level"], file["output_level"], file["rows"]) == ("move", 0, 5, 500)
    done = table.compact(full=True)
    assert (done.bytes_read, done.bytes_written, done.bytes_moved) == (0, 0, pick.forecast.bytes_moved)
    assert "only moved" in done.text
    assert "did: only moved" in done.explain()


def test_deletion_vectors_count_their_rows_as_gone(tmp_path):
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1, "deletion-vectors.enabled": True, "write-only": False})
    put(table, np.arange(1000))
    table.delete(ts.col("k") < 300)
    (pick,) = table.compact(full=True, dry_run=True).picks
    assert (pick.forecast.output.rows, pick.forecast.output.exact) == (700, True)
    done = table.compact(full=True)
    assert done.picks[0].record.rows_out == 700


def test_append_tables_are_predicted_too(tmp_path):
    table = UNCOMPACTED.create(tmp_path, {"bucket": -1, "deletion-vectors.enabled": True}, primary_key=())
    put(table, np.arange(100))
    put(table, np.arange(100))
    table.delete(ts.col("k") < 10)
    compaction = table.compact(full=True, dry_run=True)
    assert compaction.forecast.output.rows == 180
    assert sum(p.record.rows_out for p in table.compact(full=True).picks) == 180


def test_waiting_rows_are_predicted_as_a_bound(tmp_path):
    table = UNCOMPACTED.create(tmp_path, {"bucket": -2})
    put(table, np.arange(100))
    put(table, np.arange(100))
    forecast = table.compact(dry_run=True).forecast
    assert (forecast.rows_in, forecast.output.rows_max, forecast.output.exact) == (200, 200, False)
    table.compact()
    assert table.scan().to_arrow().num_rows == 100


def test_a_bucket_without_work_is_a_row_with_its_no(tmp_path):
    table = UNCOMPACTED.create(tmp_path)
    put(table, np.arange(100))
    compaction = table.compact(dry_run=True)
    assert compaction.to_arrow().column("how").to_pylist() == ["nothing to do"] * 2
    assert compaction.forecast is None
    assert "nothing, because runs 1 < trigger 5" in compaction.text


def test_compacting_until_quiet_goes_on_until_no_rule_fires(tmp_path):
    options = {
        "tablestore.compaction.strategy": "leveled",
        "tablestore.compaction.leveled.level0-file-num-trigger": 2,
        "tablestore.compaction.leveled.max-bytes-for-level-base": "8 kb",
        "target-file-size": "4 kb",
    }
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1} | options)
    for i in range(4):
        put(table, np.arange(i, 2000, 3), i)
    done = table.compact(until_quiet=True)
    assert len(done.committed.snapshots) == len(done.busy) >= 3
    assert not table.refresh().compact(dry_run=True).busy
    assert table.inspect.compactions().num_rows == len(done.busy)
    assert table.check() == []
    with pytest.raises(InvalidRequest, match="until_quiet"):
        table.compact(until_quiet=True, full=True)


def test_a_preview_says_what_becomes_of_deletes(tmp_path):
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1, "num-sorted-run.compaction-trigger": 3})
    assert table.compact(dry_run=True).picks == ()
    put(table, np.arange(900))
    table.compact(full=True)
    for first in (0, 100, 200):
        table.delete(pa.table({"k": np.arange(first, first + 5)}))
    (kept,) = table.compact(dry_run=True).picks
    assert kept.forecast.drops_deletes is False
    assert kept.forecast.deletes_text == "keeps 15 deletes: older rows may lie below"
    (dropped,) = table.compact(dry_run=True, full=True).picks
    assert dropped.forecast.drops_deletes is True
    assert dropped.forecast.deletes_text.startswith("drops 15 deletes: ")
    assert table.compact(full=True).picks[0].record.rows_out == 885
    assert table.compact(dry_run=True, full=True).forecast is None


def test_the_past_is_predicted_as_it_was(tmp_path):
    env = SimEnv()
    table = ts.connect(str(tmp_path), env=env).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "v": ts.BIGINT, "t": ts.STRING},
        primary_key=["k"],
        options={"bucket": 1, "write-only": True, "num-sorted-run.compaction-trigger": 3},
    )
    job = table.with_options({"write-only": False})
    then = {}
    for step in range(6):
        put(table, np.arange(step * 10, 500), step)
        then[table.refresh().store.snapshots.latest_id()] = job.compact(dry_run=True)
        if step == 3:
            job.compact()
    for snapshot, wanted in then.items():
        compaction = job.at(snapshot=snapshot).compact(dry_run=True)
        assert [p.decision.unit for p in compaction.picks] == [p.decision.unit for p in wanted.picks]
        assert compaction.text == wanted.text
    assert len({w.text for w in then.values()}) >= 4
    with pytest.raises(InvalidRequest, match="the past is read-only"):
        job.at(snapshot=1).compact()


def test_off_peak_hours_of_the_past_are_those_of_then(tmp_path):
    env = SimEnv()
    table = ts.connect(str(tmp_path), env=env).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "v": ts.BIGINT, "t": ts.STRING},
        primary_key=["k"],
        options={"bucket": 1, "write-only": True, "compaction.optimization-interval": "1 h"},
    )
    job = table.with_options({"write-only": False})
    put(table, np.arange(100))
    job.compact(full=True)
    put(table, np.arange(100))
    soon = table.refresh().store.snapshots.latest_id()
    env.sleep(7200)
    put(table, np.arange(100))
    assert job.at(snapshot=soon).compact(dry_run=True).busy == ()
    (now,) = job.refresh().compact(dry_run=True).picks
    assert now.decision.rule == "early full"


def test_first_rows_that_lie_below_already_are_not_predicted_as_written(tmp_path):
    table = UNCOMPACTED.create(
        tmp_path, {"bucket": 1, "merge-engine": "first-row", "num-sorted-run.compaction-trigger": 3}
    )
    job = table.with_options({"write-only": False})
    put(table, np.arange(2000))
    job.compact(full=True)
    put(table, np.arange(1990, 2010))
    (pick,) = job.compact(dry_run=True).picks
    assert (pick.forecast.output.exact, pick.forecast.output.rows_min) == (False, 0)
    assert "rows of keys that lie below are left out" in pick.forecast.output.why
    assert job.compact().picks[0].record.rows_out == 10


def test_retractions_that_become_rows_are_predicted_as_rows(tmp_path):
    options = {"bucket": 1, "write-only": True, "changelog-producer": "lookup", "merge-engine": "aggregation"}
    options["fields.v.aggregate-function"] = "sum"
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.BIGINT, "v": ts.BIGINT}, primary_key=["k"], options=options
    )
    rows = {"k": range(9), "v": range(9), "_kind": ["+I", "-D", "+I"] * 3}
    with table.writer() as writer:
        writer.write(pa.table(rows), row_kind_column="_kind")
    job = table.refresh().with_options({"write-only": False})
    forecast = job.compact(full=True, dry_run=True).picks[0].forecast
    assert (forecast.output.rows, forecast.output.exact, forecast.deletes_text) == (9, True, "")
    assert job.compact(full=True).picks[0].record.rows_out == 9
    assert table.refresh().check() == []


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")  # spelt out: needs no data base of zones
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_off_peak_hours_are_those_of_the_wall_clock_that_was_in_force_then():
    january, july = (datetime(2025, month, 1, 21, 30, tzinfo=UTC) for month in (1, 7))
    options = CompactionOptions(offpeak_start=22, offpeak_end=23, offpeak_ratio=50)
    hours = [Env().local_ms(int(when.timestamp() * 1000)) // 3_600_000 % 24 for when in (january, july)]
    assert hours == [22, 23]
    assert [options.percent(hour) for hour in hours] == [151.0, 101.0]
