"""The doctor: each way in which a table can be ill is found with its numbers; the call it names mends it."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.insight.doctor import RULES
from tablestore.insight.inspect.inspect import Inspect
from tablestore.table.table import Table
from tests.insight.doctor.diagnoses import SCHEMA, TABLE, doctor, flush, looked, mended, noisy, put, the
from tests.read import golden

# what it says of tables that are well


def test_a_healthy_table_gives_no_findings_and_lists_what_was_looked_at(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": 2})
    flush(t, 4, range(100))
    findings = t.inspect.doctor()
    assert (len(findings), findings.sound, list(findings), findings.summary) == (0, True, [], "sound")
    assert [x.rule for x in findings.tried] == [*(name for name, _ in RULES), "left-overs"]
    assert all(x.text for x in findings.tried)
    assert "sorted runs: 4 in the fullest of 2 buckets, trigger 5, stop trigger 8" in findings.text
    assert "bucket-0: nothing to compact: runs 4 < trigger 5" in " ".join(findings.text.split())
    assert findings.to_arrow().num_rows == 0


def test_a_table_without_a_snapshot_has_nothing_to_look_at(tmp_path: Path) -> None:
    findings = TABLE.create(tmp_path).inspect.doctor()
    assert findings.sound
    assert "none yet" in findings.text


def test_append_tables_are_looked_at_too(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": -1}, primary_key=())
    put(t, range(10))
    findings = t.inspect.doctor()
    assert findings.sound
    assert "bucket-0: nothing to compact: 1 file small, fewer than 5" in " ".join(findings.text.split())


@pytest.mark.parametrize("table", golden.java_tables())
def test_tables_of_java_are_diagnosed_and_each_call_is_a_call(table: str) -> None:
    findings = Inspect(golden.java(table)).doctor(listing=True)
    for f in findings:
        compile(f.remedy, table, "eval")
        assert f.evidence, f
    assert {f.severity for f in findings} <= {"risk", "slow", "waste", "note"}
    assert findings.to_arrow().num_rows == len(findings)


def test_a_table_of_python_without_statistics_gives_a_finding() -> None:
    findings = Inspect(golden.python("pk_changelog_input")).doctor()
    assert findings.kinds == ("no retractions", "statistics")  # worst first
    assert the(findings, "no retractions").evidence["keys_met_twice"] == 1


def test_data_files_are_not_opened(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"write-only": True})
    flush(t, 7, range(50))
    for file in (Path(t.location) / "bucket-0").iterdir():
        file.unlink()
    assert t.inspect.doctor().kinds == ("sorted runs",)


def test_damage_is_a_finding_and_the_other_rules_go_on(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"write-only": True})
    flush(t, 7, range(50))
    t.consumers.reset("c", 1)
    (Path(t.location) / "consumer" / "consumer-c").write_text("nonsense")
    findings = t.inspect.doctor()
    assert findings.kinds == ("damage", "sorted runs")
    assert "consumer-c" in the(findings, "damage").where


def test_an_older_snapshot_can_be_asked_about(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"write-only": True})
    flush(t, 7, range(50))
    t.compact(full=True)
    assert t.inspect.doctor().sound
    assert t.inspect.doctor(7).kinds == ("sorted runs",)
    assert t.inspect.doctor(4).sound


def test_no_more_commits_are_looked_at_than_their_entries_allow(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    flush(t, 4, range(5))
    reasons = {x.rule: x.text for x in doctor(t, {"entries": 2}).tried}
    assert reasons["write stalls"] == "0 waits for compaction in 2 commits"
    reasons = {x.rule: x.text for x in doctor(t, {"entries": 0}).tried}
    assert reasons["write stalls"] == "0 waits for compaction in 1 commit"


def test_limits_are_given_by_name(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    assert t.inspect.doctor(skew=2).sound
    with pytest.raises(ts.NotFound, match="did you mean skew"):
        t.inspect.doctor(skewed=2)
    with pytest.raises(ts.InvalidRequest, match="skew 'much' must be a number"):
        t.inspect.doctor(skew="much")


def test_names_in_html_are_text(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": 1}, columns={**SCHEMA, "p": ts.STRING}, partition_by=["p"])
    evil = "<script>alert(1)</script>"
    rows = {"id": pa.array([1], pa.int32()), "v": ["x"], "n": [1], "p": [evil]}
    for i in range(3):
        t.with_options({"write-only": True}).write(pa.table({**rows, "n": [i]}))
    t.alter(ts.set_options({"num-sorted-run.compaction-trigger": 2}))
    findings = doctor(t)
    assert "<script>" in findings.text
    assert "<script>" not in findings._repr_html_()
    assert "&lt;script&gt;" in findings._repr_html_()


# how it lies


def test_runs_that_a_write_only_table_gathered(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"write-only": True})
    flush(t, 7, range(50))
    actual = mended(t, "sorted runs")
    assert actual.evidence["runs"] == 7
    assert actual.evidence["flushes_until_stall"] == 2
    assert actual.evidence["rule"] == "size amplification"
    assert "write-only leaves compaction to a job" in actual.what
    assert actual.where == "bucket-0"


def test_runs_at_the_stop_trigger_are_a_risk_and_only_the_ill_bucket_is_compacted(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": 2, "bucket-function.type": "mod", "bucket-key": "id"})
    for i in range(9):
        put(t.with_options({"write-only": True}), range(0, 40, 2), v=str(i))
    put(t, range(1, 9, 2))
    actual = mended(t, "sorted runs")
    assert (actual.severity, actual.where, actual.evidence["buckets"]) == ("risk", "bucket-0", 1)
    assert "bucket=0" in actual.remedy
    assert "did not compact" in actual.what


def test_runs_below_a_high_trigger_are_reported_with_the_reason_of_the_engine(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"num-sorted-run.compaction-trigger": 30})
    flush(t, 10, range(20))
    actual = mended(t, "sorted runs")
    assert "runs 10 < trigger 30" in actual.what
    assert actual.remedy == "table.compact(full=True)"


def test_files_of_level_0_where_levels_have_targets(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"tablestore.compaction.strategy": "leveled", "write-only": True})
    flush(t, 5, range(50))
    actual = mended(t, "sorted runs")
    assert (actual.evidence["runs"], actual.evidence["trigger"]) == (5, 4)


def test_a_stop_trigger_below_the_trigger(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    put(t, range(3))
    t.alter(ts.set_options({"num-sorted-run.stop-trigger": 2}))
    assert mended(t, "stop trigger").evidence == {"trigger": 5, "stop_trigger": 2}


def test_small_files_of_an_append_table(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": -1}, primary_key=())
    for i in range(4):
        put(t, range(i * 10, i * 10 + 10))
    actual = mended(t, "small files")
    assert (actual.evidence["small_files"], actual.evidence["saved_files"]) == (4, 3)


def test_small_files_of_a_run_that_no_compaction_takes(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    tiny = t.with_options({"target-file-size": "1 kb", "compaction.small-file-ratio": 0.01})
    for i in range(5):
        put(tiny.with_options({"write-only": True}), range(i * 4000, i * 4000 + 4000))
    tiny.compact(full=True)
    actual = mended(t, "small files")
    assert actual.remedy == "table.rescale(1)"


def test_a_few_newer_rows_over_a_large_file(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    put(t, range(20_000))
    t.compact(full=True)
    put(t, range(0, 20_000, 5_000))
    actual = mended(t, "key overlap")
    assert actual.evidence["newer_bytes"] < actual.evidence["merged_bytes"]
    assert actual.evidence["share"] == 1.0


def test_a_bucket_beyond_the_guidance_is_rescaled(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    noisy(t, 4_000)
    limit = t.inspect.files()["file_size_in_bytes"][0].as_py() - 1
    limits = {"bucket_bytes": limit}
    actual = mended(t, "bucket size", limits)
    assert actual.evidence["proposed"] == 3
    assert t.refresh().options["bucket"] == "3"


def test_many_buckets_of_next_to_nothing_are_noted(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": 8})
    put(t, range(400))
    actual = mended(t, "bucket size", {})
    assert (actual.severity, actual.evidence["proposed"]) == ("note", 1)


def test_rows_that_crowd_in_one_bucket(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": 4, "bucket-function.type": "mod", "bucket-key": "id"})
    put(t, range(0, 400, 4))
    actual = the(doctor(t), "bucket skew")
    assert actual.evidence["times_mean"] == 4.0
    assert looked(t, actual).alternatives[0].skew == 1.0


def test_a_partition_that_outgrew_the_others(tmp_path: Path) -> None:
    t = TABLE.create(
        tmp_path, {"bucket": 2}, columns={**SCHEMA, "p": ts.INT}, primary_key=["id", "p"], partition_by=["p"]
    )
    for p, rows in enumerate((4_000, 2, 2, 2)):
        noisy(t, rows, p=pa.array([p] * rows, pa.int32()))
    limits = {"skew_bytes": 1, "bucket_bytes": 10_000, "bucket_min_bytes": 5_000}
    actual = the(doctor(t, limits), "partition skew")
    assert (actual.where, actual.evidence["partitions"]) == ("p=0", 4)
    assert looked(t, actual).largest == "p=0"


# what rows cost or hide


def test_tombstones_above_old_rows(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    put(t, range(100))
    t.compact(full=True)
    t.delete(col("id") < 60)
    actual = mended(t, "tombstones")
    assert (actual.evidence["deletes"], actual.evidence["rows"]) == (60, 160)


def test_rows_under_deletion_vectors(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"deletion-vectors.enabled": True})
    put(t, range(100))
    put(t, range(50), v="y")
    actual = mended(t, "deletion vectors")
    assert actual.evidence["marked_rows"] == 50


def test_rows_that_wait_for_their_buckets(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": -2})
    put(t, range(10))
    actual = mended(t, "waiting rows")
    assert (actual.severity, actual.evidence["rows"]) == ("note", 10)
    assert t.scan().to_arrow().num_rows == 10


def test_level_0_that_readers_do_not_see(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"deletion-vectors.enabled": True})
    put(t.with_options({"write-only": True}), range(10))
    actual = the(doctor(t), "pending lookups")
    assert (actual.severity, actual.evidence["rows"]) == ("risk", 10)
    eval(actual.remedy, {"table": t})
    assert "pending lookups" not in doctor(t).kinds
    assert t.scan().to_arrow().num_rows == 10


def test_level_0_below_a_fuller_level_takes_several_rounds(tmp_path: Path) -> None:
    leveled = "tablestore.compaction.leveled."
    options = {"deletion-vectors.enabled": True, "tablestore.compaction.strategy": "leveled"}
    options |= {f"{leveled}max-bytes-for-level-base": "1 mb", f"{leveled}level0-file-num-trigger": 8}
    t = TABLE.create(tmp_path, options)
    put(t, range(100))
    t = t.alter(ts.set_options({f"{leveled}max-bytes-for-level-base": "500"}))
    put(t.with_options({"write-only": True}), range(100, 110))
    assert t.refresh().compact(dry_run=True).picks[0].decision.rule == "level 1"
    actual = the(doctor(t), "pending lookups")
    assert actual.remedy == "table.compact(until_quiet=True)"
    t.mend(actual, dry_run=False)
    assert "pending lookups" not in doctor(t).kinds
    assert t.refresh().scan().to_arrow().num_rows == 110


def test_changes_that_are_not_published_yet(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"changelog-producer": "lookup"})
    put(t.with_options({"write-only": True}), range(10))
    actual = mended(t, "pending lookups")
    assert "changes are not published yet" in actual.what


def test_rows_past_their_time(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"record-level.expire-time": "1 h", "record-level.time-field": "n"})
    now = int(time.time())
    rows = {"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"], "n": [now - 7200, now]}
    t.write(pa.table(rows))
    actual = the(doctor(t), "expired rows")
    eval(actual.remedy, {"table": t})
    assert "expired rows" not in doctor(t).kinds
    assert t.scan(["id"]).to_arrow()["id"].to_pylist() == [2]


def test_files_without_statistics(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"metadata.stats-mode": "none"})
    put(t, range(10))
    assert mended(t, "statistics").evidence["stats_mode"] == "none"


def test_files_of_a_format_that_is_no_longer_asked_for(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"file.format": "orc"})
    put(t, range(10))
    t.alter(ts.set_options({"file.format": "parquet"}))
    actual = mended(t, "mixed formats")
    assert "1 orc" in actual.what


# what changes say


def upsert_twice(t: Table) -> None:
    put(t, range(10))
    put(t, range(10), v="y")


def test_a_changelog_of_the_input_without_retractions(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"changelog-producer": "input"})
    upsert_twice(t)
    actual = mended(t, "no retractions")
    assert (actual.evidence["changes"], actual.evidence["retractions"]) == (20, 0)


def test_a_compaction_proves_that_keys_were_replaced(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"changelog-producer": "input"})
    put(t, range(1, 10))
    put(t, range(0, 11), v="y")  # no file begins or ends with a key of another
    assert "no retractions" not in doctor(t).kinds
    t.compact(full=True)
    assert the(doctor(t), "no retractions").evidence["rows_replaced"] == 9


def test_rows_that_expired_commits_replaced_are_not_counted_against_newer_ones(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"changelog-producer": "input", "write-only": True})
    put(t, range(10))
    t.update({"v": "y"}, where=col("id") < 10)  # with its −U rows
    for i in range(4):
        put(t, range(100 + i * 10, 110 + i * 10))  # new keys only
    assert "no retractions" not in doctor(t, {"commits": 4}).kinds
    t.compact(full=True)
    assert "no retractions" not in doctor(t, {"commits": 4}).kinds
    put(t, range(5), v="again")
    assert "no retractions" in doctor(t, {"commits": 4}).kinds


def test_a_changelog_with_its_retractions_is_sound(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"changelog-producer": "input"})
    put(t, range(10))
    t.update({"v": "y"}, where=col("id") < 10)
    t.compact(full=True)
    assert "no retractions" not in doctor(t).kinds


@pytest.mark.parametrize("producer", ["none", "input"])
def test_a_stream_of_an_engine_that_computes_rows(tmp_path: Path, producer: str) -> None:
    t = TABLE.create(tmp_path, {"merge-engine": "partial-update", "changelog-producer": producer})
    put(t, range(3))
    t.consumers.reset("follower", 1)
    actual = mended(t, "unmerged changes")
    assert (actual.severity, actual.evidence["consumers"]) == ("risk", "follower")


def test_options_that_drop_deletes(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"ignore-delete": True})
    put(t, range(3))
    assert mended(t, "dropped deletes").severity == "note"


def test_streams_that_write_in_turns(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    for i in range(3):
        put(t, range(3), user="a", identifier=i)
        put(t, range(3), user="b", identifier=i)
    actual = mended(t, "interleaved writers")
    assert (actual.evidence["users"], actual.evidence["turns"]) == (2, 4)
    assert "'sequence.field': 'n'" in actual.remedy


def test_batches_of_many_names_are_no_streams(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    for _ in range(6):
        put(t, range(3))
    assert "interleaved writers" not in doctor(t).kinds


def test_a_key_that_lacks_the_partition_columns(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": 1}, columns={**SCHEMA, "day": ts.DATE}, partition_by=["day"])
    day = pa.array([date(2026, 1, 1)] * 2)
    t.write(pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["x"] * 2, "n": [1, 1], "day": day}))
    actual = the(doctor(t), "narrow key")
    assert (actual.severity, actual.evidence["missing"]) == ("risk", "day")
    assert looked(t, actual).question.bucket_key == ("id",)
