"""Does the log of a table have what its newest snapshot names of it."""

from __future__ import annotations

from tablestore.core.errors import Corrupt
from tablestore.format.snapshot import Snapshot
from tablestore.log import offsets, transaction_id
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Log, LogBounds
from tablestore.meta.store import Store


def problem(store: Store, log: EmbeddedLog, snapshot: Snapshot | None) -> Corrupt | None:
    """What an embedded log lacks while `snapshot`, read before the log is looked at, is the newest; None if
    nothing.

    LostEnd where a loss of power took the end of the log. Raises Corrupt where files of the log are damaged,
    or are those of another log.
    """
    get = store.snapshots.get
    return log.lacks(offsets.known(snapshot, get), transaction_id.known(snapshot, get))


def readable_bounds(store: Store, log: Log, snapshot: Snapshot | None) -> LogBounds:
    """Where the log starts and ends. What it lacks of what `snapshot` names the files of the table have.

    Raises LogMismatch where it is not the log that a snapshot was made from, Corrupt where that cannot be
    read, files are missing whose rows no snapshot has, or a topic of Kafka ends before the snapshot: rows
    that are written there would not be seen."""
    get = store.snapshots.get
    if isinstance(log, EmbeddedLog):
        last = transaction_id.known(snapshot, get)
        log.require_end(last)
        log.require_same(last)
    bounds = log.bounds()
    if isinstance(log, KafkaLog):
        log.require_end(offsets.known(snapshot, get), bounds)
    return bounds
