"""What notebook 09 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import tablestore as ts


def kinds_of_rows(sent_kinds: Any) -> None:
    """Lookup sends what was and what is; the others send what came."""
    assert sent_kinds["lookup"] == ["+I", "−U", "+U", "−D"]
    assert sent_kinds["none"] == sent_kinds["input"] == ["+I", "+I", "−D"], "as the source sent them"


def sums_by_producer(made: Any, added: Any, taken: Any, truth: Any) -> None:
    """Only lookup has the right sum at once; full compaction has it late."""
    sums = {name: producer.total for name, producer in made.items()}
    assert {name: total.state for name, total in sums.items()} == {
        "none": "wrong",
        "input": "wrong",
        "lookup": "right",
        "full-compaction": "late",
    }
    assert sums["none"].kept == str(added - taken)
    assert sums["lookup"].kept == str(truth)


def whole_inputs(helped_sums: Any) -> None:
    """Where the source sends whole changes, input is right."""
    assert helped_sums["input"].state == "right"


def one_status(statuses: Any, paid: Any, made: Any) -> None:
    """One status is read, and input writes fewer files than lookup."""
    assert statuses == ["paid"]
    assert paid.files < made["lookup"].files


def three_updates(table: ts.Table) -> None:
    """Three updates are three pairs of rows, written by compactions."""
    kinds = [commit["commit_kind"] for commit in table.inspect.commits().to_pylist()]
    assert kinds == ["APPEND", "COMPACT"] * 3
    rows = table.changes(since=2, until=4)
    assert rows["rowkind"].to_pylist() == ["-U", "+U"] * 3, "three updates: what was, what is"
    by_key = rows.group_by("order_id").aggregate([("rowkind", "count")])
    assert set(by_key["rowkind_count"].to_pylist()) == {2}


def the_stream_goes_on(stream: Any) -> None:
    """The stream gives what was and what is."""
    assert stream[-1].to_arrow()["rowkind"].to_pylist() == ["-U", "+U"]


def when_a_join_looks(first_order: Any, second_order: Any, refreshed: Any) -> None:
    """A join has what it knew at that time; a refresh reads what changed."""
    assert first_order["country"].to_pylist() == ["Norway", "unknown"]
    assert second_order["country"].to_pylist() == ["Norway"]
    assert refreshed.changed == 1, "a refresh reads what changed, not the table"


def sound(table: ts.Table) -> None:
    """The table is sound."""
    assert table.check() == [], "the table is sound"
