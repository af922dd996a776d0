"""What one window of a compaction tells: the row before, the row after, the change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.options.table_options import TableOptions
from tablestore.format.types.arrow_types import BIGINT, INT
from tablestore.lsm.lookup.lookup import Hits
from tablestore.lsm.merge import changelog
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.changelog import ChangelogSpec, RowWindow, with_level
from tablestore.lsm.merge.merge_function import merge_function
from tests.tables import schema_of

TEXTS = ["+I", "-U", "+U", "-D"]
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
Row = tuple[int, int, str, int | None]  # level, key, kind, value


def table(options: dict[str, str]) -> tuple[Any, TableOptions]:
    schema = schema_of({"k": INT, "v": BIGINT, "w": BIGINT}, primary_key=("k",), options=options)
    return schema, TableOptions.parse(options)


def batch(rows: list[Row], first: int = 0) -> pa.RecordBatch:
    level, key, kind, value = (list(c) for c in zip(*rows, strict=True)) if rows else ([], [], [], [])
    columns = {
        "_SEQUENCE_NUMBER": pa.array(range(first, first + len(rows)), pa.int64()),
        "_VALUE_KIND": pa.array([TEXTS.index(k) for k in kind], pa.int8()),
        "k": pa.array(key, pa.int32()),
        "v": pa.array(value, pa.int64()),
        "w": pa.array([None] * len(rows), pa.int64()),
        changelog.LEVEL: pa.array(level, pa.int8()),
    }
    return pa.RecordBatch.from_pydict(columns)


def window_of(schema: Any, options: TableOptions, rows: list[Row]) -> tuple[RowWindow, Any]:
    function = merge_function(schema, options)
    parts = []
    for i, row in enumerate(rows):  # each row a run of its own, oldest first
        part = batch([row], i)
        parts.append((part, key_columns.of_batch(part, schema.key_fields)))
    return RowWindow.of(parts, function), function


def shown(rows: pa.RecordBatch | None) -> list[tuple]:
    if rows is None:
        return []
    return [(TEXTS[r["_VALUE_KIND"]], r["k"], r["v"]) for r in rows.to_pylist()]


def lookup(rows: list[Row], above: list[Row] = [], **options: str) -> tuple[list[tuple], list[tuple]]:  # noqa: B006
    """(result, changes); `above` are rows that a lookup finds."""
    schema, parsed = table({"changelog-producer": "lookup", **options})
    window, function = window_of(schema, parsed, rows)
    asked = changelog.in_level0_only(window)
    keys = window.rows.column("k").to_numpy()[window.first_rows[asked]]
    hit = [i for i, k in enumerate(keys) if k in [r[1] for r in above]]
    if hit:
        looked_up = batch([next(r for r in above if r[1] == keys[i]) for i in hit], -9).drop_columns(
            [changelog.LEVEL]
        )
        hits = Hits(np.array(hit), ("f",), np.zeros(len(hit), int), np.zeros(len(hit), int), looked_up)
        window = window.with_hits(hits, asked, function)
    window = changelog.looked_up(window, function, ChangelogSpec.of(schema, parsed, produced=True))
    return shown(window.rows), shown(window.changes)


@pytest.mark.parametrize(
    ("rows", "above", "changes"),
    [
        ([(0, 1, "+I", 5)], [], [("+I", 1, 5)]),
        ([(0, 1, "-D", 5)], [], []),
        ([(0, 1, "+U", 5)], [], [("+I", 1, 5)]),
        ([(3, 1, "+I", 4), (0, 1, "+I", 5)], [], [("-U", 1, 4), ("+U", 1, 5)]),
        ([(3, 1, "+I", 4), (0, 1, "-D", 5)], [], [("-D", 1, 4)]),
        ([(3, 1, "-D", 4), (0, 1, "+I", 5)], [], [("+I", 1, 5)]),
        ([(3, 1, "-D", 4), (0, 1, "-D", 5)], [], []),
        ([(3, 1, "+I", 4), (0, 1, "+I", 4)], [], [("-U", 1, 4), ("+U", 1, 4)]),
        ([(5, 1, "+I", 3), (2, 1, "+I", 4), (0, 1, "+I", 5)], [], [("-U", 1, 4), ("+U", 1, 5)]),
        ([(5, 1, "+I", 3), (2, 1, "+I", 4)], [], []),
        ([(1, 1, "+I", 4)], [], []),  # level 1 is none of those whose rows are new
        ([(1, 1, "+I", 4), (0, 1, "+I", 5)], [], [("-U", 1, 4), ("+U", 1, 5)]),
        ([(0, 1, "+I", 5), (0, 1, "+I", 6)], [], [("+I", 1, 6)]),
        ([(0, 1, "+I", 5)], [(9, 1, "+I", 4)], [("-U", 1, 4), ("+U", 1, 5)]),
        ([(0, 1, "-D", 5)], [(9, 1, "+I", 4)], [("-D", 1, 4)]),
        ([(0, 1, "+I", 5)], [(9, 1, "-D", 4)], [("+I", 1, 5)]),
    ],
)
def test_lookup_compares_level_0_with_the_lowest_level_or_what_is_found(
    rows: list[Row], above: list[Row], changes: list[tuple]
) -> None:
    assert lookup(rows, above)[1] == changes


def test_keys_of_level_0_alone_are_looked_up() -> None:
    rows: list[Row] = [(0, 1, "+I", 5), (1, 2, "+I", 5), (0, 2, "+I", 6), (0, 3, "+I", 7), (0, 3, "+I", 8)]
    window, _ = window_of(*table({"changelog-producer": "lookup"}), rows)
    assert changelog.in_level0_only(window).tolist() == [0, 2]


def test_changes_come_in_key_order_with_pairs_side_by_side() -> None:
    rows = [(3, 1, "+I", 1), (3, 4, "+I", 1), (0, 2, "+I", 7), (0, 1, "+I", 2), (0, 4, "-D", 0)]
    assert lookup(rows, [(9, 2, "+I", 6)]) == (
        [("+I", 1, 2), ("+I", 2, 7), ("-D", 4, 0)],
        [("-U", 1, 1), ("+U", 1, 2), ("-U", 2, 6), ("+U", 2, 7), ("-D", 4, 1)],
    )


def test_equal_rows_are_silent_if_asked_for() -> None:
    rows = [(3, 1, "+I", 4), (0, 1, "+I", 4), (3, 2, "+I", 4), (0, 2, "+I", 5)]
    once = {"changelog-producer.row-deduplicate": "true"}
    assert lookup(rows, **once)[1] == [("-U", 2, 4), ("+U", 2, 5)]
    ignoring = {**once, "changelog-producer.row-deduplicate-ignore-fields": "v"}
    assert lookup(rows, **ignoring)[1] == []


def test_a_sum_counts_level_0_and_the_lowest_level_once() -> None:
    rows = [(5, 1, "+I", 100), (2, 1, "+I", 10), (0, 1, "+I", 1), (0, 1, "+I", 2)]
    assert lookup(rows, **SUM) == ([("+I", 1, 13)], [("-U", 1, 10), ("+U", 1, 13)])
    assert lookup([(0, 1, "+I", 1)], [(9, 1, "+I", 10)], **SUM)[0] == [("+I", 1, 11)]


def test_a_lone_retraction_is_merged_as_the_original_does() -> None:
    assert lookup([(0, 1, "-D", 4)], **SUM) == ([("+I", 1, -4)], [("+I", 1, -4)])


def full(rows: list[Row], **options: str) -> tuple[list[tuple], list[tuple]]:
    schema, parsed = table({"changelog-producer": "full-compaction", **options})
    window, function = window_of(schema, parsed, rows)
    window = changelog.fully_merged(
        window, function, ChangelogSpec.of(schema, parsed, produced=True), oldest_level=5
    )
    return shown(window.rows), shown(window.changes)


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([(5, 1, "+I", 4)], []),
        ([(2, 1, "+I", 4)], [("+I", 1, 4)]),
        ([(2, 1, "-D", 4)], []),
        ([(5, 1, "+I", 4), (0, 1, "-D", 5)], [("-D", 1, 4)]),
        ([(5, 1, "+I", 4), (3, 1, "+I", 5), (0, 1, "+I", 6)], [("-U", 1, 4), ("+U", 1, 6)]),
        ([(5, 1, "+I", 4), (0, 1, "+I", 4)], [("-U", 1, 4), ("+U", 1, 4)]),
        ([(3, 1, "+I", 5), (0, 1, "-D", 6)], []),
    ],
)
def test_full_compaction_compares_with_the_top_level(rows: list[Row], changes: list[tuple]) -> None:
    assert full(rows)[1] == changes


def test_full_compaction_merges_all_levels() -> None:
    assert full([(5, 1, "+I", 1), (3, 1, "+I", 10), (0, 1, "+I", 100)], **SUM)[0] == [("+I", 1, 111)]


def test_a_key_whose_rows_are_all_ignored_is_in_neither() -> None:
    rows: list[Row] = [(5, 1, "+I", 3), (0, 1, "+I", 4), (0, 2, "-D", 5), (0, 2, "-D", 6), (0, 3, "+I", 7)]
    left = [("+I", 1, 4), ("+I", 3, 7)]
    assert full(rows, **{"ignore-delete": "true"}) == (left, [("-U", 1, 3), ("+U", 1, 4), ("+I", 3, 7)])


def first(rows: list[Row], there: list[int] = []) -> tuple[list[tuple], list[tuple]]:  # noqa: B006
    """(result, changes); `there` are groups that a lookup finds above."""
    schema, parsed = table({"merge-engine": "first-row", "changelog-producer": "lookup"})
    window, function = window_of(schema, parsed, rows)
    spec = ChangelogSpec.of(schema, parsed, produced=True)
    window = changelog.first_rows(window, function, np.array(there, dtype=np.int64), spec)
    return shown(window.rows), shown(window.changes)


def test_first_rows_are_new_unless_a_level_above_has_the_key() -> None:
    rows = [(0, 1, "+I", 5), (0, 1, "+I", 6), (3, 2, "+I", 7), (0, 2, "+I", 8), (0, 3, "+I", 9)]
    assert first(rows) == ([("+I", 1, 5), ("+I", 2, 7), ("+I", 3, 9)], [("+I", 1, 5), ("+I", 3, 9)])
    assert first([(1, 1, "+I", 5), (0, 1, "+I", 6)]) == ([("+I", 1, 5)], [])
    assert first(rows, there=[2]) == ([("+I", 1, 5), ("+I", 2, 7)], [("+I", 1, 5)])


def test_windows_agree_with_a_walk_row_by_row(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows: list[Row] = []
        for level in (5, 3, 0, 0):
            for key in range(30):
                if rng.random() < 0.5:
                    kind = "-D" if rng.random() < 0.3 else "+I"
                    rows.append((level, key, kind, int(rng.integers(3))))
        assert lookup(rows)[1] == expected_changes(rows, lambda r: r[0] > 0, by_level=True), seed
        assert full(rows)[1] == expected_changes(rows, lambda r: r[0] == 5, by_level=False), seed


def expected_changes(rows: list[Row], is_before: Any, *, by_level: bool) -> list[tuple]:
    """The changes of each key, from the rule as it is written down."""
    changes = []
    for key in sorted({r[1] for r in rows}):
        mine = [r for r in rows if r[1] == key]
        before = min((r for r in mine if is_before(r)), key=lambda r: r[0], default=None)
        after = mine[-1]
        if (by_level and all(r[0] for r in mine)) or (not by_level and len(mine) == 1 and before):
            continue
        was, there = before is not None and before[2] == "+I", after[2] == "+I"
        if was and there:
            changes += [("-U", key, before[3]), ("+U", key, after[3])]
        elif was:
            changes.append(("-D", key, before[3]))
        elif there:
            changes.append(("+I", key, after[3]))
    return changes


def test_rows_carry_the_level_of_their_file() -> None:
    plain = batch([(0, 1, "+I", 5)]).drop_columns([changelog.LEVEL])
    rows, levels = changelog.without_level(with_level(plain, 4))
    assert rows.equals(plain)
    assert levels.tolist() == [4]
