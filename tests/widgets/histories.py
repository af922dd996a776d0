"""Tables of long histories, made cheaply: real snapshots and manifests by the engine's committer, no data.

Files and compactions are those of a few simulated buckets (`Simulator`), which many buckets of the table
replay, each at its own pace: bucket n is drawn with weight 1 / (n + 100), so that some are busy and some
quiet. Each commit touches `touched` of them. The same arguments give the same history but for names of
manifests.

    python -m tests.widgets.histories FOLDER --snapshots 10000 --buckets 1000
"""

from __future__ import annotations

import argparse
import random
import time
import uuid
from dataclasses import replace
from pathlib import Path

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.insight.simulator import Simulator, Workload
from tablestore.write.commit.committer import CommitRequest, Committer

SIMULATED, FLUSHES = 4, 120
OPTIONS = {
    "num-sorted-run.compaction-trigger": 3,
    "num-levels": 4,
    "snapshot.num-retained.min": 1_000_000,
    "snapshot.num-retained.max": 1_000_000,
    "write-only": True,
}
Turn = tuple[list[DataFileMeta], list[DataFileMeta], list[DataFileMeta], list[object]]


def long_table(folder: Path, *, snapshots: int, buckets: int, touched: int = 4, seed: int = 0) -> ts.Table:
    """`shop.long` in the lake at `folder`, with at least so many snapshots."""
    lake = ts.connect(folder)
    schema = {"k": ts.BIGINT, "v": ts.STRING}
    options = OPTIONS | {"bucket": buckets}
    table = lake.create_table("shop.long", schema=schema, primary_key=["k"], options=options)
    commit_history(table, snapshots=snapshots, buckets=buckets, touched=touched, seed=seed)
    return table.refresh().with_options({"write-only": "false"})


def commit_history(table: ts.Table, *, snapshots: int, buckets: int, touched: int, seed: int = 0) -> None:
    """So many more snapshots on top of `table`; all start with empty buckets."""
    drawn, flushes, turns = random.Random(seed), FLUSHES, _turns(seed, FLUSHES)
    at, names = [0] * buckets, [dict[str, str]() for _ in range(buckets)]
    weights = [1 / (n + 100) for n in range(buckets)]
    partition = b"\0\0\0\0" + b"\0" * 8
    created = 0
    while created < snapshots:
        if min(at) == flushes:  # every stream is at an end: all go on
            flushes *= 2
            turns = _turns(seed, flushes)
        chosen = sorted(set(drawn.choices(range(buckets), weights, k=touched)))
        messages = []
        for bucket in chosen:
            if at[bucket] == flushes:
                continue  # its stream is at an end: it rests
            flushed, before, after, records = turns[bucket % SIMULATED][at[bucket]]
            at[bucket] += 1
            parts = [[_named(f, names[bucket], drawn) for f in files] for files in (flushed, before, after)]
            kept = tuple(replace(record, bucket=bucket) for record in records)
            messages.append(
                CommitMessage(
                    partition,
                    bucket,
                    buckets,
                    new_files=tuple(parts[0]),
                    compact_before=tuple(parts[1]),
                    compact_after=tuple(parts[2]),
                    compactions=kept,
                )
            )
        if not messages:
            continue
        done = Committer(table.store).commit(messages, CommitRequest("history"))
        created += len(done.snapshots)


def _turns(seed: int, flushes: int) -> list[list[Turn]]:
    """For each simulated bucket what each flush added, and what the compactions after it took and made. More
    flushes begin with the same ones."""
    options = {
        name: value for name, value in OPTIONS.items() if name.startswith(("num-sorted", "num-levels"))
    }
    simulator = Simulator(Workload(rows=400, keys=4_000), options, buckets=SIMULATED, seed=seed, keep=100_000)
    simulator.advance(flushes)
    actual: list[list[Turn]] = [[] for _ in range(SIMULATED)]
    for commit in simulator.inspect._commits():
        event = commit.event
        if event.flushed:
            actual[event.bucket].append((list(event.flushed), [], [], []))
            continue
        _, before, after, records = actual[event.bucket][-1]
        there = {(f.level, f.file_name) for f in after}
        gone = {(f.level, f.file_name) for f in event.before}
        before += [f for f in event.before if (f.level, f.file_name) not in there]
        after[:] = [f for f in after if (f.level, f.file_name) not in gone] + list(event.after)
        records += event.records
    return actual


def _named(file: DataFileMeta, names: dict[str, str], drawn: random.Random) -> DataFileMeta:
    """The file under a name of its bucket's own, as writers give them, made just now: a commit looks whether
    old ones are there."""
    if file.file_name not in names:
        names[file.file_name] = f"data-{uuid.UUID(int=drawn.getrandbits(128))}-0.parquet"
    return replace(file, file_name=names[file.file_name], creation_time_ms=SYSTEM.local_now_ms())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--buckets", type=int, default=1_000)
    given = parser.parse_args()
    started = time.perf_counter()
    table = long_table(given.folder, snapshots=given.snapshots, buckets=given.buckets)
    took = time.perf_counter() - started
    print(f"{table.inspect.snapshot_count():,} snapshots, {given.buckets:,} buckets in {took:.1f} s")


if __name__ == "__main__":
    main()
