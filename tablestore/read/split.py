"""Splits: files of one bucket that one reader takes at once (format facts section 10). Pure.

A group is raw-convertible when its rows are the table's rows as they lie in the file: no other file overlaps
it and it holds no retraction, or deletion vectors say which of its rows are superseded. Everything else must
be merged, a whole section at a time. Neighbouring groups are packed up to `source.split.target-size`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tablestore.format.deletion_vector import DeletionFile
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
    deletion_files: tuple[DeletionFile | None, ...] = ()  # one for each file, or none at all

    @property
    def plain(self) -> bool:
        """Whether the rows are exactly those that lie in the files: any reader of their format may take
        them."""
        return self.raw and not any(self.deletion_files)

    def deletion_file(self, number: int) -> DeletionFile | None:
        """The deletion vector of file `number`."""
        return self.deletion_files[number] if self.deletion_files else None

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
    entries: Iterable[ManifestEntry],
    *,
    snapshot_id: int,
    schema: TableSchema,
    options: TableOptions,
    deletions: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]] | None = None,
) -> tuple[DataSplit, ...]:
    """Splits of these live files, bucket by bucket in manifest order; `deletions` by bucket and file name."""
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for e in entries:
        buckets.setdefault((e.partition, e.bucket), []).append(e)
    found = []
    for (partition, bucket), some in buckets.items():
        for group in packs_of([e.file for e in some], schema, options):
            total, gone = some[0].total_buckets, (deletions or {}).get((partition, bucket), {})
            files = tuple(gone.get(f.file_name) for f in group.files) if gone else ()
            found.append(DataSplit(partition, bucket, total, snapshot_id, group.files, group.raw, files))
    return tuple(found)


def groups_of(files: Sequence[DataFileMeta], schema: TableSchema, options: TableOptions) -> list[Group]:
    """The groups of one bucket: sections in key order with a primary key, else files in the order of writing.

    Where no key is in two files, or only one row of a key is not deleted, every file is a group.
    """
    if not schema.primary_keys:
        return [Group((f,), True) for f in sorted(files, key=lambda f: f.min_sequence)]
    if _lifted(files, schema, options):
        return [Group((f,), True) for f in files]
    key = interval.key_order([f.type for f in schema.key_fields])
    groups = []
    for section in interval.partition(files, key):
        together = tuple(f for run in section for f in run.files)
        groups.append(Group(together, len(together) == 1 and together[0].delete_count == 0))
    return groups


def _lifted(files: Sequence[DataFileMeta], schema: TableSchema, options: TableOptions) -> bool:
    """Whether all files can be read raw, however they are packed."""
    if not schema.primary_keys:
        return True
    if not all(f.level > 0 and f.delete_count == 0 for f in files):
        return False
    unique = options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW
    return unique or len({f.level for f in files}) == 1


def packs_of(
    files: Sequence[DataFileMeta], schema: TableSchema, options: TableOptions, *, by_kind: bool = False
) -> list[Group]:
    """The groups of one bucket packed into splits: merged ones take raw neighbours in, unless `by_kind`."""
    target, cost = options.split_target_bytes, options.split_open_bytes
    apart = by_kind or _lifted(files, schema, options)
    return pack(groups_of(files, schema, options), target=target, open_cost=cost, by_kind=apart)


def pack(groups: Iterable[Group], *, target: int, open_cost: int, by_kind: bool) -> list[Group]:
    """Neighbours joined until `target` bytes; a file weighs at least `open_cost`.

    Unless `by_kind`, a pack is raw only if it is a single file, as in Paimon.
    """
    packed: list[Group] = []
    weight = 0
    for group in groups:
        more = max(sum(f.file_size for f in group.files), open_cost)
        alike = packed and (not by_kind or packed[-1].raw == group.raw)
        if alike and weight + more <= target:
            packed[-1] = Group(packed[-1].files + group.files, by_kind and group.raw)
            weight += more
        else:
            packed.append(group)
            weight = more
    return packed


def apart(split: DataSplit, schema: TableSchema, options: TableOptions) -> list[DataSplit]:
    """The same files with those that need no merge in splits of their own: for engines that read those
    natively."""
    if split.raw:
        return [split]
    gone = dict(zip((f.file_name for f in split.files), split.deletion_files, strict=False))
    found = []
    for group in packs_of(split.files, schema, options, by_kind=True):
        files = tuple(gone.get(f.file_name) for f in group.files) if gone else ()
        found.append(replace(split, files=group.files, raw=group.raw, deletion_files=files))
    return found
