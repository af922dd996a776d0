"""What notebook 11 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tablestore as ts


def every_file_is_read(explainer: Any, writes: int) -> None:
    """No file is skipped before compaction."""
    assert explainer.model.read.files == explainer.model.whole.files == writes


def one_file_of_many(
    many: int, read_files: Callable[..., int], slow: ts.Table, query: str, explainer: Any, groups: Any
) -> None:
    """One file is read, others are skipped by key range, and row groups inside it."""
    assert many > 2
    assert read_files(slow, query) == 1
    assert {m.letter for m in explainer.model.files if not m.kept} == {"K"}
    assert sum(groups["kept"].to_pylist()) < groups.num_rows


def amounts_skip_nothing(read_files: Callable[..., int], slow: ts.Table, many: int) -> None:
    """A condition on amounts skips no file."""
    assert read_files(slow, "amount > 450") == many, (
        "amounts have nothing to do with the key: no file is skipped"
    )


def overlapping_files(kept_anyway: Any) -> None:
    """Files that overlap are skipped together or not at all."""
    assert kept_anyway, "files that overlap are skipped together or not at all"


def by_partition(months: Any, whole: int, writes: int) -> None:
    """Files are skipped by their partition alone."""
    assert {row["rule"] for row in months.data().to_pylist() if not row["kept"]} == {"partition"}
    assert whole == 6 * writes


def by_bucket(key: int, read_files: Callable[..., int], bucketed: ts.Table, query: str, writes: int) -> None:
    """An equal key names a bucket, a range of keys none."""
    ranged = f"order_id BETWEEN {key} AND {key + 10}"
    assert read_files(bucketed, query) == writes
    assert read_files(bucketed, ranged) == 4 * writes, (
        "a range names no bucket: neighbouring keys have other hashes"
    )


def by_file_index(
    indexed: ts.Table, read_files: Callable[..., int], odd: str, writes: int, index_view: Any
) -> None:
    """The file index skips every file; without it none is skipped."""
    without = indexed.with_options({"file-index.read.enabled": "false"})
    assert read_files(without, odd) == writes, "without the index every file might have it"
    assert {mark.letter for mark in index_view.model.files} == {"F"}


def no_row_is_lost(
    slow: ts.Table,
    by_month: str,
    parted: ts.Table,
    bucketed: ts.Table,
    query: str,
    indexed: ts.Table,
    odd: str,
) -> None:
    """Every query gives the rows that a reader without any rule finds."""
    for table, where in ((slow, by_month), (parted, by_month), (bucketed, query), (indexed, odd)):
        column, value = where.split(" = ")
        everything = table.scan([column]).to_arrow()[column].to_numpy()
        assert table.scan(where=ts.where(where)).count() == (everything == int(value)).sum(), where
        assert table.check() == []
