"""One bucket written, buffered, flushed, compacted, aborted, by one writer and by two: against a dict."""

from __future__ import annotations

import random
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablestore.core.errors import CommitConflict, SchemaMismatch
from tablestore.format.types.arrow_types import BIGINT, DECIMAL, DOUBLE, STRING, DataField
from tablestore.insight.check.check import examine
from tablestore.lsm.compaction.bucket_compaction import compact_bucket, decide
from tablestore.lsm.merge.groups import SequenceOrder
from tablestore.lsm.merge.merge_function import Deduplicate
from tablestore.lsm.writing import writer
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.lsm.writing.writer import WriteBuffer
from tablestore.table.table import Table
from tests.lsm.bucket import LiveBucket
from tests.lsm.compaction.test_rewriter import FullDisk
from tests.lsm.rows import RAW, comparable, key_fields, kv_batch, merged_model, rows_of, same
from tests.tables import KEYED

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


KEYS = key_fields([BIGINT])


def buffer_of(*batches, keys=KEYS):
    buffer = WriteBuffer(keys)
    for batch in batches:
        buffer.append(batch)
    return buffer


def address(batch: pa.RecordBatch) -> int:
    return batch.column("v").buffers()[2].address


@st.composite
def arrivals(draw):
    types = draw(st.lists(st.sampled_from(list(RAW)), min_size=1, max_size=2))
    pool = draw(st.lists(st.tuples(*(RAW[t] for t in types)), min_size=1, max_size=8))
    count = draw(st.integers(1, 30))
    numbers = draw(st.permutations(range(count)))
    rows = [(s, draw(st.integers(0, 3)), *draw(st.sampled_from(pool)), f"v{s}") for s in numbers]
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=4)))
    return key_fields(types), [rows[a:b] for a, b in zip([0, *cuts], [*cuts, count], strict=True)]


@given(arrivals(), st.integers(1, 8))
def test_folded_and_raw_rows_equal_a_model_for_every_piece_size(case, piece_rows):
    fields, batches = case
    usual, writer._PIECE_ROWS = writer._PIECE_ROWS, piece_rows
    try:
        rows = buffer_of(*(kv_batch(b, fields) for b in batches), keys=fields).drain()
        folded, raw = rows_of(rows.folded(Deduplicate()), fields), rows_of(rows.raw(), fields)
    finally:
        writer._PIECE_ROWS = usual
    every = rows_of([kv_batch(b, fields) for b in batches], fields)
    assert same(folded, list(merged_model(every, fields).values()))
    assert same(raw, sorted(every, key=lambda r: (comparable(r, fields), r[0])))


@given(arrivals(), st.booleans())
def test_a_sequence_field_comes_before_the_sequence_number(case, descending):
    fields, batches = case
    order = SequenceOrder((DataField(9, "v", STRING),), descending)
    buffer = WriteBuffer(fields, order)
    for batch in batches:
        buffer.append(kv_batch([(*r[:-1], f"v{r[0] % 3}") for r in batch], fields))
    rows = buffer.drain()
    folded = rows_of(rows.folded(Deduplicate(sequence=order)), fields)
    every = rows_of([kv_batch([(*r[:-1], f"v{r[0] % 3}") for r in b], fields) for b in batches], fields)
    turned = -1 if descending else 1
    winners = {}
    for row in sorted(every, key=lambda r: (turned * (r[0] % 3), r[0])):
        winners[comparable(row, fields)] = row
    assert same(folded, list(dict(sorted(winners.items())).values()))


def test_rows_in_key_order_are_flushed_as_they_came():
    batches = [kv_batch([(i, 0, i, "v")], KEYS) for i in range(5)]
    rows = buffer_of(*batches).drain()
    assert [address(b) for b in rows.folded(Deduplicate())] == [address(b) for b in batches]
    assert [address(b) for b in rows.raw()] == [address(b) for b in batches]


def test_a_repeated_key_is_not_key_order():
    rows = buffer_of(kv_batch([(0, 0, 1, "a"), (1, 0, 1, "b")], KEYS)).drain()
    assert rows_of(rows.folded(Deduplicate()), KEYS) == [(1, 0, 1, "b")]


def test_drain_leaves_an_empty_buffer():
    buffer = buffer_of(kv_batch([(0, 0, 1, "a")], KEYS))
    assert (buffer.rows, buffer.bytes > 0) == (1, True)
    buffer.drain()
    assert (buffer.rows, buffer.bytes) == (0, 0)


