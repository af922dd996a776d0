"""The `Bucket` of a table's partition and bucket number: what its writers and compactions work with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.lsm.levels.bucket import Bucket
from tablestore.meta.store import Store


def bucket_of(
    store: Store,
    partition: bytes,
    number: int,
    *,
    total_buckets: int | None = None,
    options: TableOptions | None = None,
    files: Iterable[DataFileMeta] = (),
    index_files: Iterable[IndexFileMeta] = (),
) -> Bucket:
    """A `Bucket` of the table with these live files. `total_buckets` and `options` default to the table's; in
    its options `change_tracking` is that of the partition."""
    chosen = store.options if options is None else options
    tracks = store.tracks_changes(partition)
    if chosen.change_tracking != tracks:
        chosen = replace(chosen, change_tracking=tracks)
    return Bucket(
        store.env,
        store.io,
        partition,
        number,
        store.options.bucket if total_buckets is None else total_buckets,
        store.bucket_dir(partition, number),
        store.schema,
        chosen,
        store.schema_of,
        partial(store.index_path, partition, number),
        tuple(files),
        tuple(index_files),
    )
