"""Where the keys of a table lie now: what upserts across partitions start from.

Reads the key and partition columns of the newest snapshot, merged, one batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tablestore.meta.store import Store
from tablestore.read.plan import plan
from tablestore.read.split_read import read_split


def located_keys(store: Store) -> Iterator[tuple[bytes, int, pa.RecordBatch]]:
    """(partition, bucket, rows of key and partition columns) for each key of the newest snapshot."""
    schema = store.schema
    names = tuple(dict.fromkeys((*schema.primary_keys, *schema.partition_keys)))
    found = plan(store, store.snapshots.latest(), columns=names)
    for split in found.splits:
        for batch in read_split(store, split, names):
            yield split.partition, split.bucket, batch
