"""Where the reading of topics begins and ends: `scan.startup.mode` and `scan.bounded.mode`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tablestore.core.errors import NotFound
from tablestore.log.kafka.cluster import BrokerCluster, Partition

EARLIEST, LATEST, GROUP = "earliest-offset", "latest-offset", "group-offsets"
TIMESTAMP, SPECIFIC, UNBOUNDED = "timestamp", "specific-offsets", "unbounded"
STARTUP_MODES = (EARLIEST, LATEST, GROUP, TIMESTAMP, SPECIFIC)
BOUNDED_MODES = (UNBOUNDED, LATEST, GROUP, TIMESTAMP, SPECIFIC)


@dataclass(frozen=True)
class ScanPoint:
    """A place in each partition, by its mode: the first message of a time (`millis`), `offsets` by
    partition, what the consumer `group` has committed; `otherwise` (earliest-offset, latest-offset or
    nothing) where it has committed nothing."""

    mode: str
    millis: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    group: str = ""
    otherwise: str = ""

    def of(self, cluster: BrokerCluster, partitions: list[Partition]) -> dict[Partition, int]:
        """The offset of each partition now. Raises NotFound where the mode says none."""
        if self.mode == TIMESTAMP:
            return cluster.at(partitions, self.millis)
        if self.mode == SPECIFIC:
            return self._specific(cluster, partitions)
        if self.mode == GROUP:
            return self._committed(cluster, partitions)
        return cluster.earliest(partitions) if self.mode == EARLIEST else cluster.latest(partitions)

    def _specific(self, cluster: BrokerCluster, partitions: list[Partition]) -> dict[Partition, int]:
        strange = set(self.offsets) - {number for _, number in partitions}
        if strange:
            raise NotFound(f"specific-offsets name partition {min(strange)}, and there are {len(partitions)}")
        rest = cluster.earliest([partition for partition in partitions if partition[1] not in self.offsets])
        return {
            partition: self.offsets[partition[1]] if partition[1] in self.offsets else rest[partition]
            for partition in partitions
        }

    def _committed(self, cluster: BrokerCluster, partitions: list[Partition]) -> dict[Partition, int]:
        committed = cluster.committed(self.group, partitions)
        lacks = [partition for partition in partitions if partition not in committed]
        if not lacks:
            return committed
        if not self.otherwise:
            topic, number = lacks[0]
            raise NotFound(
                f"consumer group {self.group!r} has no offset for topic {topic!r}, partition {number}: begin "
                "with 'scan.startup.mode' = 'earliest-offset', or say 'properties.auto.offset.reset'"
            )
        rest = cluster.earliest(lacks) if self.otherwise == EARLIEST else cluster.latest(lacks)
        return committed | rest


def specific_offsets(text: str) -> dict[int, int]:
    """The offsets of `partition:0,offset:42;partition:1,offset:300`. Raises ValueError with the end of the
    sentence "it must be …"."""
    offsets = {}
    for part in text.strip().rstrip(";").split(";"):
        pairs = [pair.partition(":") for pair in part.split(",")]
        named = {key.strip(): value.strip() for key, _, value in pairs}
        if named.keys() != {"partition", "offset"} or not all(v.isdecimal() for v in named.values()):
            raise ValueError("of the form partition:0,offset:42;partition:1,offset:300")
        offsets[int(named["partition"])] = int(named["offset"])
    return offsets
