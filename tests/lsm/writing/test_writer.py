"""One bucket written, flushed, compacted, aborted: against a dict, and file by file."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablestore.core.errors import SchemaMismatch
from tablestore.format.types.arrow_types import BIGINT, DECIMAL, DOUBLE, STRING, DataField
from tablestore.lsm.compaction.bucket_compaction import compact_bucket, decide
from tablestore.lsm.writing.memory import MemoryPool
from tests.lsm.bucket import LiveBucket
from tests.lsm.compaction.test_rewriter import FullDisk

TRIGGER = "num-sorted-run.compaction-trigger"


@pytest.fixture
def bucket(tmp_path):
    return LiveBucket(str(tmp_path / "bucket-0"), {TRIGGER: "3"})


def test_flush_folds_keys_and_numbers_rows_in_order_of_arrival(bucket):
    message = bucket.write([(3, "c"), (1, "a"), (3, "C")])
    (file,) = message.new_files
    assert bucket.file_rows(file) == [(1, 0, 1, "a"), (2, 0, 3, "C")]
    assert (file.level, file.file_source, file.row_count, file.delete_count) == (0, 0, 2, 0)
    assert file.file_name.startswith("data-")
    assert file.file_name.endswith("-0.parquet")


def test_sequence_numbers_go_on_from_the_live_maximum(bucket):
    bucket.write([(1, "a"), (2, "b")])
    message = bucket.write([(1, "c")])
    assert (message.new_files[0].min_sequence, message.new_files[0].max_sequence) == (2, 2)


def test_given_sequence_numbers_are_kept_and_decide(bucket):
    writer = bucket.writer()
    writer.append(bucket.batch([(1, "late"), (1, "early")]), sequences=pa.array([1 << 32, 5]))
    bucket.commit(writer.prepare())
    assert bucket.rows() == [(1, "late")]
    assert bucket.live[0].max_sequence == 1 << 32


def test_a_lone_delete_is_written_and_counted(bucket):
    message = bucket.write([(1, None), (2, "b")], [3, 0])
    assert message.new_files[0].delete_count == 1
    assert bucket.rows() == [(2, "b")]


def test_the_input_changelog_holds_every_row_and_its_file_comes_first(bucket):
    message = bucket.write([(2, "b"), (1, "a"), (2, "B"), (1, None)], [0, 0, 2, 3], changelog=True)
    (changelog,), (data,) = message.changelog_files, message.new_files
    assert bucket.file_rows(changelog) == [(1, 0, 1, "a"), (3, 3, 1, None), (0, 0, 2, "b"), (2, 2, 2, "B")]
    assert bucket.file_rows(data) == [(3, 3, 1, None), (2, 2, 2, "B")]
    assert changelog.file_name.startswith("changelog-")
    assert changelog.file_name.endswith("-0.parquet")
    assert data.file_name == changelog.file_name.replace("changelog", "data").replace("-0.", "-1.")


def test_an_empty_writer_has_an_empty_message(bucket):
    assert bucket.writer(compact=True).prepare().empty
    assert bucket.on_disk() == set()


def test_preparing_compacts_while_a_rule_fires(bucket):
    for i in range(2):
        bucket.write([(i, "v")], compact=True)
    message = bucket.write([(2, "v")], compact=True)
    assert len(message.compact_before) == 3
    assert [(f.level, f.row_count) for f in message.compact_after] == [(3, 3)]
    assert message.new_files[0] in message.compact_before


def test_without_compact_runs_gather(bucket):
    for i in range(12):
        assert not bucket.write([(i, "v")]).compact_before
    assert bucket.levels.run_count == 12


def test_a_writer_stalls_above_the_stop_trigger(tmp_path):
    bucket = LiveBucket(str(tmp_path / "bucket-0"), {TRIGGER: "3", "num-sorted-run.stop-trigger": "4"})
    writer, most = bucket.writer(compact=True), 0
    for i in range(20):
        writer.append(bucket.batch([(i, "v")]))
        writer.flush()
        most = max(most, writer.levels.run_count)
    assert most == 5
    message = writer.prepare()
    bucket.commit(message)
    assert bucket.rows() == [(i, "v") for i in range(20)]
    assert len(message.new_files) == 20
    named = {f.file_name for f in (*message.new_files, *message.compact_after)}
    assert bucket.on_disk() == named  # files in between are gone


def test_a_writer_goes_on_after_a_prepare(bucket):
    writer = bucket.writer(compact=True)
    for i in range(5):
        writer.append(bucket.batch([(1, f"v{i}")]))
        bucket.commit(writer.prepare())
        assert bucket.rows() == [(1, f"v{i}")]


def test_one_pool_flushes_the_largest_of_many_writers(tmp_path):
    pool = MemoryPool(40_000)
    buckets = [LiveBucket(str(tmp_path / f"bucket-{i}")) for i in range(3)]
    writers = [b.writer(pool) for b in buckets]
    for i in range(100):
        for number, (b, w) in enumerate(zip(buckets, writers, strict=True)):
            w.append(b.batch([(i, "v" * 200)] * (1 + 3 * (number == 1))))
            assert pool.used_bytes <= 40_000
    messages = [w.prepare() for w in writers]
    assert pool.used_bytes == 0
    files = [len(m.new_files) for m in messages]
    assert files[1] > max(files[0], files[2])
    for b, m in zip(buckets, messages, strict=True):
        b.commit(m)
        assert b.rows() == [(i, "v" * 200) for i in range(100)]


def test_abort_leaves_nothing(bucket):
    for i in range(2):
        bucket.write([(i, "v")])
    there = bucket.on_disk()
    pool = MemoryPool(1 << 20)
    writer = bucket.writer(pool, compact=True, changelog=True)
    for i in range(8):
        writer.append(bucket.batch([(i, "w")]))
        writer.flush()
    writer.append(bucket.batch([(9, "x")]))
    assert bucket.on_disk() > there
    writer.abort()
    assert bucket.on_disk() == there
    assert pool.used_bytes == 0


def test_rows_and_kinds_must_match(bucket):
    with pytest.raises(SchemaMismatch, match="1 rows, 2 row kinds, 1 sequence numbers"):
        bucket.writer().append(bucket.batch([(1, "a")]), pa.array([0, 0], pa.int8()))


@pytest.mark.parametrize("left", range(4))
def test_a_full_disk_fails_the_flush_and_abort_cleans_up(bucket, left):
    bucket.write([(1, "a")])
    bucket.write([(1, "b")])
    there = bucket.on_disk()
    bucket.io = FullDisk(left)
    writer = bucket.writer(compact=True, changelog=True)
    writer.append(bucket.batch([(1, "c")]))
    if left == 3:
        message = writer.prepare()
        assert len(bucket.on_disk() - there) == 3
        assert message.compact_before
        return
    with pytest.raises(OSError, match="No space left"):
        writer.prepare()
    writer.abort()
    assert bucket.on_disk() == there


values = st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0, 2, 3])), max_size=12)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(values, st.booleans(), st.sampled_from(["", "pick", "full"])), min_size=1, max_size=10
    ),
    st.integers(2, 4),
)
def test_a_bucket_equals_a_dict_whatever_is_compacted_when(tmp_path_factory, commits, trigger):
    path = tmp_path_factory.mktemp("lsm")
    bucket, model = LiveBucket(str(path / "bucket-0"), {TRIGGER: str(trigger)}), {}
    for number, (rows, compact, after) in enumerate(commits):
        if rows:
            bucket.write([(k, f"c{number}") for k, _ in rows], [kind for _, kind in rows], compact=compact)
        for key, kind in rows:
            if kind == 3:
                model.pop(key, None)
            else:
                model[key] = f"c{number}"
        if after:
            compact_now(bucket, full=after == "full")
        assert bucket.rows() == sorted(model.items())
        assert all(f.delete_count == 0 for f in bucket.live if f.level == bucket.levels.oldest_level)
        assert {f.file_name for f in bucket.live} <= bucket.on_disk()


def compact_now(bucket: LiveBucket, *, full: bool):
    decision, message = compact_bucket(bucket.value, full=full)
    if message is not None:
        bucket.commit(message)
    return decision, message


def test_a_full_compaction_leaves_one_run_without_deletes(bucket):
    for i in range(2):
        bucket.write([(1, f"v{i}"), (2, None), (3, "w")], [0, 3, 0])
    decision, message = compact_now(bucket, full=True)
    assert decision.reason.rule == "full"
    assert message.new_files == ()
    assert [(f.level, f.row_count, f.delete_count) for f in bucket.live] == [(3, 2, 0)]
    assert compact_now(bucket, full=True)[1] is None


def test_a_dry_run_decides_the_same_and_writes_nothing(bucket):
    for i in range(4):
        bucket.write([(i, "v")])
    there = bucket.on_disk()
    dry = decide(bucket.value, full=False, now_ms=0)
    assert bucket.on_disk() == there
    done, _ = compact_now(bucket, full=False)
    assert done.text == dry.text


def test_composite_keys_of_text_decimals_and_doubles(tmp_path, seeds):
    fields = (
        DataField(0, "name", STRING),
        DataField(1, "amount", DECIMAL(20, 2)),
        DataField(2, "ratio", DOUBLE),
        DataField(3, "v", BIGINT),
    )
    for seed in seeds:
        rng, model = random.Random(seed), {}
        primary_key = ("name", "amount", "ratio")
        bucket = LiveBucket(str(tmp_path / f"{seed}"), {TRIGGER: "3"}, fields=fields, primary_key=primary_key)
        for number in range(6):
            rows = []
            for _ in range(40):
                amount = Decimal(rng.randrange(-500, 500)).scaleb(-2)
                ratio = rng.choice([0.0, -0.0, float("nan"), 1.5, -2.0])
                rows.append((rng.choice(["", "a", "é", "zz"]), amount, ratio, number))
            for row in rows:
                model[repr(row[:3])] = row
            bucket.write(rows, compact=True)
        assert sorted(map(repr, bucket.rows())) == sorted(map(repr, model.values()))


def test_files_of_an_older_schema_are_rewritten_in_the_current_one(tmp_path):
    old = LiveBucket(str(tmp_path / "bucket-0"))
    old.write([(1, "a"), (2, "b")])
    renamed = (DataField(0, "id", BIGINT), DataField(2, "w", BIGINT), DataField(1, "text", STRING))
    new = LiveBucket(old.directory, fields=renamed, live=old.live, older={0: old.schema})
    new.write([(2, 7, "B")])
    compact_now(new, full=True)
    assert [(f.level, f.schema_id) for f in new.live] == [(5, 1)]
    assert new.rows() == [(1, None, "a"), (2, 7, "B")]
