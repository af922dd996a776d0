"""What notebook 13 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tablestore as ts


def java_wrote_it(table: ts.Table, commits: Any, makers: Callable[[ts.Table], list[str]]) -> None:
    """The table has no options of ours, one user, and files by Java's library."""
    assert not [name for name in table.options if name.startswith("tablestore.")]
    assert {commit["commit_user"] for commit in commits} == {"java"}
    assert makers(table) == ["parquet-mr"], "the Parquet library of Java"


def what_java_reads(ours: pa.Table, java: Any) -> None:
    """The rows are those that Java reads."""
    assert ours.equals(java.rows.sort_by("k"))


def what_pypaimon_reads(python: Any) -> None:
    """The rows are those that pypaimon reads, with its row kind field."""
    assert python.table.scan().to_arrow().sort_by("k").equals(python.rows.sort_by("k"))
    assert python.table.options["rowkind.field"] == "op"


def no_rules_of_theirs(compactions: Any) -> None:
    """Compactions of another engine have no rule."""
    assert compactions
    assert {compaction["rule"] for compaction in compactions} == {None}


def no_snapshot_options(table: ts.Table) -> None:
    """The table says nothing of how long snapshots stay."""
    assert not [name for name in table.options if name.startswith("snapshot.")]


def nothing_is_stored(table: ts.Table) -> None:
    """Options of a copy in memory are not stored."""
    assert ts.open(table.location).options == table.options, "nothing is stored"


def the_next_snapshot(
    committed: Any, table: ts.Table, after: pa.Table, ours: pa.Table, makers: Callable[[ts.Table], list[str]]
) -> None:
    """The write is snapshot 30, replaces 20 rows, and files of two engines are there."""
    assert committed.snapshots == (30,)
    assert table.inspect.snapshots().num_rows == 30, "all of Java's snapshots are still there"
    assert after.num_rows == ours.num_rows, "20 rows were replaced, none was added"
    assert makers(table) == ["parquet-cpp-arrow", "parquet-mr"]


def our_compaction(table: ts.Table, after: pa.Table, known: Any) -> None:
    """Compaction changes no row, and of ours the rule is known."""
    assert table.scan().to_arrow().sort_by("k").equals(after), "compaction changes no row"
    assert table.check() == []
    assert known, "of our own compaction the rule is known"
    assert "runs 4 > trigger 3" in known[-1]["reason"]


def pypaimon_reads_on(theirs: pa.Table | None, after: pa.Table) -> None:
    """Where pypaimon is there, it reads the same rows."""
    assert theirs is None or theirs.sort_by("k").equals(after)


def refusals_name_the_option(found: dict[str, tuple[str, str]]) -> None:
    """What is refused names its option."""
    assert len(found) == 3
    for option, (_reads, writes) in found.items():
        assert option in writes, "the refusal names the option"


def the_options_of_java(java: Any, table: ts.Table) -> None:
    """The options are still those of Java."""
    assert json.loads((java.folder / "schema" / "schema-0").read_text())["options"] == table.options, (
        "options as Java's"
    )
