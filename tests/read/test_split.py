"""Splits: which files may be read as they are, and how they are packed."""

from __future__ import annotations

import pickle
from dataclasses import replace

from tablestore.format import binary_row
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifest import ADD, EMPTY_STATS, DataFileMeta, ManifestEntry
from tablestore.format.schema import TableSchema, create_schema
from tablestore.format.types import INT, STRING, DataField
from tablestore.options import TableOptions
from tablestore.read.split import DataSplit, Group, apart, groups_of, pack, packs_of, splits

SCHEMA: TableSchema = create_schema(
    (DataField(0, "k", INT), DataField(1, "v", STRING)),
    primary_key=("k",),
    partition_by=(),
    options={"bucket": "1"},
    comment=None,
    time_millis=0,
)
OPTIONS = TableOptions.parse(SCHEMA.options)


def file(
    name: str, low: int, high: int, *, level: int = 0, deletes: int | None = 0, size: int = 10
) -> DataFileMeta:
    ends = [binary_row.encode([v], [INT]) for v in (low, high)]
    return DataFileMeta(
        name, size, high - low + 1, *ends, EMPTY_STATS, EMPTY_STATS, 0, 9, 0, level, delete_count=deletes
    )


def groups(*files: DataFileMeta) -> list[tuple[str, bool]]:
    return [("".join(sorted(f.file_name for f in g.files)), g.raw) for g in groups_of(files, SCHEMA, OPTIONS)]


def test_a_file_that_overlaps_no_other_is_read_as_it_is() -> None:
    assert groups(file("a", 0, 9), file("b", 10, 19, level=5)) == [("a", True), ("b", True)]


def test_overlapping_files_stay_together_and_are_merged() -> None:
    assert groups(file("a", 0, 9), file("b", 9, 19), file("c", 30, 40)) == [("ab", False), ("c", True)]


def test_a_file_with_deletes_or_an_unknown_number_of_them_is_merged() -> None:
    assert groups(file("a", 0, 9, deletes=1), file("b", 20, 29, deletes=None)) == [("a", False), ("b", False)]


def test_groups_come_in_key_order_not_in_that_of_bytes() -> None:
    assert groups(file("a", 300, 400), file("b", -5, -1), file("c", 0, 200)) == [
        ("b", True),
        ("c", True),
        ("a", True),
    ]


def test_neighbours_are_packed_up_to_the_target() -> None:
    some = [Group((file(n, i * 10, i * 10 + 5, size=40),), True) for i, n in enumerate("abcd")]
    packed = pack(some, target=100, open_cost=1, by_kind=True)
    assert ["".join(f.file_name for f in g.files) for g in packed] == ["ab", "cd"]
    assert [len(g.files) for g in pack(some, target=100, open_cost=100, by_kind=True)] == [1, 1, 1, 1]


def packs(*files: DataFileMeta, options: TableOptions = OPTIONS) -> list[tuple[str, bool]]:
    return [("".join(f.file_name for f in g.files), g.raw) for g in packs_of(files, SCHEMA, options)]


def test_a_pack_of_level_0_is_raw_only_if_it_is_a_single_file() -> None:
    assert packs(file("a", 0, 9)) == [("a", True)]
    assert packs(file("a", 0, 9), file("b", 10, 19), file("c", 15, 30)) == [("abc", False)]


def test_files_of_one_level_are_raw_together() -> None:
    assert packs(file("a", 0, 9, level=5), file("b", 10, 19, level=5)) == [("ab", True)]
    assert packs(file("a", 0, 9, level=5), file("b", 10, 19, level=4)) == [("ab", False)]
    assert packs(file("a", 0, 9, level=5), file("b", 10, 19, level=5, deletes=1)) == [("ab", False)]


def test_overlapping_files_are_raw_where_deletion_vectors_tell_their_rows_apart() -> None:
    vectors = TableOptions.parse({"bucket": "1", "deletion-vectors.enabled": "true"})
    files = file("a", 0, 9, level=5), file("b", 5, 19, level=4)
    assert packs(*files, options=vectors) == [("ab", True)]
    assert packs(*files, file("c", 7, 8), options=vectors) == [("acb", False)]


def test_a_split_names_the_deletion_files_of_its_files() -> None:
    vectors = TableOptions.parse({"bucket": "1", "deletion-vectors.enabled": "true"})
    gone = DeletionFile("index/i", 1, 22, 3)
    entries = [ManifestEntry(ADD, b"", 0, 1, f) for f in (file("a", 0, 9, level=5), file("b", 0, 9, level=4))]
    (split,) = splits(
        entries, snapshot_id=1, schema=SCHEMA, options=vectors, deletions={(b"", 0): {"b": gone}}
    )
    assert (split.deletion_files, split.plain) == ((None, gone), False)
    assert pickle.loads(pickle.dumps(split)) == split


def test_a_merged_split_is_taken_apart_into_what_needs_a_merge_and_what_does_not() -> None:
    files = (file("a", 0, 9), file("b", 8, 12), file("c", 20, 24), file("d", 30, 34))
    split = DataSplit(b"", 0, 1, 7, files, False)
    found = apart(split, SCHEMA, OPTIONS)
    assert [("".join(sorted(f.file_name for f in s.files)), s.plain) for s in found] == [
        ("ab", False),
        ("cd", True),
    ]


def test_raw_and_merged_groups_are_kept_apart_if_asked() -> None:
    some = [
        Group((file("a", 0, 1),), True),
        Group((file("b", 2, 3),), False),
        Group((file("c", 4, 5),), True),
    ]
    assert [g.raw for g in pack(some, target=1000, open_cost=1, by_kind=True)] == [True, False, True]
    assert [g.raw for g in pack(some, target=1000, open_cost=1, by_kind=False)] == [False]


def test_a_table_without_key_has_raw_files_only() -> None:
    plain = replace(SCHEMA, primary_keys=())
    found = groups_of([file("a", 0, 9, deletes=None), file("b", 0, 9)], plain, TableOptions.parse({}))
    assert [g.raw for g in found] == [True, True]


def test_a_split_travels_to_other_processes() -> None:
    split = DataSplit(b"\0" * 12, 0, 1, 7, (file("a", 0, 9), file("b", 20, 24)), True)
    assert pickle.loads(pickle.dumps(split)) == split
    assert (split.rows, split.size) == (15, 20)
