"""Splits: files of one bucket that one reader takes at once (format facts section 10). Pure.

A group is raw-convertible when its rows are the table's rows as they lie in the file: no other file overlaps
it and it holds no retraction. Everything else must be merged, a whole section at a time. Neighbouring groups
of one kind are packed up to `source.split.target-size`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tablestore.format.manifest import DataFileMeta, ManifestEntry
from tablestore.format.schema import TableSchema
from tablestore.lsm import interval
from tablestore.options import MergeEngine, TableOptions


@dataclass(frozen=True, slots=True)
class DataSplit:
    """What one reader takes: `raw` files are read as they are, others are merged section by section.
    Picklable.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    snapshot_id: int
    files: tuple[DataFileMeta, ...]
    raw: bool

    @property
    def rows(self) -> int:
        """Physical rows, superseded ones and retractions included."""
        return sum(f.row_count for f in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.file_size for f in self.files)


@dataclass(frozen=True, slots=True)
class Group:
    """Files that must stay in one split."""

    files: tuple[DataFileMeta, ...]
    raw: bool


def splits(
    entries: Iterable[ManifestEntry], *, snapshot_id: int, schema: TableSchema, options: TableOptions
) -> tuple[DataSplit, ...]:
    """Splits of these live files, bucket by bucket in manifest order."""
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for e in entries:
        buckets.setdefault((e.partition, e.bucket), []).append(e)
    found = []
    for (partition, bucket), some in buckets.items():
        groups = groups_of([e.file for e in some], schema, options)
        for group in pack(groups, target=options.split_target_bytes, open_cost=options.split_open_bytes):
            total = some[0].total_buckets
            found.append(DataSplit(partition, bucket, total, snapshot_id, group.files, group.raw))
    return tuple(found)


def groups_of(files: Sequence[DataFileMeta], schema: TableSchema, options: TableOptions) -> list[Group]:
    """The groups of one bucket: in key order with a primary key, in the order of writing without."""
    if not schema.primary_keys:
        order = sorted(files, key=lambda f: f.min_sequence) if options.bucket > 0 else files
        return [Group((f,), True) for f in order]
    if options.merge_engine is MergeEngine.FIRST_ROW:  # above level 0 no key is in two files
        return [Group((f,), True) for f in files]
    key = interval.key_order([f.type for f in schema.key_fields])
    groups = []
    for section in interval.partition(files, key):
        together = tuple(f for run in section for f in run.files)
        groups.append(Group(together, len(together) == 1 and together[0].delete_count == 0))
    return groups


def pack(groups: Iterable[Group], *, target: int, open_cost: int) -> list[Group]:
    """Neighbours of one kind joined until `target` bytes; a file weighs at least `open_cost`."""
    packed: list[Group] = []
    weight = 0
    for group in groups:
        more = max(sum(f.file_size for f in group.files), open_cost)
        if packed and packed[-1].raw == group.raw and weight + more <= target:
            packed[-1] = Group(packed[-1].files + group.files, group.raw)
            weight += more
        else:
            packed.append(group)
            weight = more
    return packed
