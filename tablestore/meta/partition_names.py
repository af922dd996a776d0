"""Names of partitions in arguments and in Paimon's system tables of files and buckets.

`p=1/q=2` is `Store.partition_text`; `{1, 2}` is the form of `$files`, `$buckets` and `$partitions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tablestore.format.binary_row import Raw
from tablestore.format.snapshot import Snapshot
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataType
from tablestore.meta.store import Store


def braced(values: Sequence[Raw], types: Sequence[DataType]) -> str:
    """Values as `{1, b}`, null as `null`."""
    return "{" + ", ".join(cast_text(v, t) for v, t in zip(values, types, strict=True)) + "}"


def braced_partition(store: Store, partition: bytes) -> str:
    """A serialized partition as `{1, b}`."""
    return braced(store.partition_values(partition), store.partition_types)


def partition_named(store: Store, text: str, snapshot: Snapshot | None = None) -> str:
    """A partition as `p=1/q=2`, from that form or from `{1, 2}`; the second is looked up among the partitions
    of a snapshot (None: the newest), and returned unchanged if there is no such partition."""
    if not text.startswith("{"):
        return text
    live, _ = store.manifests.live_entries(snapshot or store.snapshots.latest()).partitions()
    return next((store.partition_text(p) for p in live if braced_partition(store, p) == text), text)
