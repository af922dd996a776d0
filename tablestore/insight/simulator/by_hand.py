"""Compactions of a simulation by hand: what the next pick would do, and what it did.

The result is a `Compaction`, as that of `Table.compact`. What a merge would give is known from the samples,
so a plan is carried out without being entered. Used by `Simulator.compact`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.insight.explain.forecast import Forecast
from tablestore.insight.explain.merge_size import Estimate
from tablestore.insight.simulator.contents import Contents
from tablestore.insight.simulator.sim_bucket import SimBucket
from tablestore.lsm.compaction.bucket_pick import Pick
from tablestore.lsm.compaction.universal import full as full_compaction


@dataclass(frozen=True, slots=True)
class Simulated:
    """The commits that a compaction of a simulation made."""

    snapshots: tuple[int, ...] = ()

    @property
    def snapshot(self) -> int | None:
        """Id of the last one, None if there was nothing to do."""
        return self.snapshots[-1] if self.snapshots else None


def chosen(buckets: int, partition: str | None, bucket: int | Iterable[int] | None) -> list[int]:
    """The buckets that are asked for; raises InvalidRequest for those that are not there."""
    wanted = range(buckets) if bucket is None else [bucket] if isinstance(bucket, int) else bucket
    numbers = sorted(set(wanted))
    if partition or not all(0 <= i < buckets for i in numbers):
        asked = f"partition {partition!r}" if partition else f"buckets {numbers}"
        raise InvalidRequest(f"{asked}: a simulation has buckets 0..{buckets - 1} and no partitions")
    return numbers


def planned(number: int, bucket: SimBucket, *, full: bool, weight: float) -> Pick:
    """The next pick in a bucket, by its rules or (`full`) of everything, with what it would give."""
    decision = full_compaction(bucket.levels) if full else bucket.loop.decide()
    trial = bucket.try_out(decision)
    if trial is None or decision.unit is None:
        return Pick("", number, decision)
    moved = {f.file_name for f in trial.before} & {f.file_name for f in trial.after}
    read = [f for f in trial.before if f.file_name not in moved]
    outputs = [f for f in trial.after if f.file_name not in moved]
    output = _output(read, outputs, bucket.contents)
    lifted = (f for f in trial.before if f.file_name in moved)
    drops = bucket.drops(decision.unit, bucket.levels)
    return Pick("", number, decision, Forecast(_metas(read, weight), _metas(lifted, weight), output, drops))


def _output(read: list[Any], files: list[Any], contents: Contents) -> Estimate:
    """What a merge gives: exact where each row is drawn."""
    rows, size = sum(f.row_count for f in files), sum(f.file_size for f in files)
    if not read:
        return Estimate(0, 0, True, "no rows are written", *(0,) * 4)
    if contents.exact:
        return Estimate(rows, size, True, "merged in the simulation", rows, rows, size, size)
    why = f"merged in the simulation, where {contents.why}"
    most = sum(f.row_count for f in read), size, size
    return Estimate(rows, size, False, why, min(rows, 1), *most)


def _metas(files: Iterable[Any], weight: float) -> tuple[Any, ...]:
    return tuple(f.meta(weight) for f in files)
