"""What notebook 14 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import tablestore as ts
from datasets import cdc


def sixteen_words(counted: Any) -> None:
    """100,000 words were counted, 16 different ones."""
    assert counted.to_arrow().to_pylist() == [{"words": 16, "total": 100_000}]


def all_of_the_load(loaded: int, source: Any) -> None:
    """All rows of the source were loaded."""
    assert loaded == sum(c.rows for c in cdc.open_source(source).chunks if c.table == "lineitem")


def the_summary_goes_on(table: ts.Table, snapshot: Any, left: Any) -> None:
    """The job committed again, and it is the one that keeps the summary."""
    assert table.refresh().inspect.latest_snapshot_id() > snapshot
    assert left.answer.own == "keep the summary"


def kept_and_computed(kept: Any, computed: Any) -> None:
    """The summary that is kept equals one that is computed."""
    assert kept.to_arrow().equals(computed.to_arrow().cast(kept.schema)), "kept row by row, and equal"


def as_it_was(then: Any, loaded: int, after: int, buckets: int, levels: pa.Table) -> None:
    """The past has its rows, and each bucket is one file."""
    assert then.to_arrow()["n"].to_pylist() == [loaded]
    assert after == buckets < levels.num_rows
