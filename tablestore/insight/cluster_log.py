"""What a table lacks of its log in a Fluss cluster or in Kafka: rows that retention took before files had
them, and rows that it will take soon. Servers are asked for offsets; no row is read but the first of a
partition of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tablestore.core.errors import CommitConflict, NotFound, TablestoreError, Unavailable
from tablestore.core.quantities import duration, many
from tablestore.fluss.errors import FlussError
from tablestore.log.fluss_log import FlussLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.offsets import PARTITION_STEP
from tablestore.meta.store import Store
from tablestore.read.table_log import log_of, offsets_at

UNREACHED: tuple[type[TablestoreError], ...] = (Unavailable, NotFound, CommitConflict, FlussError)
"""What `missing_rows` raises where the cluster does not answer, or has another table."""
REMEDY = 'lake.tier(…, lost_rows="skip") goes on without them'
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class MissingRows:
    """By the number of each bucket: offsets that the log no longer has and the lake never had (`lost`), where
    the log ends before the lake does (`cut`: offset of the lake, end of the log), how many offsets are
    `waiting` for a round for longer than half of the time that the log keeps rows, which is `kept_ms`."""

    lost: Mapping[int, range]
    cut: Mapping[int, tuple[int, int]]
    waiting: Mapping[int, int]
    kept_ms: int | None
    partitioned: bool

    @property
    def problems(self) -> list[str]:
        """A sentence for each bucket of which rows are lost."""
        texts = []
        for n, gone in self.lost.items():
            what = f"offsets [{gone.start}, {gone.stop}) of {self._name(n)}, up to {many(len(gone), 'row')},"
            texts.append(f"{what} are gone from the log before a round of tiering brought them; {REMEDY}")
        return texts + [
            f"the lake is at offset {at} of {self._name(n)}, whose log ends at {end}: it was cut; {REMEDY}"
            for n, (at, end) in self.cut.items()
        ]

    @property
    def warning(self) -> str:
        """What there is to say of rows that wait; empty without any."""
        rows = sum(self.waiting.values())
        if not rows or self.kept_ms is None:
            return ""
        buckets = sorted(self.waiting)
        names = ", ".join(map(self._name, buckets[:_SHOWN])) + (", …" if len(buckets) > _SHOWN else "")
        return (
            f"up to {many(rows, 'row')} of {names} wait for a round of tiering for longer than half of the "
            f"{duration(self.kept_ms)} for which the log keeps them"
        )

    def _name(self, number: int) -> str:
        partition, bucket = divmod(number, PARTITION_STEP)
        return f"bucket {bucket} of partition {partition}" if self.partitioned else f"bucket {number}"


def missing_rows(store: Store, log: FlussLog) -> MissingRows:
    """What the newest snapshot lacks. Raises one of `UNREACHED`."""
    bounds, at = log.bounds(), offsets_at(store, store.snapshots.latest())
    # a keyed bucket that no round has seen begins with a snapshot of its keys, whatever its log has
    buckets = set(at) if store.schema.shown.primary_keys else set(bounds.start)
    begin = {n: start for n, start in bounds.start.items() if n in buckets}
    lost = {n: range(at.get(n, 0), start) for n, start in begin.items() if at.get(n, 0) < start}
    cut = {n: (at[n], end) for n, end in bounds.end.items() if at.get(n, 0) > end}
    kept, waiting = log.kept_ms, dict[int, int]()
    if kept is not None:
        young = log.at(store.env.now_ms() - kept // 2)
        begin = {n: max(at.get(n, 0), start) for n, start in bounds.start.items()}
        waiting = {n: young[n] - first for n, first in begin.items() if first < young.get(n, 0)}
    return MissingRows(lost, cut, waiting, kept, bool(store.schema.partition_keys))


def open_log(store: Store) -> FlussLog | None:
    """The log of a table that is filled from Fluss; None of every other table."""
    log = log_of(store)
    return log if isinstance(log, FlussLog) else None


def require_whole(store: Store, log: KafkaLog) -> None:
    """Raise LogExpired where rows are gone that no file has, Corrupt where the topic ends before the files,
    NotFound where it is gone, Unavailable where no broker answers."""
    log.whole_bounds(offsets_at(store, store.snapshots.latest()))


def waiting_rows(store: Store, log: KafkaLog) -> dict[int, int]:
    """Per partition how many offsets at most wait for files for longer than half of the time that brokers
    keep rows. Raises what `require_whole` does of a topic that is gone or not reached."""
    kept = log.retention_ms()
    if kept is None:
        return {}
    at, start = offsets_at(store, store.snapshots.latest()), log.bounds().start
    young = log.at(store.env.now_ms() - kept // 2)
    waiting = {b: (max(at.get(b, 0), first), young.get(b, 0)) for b, first in start.items()}
    return {b: end - first for b, (first, end) in waiting.items() if log.has_rows(b, first, end)}


def warning(log: KafkaLog, waiting: dict[int, int]) -> str:
    """A sentence about rows that wait, empty where none do."""
    if not waiting:
        return ""
    buckets = sorted(waiting)
    names = ", ".join(map(str, buckets[:_SHOWN])) + (", …" if len(buckets) > _SHOWN else "")
    kept = duration(log.retention_ms() or 0)
    return (
        f"topic {log.topic!r}, partition {names}: up to {many(sum(waiting.values()), 'row')} wait for files "
        f"for longer than half of the {kept} for which brokers keep them; table.log.finish() brings them"
    )
