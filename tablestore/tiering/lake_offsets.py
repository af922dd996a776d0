"""What a lake table says of the logs whose rows it has, as texts: offsets and batches; and whether a log
still is the one whose rows the lake has.

Up to Fluss 0.8 `fluss-offsets` is a JSON list with an object for each bucket: {"partition_id": 12,
"bucket": 0, "partition_name": "dt=2026-01-01", "offset": 1234}, without the two of them in tables without
partitions. From 0.9 on it is the path of a file that the cluster has written, and our list is
`tablestore.fluss-offsets`; Fluss's own service sets the path alone. The position has the same without
names, for the case that another engine has expired every snapshot with the property.

`tablestore.fluss-batches` is a JSON list of the batches of the log that hold the rows before the offsets,
[partition_id, bucket, offset, first offset, timestamp, CRC]; of a bucket with another offset it says nothing.
A server that is killed may lose rows that it had acknowledged: Fluss keeps how far the replicas of a bucket
are only now and then, and a leader without other replicas cuts its log to there. Their offsets are given to
other rows. Where the log has grown past the lake's offset again before anybody looks, the offsets alone say
nothing. So before a round goes on behind an offset its batch is compared: once after a start of the service,
and after each change of the bucket's leader.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tablestore.core.errors import Corrupt, NotFound, Unavailable, Unsupported
from tablestore.fluss.log_records import BatchMark
from tablestore.meta import positions
from tablestore.tiering.cluster import ClusterTable, LakeCommit, LakeCommitter, LakeState, TieringCluster
from tablestore.tiering.splits import Marks, Offsets, TieredBucket

_OFFSETS_FILE = re.compile(r".*/lake/[^/]+/[^/]+-(\d+)/metadata/[^/]+\.offsets", re.DOTALL)


def properties_of(commit: LakeCommit, keys: Sequence[str]) -> dict[str, str]:
    """The properties of the snapshot of a commit; `keys` are the partition columns."""
    offsets = property_text(commit.offsets, commit.partition_names, keys)
    return {
        positions.OFFSETS: commit.prepared or offsets,
        **({positions.OWN_OFFSETS: offsets} if commit.prepared else {}),
        positions.TABLE_ID: str(commit.table_id),
        positions.BATCHES: batches_text(commit.offsets, commit.marks),
    }


def state_of(
    properties: Mapping[str, str], keys: Sequence[str], *, snapshot_id: int, basis: Any, path: str
) -> LakeState:
    """What the properties of a snapshot with offsets say; raises Corrupt with the `path` of what holds them.
    Where Fluss's own service of 0.9 has committed, the state has the path of the offsets and not them."""
    text = offsets_text(properties)
    if text is None:
        file = properties[positions.OFFSETS]
        named = _OFFSETS_FILE.fullmatch(file)
        if named is None:
            raise Corrupt(path, f"fluss-offsets {file[:80]!r} is no list of offsets and no file of them")
        return LakeState(snapshot_id, int(named[1]), offsets_path=file, basis=basis)
    offsets, names = parse_property(text, keys, path)
    marks = parse_batches(properties.get(positions.BATCHES, "[]"), offsets, path)
    table_id = properties.get(positions.TABLE_ID)  # which Fluss's own service does not set
    number = None if table_id is None else int(table_id)
    return LakeState(snapshot_id, number, offsets, names, marks, basis=basis)


def offsets_text(properties: Mapping[str, str]) -> str | None:
    """The list of offsets of a snapshot; None where they are in a file of the cluster alone."""
    text = properties[positions.OFFSETS]
    return text if text.startswith("[") else properties.get(positions.OWN_OFFSETS)


