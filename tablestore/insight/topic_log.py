"""What the files of a table lack of its log in Kafka: rows that retention took before files had them, and
rows that it will take soon. Brokers are asked for offsets; no row is read but the first of a partition."""

from __future__ import annotations

from tablestore.core.quantities import duration, many
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.meta.store import Store
from tablestore.read.table_log import offsets_at

_SHOWN = 3


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