def test_settled_slices_no_longer_hold_the_batch_they_were_cut_from():
    whole = kv_batch([(i, 0, i, "v" * 100) for i in range(1000)], KEYS)
    for slices in ([whole.slice(5, 1)], [whole.slice(5, 1), whole.slice(9, 2)]):
        buffer = buffer_of(*slices)
        buffer.settle()
        batches = buffer.drain().batches
        assert sum(b.get_total_buffer_size() for b in batches) < 2000
        assert rows_of(batches, KEYS) == rows_of(slices, KEYS)


def test_settling_twice_copies_new_slices_only():
    buffer = buffer_of(kv_batch([(0, 0, 0, "a")], KEYS))
    buffer.settle()
    first = address(buffer._batches[0])
    buffer.append(kv_batch([(1, 0, 1, "b")], KEYS))
    buffer.settle()
    buffer.settle()
    assert address(buffer._batches[0]) == first
    assert len(buffer._batches) == 2


def test_settling_copies_slices_of_larger_batches_and_nothing_else():
    whole = kv_batch([(i, 0, i, f"v{i}" * 50) for i in range(1000)], KEYS)
    own = [kv_batch([(i, 0, i, f"w{i}" * 50)], KEYS) for i in (2000, 2001)]
    given = [whole.slice(0, 2), own[0], whole.slice(2, 2), whole.slice(4, 2), own[1]]
    actual = writer.settled(given)
    assert [b.num_rows for b in actual] == [2, 1, 4, 1]
    assert pa.Table.from_batches(actual) == pa.Table.from_batches(given)
    assert [address(b) for b in (actual[1], actual[3])] == [address(b) for b in own]
    assert sum(b.get_total_buffer_size() for b in actual) < 2 * sum(b.nbytes for b in actual)


SMALL = {
    "bucket": 1,
    "num-levels": 5,
    "num-sorted-run.compaction-trigger": 2,
    "target-file-size": "2 kb",
    "tablestore.compaction.leveled.level0-file-num-trigger": 2,
    "tablestore.compaction.leveled.max-bytes-for-level-base": "6 kb",
    "tablestore.compaction.leveled.max-bytes-for-level-multiplier": 2,
}


SMALL_BUFFERS = KEYED.with_options(SMALL)


def rows(keys: np.ndarray, tag: str) -> pa.Table:
    rng = np.random.default_rng(len(keys))
    return pa.table({"k": keys, "v": [f"{tag} {rng.bytes(20).hex()}" for _ in keys]})


def shown(table: Table) -> dict[int, str]:
    rows = table.refresh().scan().to_arrow()
    return dict(zip(*rows.to_pydict().values(), strict=True))


@pytest.mark.parametrize("strategy", ["leveled", "universal"])
def test_lower_numbers_above_higher_ones_are_no_violation(tmp_path: Path, strategy: str) -> None:
    table = SMALL_BUFFERS.create(tmp_path, {"tablestore.compaction.strategy": strategy})
    late = table.with_options({"write-only": True})
    with late.writer() as low:  # begins first, commits last: 0..19
        low.write(rows(np.arange(800, 820), "low"))
        table.write(rows(np.arange(700), "high"))  # 0..699
        table.write(rows(np.arange(700, 1000), "high"))  # 700..999, in a file of its own
        table.compact(full=True)
    files = table.refresh().inspect.files().to_pylist()
    (above,) = (f for f in files if f["level"] == 0)
    assert any(f["min_sequence_number"] > above["max_sequence_number"] for f in files)
    assert shown(table)[810].startswith("high")
    assert table.refresh().check() == []
    assert any("two writers wrote at once" in note for note in examine(table.refresh().store).notes)


@pytest.mark.parametrize("strategy", ["leveled", "universal"])
def test_rows_stay_whatever_is_compacted_between_writers_at_once(
    tmp_path: Path, strategy: str, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[::3]:
        rng = np.random.default_rng(seed)
        table = SMALL_BUFFERS.create(tmp_path / str(seed), {"tablestore.compaction.strategy": strategy})
        for step in range(5):
            both = [
                table.with_options({"write-only": bool(rng.integers(0, 2))}).refresh().writer()
                for _ in range(2)
            ]
            for number, each in enumerate(both):
                each.write(rows(np.unique(rng.integers(0, 600, rng.integers(5, 200))), f"{step}.{number}"))
            for at in rng.permutation(2):
                with suppress(CommitConflict):  # both had compacted: the first one's files are gone
                    both[at].__exit__(None, None, None)
            before = shown(table)
            table.refresh().compact(full=bool(rng.integers(0, 2)))
            assert shown(table) == before, f"seed {seed}, step {step}"
            assert table.refresh().check() == [], f"seed {seed}, step {step}"