def parse_offsets_file(data: bytes, path: str) -> dict[TieredBucket, int]:
    """The offsets that a cluster of 0.9 has written to a file: {"version": 1, "table_id": 2, and
    "bucket_offsets": [61, 71] or "partition_offsets": [{"partition_id": 0, "bucket_offsets": [5]}]}. An
    offset's place in its list is its bucket, −1 is none. Raises Corrupt."""
    offsets: dict[TieredBucket, int] = {}
    try:
        read = json.loads(data)
        if read["version"] != 1:
            raise Corrupt(path, f"offsets of version {read['version']!r}, and this release reads version 1")
        lists: dict[int | None, Any] = {None: read.get("bucket_offsets", [])}
        lists |= {int(p["partition_id"]): p["bucket_offsets"] for p in read.get("partition_offsets", [])}
        for partition_id, listed in lists.items():
            for bucket, offset in enumerate(listed):
                if int(offset) >= 0:
                    offsets[TieredBucket(partition_id, bucket)] = int(offset)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Corrupt(path, f"{data[:80]!r} holds no offsets of a cluster") from None
    return offsets


def offsets_file(table_id: int, offsets: Mapping[int, int]) -> bytes:
    """What `parse_offsets_file` reads, of a table without partitions: offsets by bucket."""
    listed = [offsets.get(bucket, -1) for bucket in range(max(offsets, default=-1) + 1)]
    return json.dumps({"version": 1, "table_id": table_id, "bucket_offsets": listed}).encode()


def property_text(offsets: Offsets, names: Mapping[int, str], keys: Sequence[str]) -> str:
    """The offsets as `fluss-offsets`; `names` are values of the partition columns `keys`, joined by `$`."""
    items = []
    for place, offset in sorted(
        offsets.items(), key=lambda pair: (pair[0].partition_id or 0, pair[0].bucket)
    ):
        item: dict[str, object] = {"bucket": place.bucket, "offset": offset}
        if place.partition_id is not None:
            item = {"partition_id": place.partition_id, **item}
            if place.partition_id in names:
                item["partition_name"] = _qualified(names[place.partition_id], keys)
        items.append(item)
    return json.dumps(items, ensure_ascii=False, separators=(",", ":"))


def parse_property(
    text: str, keys: Sequence[str], path: str
) -> tuple[dict[TieredBucket, int], dict[int, str]]:
    """(offsets, names of partitions) of a text; raises Corrupt for anything else, with the `path` of the file
    that holds it."""
    offsets: dict[TieredBucket, int] = {}
    names: dict[int, str] = {}
    pattern = re.compile("/".join(f"{re.escape(key)}=(.*)" for key in keys), re.DOTALL)
    try:
        for item in json.loads(text):
            partition, name = item.get("partition_id"), item.get("partition_name")
            offsets[TieredBucket(partition, int(item["bucket"]))] = int(item["offset"])
            values = pattern.fullmatch(name) if name is not None and partition is not None else None
            if values is not None:
                names[int(partition)] = "$".join(values.groups())
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Corrupt(path, f"fluss-offsets {text[:80]!r} is no list of offsets") from None
    return offsets, names


def _qualified(name: str, keys: Sequence[str]) -> str:
    return "/".join(f"{key}={value}" for key, value in zip(keys, name.split("$"), strict=False))


def batches_text(offsets: Offsets, marks: Marks) -> str:
    """The batches before the offsets."""
    items = [[*place, offsets[place], *mark] for place, mark in marks.items() if place in offsets]
    return json.dumps(items, separators=(",", ":"))


def parse_batches(text: str, offsets: Offsets, path: str) -> dict[TieredBucket, BatchMark]:
    """The batches of a text before these offsets; raises Corrupt."""
    try:
        batches = [(TieredBucket(p, b), at, BatchMark(*mark)) for p, b, at, *mark in json.loads(text)]
    except (ValueError, TypeError):
        raise Corrupt(path, f"{text[:80]!r} is no list of batches") from None
    return {place: mark for place, at, mark in batches if offsets.get(place) == at}


def position_text(table_id: int, offsets: Offsets) -> str:
    """The same as the position of the commit user."""
    items = [[place.partition_id, place.bucket, offset] for place, offset in offsets.items()]
    return json.dumps({"table": table_id, "offsets": items}, separators=(",", ":"))


