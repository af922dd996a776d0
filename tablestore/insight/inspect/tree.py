"""The tree of a snapshot, one step at a time: lists → manifests → entries → files; and two states compared.

Each function reads one list or the manifests of one state, no data file. `state` and `difference` have one
row a file with its deletion vector; positions lie on one axis over the keys of all rows. Used by `inspect`
and through it by pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from tablestore.core.errors import Corrupt, InvalidRequest, NotFound
from tablestore.format import stats
from tablestore.format.file_chunks import CHUNKS, chunks
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.snapshot import Snapshot
from tablestore.format.text import cast_text
from tablestore.insight.explain.key_axis import key_axis
from tablestore.io.paths import fits_a_file, is_plain
from tablestore.meta.deletion_files import deletion_files
from tablestore.meta.store import Store

LISTS = result_schema(
    "kind string, file_name string, file_size int64, entries int64, files_added int64, files_deleted int64"
)
LISTED = result_schema(
    "file_name string, file_size int64, files_added int64, files_deleted int64, schema_id int64, "
    "min_partition string, max_partition string, min_bucket int32, max_bucket int32, min_level int32, "
    "max_level int32"
)
STATE = result_schema(
    "change string, partition string, bucket int32, level_before int32, level int32, file_name string, "
    "rows int64, deletes int64, bytes int64, min_key string, max_key string, min_key_pos double, "
    "max_key_pos double, masked_before int64, masked int64"
)
CHANGES = ("removed", "added", "moved", "masked", "kept")
FILE_CHUNKS = pa.schema([pa.field("file_name", pa.string()), *CHUNKS])
T = TypeVar("T")
_Masks = dict[tuple[bytes, int, str], int | None]
_Row = tuple[str, int | None, ManifestEntry, int | None, int | None]  # change, level before, entry, masked ×2


def manifest_lists(store: Store, snapshot: Snapshot | None) -> pa.Table:
    """The lists that a snapshot names, in the order of its file; `entries` are manifests or index files."""
    if snapshot is None:
        return table_of(LISTS, [])
    lists = [("base", snapshot.base_manifest_list, snapshot.base_manifest_list_size)]
    lists += [("delta", snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)]
    if snapshot.changelog_manifest_list is not None:
        lists += [("changelog", snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)]
    rows: list[tuple[Any, ...]] = []
    for kind, name, size in lists:
        with store.manifests.expiring(snapshot, changes=kind == "changelog"):
            manifest_files = store.manifests.read_list(name)
            size = store.io.size(store.paths.manifest(name)) if size is None else size
        counts = (
            len(manifest_files),
            sum(m.num_added for m in manifest_files),
            sum(m.num_deleted for m in manifest_files),
        )
        rows.append((kind, name, size, *counts))
    if snapshot.index_manifest is not None:
        with store.manifests.expiring(snapshot):
            indexes = store.manifests.index_entries(snapshot)
            size = store.io.size(store.paths.manifest(snapshot.index_manifest))
        rows.append(("index", snapshot.index_manifest, size, len(indexes), len(indexes), 0))
    return table_of(LISTS, rows)


def listed(store: Store, name: str) -> pa.Table:
    """The manifests of a list, oldest first, with the partitions, buckets and levels they are about."""
    rows = []
    types = [t.as_nullable() for t in store.partition_types]
    for m in _read(store, name, store.manifests.read_list):
        partitions = stats.decode(m.partition_stats, types, 0) if types else []
        ends = (
            ", ".join("null" if v is None else cast_text(v, t) for v, t in zip(some, types, strict=True))
            for some in ([c.min for c in partitions], [c.max for c in partitions])
        )
        places = (m.min_bucket, m.max_bucket, m.min_level, m.max_level)
        rows.append((m.file_name, m.file_size, m.num_added, m.num_deleted, m.schema_id, *ends, *places))
    return table_of(LISTED, rows)


def entries(store: Store, name: str) -> pa.Table:
    """What a manifest adds and deletes, in order, as `state` has it."""
    entries_read = _read(store, name, store.manifests.read_manifest)
    rows = [("added" if e.kind == ADD else "removed", None, e, None, None) for e in entries_read]
    return _table(store, rows)


def state(store: Store, snapshot: Snapshot | None) -> pa.Table:
    """Live data files of a snapshot, each `kept`."""
    masks = _masks(store, snapshot)
    live = store.manifests.live_entries(snapshot)
    return _table(store, [("kept", e.file.level, e, m := _masked(masks, e), m) for e in live])


def difference(store: Store, before: Snapshot | None, after: Snapshot | None) -> pa.Table:
    """Files of both states: removed, added, moved to another level, with another deletion vector, kept."""
    masks = _masks(store, before), _masks(store, after)
    old = {_place(e): e for e in store.manifests.live_entries(before)}
    new = {_place(e): e for e in store.manifests.live_entries(after)}
    rows: list[_Row] = []
    for place, e in old.items():
        if place not in new:
            rows.append(("removed", e.file.level, e, _masked(masks[0], e), None))
    for place, e in new.items():
        was, now = old.get(place), _masked(masks[1], e)
        if was is None:
            rows.append(("added", None, e, None, now))
            continue
        then = _masked(masks[0], was)
        moved = was.file.level != e.file.level
        change = "moved" if moved else "masked" if then != now else "kept"
        rows.append((change, was.file.level, e, then, now))
    return _table(store, sorted(rows, key=lambda row: CHANGES.index(row[0])))


def row_groups(store: Store, snapshot: Snapshot | None, file: str) -> pa.Table:
    """The chunks of one data or changelog file that `snapshot` names, live or taken away by it; `file` is its
    name, its path, or its path below the table."""
    manifests, name = store.manifests, file.rpartition("/")[2]
    if snapshot is not None:
        parts = (manifests.live_entries, manifests.delta_entries, manifests.changelog_entries)
        for part in parts:
            for e in part(snapshot):
                if e.file.file_name == name:
                    path = store.file_path(e.partition, e.bucket, e.file)
                    if name != file and not f"/{path}".endswith(f"/{file.lstrip('/')}"):
                        continue
                    with manifests.expiring(snapshot, changes=part == manifests.changelog_entries):
                        groups = chunks(store.io, path, store.schema_of(e.file.schema_id))
                    names = pa.array([name] * groups.num_rows, pa.string())
                    return pa.table([names, *groups.columns], schema=FILE_CHUNKS)
    at = "the table has no snapshot" if snapshot is None else f"snapshot {snapshot.id} names none such"
    raise NotFound(f"no data file {file!r}: {at}")


def _place(e: ManifestEntry) -> tuple[bytes, int, str]:
    return e.partition, e.bucket, e.file.file_name


def _masks(store: Store, snapshot: Snapshot | None) -> _Masks:
    """Deleted rows by deletion vectors, of the files that have one."""
    vectors = deletion_files(store, snapshot)
    return {(*place, name): d.cardinality for place, files in vectors.items() for name, d in files.items()}


def _masked(masks: _Masks, e: ManifestEntry) -> int | None:
    return masks.get(_place(e), 0)


def _table(store: Store, rows: Sequence[_Row]) -> pa.Table:
    ends = [k for _, _, e, _, _ in rows for k in (e.file.min_key, e.file.max_key)] if store.key_types else []
    place = key_axis(ends, store.key_types)
    texts: dict[bytes, str] = {}
    made_rows = []
    for change, level, e, before, after in rows:
        f = e.file
        if e.partition not in texts:
            texts[e.partition] = store.partition_text(e.partition)
        keys: tuple[Any, ...] = (None,) * 4
        if store.key_types:
            low, high = sorted((place(f.min_key) or 0.0, place(f.max_key) or 0.0))
            keys = (store.key_text(f.min_key), store.key_text(f.max_key), low, high)
        where = (texts[e.partition], e.bucket, level, None if change == "removed" else f.level)
        counts = (f.row_count, f.delete_count, f.file_size)
        made_rows.append((change, *where, f.file_name, *counts, *keys, before, after))
    return table_of(STATE, made_rows)


def _read(store: Store, name: str, read: Callable[[str], T]) -> T:
    """What `read` gives of a manifest or list, given by its name, its path, or its path below the table."""
    last = name.rpartition("/")[2]
    if is_plain(last) and name in (f"manifest/{last}", store.paths.manifest(last)):
        name = last
    if not is_plain(name) or not fits_a_file(name):
        raise InvalidRequest(f"{name!r} is no name of a manifest or a list: take one that inspection gives")
    path = store.paths.manifest(name)
    if store.io.exists(path):
        try:
            return read(name)
        except Corrupt:
            if store.io.exists(path):
                raise
    raise NotFound(f"no manifest or list {name!r}; it is gone, or never was: inspect again")
