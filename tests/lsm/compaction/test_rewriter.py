"""Carrying out a unit: what is merged, moved, rewritten; when deletes vanish; nothing left on failure."""

from __future__ import annotations

import pytest

from tablestore.core.errors import Corrupt
from tablestore.format.binary_row import comparable_keys
from tablestore.lsm.compaction.decision import CompactUnit
from tablestore.lsm.compaction.rewrite_plan import steps
from tablestore.lsm.compaction.rewriter import CompactResult, Rewriter
from tablestore.lsm.levels.sorted_run import key_sections
from tests.faults import FullDisk
from tests.lsm.bucket import LiveBucket
from tests.lsm.trees import KEY, data_file

BIG, SMALL = 100, 10


def plan(*files, output_level=5):
    sections = key_sections(files, comparable_keys(KEY))
    collected = []
    for step in steps(sections, output_level=output_level, oldest_level=5, small_bytes=BIG):
        if step.upgrade is not None:
            collected.append(f"move {step.upgrade.file_name}")
        else:
            parts = [[f.file_name for run in section for f in run.files] for section in step.sections]
            collected.append("merge " + " | ".join("+".join(sorted(p)) for p in parts))
    return collected


def file(name, low, high, size=BIG, **fields):
    return data_file(name, low, high, file_size=size, **fields)


PLANS = {
    "large files that overlap nothing move": ([("a", 0, 9), ("b", 10, 19)], ["move a", "move b"]),
    "small neighbours are rewritten together and large files part them": (
        [("a", 0, 9, SMALL), ("b", 10, 19, SMALL), ("c", 20, 29), ("d", 30, 39, SMALL)],
        ["merge a | b", "move c", "move d"],
    ),
    "overlapping files merge with small neighbours": (
        [("a", 0, 9), ("b", 5, 14), ("c", 20, 29, SMALL), ("d", 30, 39)],
        ["merge a+b | c", "move d"],
    ),
}


@pytest.mark.parametrize("rule", PLANS)
def test_what_is_merged_and_what_moves(rule):
    files, wanted = PLANS[rule]
    assert plan(*(file(*each) for each in files)) == wanted


def test_files_at_the_output_level_already_stay():
    assert plan(file("a", 0, 9, level=5), file("b", 10, 19)) == ["move b"]


@pytest.mark.parametrize(
    ("deletes", "level", "wanted"),
    [(0, 5, "move a"), (1, 5, "merge a"), (None, 5, "merge a"), (1, 4, "move a"), (None, 4, "move a")],
)
def test_deletes_known_or_possible_are_not_moved_to_the_top(deletes, level, wanted):
    assert plan(file("a", 0, 9, delete_count=deletes), output_level=level) == [wanted]
    assert plan(file("a", 0, 9, SMALL, delete_count=deletes), output_level=level) == [wanted]


def unit_of(bucket, level):
    return CompactUnit(level, bucket.levels.files)


def run(bucket, level):
    return Rewriter(bucket.files).run(unit_of(bucket, level), bucket.levels)


def bucket_of(tmp_path, *batches, **options):
    bucket = LiveBucket(str(tmp_path / "bucket-0"), {k.replace("_", "-"): v for k, v in options.items()})
    for rows, kinds in batches:
        bucket.write(rows, kinds)
    return bucket


def test_merging_keeps_sequences_and_marks_the_source(tmp_path):
    bucket = bucket_of(tmp_path, ([(1, "a"), (2, "b")], None), ([(2, "B"), (3, "C")], None))
    result = run(bucket, 5)
    (rewritten,) = result.after
    assert bucket.file_rows(rewritten) == [(0, 0, 1, "a"), (2, 0, 2, "B"), (3, 0, 3, "C")]
    assert (rewritten.level, rewritten.file_source, rewritten.min_sequence, rewritten.max_sequence) == (
        5,
        1,
        0,
        3,
    )
    assert sorted(f.file_name for f in result.before) == sorted(f.file_name for f in bucket.live)


def test_deletes_vanish_when_nothing_lies_below(tmp_path):
    bucket = bucket_of(tmp_path, ([(1, "a"), (2, "b")], None), ([(2, None), (9, None)], [3, 3]))
    (rewritten,) = run(bucket, 5).after
    assert (bucket.file_rows(rewritten), rewritten.delete_count) == ([(0, 0, 1, "a")], 0)


def test_deletes_stay_above_a_level_that_holds_files(tmp_path):
    bucket = bucket_of(tmp_path, ([(1, "a"), (2, "b")], None))
    bucket.live = [f.upgraded(5) for f in bucket.live]
    bucket.write([(2, None)], [3])
    bucket.write([(7, "c")])
    unit = CompactUnit(4, bucket.levels.level0)
    (rewritten,) = Rewriter(bucket.files).run(unit, bucket.levels).after
    assert bucket.file_rows(rewritten) == [(2, 3, 2, None), (3, 0, 7, "c")]
    assert rewritten.delete_count == 1


