"""What notebook 01 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import tablestore as ts
from notebooks.course.checks import claims


@claims(
    "two chunks while it loads", "never written twice", "chunks, two in a batch", "two chunks go into one."
)
def loaded_and_followed(run: Any, plan: Any, commits: pa.Table, commits_expected: Any, progress: Any) -> None:
    """Each batch is one commit, and all of the source is in the table."""
    assert plan.chunks_per_batch == 2
    assert run.loaded()
    assert run.ingested()
    assert commits.num_rows == commits_expected.answer.own, "one snapshot a batch"
    assert progress.progress.counts["committed"] == run.chunks
    assert progress.progress.lag_bytes == 0, "everything up to the log's head is in the table"


@claims("two buckets in each")
def nothing_is_compacted(levels: pa.Table, runs: int, table: ts.Table) -> None:
    """All runs of the bucket lie at level 0."""
    assert set(levels["level"].to_pylist()) == {0}, "nothing is compacted yet"
    assert levels.num_rows == runs
    assert table.options["bucket"] == "2"


@claims("Five runs are allowed")
def one_step(
    after: pa.Table, before: pa.Table, table: ts.Table, where: dict[str, Any], runs: int, left: Any, dry: Any
) -> None:
    """A step makes one run of those it takes, and changes no row."""
    assert after.equals(before), "compaction changes no row"
    numbers = [dict(trial.numbers) for trial in dry.picks[0].decision.reason.trials]
    assert {each["trigger"] for each in numbers if "trigger" in each} == {5}
    assert table.inspect.levels(**where).num_rows == runs - len(left.answer.own) + 1


def one_run_in_each_bucket(levels: pa.Table, table: ts.Table, counted: pa.Table) -> None:
    """A full compaction leaves one run in each bucket, at the oldest level."""
    assert set(levels["level"].to_pylist()) == {table.inspect.num_levels() - 1}
    assert levels.num_rows == counted.num_rows, "one run a bucket"


def files_of_one_month(kept: int) -> None:
    """A month has two buckets of one file each: no more are read."""
    assert kept <= 2, "one month, two buckets, one file each"


def the_whole_difference(then: int, run: Any, now: int, kinds: dict[str, int]) -> None:
    """The load is one moment, and the changelog holds all that came after it."""
    assert then == run.snapshot_rows
    assert now == then + kinds["+I"] - kinds["-D"], "the changelog holds the whole difference"


def verified(result: Any) -> None:
    """Counts, checksums, Q1 and the invariants are right."""
    assert result.verified, result.problems
