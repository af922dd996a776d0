"""Write stalls: in which buckets a writer waited for compaction, for how long and at how many runs.

A writer that finds more than `num-sorted-run.stop-trigger` runs compacts before it flushes again; the records
of those compactions are marked. Pure. Used by commits, which report stalls, and by the doctor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tablestore.core import quantities
from tablestore.format.compaction_record import CompactionRecord


@dataclass(frozen=True, slots=True)
class Stall:
    """One bucket whose writer waited: how often, how long, and the maximum of runs (leveled: files of level
    0); `reason` is that of the longest of these compactions."""

    partition: str
    bucket: int
    waits: int
    millis: int
    runs: int
    bytes_read: int
    reason: str

    @property
    def text(self) -> str:
        """`dt=1/bucket-0 waited 2 times, 1.4 s, at 9 runs (file number: …)`."""
        where = "/".join(t for t in (self.partition, f"bucket-{self.bucket}") if t)
        times = "once" if self.waits == 1 else f"{self.waits:,} times"
        took = quantities.duration(self.millis)
        return f"{where} waited {times}, {took}, at {self.runs:,} runs ({self.reason})"

    def __repr__(self) -> str:
        return f"Stall({self.text})"


def backlog(record: CompactionRecord) -> int:
    """The backlog that started a compaction, by the numbers of its rules; else what it took."""
    gathered = [int(n) for t in record.trials for name, n in t.numbers if name in ("runs", "files") and n]
    level0 = sum(i.files for i in record.inputs if i.level == 0)
    return max([*gathered, level0 + sum(i.level > 0 for i in record.inputs)])


def of(records: Iterable[CompactionRecord]) -> tuple[Stall, ...]:
    """The stalls among these compactions, the bucket that waited longest first."""
    places: dict[tuple[str, int], list[CompactionRecord]] = {}
    for r in records:
        if r.stalled:
            places.setdefault((r.partition, r.bucket), []).append(r)
    stalls = []
    for (partition, bucket), some in places.items():
        longest = max(some, key=lambda r: r.millis or 0)
        stalls.append(
            Stall(
                partition,
                bucket,
                len(some),
                sum(r.millis or 0 for r in some),
                max(map(backlog, some)),
                sum(r.bytes_read for r in some),
                f"{longest.rule}: {longest.text}",
            )
        )
    return tuple(sorted(stalls, key=lambda s: -s.millis))


def summary(stalls: Iterable[Stall]) -> str:
    """One line for a log: `2 buckets waited 5 times, 3.2 s; dt=1/bucket-0 waited …`."""
    some = tuple(stalls)
    waits, millis = sum(s.waits for s in some), sum(s.millis for s in some)
    many = "1 bucket" if len(some) == 1 else f"{len(some):,} buckets"
    times = "once" if waits == 1 else f"{waits:,} times"
    return f"{many} waited {times} for compaction, {quantities.duration(millis)}; longest: {some[0].text}"
