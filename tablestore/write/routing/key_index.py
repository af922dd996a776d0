"""KeyIndex: where each primary key of a table lies, for upserts that may move a row to another partition.

Keys are kept in segments of a million: their hashes (sorted), places and buckets in memory, 18 bytes a key;
the keys themselves in mapped scratch files, read only where hashes are equal. So 50 million keys
hold 0.9 GB, and `MAX_KEYS` is where a writer refuses. Whole batches are looked up by binary search in each
segment. Belongs to one writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Unsupported
from tablestore.format import hashing
from tablestore.format.types.arrow_types import DataField
from tablestore.io.scratch import Scratch
from tablestore.lsm.merge import keys as key_columns

SEGMENT_KEYS = 1 << 20
MAX_KEYS = 100_000_000
NOWHERE = -1


@dataclass(slots=True)
class KeySegment:
    """Keys in any order; `hashes` sorted, `rows` the key of each hash; `partitions`, `buckets` by key."""

    keys: pa.RecordBatch
    hashes: np.ndarray
    rows: np.ndarray
    partitions: np.ndarray
    buckets: np.ndarray

    @classmethod
    def of(
        cls, keys: pa.RecordBatch, hashes: np.ndarray, partitions: np.ndarray, buckets: np.ndarray
    ) -> KeySegment:
        """A segment of these keys."""
        order = np.argsort(hashes, kind="stable")
        return cls(keys, hashes[order], order.astype(np.int32), partitions.copy(), buckets.copy())

    def by_key(self) -> np.ndarray:
        """The hashes in the order of the keys."""
        hashes = np.empty_like(self.hashes)
        hashes[self.rows] = self.hashes
        return hashes


@dataclass(frozen=True, slots=True)
class KeyLocations:
    """For each key that was looked up: its segment and row there, NOWHERE if it is new."""

    segment: np.ndarray
    row: np.ndarray
    partition: np.ndarray
    bucket: np.ndarray

    @property
    def new(self) -> np.ndarray:
        """Which keys are not in the index."""
        return self.segment == NOWHERE


class KeyIndex:
    """Places of keys; each key is added once. `fields` are those of the primary key."""

    def __init__(self, fields: Sequence[DataField], scratch: Scratch, *, max_keys: int = MAX_KEYS) -> None:
        self._fields, self._scratch, self._max_keys = fields, scratch, max_keys
        self._types = [f.type for f in fields]
        self._segments: list[KeySegment] = []
        self._count = 0

    def hashes(self, keys: pa.RecordBatch) -> np.ndarray:
        """int32 hash of each key."""
        return hashing.hash_rows([keys.column(f.name) for f in self._fields], self._types)

    def find(self, keys: pa.RecordBatch, hashes: np.ndarray) -> KeyLocations:
        """The locations of distinct `keys`."""
        n = len(hashes)
        locations = KeyLocations(*(np.full(n, NOWHERE, dtype=np.int32) for _ in range(4)))
        for number, segment in enumerate(self._segments):
            open_ = np.flatnonzero(locations.new)
            if not len(open_):
                break
            rows = self._find_in(segment, keys, hashes, open_)
            hit = rows != NOWHERE
            at = open_[hit]
            locations.segment[at], locations.row[at] = number, rows[hit]
            locations.partition[at] = segment.partitions[rows[hit]]
            locations.bucket[at] = segment.buckets[rows[hit]]
        return locations

    def _find_in(
        self, segment: KeySegment, keys: pa.RecordBatch, hashes: np.ndarray, asked: np.ndarray
    ) -> np.ndarray:
        """The rows in one segment of the keys asked for; keys of equal hash are compared one after
        another."""
        result = np.full(len(asked), NOWHERE, dtype=np.int32)
        low = np.searchsorted(segment.hashes, hashes[asked], side="left")
        high = np.searchsorted(segment.hashes, hashes[asked], side="right")
        left = np.flatnonzero(low < high)
        while len(left):
            rows = segment.rows[low[left]]
            same = self._equal(segment.keys, rows, keys, asked[left])
            result[left[same]] = rows[same]
            low[left] += 1
            left = left[~same]
            left = left[low[left] < high[left]]
        return result

    def _equal(
        self, a: pa.RecordBatch, rows: np.ndarray, b: pa.RecordBatch, others: np.ndarray
    ) -> np.ndarray:
        same = np.ones(len(rows), dtype=bool)
        left = key_columns.of_batch(a.take(pa.array(rows)), self._fields)
        right = key_columns.of_batch(b.select(a.schema.names).take(pa.array(others)), self._fields)
        for x, y in zip(left, right, strict=True):
            same &= key_columns.equal(x, y)
        return same

    def add(
        self, keys: pa.RecordBatch, hashes: np.ndarray, partitions: np.ndarray, buckets: np.ndarray
    ) -> None:
        """Add keys that are not there. Raises Unsupported beyond the number of keys that an index may
        hold."""
        if not len(hashes):
            return
        self._count += len(hashes)
        if self._count > self._max_keys:
            why = f"more than {self._max_keys:,} keys; partition by a column of the primary key"
            raise Unsupported("upserts across partitions of so large a table", why)
        keys = keys.select([f.name for f in self._fields])
        last = self._segments[-1] if self._segments else None
        if last is not None and len(last.hashes) + len(hashes) <= SEGMENT_KEYS:
            together = pa.concat_batches([last.keys, keys])
            self._segments[-1] = KeySegment.of(
                together,
                np.concatenate([last.by_key(), hashes]),
                np.concatenate([last.partitions, partitions.astype(np.int32)]),
                np.concatenate([last.buckets, buckets.astype(np.int32)]),
            )
            return
        if last is not None:
            last.keys = self._scratch.keep(last.keys)
        own = pa.concat_batches([keys.slice(0, 0), keys])
        segment = KeySegment.of(own, hashes, partitions.astype(np.int32), buckets.astype(np.int32))
        self._segments.append(segment)

    def move(
        self, locations: KeyLocations, which: np.ndarray, partitions: np.ndarray, buckets: np.ndarray
    ) -> None:
        """Set new places of found keys; `which` are their numbers."""
        for number in np.unique(locations.segment[which]).tolist():
            own = locations.segment[which] == number
            rows = locations.row[which[own]]
            self._segments[number].partitions[rows] = partitions[own]
            self._segments[number].buckets[rows] = buckets[own]
