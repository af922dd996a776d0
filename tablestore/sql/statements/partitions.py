"""Partitions of a table: their names and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.predicates.predicate import all_of, col
from tablestore.table.bucket_choice import partition_filter
from tablestore.table.table import Table


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """A partition, or a whole table without any, with its live files; `name` as directories have it."""

    name: str
    directory: str
    entries: tuple[ManifestEntry, ...]

    @property
    def modified_ms(self) -> int | None:
        """When its newest file was made, local wall clock."""
        return max(
            (e.file.creation_time_ms for e in self.entries if e.file.creation_time_ms is not None),
            default=None,
        )

    @property
    def compacted(self) -> bool:
        """Whether nothing is left to merge: each bucket is one sorted run, or one file."""
        levels: dict[int, list[int]] = {}
        for e in self.entries:
            levels.setdefault(e.bucket, []).append(e.file.level)
        return all(len(at) == 1 or (len(set(at)) == 1 and at[0] > 0) for at in levels.values())


def require_partition(table: Table, partition: Mapping[str, Any], *, whole: bool = False) -> None:
    """Raise NotFound for a name that is no partition column; `whole`: InvalidRequest unless all are named."""
    for name in partition:
        if name not in table.partition_by:
            raise NotFound.among("partition column", name, table.partition_by)
    left_out = [name for name in table.partition_by if name not in partition]
    if whole and left_out:
        raise InvalidRequest(f"a partition has a value for each column; {left_out[0]!r} is missing")


def partition_files(table: Table, partition: Mapping[str, Any] | None = None) -> list[PartitionFiles]:
    """The partitions that hold files, those of the values of (some) columns, by name."""
    require_partition(table, partition or {})
    store = table.store
    tests = [col(k).is_null() if v is None else col(k) == v for k, v in (partition or {}).items()]
    chosen = partition_filter(store, all_of(*tests) if tests else None)
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in store.manifests.live_entries(store.snapshots.latest(), partition=chosen):
        groups.setdefault(entry.partition, []).append(entry)
    found = []
    for key, entries in groups.items():
        directory = store.bucket_dir(key, 0).rpartition("/")[0]
        found.append(
            PartitionFiles(
                "/".join(f"{c}={v}" for c, v in store.partition_pairs(key)), directory, tuple(entries)
            )
        )
    return sorted(found, key=lambda one: one.name)


def partition_names(table: Table, partition: Mapping[str, Any] | None = None) -> list[str]:
    """`day=2026-01-01/hour=3` of each partition that holds files, sorted."""
    return [one.name for one in partition_files(table, partition)]
