"""Tables that are metadata alone: as many data files and snapshots as asked for, none of them on disk.

Planning a scan and committing never open a data file, so their cost can be measured on tables that would take
hours to load. Files are added by the engine's own commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.format import binary_row
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import DataFileMeta, SimpleStats
from tablestore.format.types.arrow_types import BIGINT, INT, STRING, DataType
from tablestore.write.commit.committer import CommitRequest, Committer

FOREVER = {"snapshot.num-retained.min": 10_000_000, "write-only": True}
NEVER_MERGED = {
    "manifest.merge-min-count": 10_000_000,
    "manifest.full-compaction-threshold-size": "1 tb",
    "manifest.target-file-size": "1 tb",
}
BUCKETS, ROWS = 4, 1000
FEWEST, PER_COMMIT = 100, 10  # partitions, and files of a commit, of a table of up to 10,000 files


def files(folder: Path, *, files: int, merged: bool) -> str:
    """A table of 100 partitions of 4 buckets, written in order by commits of 10 files. More than 10,000 files
    are in a partition for each 20, and come by 200 commits. Its location."""
    small = files <= 10_000
    partitions, per_commit = (FEWEST, PER_COMMIT) if small else (files // 20, files // 200)
    table = ts.connect(str(folder)).create_table(
        "bench.files",
        schema={"p": ts.INT, "k": ts.BIGINT, "v": ts.STRING},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": BUCKETS, **FOREVER, **({} if merged else NEVER_MERGED)},
    )
    committer = Committer(table.store)
    for start in range(0, files, per_commit):
        places: dict[tuple[int, int], list[DataFileMeta]] = {}
        for n in range(start, min(start + per_commit, files)):
            p = n * partitions // files
            places.setdefault((p, n % BUCKETS), []).append(_file(n, [p], [INT]))
        messages = [
            CommitMessage(binary_row.encode([p], [INT]), b, BUCKETS, new_files=tuple(some))
            for (p, b), some in sorted(places.items())
        ]
        committer.commit(messages, CommitRequest("bench"))
    return table.location


def snapshots(folder: Path, count: int) -> str:
    """A table of one bucket with so many snapshots, a file each. Its location."""
    table = ts.connect(str(folder)).create_table(
        "bench.history",
        schema={"k": ts.BIGINT, "v": ts.STRING},
        primary_key=["k"],
        options={"bucket": 1, **FOREVER},
    )
    committer, part = Committer(table.store), binary_row.encode([], [])
    for message in _singles(part, count):
        committer.commit([message], CommitRequest("bench"))
    return table.location


def _singles(partition: bytes, count: int) -> Iterator[CommitMessage]:
    for n in range(count):
        yield CommitMessage(partition, 0, 1, new_files=(_file(n, [], []),))


def _file(n: int, partition: list[int], types: list[DataType]) -> DataFileMeta:
    low, high = n * ROWS, n * ROWS + ROWS - 1

    def values(k: int) -> bytes:
        return binary_row.encode([*partition, k, f"value-{k}"[:16]], [*types, BIGINT, STRING])

    keys = [binary_row.encode([k], [BIGINT]) for k in (low, high)]
    nulls = (0,) * (2 + len(types))
    return DataFileMeta(
        file_name=f"data-{n:08x}-0000-4000-8000-000000000000-0.parquet",
        file_size=100_000 + n,
        row_count=ROWS,
        min_key=keys[0],
        max_key=keys[1],
        key_stats=SimpleStats(keys[0], keys[1], (0,)),
        value_stats=SimpleStats(values(low), values(high), nulls),
        min_sequence=low,
        max_sequence=high,
        schema_id=0,
        level=0,
        creation_time_ms=SYSTEM.local_now_ms(),  # a commit looks for old files, which are made up here
        delete_count=0,
        file_source=0,
    )
