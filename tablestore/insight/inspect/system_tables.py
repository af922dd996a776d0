"""A table's metadata with the columns and text forms of Paimon's system tables (FORMAT.md 23).

Each is made whole from snapshots, schemas, manifests and references; no data file is opened. The base of
`Inspect`, which adds what is made for pictures. Not thread-safe, as it remembers snapshots.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tablestore.core.arguments import checked
from tablestore.core.errors import NotFound
from tablestore.core.options.secrets import hidden
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.result_tables import table_of
from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect import files as inspect_files
from tablestore.insight.inspect import metadata
from tablestore.insight.inspect import metadata as inspect_partitions
from tablestore.insight.inspect.commits import SnapshotCache
from tablestore.meta import consumers, refs
from tablestore.meta.store import Store
from tablestore.read.scan import fallback, time_travel
from tablestore.read.scan.time_travel import local_ms


def naming_rows(view: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
    """Damaged keys, partitions and statistics are reported with the manifest that holds them."""

    @functools.wraps(view)
    def named(self: SystemTables, *args: Any, **options: Any) -> pa.Table:
        with self._store.manifests.naming_rows():
            return view(self, *args, **options)

    return named


@checked
class SystemTables:
    """Metadata that Paimon has as system tables. A `snapshot` is an id, a tag's name or a `Snapshot`; None:
    the one that `at` names, else the newest."""

    def __init__(self, store: Store, *, at: Snapshot | None = None) -> None:
        self._store, self._at = store, at
        self._snapshots = SnapshotCache(store)

    def snapshots(self, *, only: int | None = None, newest: int | None = None) -> pa.Table:
        """Every snapshot there is, oldest first.

        With `only` the snapshot of that id, which may be one that a tag keeps; with `newest` so many of the
        newest. Then no other snapshot file is read.

        >>> orders.inspect.snapshots()["commit_kind"].to_pylist()
        ['APPEND', 'APPEND']
        >>> orders.inspect.snapshots(newest=1)["total_record_count"].to_pylist()
        [4]
        """
        if only is not None:
            chosen = self._snapshot(only)
            return metadata.snapshots([] if chosen is None else [chosen])
        if newest is None:
            return metadata.snapshots(self._snapshots.all())
        return metadata.snapshots(self._store.snapshots.all(newest=newest))

    def schemas(self) -> pa.Table:
        """Every schema; fields, keys and options as JSON.

        >>> orders.inspect.schemas()["primary_keys"].to_pylist()
        ['["order_id"]']
        """
        return metadata.schemas(self._store)

    def options(self) -> pa.Table:
        """The options that the table stores; secrets of other engines are shown as `***`.

        >>> orders.inspect.options()["key"].to_pylist()
        ['bucket', 'tablestore.uuid']
        """
        return table_of(metadata.OPTIONS, sorted(hidden(self._store.schema.options).items()))

    @naming_rows
    def manifests(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """Manifests of the state of a `snapshot`, oldest first, then those of its changelog.

        >>> orders.inspect.manifests("v1")["num_added_files"].to_pylist()
        [1]
        """
        at, manifests = self._snapshot(snapshot), self._store.manifests
        listed = manifests.manifests(at) if at is not None else []
        if at is not None and at.changelog_manifest_list is not None:
            with manifests.expiring(at, changes=True):
                listed += manifests.read_list(at.changelog_manifest_list)
        return metadata.manifests(self._store, listed)

    @naming_rows
    def files(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """Live data files of a `snapshot`, with their column statistics as text.

        >>> orders.inspect.files("v1")["record_count"].to_pylist()
        [3]
        """
        return inspect_files.files(self._store, self._live(snapshot))

    @naming_rows
    def file_key_ranges(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """Live data files of a `snapshot` with their smallest and largest keys.

        >>> orders.inspect.file_key_ranges().select(["min_key", "max_key"]).to_pylist()
        [{'min_key': '[1]', 'max_key': '[3]'}, {'min_key': '[2]', 'max_key': '[2]'}]
        """
        return self.files(snapshot).select(inspect_files.KEY_RANGES)

    @naming_rows
    def table_indexes(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """Index files of a `snapshot`: hash indexes of dynamic buckets, deletion vectors.

        >>> orders.inspect.table_indexes().num_rows
        0
        """
        entries = self._store.manifests.index_entries(self._snapshot(snapshot))
        return inspect_files.table_indexes(self._store, entries)

    def statistics(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """What ANALYZE found for a `snapshot`, if its columns are those that were analyzed; one row or none.

        >>> _ = orders.analyze()
        >>> orders.inspect.statistics()["mergedRecordCount"].to_pylist()
        [3]
        """
        return metadata.statistics_of(self._store, self._snapshot(snapshot))

    def aggregation_fields(self) -> pa.Table:
        """Each column with its `fields.<column>.…` options.

        >>> orders.inspect.aggregation_fields()["field_name"].to_pylist()
        ['order_id', 'customer', 'amount', 'status']
        """
        return metadata.aggregation_fields(self._store)

    @naming_rows
    def partitions(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """Partitions of a `snapshot` with the sums of their files; those that scans read from the fallback
        branch (`scan.fallback-branch`) among them.

        >>> events.inspect.partitions()["partition"].to_pylist()
        ['day=2026-01-01', 'day=2026-01-02']
        """
        at = self._snapshot(snapshot)
        own = inspect_partitions.of_state(self._store, at)
        newest = snapshot is None and self._at is None
        other = fallback.newest(self._store) if newest or at is None else fallback.as_of(self._store, at)
        if other is None:
            return own
        theirs = inspect_partitions.of_state(other.store, other.snapshot)
        return (
            inspect_partitions.united(theirs, own) if other.first else inspect_partitions.united(own, theirs)
        )

    @naming_rows
    def buckets(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """Buckets of a `snapshot` with the sums of their files.

        >>> orders.inspect.buckets().select(["bucket", "record_count", "file_count"]).to_pylist()
        [{'bucket': 0, 'record_count': 4, 'file_count': 2}]
        """
        return inspect_partitions.buckets(self._store, self._all(snapshot))

    def tags(self) -> pa.Table:
        """Tags by name.

        >>> orders.inspect.tags().select(["tag_name", "snapshot_id"]).to_pylist()
        [{'tag_name': 'v1', 'snapshot_id': 1}, {'tag_name': 'v2', 'snapshot_id': 2}]
        """
        return metadata.tags(refs.all_tags(self._store))

    def branches(self) -> pa.Table:
        """Branches with the time at which their directory last changed.

        >>> _ = orders.branches.create("test")
        >>> orders.inspect.branches()["branch_name"].to_pylist()
        ['test']
        """
        rows = [(name, local_ms(changed)) for name, changed in refs.branches(self._store).items()]
        return table_of(metadata.BRANCHES, rows)

    def consumers(self) -> pa.Table:
        """Named stream readers with the next snapshot that each will read.

        >>> [c.snapshot for c in orders.stream(consumer="dashboard", follow=False)]
        [2]
        >>> orders.inspect.consumers().to_pylist()
        [{'consumer_id': 'dashboard', 'next_snapshot_id': 3}]
        """
        rows = consumers.all_next(self._store).items()
        return table_of(metadata.CONSUMERS, rows)

    def _snapshot(self, snapshot: int | str | Snapshot | None) -> Snapshot | None:
        """The snapshot meant, by its id or a tag's name: without one that of `Table.at`, else the newest. One
        that expired is still found where a tag keeps it."""
        if isinstance(snapshot, Snapshot):
            return snapshot
        if snapshot is None and self._at is not None:
            return self._at
        wanted: Any = unwrapped(snapshot)
        if isinstance(wanted, str):
            return refs.tagged(self._store, wanted)
        try:
            return time_travel.resolve(self._store, snapshot=wanted)
        except NotFound:
            kept = (t for t in refs.tags(self._store).values() if t.id == wanted)
            if (tagged := next(kept, None)) is None:
                raise
            return tagged

    def _all(self, snapshot: int | str | Snapshot | None) -> Sequence[ManifestEntry]:
        """Entries as they are stored, deletions included."""
        return self._store.manifests.stored_entries(self._snapshot(snapshot))

    def _live(self, snapshot: int | str | Snapshot | None) -> Sequence[ManifestEntry]:
        return self._store.manifests.live_entries(self._snapshot(snapshot))
