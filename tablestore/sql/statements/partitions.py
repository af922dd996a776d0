"""Partitions of a table: their names and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.predicates.predicate import columns_are
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import STRING
from tablestore.format.types.data_type import DataType
from tablestore.table.bucket_choice import partition_filter
from tablestore.table.table import Table


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """A partition, or a whole table without any, with its live files; `name` as directories have it."""

    name: str
    directory: str
    entries: tuple[ManifestEntry, ...]
    tracks_changes: bool

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


def typed_partition(table: Table, partition: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a partition, those written as text cast to the types of their columns: `b = 'true'`.

    Raises NotFound for a name that is no partition column, SchemaMismatch for text that is no value.
    """
    require_partition(table, partition)
    kinds = {f.name: f.type for f in table.store.schema.partition_fields}
    return {k: _cast(v, kinds[k]) if isinstance(v, str) else v for k, v in partition.items()}


def _cast(text: str, t: DataType) -> Any:
    return text if t.is_string else casts.cast(pa.array([text]), STRING, t)[0].as_py()


def partition_files(table: Table, partition: Mapping[str, Any] | None = None) -> list[PartitionFiles]:
    """The partitions that hold files, those of the values of (some) columns, by name."""
    store = table.store
    named = typed_partition(table, partition or {})
    chosen = partition_filter(store, columns_are(named) if named else None)
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in store.manifests.live_entries(store.snapshots.latest(), partition=chosen):
        groups.setdefault(entry.partition, []).append(entry)
    files = []
    for key, entries in groups.items():
        directory = store.bucket_dir(key, 0).rpartition("/")[0]
        name = "/".join(f"{column}={value}" for column, value in store.partition_pairs(key))
        files.append(PartitionFiles(name, directory, tuple(entries), store.tracks_changes(key)))
    return sorted(files, key=lambda each: each.name)


def partition_names(table: Table, partition: Mapping[str, Any] | None = None) -> list[str]:
    """`day=2026-01-01/hour=3` of each partition that holds files, sorted."""
    return [files.name for files in partition_files(table, partition)]
