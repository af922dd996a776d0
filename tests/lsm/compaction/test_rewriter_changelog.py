"""How files get to their new level where changes are told: moved, moved but read, or rewritten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tablestore.core.options.table_options import TableOptions
from tablestore.lsm.compaction.decision import CompactUnit
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.compaction.loop import pick
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.compaction.rewriter import Rewriter
from tablestore.lsm.compaction.universal import full
from tests.faults import FaultyIO
from tests.lsm.bucket import LiveBucket

KINDS = ["+I", "-U", "+U", "-D"]
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"}
VECTORS = {"deletion-vectors.enabled": "true"}
LARGE = {"target-file-size": "1 b"}  # so that files are moved rather than rewritten with their neighbours


def two_levels(path: Path, options: dict[str, str], kinds: list[int] | None = None) -> LiveBucket:
    """Keys 1 and 2 at the oldest level, a level-0 file with 2 and 3."""
    bucket = LiveBucket(str(path), {**LARGE, **options})
    bucket.write([(1, "old"), (2, "old")])
    result = Rewriter(bucket.files).run(CompactUnit(5, bucket.levels.files), bucket.levels)
    bucket.live = list(result.after)
    bucket.write([(2, "new"), (3, "new")], kinds)
    return bucket


def lift(bucket: LiveBucket, level: int) -> tuple[str, list[tuple], list[int]]:
    """Level 0 to `level`: (moved or rewritten, changes, positions marked at the oldest level)."""
    vectors = bucket.options.get("deletion-vectors.enabled") == "true"
    deletions = BucketDeletions(bucket.value) if vectors else None
    unit = CompactUnit(level, bucket.levels.level0)
    result = Rewriter(bucket.files, deletions=deletions).run(unit, bucket.levels)
    (before,) = unit.files
    how = "moved" if [f.file_name for f in result.after] == [before.file_name] else "rewritten"
    changes = [(KINDS[kind], *rest) for f in result.changelog for _, kind, *rest in bucket.file_rows(f)]
    top = bucket.levels.upper[-1].files[0].file_name
    gone = deletions.vector(top) if deletions is not None else None
    bucket.live = [f for f in bucket.live if f != before] + list(result.after)
    return how, changes, [] if gone is None else gone.positions.tolist()


CHANGES = [("-U", 2, "old"), ("+U", 2, "new"), ("+I", 3, "new")]


@pytest.mark.parametrize(
    ("options", "kinds", "wanted"),
    [
        (LOOKUP, None, ("moved", CHANGES, [])),
        (LOOKUP | SUM, None, ("rewritten", CHANGES, [])),
        (LOOKUP | {"file.format.per.level": "0:orc"}, None, ("rewritten", CHANGES, [])),
        (VECTORS, None, ("moved", [], [1])),
        (VECTORS | LOOKUP, None, ("moved", CHANGES, [1])),
        (VECTORS | LOOKUP, [3, 0], ("rewritten", [("-D", 2, "old"), ("+I", 3, "new")], [1])),
        ({}, None, ("moved", [], [])),
        (FULL, None, ("moved", [], [])),
    ],
)
def test_level_0_below_the_top(tmp_path: Path, options, kinds, wanted) -> None:
    bucket = two_levels(tmp_path, options, kinds)
    assert lift(bucket, 4) == wanted


def test_deletes_vanish_where_what_is_above_is_marked(tmp_path: Path) -> None:
    bucket = two_levels(tmp_path, VECTORS, [3, 0])
    lift(bucket, 4)
    assert sorted((f.level, f.row_count, f.delete_count) for f in bucket.live) == [(4, 1, 0), (5, 2, 0)]


@pytest.mark.parametrize("options", [LOOKUP, LOOKUP | SUM, FULL])
def test_a_lone_file_moves_to_the_top_and_all_its_rows_are_in_the_changelog(tmp_path: Path, options) -> None:
    bucket = LiveBucket(str(tmp_path), {**LARGE, **options})
    bucket.write([(1, "a"), (2, "b")])
    result = Rewriter(bucket.files).run(CompactUnit(5, bucket.levels.files), bucket.levels)
    assert [f.file_name for f in result.after] == [f.file_name for f in result.before]
    (changelog_file,) = result.changelog
    assert [row[1:] for row in bucket.file_rows(changelog_file)] == [(0, 1, "a"), (0, 2, "b")]
    assert (changelog_file.level, changelog_file.file_source) == (5, 0)
    assert changelog_file.file_name.startswith("changelog-")


def test_without_produce_there_is_no_changelog(tmp_path: Path) -> None:
    bucket = two_levels(tmp_path, LOOKUP)
    result = Rewriter(bucket.files, produce=False).run(CompactUnit(5, bucket.levels.files), bucket.levels)
    assert result.changelog == ()


def test_rewritten_files_lose_their_deletion_vectors(tmp_path: Path) -> None:
    bucket = two_levels(tmp_path, VECTORS)
    deletions = BucketDeletions(bucket.value)
    top = bucket.levels.upper[-1].files[0]
    deletions.mark(top.file_name, np.array([0]))
    unit = CompactUnit(5, bucket.levels.files)
    result = Rewriter(bucket.files, deletions=deletions).run(unit, bucket.levels)
    assert [row[2:] for f in result.after for row in bucket.file_rows(f)] == [(2, "new"), (3, "new")]
    assert deletions.names() == frozenset()


@pytest.mark.parametrize("options", [LOOKUP | SUM, FULL])
def test_a_failure_leaves_neither_data_nor_changelog_files(tmp_path: Path, options) -> None:
    bucket = two_levels(tmp_path / "count", options)
    bucket.io = FaultyIO()
    Rewriter(bucket.files).run(CompactUnit(5, bucket.levels.files), bucket.levels)
    operations = bucket.io.count
    for fail_at in range(operations):
        bucket = two_levels(tmp_path / str(fail_at), options)
        before = bucket.on_disk()
        bucket.io = FaultyIO(fail_at, "error before")
        unit = CompactUnit(5, bucket.levels.files)
        with pytest.raises(Exception, match="injected"):
            Rewriter(bucket.files).run(unit, bucket.levels)
        assert bucket.on_disk() == before, fail_at


def test_gentle_tables_wait_until_level_0_has_enough_files(tmp_path: Path) -> None:
    parsed = TableOptions.parse(
        {**LOOKUP, "lookup-compact": "gentle", "lookup-compact.max-interval": "3", "num-levels": "6"}
        | {"num-sorted-run.compaction-trigger": "3"}
    )
    options = CompactionOptions.of(parsed)
    bucket = LiveBucket(str(tmp_path), {})
    texts = []
    for key in range(3):
        bucket.write([(key, "x" * (10 ** (3 - key)))])
        decision = pick(bucket.levels, options, PickContext())
        texts.append(decision.unit is not None)
    assert texts == [False, False, True]
    assert "fewer than 3" in pick(two_levels(tmp_path / "b", {}).levels, options, PickContext()).explain()


def test_full_compaction_of_the_oldest_level_rewrites_files_with_gone_rows_one_by_one(tmp_path: Path) -> None:
    bucket = two_levels(tmp_path, {})
    bucket.live = [f for f in bucket.live if f.level]
    (file,) = bucket.live
    assert full(bucket.levels).unit is None
    decision = full(bucket.levels, must_rewrite=lambda f: f.file_name == file.file_name)
    assert decision.unit == CompactUnit(5, (file,), file_by_file=True)
    assert "deleted or expired" in decision.text
