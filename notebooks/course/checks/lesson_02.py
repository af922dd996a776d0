"""What notebook 02 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tablestore as ts
from notebooks.course.checks import claims
from tablestore import col


@claims(
    "Four rows come in, in no order, and key 2 comes twice",
    "brought these four rows",
    "Which key comes twice, and which of its two rows is newer?",
    "2 is `paid`",
    "with three columns of its own",
    "0 is *here is a row*",
)
def the_first_file(arriving: pa.Table, in_file: pa.Table) -> None:
    """Keys increase inside a file, and the newest row of a key wins."""
    assert in_file["order_id"].to_pylist() == [2, 5, 9], "keys strictly increase inside a file"
    assert in_file["status"].to_pylist()[0] == "paid", "the newest row of a key wins"
    assert arriving["order_id"].to_pylist() == [9, 2, 5, 2]
    assert arriving["status"].to_pylist()[3] == "paid", "the second row of key 2 came last"
    own = [name for name in in_file.column_names if name not in arriving.column_names]
    assert own == ["_KEY_order_id", "_SEQUENCE_NUMBER", "_VALUE_KIND"]
    assert in_file["_KEY_order_id"].to_pylist() == in_file["order_id"].to_pylist()
    assert set(in_file["_VALUE_KIND"].to_pylist()) == {0}


@claims("Four more batches come", "a quarter of a batch after the one before")
def a_file_a_write(levels: pa.Table, rows: int, writes: int, stored: int, live: int) -> None:
    """Each write left one file at level 0, and some keys lie in two of them."""
    assert writes == 4
    assert levels.num_rows == 1 + writes
    starts = [int(key.strip("[]")) for key in levels["min_key"].to_pylist()[:writes]]
    assert starts == [1 + at * rows // 4 for at in reversed(range(writes))], "the newest run first"
    assert levels["level"].unique().to_pylist() == [0], "fresh files lie at level 0"
    assert stored > live, "keys that came twice lie in two files"


def runs_skipped_by_range(asked: Any, kept: list[str], covering: pa.Table) -> None:
    """Runs are skipped by their key ranges alone."""
    rules = {verdict["rule"] for verdict in asked.decisions().to_pylist() if not verdict["kept"]}
    assert rules == {"key range"}
    assert len(kept) == covering.num_rows


def the_last_write_wins(row: dict[str, Any], newest: list[dict[str, Any]], key: int) -> None:
    """A reader gets the row of the last write."""
    assert row == next(order for order in newest if order["order_id"] == key), "the last write wins"


@claims("a row of kind 3", "3 is *this key is gone*")
def files_grow_by_a_delete(
    in_files: int, stored: int, gone: int, table: ts.Table, live: int, levels: pa.Table
) -> None:
    """The files grow by one row for each deleted key, while the table shrinks."""
    assert in_files == stored + gone
    assert table.scan().count() == live - gone
    newest = levels.to_pylist()[0]
    assert newest["deletes"] == gone, "the newest run is nothing but deletes"
    written = pq.read_table(f"{table.location}/bucket-0/{newest['file_name']}")
    assert set(written["_VALUE_KIND"].to_pylist()) == {3}


def the_same_rows(after: pa.Table, before: pa.Table) -> None:
    """Compaction changes no row."""
    assert after.equals(before), "compaction changes no row"


def one_run_is_left(table: ts.Table, live: int, gone: int, key: int) -> None:
    """The run that is left holds the rows of the table and nothing else."""
    levels = table.inspect.levels()
    assert levels["rows"].to_pylist() == [live - gone]
    assert levels["level"].to_pylist() == [5]
    once = table.scan(where=col("order_id") == key).explain()
    assert sum(verdict["kept"] for verdict in once.decisions().to_pylist()) == 1


def every_commit_can_be_read(table: ts.Table, writes: int, levels_then: Any) -> None:
    """The commits of the lesson, each of which can still be read and clicked."""
    commits = table.inspect.commits().to_pylist()
    assert [commit["commit_kind"] for commit in commits] == ["APPEND"] * (2 + writes) + ["COMPACT"]
    assert commits[-1]["files_removed"] == 2 + writes
    assert table.at(snapshot=1).scan().count() == 3, "the first snapshot is still there"
    assert levels_then.snapshot == 1 + writes
    assert len(levels_then.data()) == 1 + writes
    assert table.check() == [], "the table is sound"
