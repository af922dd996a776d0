"""Upserts across partitions: a primary key that lacks partition columns, with dynamic buckets
(FORMAT.md 15.3).

A key is in one place of the whole table, so a row for another partition moves it. How depends on the merge
engine, as in Paimon: deduplicate retracts the old row where it was (−D) and puts the new one into its own
partition; partial-update and aggregation keep the old partition, so the row's partition columns are set to
it; first-row drops the new row. The table's keys are read once to know where they are (`KeyIndex`, whose
memory bound applies). New keys fill the lowest buckets of their partition that have room. Belongs to one
writer; only one may write such a table at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest
from tablestore.core.options.table_options import MergeEngine
from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND
from tablestore.io.scratch import Scratch
from tablestore.lsm.merge import keys as key_columns
from tablestore.meta.store import Store
from tablestore.write.commit.request import Basis
from tablestore.write.routing import routing
from tablestore.write.routing.dynamic_bucket import MAX_BUCKETS
from tablestore.write.routing.key_index import NOWHERE, KeyIndex
from tablestore.write.routing.routing import IndexChange, Place, Slice

LocatedKeys = Callable[[], Iterable[tuple[bytes, int, pa.RecordBatch]]]


@dataclass(slots=True)
class Moves:
    """What becomes of each row of a batch: its place, −1 if it is dropped, and where its key was before if
    that must be retracted."""

    partition: np.ndarray
    bucket: np.ndarray
    old_partition: np.ndarray
    old_bucket: np.ndarray


class BucketFill:
    """Keys in each bucket of each partition."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._counts: dict[int, dict[int, int]] = {}

    def note(self, partition: int, bucket: int, keys: int) -> None:
        """Count keys that were added to a bucket (or, if negative, removed)."""
        counts = self._counts.setdefault(partition, {})
        counts[bucket] = counts.get(bucket, 0) + keys

    def note_all(self, partitions: np.ndarray, buckets: np.ndarray, each: int) -> None:
        """Count `each` key for every place given."""
        if len(partitions):
            places, counts = np.unique(np.stack([partitions, buckets]), axis=1, return_counts=True)
            for (partition, bucket), count in zip(places.T.tolist(), counts.tolist(), strict=True):
                self.note(partition, bucket, each * count)

    def place(self, partitions: np.ndarray) -> np.ndarray:
        """A bucket for each new key, in order: the lowest with room, then new ones."""
        placed = np.zeros(len(partitions), dtype=np.int32)
        for partition in np.unique(partitions).tolist():
            rows = np.flatnonzero(partitions == partition)
            placed[rows] = self._place(partition, len(rows))
        return placed

    def _place(self, partition: int, keys: int) -> np.ndarray:
        counts = self._counts.setdefault(partition, {})
        chosen, bucket = [], 0
        for bucket in sorted(set(counts) | set(range(min(keys + len(counts) + 1, MAX_BUCKETS)))):
            taken = min(keys, max(self._rows - counts.get(bucket, 0), 0))
            if taken:
                chosen.append(np.full(taken, bucket, dtype=np.int32))
                self.note(partition, bucket, taken)
                keys -= taken
            if not keys:
                return np.concatenate(chosen)
        raise InvalidRequest(
            f"a partition needs more than {MAX_BUCKETS} buckets; raise 'dynamic-bucket.target-row-num'"
        )


