"""What holds the log of a table in a campaign, and what can befall it there: files of the table, or a topic.

Both do the same by the same names, so that one life (`log_life.py`) runs over either.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import OFFSET_END, TopicPartition

import tablestore as ts
from tests.faults import SimEnv
from tests.log.test_damage import EVERY, WITHIN, log_files
from tests.servers.kafka import Broker
from tests.tables import KEEP_ALL

KINDS: Mapping[str, Mapping[str, Any]] = {
    "transactional": {},
    "eventual": {"log.consistency": "eventual"},
    "append": {"bucket-key": "k"},
    "tiered": {"tablestore.tiering.enabled": True},
}
"""Options of tables by their kind, which is the same with either log."""
COLUMNS = {"k": ts.INT, "v": ts.BIGINT}
RETENTION = {"log.retention": "7 d"}
LONGER_MS = 8 * 86_400_000


class LogStore(Protocol):
    """Where logs are. `name`: of its log.system; `shows_tail`: readers of transactions see those that the log
    alone has; `keeps_tail`: its retention lets no row go that files do not have; `has_server`: it can be
    killed."""

    name: str
    shows_tail: bool
    keeps_tail: bool
    has_server: bool

    def options(self) -> Mapping[str, Any]:
        """Options of a table whose log is there."""

    def let_go(self, folder: Path) -> None:
        """Let time pass, longer than retention, until the log has let go of all that it may."""

    def damage(self, attacked: Any, folder: Path) -> str:
        """Damage the log of a table at random; what was done. Of `attacked`: its `rng` and its `kind`."""

    def can_damage(self, folder: Path) -> bool:
        """Whether there is enough to damage."""

    def restart(self) -> None:
        """Kill the server that has the log and start it again."""


def create(store: LogStore, folder: Path, kind: str) -> None:
    """The table `d.t` of that kind."""
    given = {"bucket": 2, "log.system": store.name, **RETENTION, **KEEP_ALL, **store.options(), **KINDS[kind]}
    keys = [] if kind == "append" else ["k"]
    ts.connect(str(folder)).create_table("d.t", schema=COLUMNS, primary_key=keys, options=given)


def opened(folder: Path, **how: Any) -> ts.Table:
    """The table, as a process that has just started opens it."""
    return ts.connect(str(folder), **how).table("d.t")


class Embedded:
    """Files below the table."""

    name, shows_tail, keeps_tail, has_server = "embedded", False, True, False

    def options(self) -> Mapping[str, Any]:
        """Those of a loss of power cost nothing here."""
        return {"tablestore.durability": "commit"}

    def let_go(self, folder: Path) -> None:
        """Snapshots stay: what files have is read for ever."""
        later = SimEnv(now_ms=int(time.time() * 1000) + LONGER_MS)
        opened(folder, env=later).expire_snapshots(keep=1000)

    def damage(self, attacked: Any, folder: Path) -> str:
        """Torn, flipped, missing, exchanged files; the folder goes where a snapshot speaks of the log."""
        spoken_of = opened(folder).store.snapshots.latest_id() is not None
        return str(attacked.rng.choice(EVERY if spoken_of else WITHIN)(attacked, folder))

    def can_damage(self, folder: Path) -> bool:
        """Two files can be exchanged."""
        return len(log_files(folder)) > 1

    def restart(self) -> None:
        """There is no server."""


@dataclass(frozen=True)
class Kafka:
    """A topic of a broker."""

    broker: Broker
    name = "kafka"
    shows_tail, keeps_tail, has_server = True, False, True

    def options(self) -> Mapping[str, Any]:
        """Where the broker is."""
        return {"kafka.bootstrap.servers": self.broker.address}

    def let_go(self, folder: Path) -> None:
        """What retention does: the broker knows nothing of files."""
        self.delete(opened(folder).options["kafka.topic"], {0: OFFSET_END, 1: OFFSET_END})

    def damage(self, attacked: Any, folder: Path) -> str:
        """The topic loses its rows up to some offsets, some of which files may not have yet.

        A topic that is made again is no damage here: after `repair` a stream that is farther back than the
        files takes the offsets that lengthen it for a log without rows.
        """
        log, gone = opened(folder).log, dict[int, int]()
        assert log is not None
        for partition, end in log.end.items():
            start = log.start[partition]
            if end > start and attacked.rng.random() < 0.7:
                gone[partition] = attacked.rng.randint(start, end)
        self.delete(str(log.topic), gone)
        return f"offsets before {gone} gone"

    def delete(self, topic: str, upto: Mapping[int, int]) -> None:
        """Let the broker forget the messages of partitions up to offsets."""
        places = [TopicPartition(topic, partition, offset) for partition, offset in upto.items()]
        for future in self.broker.admin.delete_records(places).values() if places else ():
            future.result(60)

    def can_damage(self, folder: Path) -> bool:
        """A topic can always lose rows."""
        return True

    def restart(self) -> None:
        """Kill the broker."""
        self.broker.server.kill()
        self.broker.server.start()
