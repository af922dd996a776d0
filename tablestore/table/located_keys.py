"""Where the keys of a table are: upserts across partitions start from it.

Reads the key and partition columns of the newest snapshot, merged, one batch at a time. With
`cross-partition-upsert.index-ttl` older files are left out: their keys may then be in the table twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tablestore.meta.store import Store
from tablestore.read.scan.file_read import strictly
from tablestore.read.scan.plan import plan


def located_keys(store: Store) -> Iterator[tuple[bytes, int, pa.RecordBatch]]:
    """(partition, bucket, rows of key and partition columns) for each key of the newest snapshot."""
    store, schema = strictly(store), store.schema
    names = tuple(dict.fromkeys((*schema.primary_keys, *schema.partition_keys)))
    planned = plan(store, store.snapshots.latest(), columns=names)
    ttl = store.options.key_index_ttl_ms
    oldest = None if ttl is None else store.env.local_now_ms() - ttl
    for split in planned.splits:
        if oldest is not None and all((f.creation_time_ms or 0) < oldest for f in split.files):
            continue
        for batch in split.read(store, names):
            yield split.partition, split.bucket, batch