class CrossPartitionRouting:
    """Routes rows to where their keys are, or will be. `located` reads where they are: (partition, bucket,
    batch with the columns of key and partition), each key once."""

    def __init__(self, store: Store, located: LocatedKeys, *, ignore_live: bool = False) -> None:
        self._store, self._schema = store, store.schema
        self._keys = store.schema.columns(store.schema.primary_keys)
        self._scratch = Scratch()
        self._index = KeyIndex(self._keys, self._scratch)
        self._rooms = BucketFill(store.options.dynamic_bucket_rows)
        self._ids: dict[bytes, int] = {}
        self._values: list[pa.RecordBatch] = []  # one row of partition columns for each id
        self._located: LocatedKeys | None = located
        latest = store.snapshots.latest()  # before the keys are read: what comes later is a conflict
        self.basis = None if ignore_live else Basis(latest)

    def route(self, batch: pa.RecordBatch) -> Iterator[Slice]:
        """The slices of a batch, retractions of rows that move included."""
        if self._located is not None:
            located, self._located = self._located, None
            self._bootstrap(located())
        for piece in routing.pieces(batch):
            yield from self._route(piece)

    def _bootstrap(self, located: Iterable[tuple[bytes, int, pa.RecordBatch]]) -> None:
        for partition, bucket, rows in located:
            if rows.num_rows:
                number = self._id(partition, rows, 0)
                places = np.full(rows.num_rows, number, dtype=np.int32)
                buckets = np.full(rows.num_rows, bucket, dtype=np.int32)
                self._index.add(rows, self._index.hashes(rows), places, buckets)
                self._rooms.note(number, bucket, rows.num_rows)

    def _id(self, partition: bytes, rows: pa.RecordBatch, sample: int) -> int:
        if partition not in self._ids:
            self._ids[partition] = len(self._values)
            columns = rows.select(list(self._schema.partition_keys)).slice(sample, 1)
            self._values.append(pa.concat_batches([columns.slice(0, 0), columns]))
        return self._ids[partition]

    def _route(self, batch: pa.RecordBatch) -> Iterator[Slice]:
        partitions, codes = routing.partitions_of(batch, self._schema)
        samples = np.zeros(len(partitions), dtype=np.int64)
        samples[codes] = np.arange(batch.num_rows)
        ids = [self._id(p, batch, s) for p, s in zip(partitions, samples.tolist(), strict=True)]
        moves = self._moves(batch, np.array(ids, dtype=np.int32)[codes])
        rows = self._carried_out(batch, np.array(ids, dtype=np.int32)[codes], moves)
        if rows is None:
            return
        out, places, buckets = rows
        yield from routing.cut(out, list(self._ids), places.astype(np.int64), buckets)

    def _moves(self, batch: pa.RecordBatch, own: np.ndarray) -> Moves:
        """What becomes of each row; the index then has where its key is now. `own`: the partition of each
        row's own columns."""
        codes = key_columns.codes(key_columns.of_batch(batch, self._keys))
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.r_[True, codes[order][1:] != codes[order][:-1]])
        first = order[starts]
        keys = batch.select([f.name for f in self._keys]).take(pa.array(first))
        hashes = self._index.hashes(keys)
        locations = self._index.find(keys, hashes)
        if self._store.options.merge_engine is MergeEngine.DEDUPLICATE:
            decide = moving
        elif self._store.options.merge_engine is MergeEngine.FIRST_ROW:
            decide = dropping
        else:
            decide = staying
        moves, place, bucket = decide(order, starts, own, locations.partition, locations.bucket, self._rooms)
        new = np.flatnonzero(locations.new)
        self._index.add(keys.take(pa.array(new)), hashes[new], place[new], bucket[new])
        moved = np.flatnonzero(
            ~locations.new & ((place != locations.partition) | (bucket != locations.bucket))
        )
        self._index.move(locations, moved, place[moved], bucket[moved])
        return moves

    def _carried_out(
        self, batch: pa.RecordBatch, own: np.ndarray, moves: Moves
    ) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray] | None:
        """The rows to write, each retraction before the row that caused it, and the place of each."""
        retracts = moves.old_partition != NOWHERE
        copies = (moves.partition != NOWHERE).astype(np.int64) + retracts
        rows = np.repeat(np.arange(batch.num_rows), copies)
        if not len(rows):
            return None
        firsts = np.r_[True, rows[1:] != rows[:-1]]
        old = retracts[rows] & firsts
        places = np.where(old, moves.old_partition[rows], moves.partition[rows])
        buckets = np.where(old, moves.old_bucket[rows], moves.bucket[rows]).astype(np.int32)
        out = batch if len(rows) == batch.num_rows and not old.any() else batch.take(pa.array(rows))
        out = self._in_partition(out, places, places != own[rows])
        if old.any():
            kinds = pc.if_else(pa.array(old), pa.scalar(rowkind.DELETE, pa.int8()), out.column(KIND))
            out = out.set_column(out.schema.get_field_index(KIND), KIND, kinds)
        return out, places, buckets

    def _in_partition(self, rows: pa.RecordBatch, places: np.ndarray, which: np.ndarray) -> pa.RecordBatch:
        """The rows with the partition columns of `places` where `which` says so."""
        if not which.any():
            return rows
        values = pa.concat_batches(self._values).take(pa.array(places))
        for name in self._schema.partition_keys:
            at = rows.schema.get_field_index(name)
            column = pc.if_else(pa.array(which), values.column(name), rows.column(at))
            rows = rows.set_column(at, rows.schema.field(at), column)
        return rows

    def prepare(self) -> Mapping[Place, IndexChange]:
        """Nothing: such tables have no index files, as in Paimon."""
        return {}

    def close(self) -> None:
        """Remove the scratch files."""
        self._scratch.close()