def parse_position(text: str, path: str) -> tuple[int, dict[TieredBucket, int]]:
    """(table id, offsets) of a position; raises Corrupt."""
    try:
        read = json.loads(text)
        offsets = {TieredBucket(partition, bucket): int(at) for partition, bucket, at in read["offsets"]}
        return int(read["table"]), offsets
    except (ValueError, TypeError, KeyError):
        raise Corrupt(path, f"position {text[:80]!r} holds no offsets of a round") from None


def lake_state(cluster: TieringCluster, committer: LakeCommitter, table: ClusterTable) -> LakeState:
    """What the lake holds, with its offsets, also where Fluss's own service has committed last: from 0.9 on
    a file of the cluster has them, which goes when the next snapshot is registered. So a service that takes
    over reads it before it tells the cluster anything, and its first round commits, even without rows: from
    then on the lake says them itself. Of rows of a former table of this name they stay unknown.
    Raises Unavailable where neither the file of the offsets nor the cluster says them."""
    lake = committer.state()
    if lake.offsets_path is None or lake.table_id != table.table_id:
        return lake
    offsets = _offsets(cluster, table, lake, lake.offsets_path)
    now = dict(cluster.partitions(table.path)) if table.partition_keys else {}
    names = {**lake.partition_names, **now}  # the lake knows those that were dropped since
    there = {place.partition_id for place in offsets}
    return replace(
        lake, offsets=offsets, partition_names={id: name for id, name in names.items() if id in there}
    )


def _offsets(cluster: TieringCluster, table: ClusterTable, lake: LakeState, path: str) -> Offsets:
    try:
        return cluster.prepared_offsets(table, path)
    except (NotFound, Unavailable, Unsupported) as e:
        registered = cluster.lake_snapshot(table.path)
        at = None if registered is None else registered.snapshot_id
        if registered is not None and at == lake.snapshot_id:
            return registered.offsets
        text = (
            f"{table.path}: lake snapshot {lake.snapshot_id} is of Fluss's own tiering service, whose "
            f"offsets are in {path}, which cannot be read here ({e}), and the cluster knows snapshot "
            f"{at or 'none'}"
        )
        raise Unavailable(
            f"{text}; let that service tier the table once more, or run where remote.data.dir can be read"
        ) from e


class RewrittenLog(NamedTuple):
    """A bucket whose log was cut below the lake's `offset` and has other rows there now."""

    table_bucket: TieredBucket
    offset: int

    def __str__(self) -> str:
        return (
            f"{self.table_bucket}: the log was cut below offset {self.offset}, up to which the lake has its "
            "rows, and has others there now"
        )


@dataclass(slots=True)
class LogIdentity:
    """The logs that were compared, with the epochs of their leaders. Safe to share between threads."""

    _epochs: dict[tuple[int, TieredBucket], int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def rewritten(
        self,
        cluster: TieringCluster,
        table: ClusterTable,
        lake: LakeState,
        places: Iterable[TieredBucket],
        *,
        once: bool = False,
    ) -> list[RewrittenLog]:
        """Those of these buckets whose logs are others than the lake's; each time anew or, for who passes
        over it, `once`."""
        marked = [place for place in places if place in lake.marks]
        if not marked:
            return []
        epochs = cluster.leader_epochs(table, marked)
        with self._lock:
            compared = {place: self._epochs.get((table.table_id, place)) for place in marked}
        due = {p: lake.offsets[p] for p in marked if p not in epochs or compared[p] != epochs[p]}
        if not due:
            return []
        batches = cluster.batches_before(table, due)
        others = [
            RewrittenLog(place, at) for place, at in due.items() if batches.get(place) != lake.marks[place]
        ]
        done = set(due) if once else set(due) - {other.table_bucket for other in others}
        with self._lock:
            self._epochs.update({(table.table_id, p): epochs[p] for p in done if p in epochs})
        return others
