"""Which files of append tables are combined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta
from tablestore.lsm.compaction.append_compaction import AppendCompaction, full, pack, pick

OPTIONS = AppendCompaction(target=100, small=70, min_files=3, open_cost=0)


def files(*sizes: int) -> list[DataFileMeta]:
    """Files of these sizes, ten rows each, in the order of their rows."""
    created = DataFileMeta(
        file_name="",
        file_size=0,
        row_count=10,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence=0,
        max_sequence=0,
        schema_id=0,
        level=0,
    )
    return [
        replace(created, file_name=str(i), file_size=size, min_sequence=10 * i, max_sequence=10 * i + 9)
        for i, size in enumerate(sizes)
    ]


def names(decision: object) -> str:
    return "" if decision.unit is None else "".join(f.file_name for f in decision.unit.files)


@pytest.mark.parametrize(
    ("sizes", "picked"),
    [
        ((10, 10), ""),
        ((10, 10, 10, 10), "012"),
        ((90, 10, 10, 10), "123"),
        ((10, 90, 10, 10), "012"),
        ((60, 90, 60, 10, 10), "234"),
        ((60, 79, 60), "012"),  # less than twice the target
        ((60, 80, 60), ""),
        ((69, 10, 10), "012"),
        ((70, 10, 10), ""),  # 70 is not small any more
        ((90, 90, 90), ""),
    ],
)
def test_neighbours_of_a_bucket_are_combined_from_a_small_file_on(
    sizes: tuple[int, ...], picked: str
) -> None:
    actual = files(*sizes)
    assert names(pick(reversed(actual), OPTIONS)) == picked


@pytest.mark.parametrize(
    ("sizes", "picked"),
    [
        ((10, 10), ""),
        ((90, 10, 10, 10), "123"),
        ((10, 90, 90), ""),
        ((10, 90, 10), "012"),
        ((90, 90, 90), ""),
        ((10, 90, 10, 90), ""),  # no more than half of them
        ((10, 10, 10), "012"),
    ],
)
def test_a_full_compaction_takes_all_from_the_first_small_file_on(
    sizes: tuple[int, ...], picked: str
) -> None:
    assert names(full(files(*sizes), OPTIONS)) == picked


def test_deleted_rows_make_a_full_compaction_worth_while() -> None:
    marked = replace(OPTIONS, vectors={"1": "index-a"}, deleted={"1": 1})
    assert names(full(files(90, 90, 10), marked)) == "12"
    assert names(full(files(90, 10), replace(OPTIONS, vectors={"1": "index-a"}, deleted={"1": 1}))) == "1"


@pytest.mark.parametrize(
    ("sizes", "open_cost", "portions"),
    [
        ((60, 90, 50, 60, 60, 10, 10), 0, ["562034"]),
        ((60, 60), 0, [""]),
        ((60, 60), 50, ["01"]),  # each file weighs what opening it costs, too
        ((60, 60), 40, ["01"]),  # twice the target exactly
        ((60, 60), 39, [""]),
        ((60, 60), 200, ["01"]),  # never one file alone, however much it weighs
        ((60, 60, 60, 60, 60, 60), 40, ["01", "23", "45"]),
        ((10, 60, 60, 60), 0, ["0123"]),  # 190: less, but enough files
    ],
)
def test_small_files_without_buckets_fill_portions_by_size(
    sizes: tuple[int, ...], open_cost: int, portions: list[str]
) -> None:
    actual = pack(files(*sizes), replace(OPTIONS, open_cost=open_cost), all_small=False)
    assert [names(d) for d in actual] == portions
    assert {d.unit.output_level for d in actual if d.unit is not None} <= {0}


def test_two_small_files_are_left_unless_all_are_asked_for() -> None:
    assert pack(files(10, 10), OPTIONS, all_small=False)[0].unit is None
    assert names(pack(files(10, 10), OPTIONS, all_small=True)[0]) == "01"
    assert pack(files(10), OPTIONS, all_small=True)[0].unit is None


def test_files_marked_by_one_index_file_stay_together() -> None:
    marked = replace(
        OPTIONS,
        vectors={"0": "a", "3": "a", "1": "b", "4": "c"},
        deleted={"0": 5, "3": 5, "1": 5, "4": 1},
    )
    # Group b weighs less than a; the file of group c has one deleted row of ten, which is not too many.
    assert [names(d) for d in pack(files(150, 90, 10, 90, 90), marked, all_small=False)] == ["103"]
    assert [names(d) for d in pack(files(150, 90, 10, 90, 90), marked, all_small=True)] == ["1403"]
    assert [names(d) for d in pack(files(90, 90, 10, 10, 90), marked, all_small=False)] == ["103"]
    # What is left of the marked ones is a portion, too, even one file alone.
    alone = replace(OPTIONS, vectors={"0": "a"}, deleted={"0": 5})
    assert [names(d) for d in pack(files(250, 90, 10), alone, all_small=False)] == ["0"]


def test_deleted_rows_make_a_file_small_from_more_than_a_share_of_its_rows_on() -> None:
    (file,) = files(90)
    assert [replace(OPTIONS, deleted={"0": rows}).is_small(file) for rows in (0, 2, 3)] == [
        False,
        False,
        True,
    ]
    assert not OPTIONS.is_small(replace(file, row_count=1))


def test_options_decide_in_bytes_and_never_take_one_file() -> None:
    stored = {
        "target-file-size": "200 mb",
        "compaction.small-file-ratio": "0.5",
        "source.split.open-file-cost": "2 mb",
    }
    numbers = {"compaction.min.file-num": "4", "compaction.delete-ratio-threshold": "0.4"}
    actual = AppendCompaction.of(TableOptions.parse(stored | numbers), deleted={"a": 3}, vectors={"a": "i"})
    mb = 1 << 20
    limit = TableOptions.parse({}).compaction_max_files
    assert actual == AppendCompaction(200 * mb, 100 * mb, 4, 2 * mb, 0.4, limit, {"a": 3}, {"a": "i"})
    fewest = AppendCompaction.of(
        replace(TableOptions.parse({}), compaction_min_files=1, compaction_max_files=1)
    )
    assert (fewest.min_files, fewest.max_files, fewest.deleted, fewest.vectors) == (2, 2, {}, {})


def test_the_reason_counts_files() -> None:
    assert pick(files(10, 90), OPTIONS).reason.text == "1 file small of 2, fewer than 3 in a row"
    assert pick(files(10, 10), OPTIONS).reason.text == "2 files small of 2, fewer than 3 in a row"
    assert pick(files(10, 10, 10), OPTIONS).unit.output_level == 0


def test_at_most_so_many_files_are_looked_at_the_oldest_first():
    actual = pack(files(10, 90, 10, 10, 10, 10), replace(OPTIONS, max_files=3), all_small=True)
    assert [names(d) for d in actual] == ["023"]
