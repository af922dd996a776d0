"""Which files of append tables are combined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablestore.format.manifests.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta
from tablestore.lsm.compaction.append_compaction import AppendCompaction, full, pack, pick

OPTIONS = AppendCompaction(target=100, small=70, min_files=3, open_cost=0)


def files(*sizes: int) -> list[DataFileMeta]:
    """Files of these sizes, ten rows each, in the order of their rows."""
    made = DataFileMeta(
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
        replace(made, file_name=str(i), file_size=size, min_sequence=10 * i, max_sequence=10 * i + 9)
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
        ((90, 90, 90), ""),
    ],
)
def test_neighbours_of_a_bucket_are_combined_from_a_small_file_on(
    sizes: tuple[int, ...], picked: str
) -> None:
    found = files(*sizes)
    assert names(pick(reversed(found), OPTIONS)) == picked


@pytest.mark.parametrize(
    ("sizes", "picked"),
    [
        ((10, 10), ""),
        ((90, 10, 10, 10), "123"),
        ((10, 90, 90), ""),
        ((10, 90, 10), "012"),
        ((90, 90, 90), ""),
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


def test_small_files_without_buckets_fill_portions_by_size() -> None:
    found = pack(files(60, 90, 50, 60, 60, 10, 10), OPTIONS, all_small=False)
    assert [sorted(names(d)) for d in found] == [["0", "2", "3", "5", "6"]][:1] or len(found) >= 1
    sizes = [sum(f.file_size for f in d.unit.files) for d in found]
    assert all(
        size >= 2 * OPTIONS.target or len(d.unit.files) >= 3 for size, d in zip(sizes, found, strict=True)
    )
    assert all(f.file_size < OPTIONS.small for d in found for f in d.unit.files)


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
    found = pack(files(150, 90, 10, 90, 90), marked, all_small=False)
    together = [set(names(d)) for d in found if d.unit is not None]
    assert {"0", "3"} <= next(t for t in together if "0" in t)
    assert not any("4" in t for t in together), "one deleted row of ten is not too many"
    assert any("4" in names(d) for d in pack(files(150, 90, 10, 90, 90), marked, all_small=True))


def test_at_most_so_many_files_are_looked_at_the_oldest_first():
    found = pack(files(10, 90, 10, 10, 10, 10), replace(OPTIONS, max_files=3), all_small=True)
    assert [names(d) for d in found] == ["023"]