Decided = tuple[Moves, np.ndarray, np.ndarray]


def moving(
    order: np.ndarray,
    starts: np.ndarray,
    own: np.ndarray,
    earlier: np.ndarray,
    known_bucket: np.ndarray,
    rooms: BucketFill,
) -> Decided:
    """The moves of deduplicate: a key goes where its newest row is, and is retracted where it was.

    Rows in `order`, a group of one key from each of `starts`; `earlier` is a key's place before (NOWHERE: it
    is new). Also gives the place of each key afterwards.
    """
    n = len(order)
    ordered = own[order]
    is_first = np.zeros(n, dtype=bool)
    is_first[starts] = True
    before = np.r_[NOWHERE, ordered[:-1]].astype(np.int32)
    before[starts] = earlier
    begins = before != ordered  # the key comes to another place with this row
    at = np.flatnonzero(begins)
    arrival = at[np.argsort(order[at], kind="stable")]
    bucket = np.full(n, NOWHERE, dtype=np.int32)
    bucket[starts] = known_bucket
    bucket[arrival] = rooms.place(ordered[arrival])
    anchors = np.maximum.accumulate(np.where(begins | is_first, np.arange(n), 0))
    bucket = bucket[anchors]
    before_bucket = np.r_[NOWHERE, bucket[:-1]].astype(np.int32)
    before_bucket[starts] = known_bucket
    retracts = begins & (before != NOWHERE)
    rooms.note_all(before[retracts], before_bucket[retracts], -1)
    moves = Moves(*(np.full(n, NOWHERE, dtype=np.int32) for _ in range(4)))
    moves.partition[order], moves.bucket[order] = ordered, bucket
    moves.old_partition[order[retracts]] = before[retracts]
    moves.old_bucket[order[retracts]] = before_bucket[retracts]
    last = np.r_[starts[1:], n] - 1
    return moves, ordered[last].astype(np.int32), bucket[last]


def staying(
    order: np.ndarray,
    starts: np.ndarray,
    own: np.ndarray,
    earlier: np.ndarray,
    known_bucket: np.ndarray,
    rooms: BucketFill,
) -> Decided:
    """The moves of partial-update and aggregation: a key stays where its first row is. Arguments as of
    `moving`."""
    place, bucket = earlier.copy(), known_bucket.copy()
    new = np.flatnonzero(earlier == NOWHERE)
    new = new[np.argsort(order[starts[new]], kind="stable")]
    place[new] = own[order[starts[new]]]
    bucket[new] = rooms.place(place[new])
    sizes = np.diff(np.r_[starts, len(order)])
    moves = Moves(*(np.full(len(order), NOWHERE, dtype=np.int32) for _ in range(4)))
    moves.partition[order], moves.bucket[order] = np.repeat(place, sizes), np.repeat(bucket, sizes)
    return moves, place, bucket


def dropping(
    order: np.ndarray,
    starts: np.ndarray,
    own: np.ndarray,
    earlier: np.ndarray,
    known_bucket: np.ndarray,
    rooms: BucketFill,
) -> Decided:
    """The moves of first-row: rows of a key for another place than its first one are dropped. Arguments as of
    `moving`."""
    moves, place, bucket = staying(order, starts, own, earlier, known_bucket, rooms)
    elsewhere = moves.partition != own
    moves.partition[elsewhere] = NOWHERE
    return moves, place, bucket
