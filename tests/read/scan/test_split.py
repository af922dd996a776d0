"""Splits as values, and sections of many buckets at once; the rules of packing: `test_split_cases.py`."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import numpy as np
import pytest

from tablestore.core.options.table_options import TableOptions
from tablestore.format import binary_row
from tablestore.format.binary_row import comparable_keys
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.manifest import ADD, EMPTY_STATS, DataFileMeta, ManifestEntry
from tablestore.format.schema import TableSchema, create_schema
from tablestore.format.types.arrow_types import BIGINT, DECIMAL, INT, STRING, DataField
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.levels.sorted_run import key_sections
from tablestore.meta.entries import Entries
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.split_files import SplitFiles
from tablestore.read.scan.split_generator import bucket_numbers, section_starts, split_raw_and_merged, splits

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


def test_a_split_names_the_deletion_files_of_its_files() -> None:
    vectors = TableOptions.parse({"bucket": "1", "deletion-vectors.enabled": "true"})
    gone = DeletionFile("index/i", 1, 22, 3)
    entries = [
        ManifestEntry(ADD, b"\0" * 12, 0, 1, f) for f in (file("a", 0, 9, level=5), file("b", 0, 9, level=4))
    ]
    (split,) = splits(
        Entries.of(entries),
        snapshot_id=1,
        schema=SCHEMA,
        options=vectors,
        deletions={(b"\0" * 12, 0): {"b": gone}},
    )
    assert (split.deletion_files, split.plain) == ((None, gone), False)
    assert pickle.loads(pickle.dumps(split)) == split


def test_a_merged_split_is_taken_apart_into_what_needs_a_merge_and_what_does_not() -> None:
    files = (file("a", 0, 9), file("b", 8, 12), file("c", 20, 24), file("d", 30, 34))
    split = DataSplit(b"", 0, 1, 7, files, False)
    actual = split_raw_and_merged(split, SCHEMA, OPTIONS)
    assert [("".join(sorted(f.file_name for f in s.files)), s.plain) for s in actual] == [
        ("ab", False),
        ("cd", True),
    ]


@pytest.mark.parametrize("names", ["k", "km", "s", "ks"])
def test_sections_of_many_buckets_are_those_of_each_bucket(names: str, seeds: list[int]) -> None:
    types = {"k": BIGINT.not_null(), "m": DECIMAL(12, 2).not_null(), "s": STRING.not_null()}
    fields = tuple(DataField(i, n, types[n]) for i, n in enumerate(names))
    schema = replace(SCHEMA, fields=fields, primary_keys=tuple(names))
    kinds = [f.type for f in fields]
    for seed in seeds:
        rng = random.Random(seed)

        def key(rng: random.Random = rng) -> bytes:
            values = [f"{rng.randrange(300):b}" if n == "s" else rng.randrange(-150, 150) for n in names]
            return binary_row.encode(values, kinds)

        order = comparable_keys(kinds)
        entries = []
        for i in range(300):
            low, high = sorted((key(), key()), key=order)
            meta = replace(file(f"f{i}", 0, 1, level=rng.randrange(3)), min_key=low, max_key=high)
            if rng.random() < 0.7:
                meta = replace(meta, max_key=low)
            entries.append(ManifestEntry(ADD, b"", rng.randrange(4), 4, meta))
        actual = splits(
            Entries.of(entries),
            snapshot_id=1,
            schema=schema,
            options=TableOptions.parse({"source.split.target-size": "1 b"}),
        )
        for bucket in range(4):
            files = [e.file for e in entries if e.bucket == bucket]
            expected = [
                [f.file_name for run in section for f in run.files] for section in key_sections(files, order)
            ]
            assert [[f.file_name for f in s.files] for s in actual if s.bucket == bucket] == expected


def test_files_of_neighbouring_buckets_never_share_a_section() -> None:
    """The highest key of one bucket and the lowest of the next, of all keys that there are."""
    entries = [
        ManifestEntry(ADD, b"", bucket, 2, file(f"f{bucket}", *keys))
        for bucket, keys in enumerate([(20, 30), (0, 10)])
    ]
    actual = splits(Entries.of(entries), snapshot_id=1, schema=SCHEMA, options=OPTIONS)
    assert [(s.bucket, [f.file_name for f in s.files]) for s in actual] == [(0, ["f0"]), (1, ["f1"])]


def test_postponed_buckets_of_two_partitions_are_two() -> None:
    partitions = [binary_row.encode([n], [INT]) for n in (1, 2)]
    entries = [
        ManifestEntry(ADD, partition, bucket, 1, file(f"{n}{bucket}", 0, 9))
        for n, partition in enumerate(partitions)
        for bucket in (POSTPONE_BUCKET, 0)
    ]
    assert bucket_numbers(Entries.of([*entries, entries[0]])).tolist() == [0, 1, 2, 3, 0]


def test_keys_that_are_equal_in_other_bytes_touch() -> None:
    """Here upper and lower case are one, as 0.0 and -0.0 are."""
    types = (STRING,)

    def text(name: str, low: str, high: str) -> ManifestEntry:
        ends = [binary_row.encode([value], types) for value in (low, high)]
        return ManifestEntry(ADD, b"", 0, 1, replace(file(name, 0, 1), min_key=ends[0], max_key=ends[1]))

    def key(data: bytes) -> tuple[str, ...]:
        return tuple(value.lower() for value in binary_row.decode(data, types))

    entries = Entries.of(
        [text("f0", "b", "b"), text("f1", "a", "b"), text("f2", "B", "c"), text("f3", "d", "d")]
    )
    order, starts = section_starts(entries, np.zeros(4, dtype=np.int64), types, key)
    assert [sorted(each.tolist()) for each in np.split(order, starts[1:])] == [[0, 1, 2], [3]]


def test_a_plan_without_files_has_no_splits() -> None:
    assert splits(Entries.of([]), snapshot_id=1, schema=SCHEMA, options=OPTIONS) == ()


def test_a_raw_split_is_not_taken_apart() -> None:
    split = DataSplit(b"", 0, 1, 7, (file("a", 0, 9), file("b", 20, 24)), True)
    (actual,) = split_raw_and_merged(split, SCHEMA, OPTIONS)
    assert actual is split


def test_a_split_travels_to_other_processes() -> None:
    split = DataSplit(b"\0" * 12, 0, 1, 7, (file("a", 0, 9), file("b", 20, 24)), True)
    assert pickle.loads(pickle.dumps(split)) == split
    assert (split.rows, split.size) == (15, 20)


@pytest.mark.parametrize("count", [3, 5_000])
def test_files_of_a_plan_are_made_on_first_use(count: int) -> None:
    """Of a small plan all at once, of a large one those of the split."""
    entries = Entries.of(ManifestEntry(ADD, b"", 0, 1, file(f"f{i}", i, i)) for i in range(count))
    created = [file("f2", 2, 2), file("f0", 0, 0)]
    sums = {"size": sum(f.file_size for f in created), "rows": sum(f.row_count for f in created)}
    files = SplitFiles(entries, np.array([1, 2, 0]), 1, 3, **sums)
    split = DataSplit(b"", 0, 1, 7, files, True)
    assert (split.size, split.rows) == (sums["size"], sums["rows"])
    assert (len(files), list(files), files[1]) == (2, created, created[1])
    assert files == created
    assert files != created[:1]
    assert files != 2
    assert hash(files) == hash(tuple(created))


def test_partitions_are_in_order_where_that_is_asked_for() -> None:
    fields = (*SCHEMA.fields, DataField(2, "p", INT))
    schema = replace(SCHEMA, fields=fields, partition_keys=("p",))
    days = [binary_row.encode([day], [INT]) for day in (2, 1, 3)]
    entries = Entries.of(ManifestEntry(ADD, day, 0, 1, file(f"f{day!r}", 0, 9)) for day in days)
    for options, order in (({}, days), ({"scan.plan-sort-partition": "true"}, [days[1], days[0], days[2]])):
        created = splits(entries, snapshot_id=1, schema=schema, options=TableOptions.parse(options))
        assert [split.partition for split in created] == order


def test_a_bucket_that_needs_no_merge_lies_beside_one_that_does() -> None:
    """By deletion vectors the first bucket has each key once; in the second, level 0 is to be merged."""
    vectors = TableOptions.parse({"deletion-vectors.enabled": "true", "source.split.target-size": "1 b"})
    first = [file("a", 0, 9, level=5), file("b", 5, 12, level=4)]
    second = [file("c", 0, 9), file("d", 5, 12), file("e", 20, 30), file("f", 40, 50, level=5, deletes=1)]
    entries = [ManifestEntry(ADD, b"", 0, 2, f) for f in first]
    entries += [ManifestEntry(ADD, b"", 1, 2, f) for f in second]
    created = splits(Entries.of(entries), snapshot_id=1, schema=SCHEMA, options=vectors)
    assert [(s.bucket, sorted(f.file_name for f in s.files), s.raw) for s in created] == [
        (0, ["a"], True),
        (0, ["b"], True),
        (1, ["c", "d"], False),
        (1, ["e"], True),
        (1, ["f"], False),
    ]


def test_a_file_whose_retractions_nobody_counted_is_merged() -> None:
    entries = Entries.of([ManifestEntry(ADD, b"", 0, 1, file("a", 0, 9, level=5, deletes=None))])
    (split,) = splits(entries, snapshot_id=1, schema=SCHEMA, options=OPTIONS)
    assert not split.raw


def test_deletion_files_go_with_their_files_into_what_a_split_is_taken_apart_into() -> None:
    vectors = TableOptions.parse({"deletion-vectors.enabled": "true"})
    gone = DeletionFile("index/i", 1, 22, 3)
    files = (file("a", 0, 9, level=5), file("b", 20, 29, level=4))
    (split,) = split_raw_and_merged(DataSplit(b"", 0, 1, 7, files, False, (None, gone)), SCHEMA, vectors)
    assert (split.raw, [f.file_name for f in split.files]) == (True, ["a", "b"])
    assert split.deletion_files == (None, gone)