def test_everything_deleted_leaves_no_file(tmp_path):
    bucket = bucket_of(tmp_path, ([(1, "a")], None), ([(1, None)], [3]))
    result = run(bucket, 5)
    assert result.after == ()
    assert len(result.before) == 2
    assert bucket.on_disk() == {f.file_name for f in bucket.live}


def test_a_lone_file_of_deletes_is_rewritten_at_the_top(tmp_path):
    bucket = bucket_of(tmp_path, ([(1, "a"), (2, None)], [0, 3]))
    (rewritten,) = run(bucket, 5).after
    assert bucket.file_rows(rewritten) == [(0, 0, 1, "a")]


def test_disjoint_files_are_joined_in_key_order(tmp_path):
    batches = [([(k, "v") for k in range(s, s + 3)], None) for s in (20, 0, 10)]
    bucket = bucket_of(tmp_path, *batches)
    (rewritten,) = run(bucket, 5).after
    assert [r[2] for r in bucket.file_rows(rewritten)] == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_output_rolls_at_the_target_size(tmp_path):
    rows = [(k, f"{k * 7919 % 1000003:09}" * 8) for k in range(140_000)]
    bucket = bucket_of(tmp_path, (rows[::2], None), (rows[1::2], None), target_file_size="256kb")
    result = run(bucket, 5)
    assert len(result.after) > 1
    key = comparable_keys([f.type for f in bucket.schema.key_fields])
    assert all(key(a.max_key) < key(b.min_key) for a, b in zip(result.after, result.after[1:], strict=False))
    assert sum(f.row_count for f in result.after) == 140_000


def test_outputs_are_deleted_when_an_input_is_damaged(tmp_path):
    bucket = bucket_of(tmp_path, ([(1, "a")], None), ([(1, "b")], None), ([(5, "c")], None))
    path = tmp_path / "bucket-0" / bucket.live[1].file_name
    path.write_bytes(path.read_bytes()[:-20])
    there = bucket.on_disk()
    with pytest.raises(Corrupt, match=bucket.live[1].file_name):
        run(bucket, 5)
    assert bucket.on_disk() == there


def test_equal_sequence_numbers_have_one_winner_before_and_after(tmp_path):
    bucket = LiveBucket(str(tmp_path / "bucket-0"))
    writers = [bucket.writer(), bucket.writer()]  # both start from the same live files
    for name, writer in zip("ab", writers, strict=True):
        writer.append(bucket.batch([(1, name)]))
        bucket.commit(writer.prepare())
    bucket.write([(2, "c")])
    newest = bucket.levels.level0[-2:]
    before = bucket.rows()
    assert before == [(1, bucket.file_rows(newest[0])[0][3]), (2, "c")]
    for level in (4, 5):
        result = run(bucket, level)
        bucket.live = list(result.after)
        assert bucket.rows() == before


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    big = [(k, f"{k * 7919 % 1000003:09}" * 8) for k in range(140_000)]
    bucket = bucket_of(tmp_path, (big[::2], None), (big[1::2], None), target_file_size="256kb")
    there = bucket.on_disk()
    bucket.io = FullDisk(1)
    with pytest.raises(OSError, match="No space left"):
        run(bucket, 5)
    assert bucket.on_disk() == there


def result(before, after):
    return CompactResult(tuple(before), tuple(after))


NEW, OLD, LAST = file("new", 0, 9), file("old", 0, 9, level=4), file("last", 0, 9, level=5)
MIDDLE = file("middle", 0, 9, level=4)
CHAINS = {
    "the files between are named": (
        [result([NEW, OLD], [MIDDLE]), result([MIDDLE], [LAST])],
        (result([NEW, OLD], [LAST]), (MIDDLE,), (LAST,)),
    ),
    "a file moved twice is one move": (
        [result([NEW], [NEW.upgraded(4)]), result([NEW.upgraded(4)], [NEW.upgraded(5)])],
        (result([NEW], [NEW.upgraded(5)]), (), ()),
    ),
    "a moved file that is then merged is not deleted": (
        [result([NEW], [NEW.upgraded(4)]), result([NEW.upgraded(4)], [LAST])],
        (result([NEW], [LAST]), (), (LAST,)),
    ),
    "a written file that is then moved is added once": (
        [result([NEW], [MIDDLE]), result([MIDDLE], [MIDDLE.upgraded(5)])],
        (result([NEW], [MIDDLE.upgraded(5)]), (), (MIDDLE.upgraded(5),)),
    ),
}


@pytest.mark.parametrize("rule", CHAINS)
def test_two_results_become_one(rule):
    (first, second), wanted = CHAINS[rule]
    joined, between = first.then(second)
    assert (joined, between, joined.written) == wanted
