"""A table's history as events: what each snapshot did to each bucket, from delta manifests.

Starts at the oldest snapshot there is; what was live before it comes first, as BASE events. Reads the deltas
of some hundred snapshots at a time and no data file. Used by inspection and by replays of the simulator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import ADD, DataFileMeta
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.insight.explain.bucket_history import BASE, BucketEvent
from tablestore.meta import compaction_history
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store

_Place = tuple[bytes, int]


@dataclass
class _Delta:
    """Files of one bucket in one snapshot, in manifest order."""

    added: list[DataFileMeta] = field(default_factory=list)
    deleted: list[DataFileMeta] = field(default_factory=list)
    changelog: list[DataFileMeta] = field(default_factory=list)


def events(
    store: Store,
    *,
    first: int | None = None,
    last: int | None = None,
    known: Mapping[int, Snapshot] | None = None,
) -> Iterator[BucketEvent]:
    """What snapshots `first` (None: the oldest) to `last` (None: the newest) did, in order, by bucket.

    The first events are BASE events: files that were live before `first`. So all events together add up to
    what is live after `last`. Snapshots that are `known` are not read again. Raises NotFound for snapshots
    that have expired.
    """
    earliest, latest = store.snapshots.earliest_id(), store.snapshots.latest_id()
    if earliest is None or latest is None:
        return
    start, end = earliest if first is None else first, latest if last is None else last
    if start < earliest or end > latest:
        raise NotFound(f"the history of snapshots {start}..{end} is not there; have {earliest}..{latest}")
    if start > end:
        raise InvalidRequest(f"history goes forward: snapshot {start} comes after {end}")
    have = known or {}
    snapshots = (have.get(i) or store.snapshots.get(i) for i in range(start, end + 1))
    for snapshot in store.manifests.prefetched(snapshots):
        if snapshot.id == start:
            yield from _base(store, snapshot)
        yield from _events(store, snapshot)


def changed_places(store: Store, snapshots: Sequence[Snapshot]) -> Iterator[tuple[int, set[tuple[str, int]]]]:
    """Each snapshot with the buckets of its events, which are not made; first those that were live before."""
    for i, snapshot in enumerate(store.manifests.prefetched(snapshots)):
        if i == 0:
            yield snapshot.id, _places(store, store.manifests.entries_before(snapshot))
        places = _places(store, store.manifests.delta_entries(snapshot))
        yield snapshot.id, places | _places(store, store.manifests.changelog_entries(snapshot))


def _places(store: Store, entries: Entries) -> set[tuple[str, int]]:
    columns = (entries.table.column(n).to_pylist() for n in ("partition", "bucket"))
    return {(store.partition_text(p), b) for p, b in set(zip(*columns, strict=True))}


def _base(store: Store, snapshot: Snapshot) -> Iterator[BucketEvent]:
    """What was live before this snapshot."""
    live = store.manifests.entries_before(snapshot)
    for (partition, bucket), delta in _by_bucket(live).items():
        yield BucketEvent(
            snapshot.id,
            snapshot.time_millis,
            BASE,
            store.partition_text(partition),
            bucket,
            after=tuple(delta.added),
            user=snapshot.commit_user,
            schema_id=snapshot.schema_id,
        )


def _events(store: Store, snapshot: Snapshot) -> Iterator[BucketEvent]:
    """What one snapshot did, bucket by bucket in the order in which its delta names them."""
    deltas = _by_bucket(store.manifests.delta_entries(snapshot))
    for entry in store.manifests.changelog_entries(snapshot):
        deltas[entry.partition, entry.bucket].changelog.append(entry.file)
    compacted = snapshot.commit_kind == COMPACT
    records = _records(store, snapshot) if compacted else {}
    for (partition, bucket), delta in deltas.items():
        text = store.partition_text(partition)
        yield BucketEvent(
            snapshot.id,
            snapshot.time_millis,
            snapshot.commit_kind,
            text,
            bucket,
            flushed=() if compacted else tuple(delta.added),
            before=tuple(delta.deleted),
            after=tuple(delta.added) if compacted else (),
            changelog=tuple(delta.changelog),
            records=tuple(records.get((text, bucket), ())),
            user=snapshot.commit_user,
            identifier=snapshot.commit_identifier,
            schema_id=snapshot.schema_id,
        )


def _records(store: Store, snapshot: Snapshot) -> dict[tuple[str, int], list[CompactionRecord]]:
    """This engine's records of a snapshot's compactions by bucket; other engines keep no rules."""
    records: dict[tuple[str, int], list[CompactionRecord]] = defaultdict(list)
    for record in compaction_history.of(store, snapshot):
        if record.rule is not None:
            records[record.partition, record.bucket].append(record)
    return records


def _by_bucket(entries: Entries) -> dict[_Place, _Delta]:
    deltas: dict[_Place, _Delta] = defaultdict(_Delta)
    for entry in entries:
        delta = deltas[entry.partition, entry.bucket]
        (delta.added if entry.kind == ADD else delta.deleted).append(entry.file)
    return deltas
