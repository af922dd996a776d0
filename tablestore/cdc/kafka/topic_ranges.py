"""Ranges of topics, planned batch by batch: the same messages however often they are read.

Offset = `{"v": 1, "topics": {topic: {"id": …, "next": {partition: offset}}}, "bound": {topic: {partition:
offset}}}`: what has been read of each partition and, of a stream that ends, where. The first batch reads
nothing and says where reading begins, by `scan.startup.mode`; so does the first one of a partition or a topic
that is added, with its beginning. `scan.bounded.mode` says where it ends.
Every later batch is a range of offsets, whose messages are the same however often they are read, as long as
the topic keeps them (compaction may remove older messages of a key). Messages of one partition stay in their
order; there is none between partitions.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError
from tablestore.flow.source import SECONDS, LogRetention, Offset
from tablestore.log.kafka.cluster import BrokerCluster, Partition, Properties, Topic
from tablestore.log.kafka.partition_range import PartitionRange
from tablestore.log.kafka.topics import retention_ms

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


log = logging.getLogger(__name__)
VERSION = 1
_PARTS = 8  # of the time for which messages are kept


@dataclass(frozen=True)
class TopicRanges:
    """The messages of topics, from a place on. `pattern`: a regular expression; all topics whose whole name
    it matches, those that come later, too, beside `topics`. `limit`: messages of a partition in one batch, at
    most."""

    properties: Properties
    topics: tuple[str, ...]
    start: ScanPoint
    bound: ScanPoint = ScanPoint(UNBOUNDED)
    fail_on_data_loss: bool = True
    limit: int = 1_000_000
    pattern: str = ""

    def initial(self) -> Offset:
        return {"v": VERSION, "topics": {}}

    def latest(self) -> Offset:
        """Where all that there is now has been read; of a stream that ends, not behind its end."""
        there = self._topics()
        ends, bound = self._cluster.latest(_partitions(there)), self._bound(there)
        if bound is not None:
            ends = {part: min(offset, bound[part]) for part, offset in ends.items()}
        return _offset(there, ends, bound)

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        """Raises NotFound where messages that come next are gone, and where the topic was made anew or ends
        before what was read."""
        there = self._topics()
        ends = None if target is None else positions(target)
        if not start["topics"]:
            begins = self.start.of(self._cluster, _partitions(there))
            if ends is not None:
                begins = {part: min(offset, ends.get(part, offset)) for part, offset in begins.items()}
            return _offset(there, begins, self._bound(there))
        self._require_same(start, there)
        here = positions(start)
        if ends is None:
            ends = self._cluster.latest(_partitions(there))
            here |= self._cut_off({part: at for part, at in here.items() if ends.get(part, at) < at})
        first = self._cluster.earliest(_partitions(there))
        bound = positions(start, "bound") if "bound" in start else None
        reached = {}
        for part in _partitions(there):
            position = here.get(part, 0)
            end = (
                ends.get(part, position)
                if bound is None
                else min(ends.get(part, position), bound.get(part, 0))
            )
            if position < first[part] and (position < end or part not in here):
                self._lost(part, position, first[part])
            if part not in here:
                reached[part] = first[part]
            else:
                reached[part] = max(position, min(end, max(position, first[part]) + self.limit))
        return _offset(there, reached, bound)

    def ended(self, offset: Offset) -> bool:
        if "bound" not in offset:
            return False
        reached = positions(offset)
        return all(reached.get(part, 0) >= end for part, end in positions(offset, "bound").items())

    def ranges(self, start: Offset, end: Offset) -> list[PartitionRange]:
        """What lies between two offsets, partition by partition."""
        begins = positions(start)
        return [
            PartitionRange(self.properties, *part, begins[part], stop, self.fail_on_data_loss)
            for part, stop in sorted(positions(end).items())
            if begins.get(part, stop) < stop
        ]

    def kept(self, end: Offset) -> list[LogRetention]:
        """How much of the time is over, in eighths, for which topics keep the messages behind an offset. What
        a topic keeps by size alone is not known."""
        by_topic: dict[str, dict[Partition, int]] = {}
        for part, at in positions(end).items():
            by_topic.setdefault(part[0], {})[part] = at
        return [self._kept(topic, here) for topic, here in sorted(by_topic.items())]

    def _kept(self, topic: str, here: Mapping[Partition, int]) -> LogRetention:
        millis, now, over = retention_ms(self.properties, topic), SYSTEM.now_ms(), 0
        log = f"topic {topic}"
        if millis is None:
            return LogRetention(log, SECONDS, 0.0)
        while over < _PARTS:
            later = self._cluster.at(here, now - (over + 1) * millis // _PARTS)
            if all(later[part] <= at for part, at in here.items()):
                break
            over += 1
        return LogRetention(log, SECONDS, over * millis / _PARTS / 1000, millis / 1000)

    def done(self, end: Offset) -> None:
        """Note the offsets with the consumer group, if there is one: for those who watch its lag."""
        group = dict(self.properties).get("group.id")
        if group is None or not end["topics"]:
            return
        try:
            self._cluster.commit(group, positions(end))
        except TablestoreError as e:  # the offsets that count are those of the stream
            log.warning("offsets are not noted with consumer group %s: %s", group, e)

    @property
    def _cluster(self) -> BrokerCluster:
        return BrokerCluster(self.properties)

    def _topics(self) -> dict[str, Topic]:
        matching = re.compile(self.pattern).fullmatch if self.pattern else None
        names = [name for name in self._cluster.names() if matching(name)] if matching else []
        return self._cluster.topics([*self.topics, *names])

    def _bound(self, there: Mapping[str, Topic]) -> dict[Partition, int] | None:
        return None if self.bound.mode == UNBOUNDED else self.bound.of(self._cluster, _partitions(there))

    def _require_same(self, start: Offset, there: Mapping[str, Topic]) -> None:
        if start.get("v") != VERSION or not (self.pattern or start["topics"].keys() == there.keys()):
            raise InvalidRequest(f"{start} is no offset of the topics {', '.join(self.topics)}")
        for name, before in start["topics"].items():
            if name not in there:
                raise NotFound(f"topic {name!r} was deleted since it was read: begin anew")
            if before["id"] != there[name].id:
                raise NotFound(f"topic {name!r} was deleted and made anew since it was read: begin anew, too")

    def _cut_off(self, ahead: Mapping[Partition, int]) -> dict[Partition, int]:
        """The ends of partitions that end before what was read of them: the brokers lost messages, and new
        ones get their offsets. Raises NotFound if that is to fail."""
        written = self._cluster.written(ahead) if ahead else {}
        cut = {part: end for part, end in written.items() if end < ahead[part]}
        for (topic, number), end in sorted(cut.items()):
            problem = f"topic {topic!r}, partition {number} ends at offset {end}, and was read up to "
            problem += f"{ahead[topic, number]}: its brokers lost messages"
            if self.fail_on_data_loss:
                raise NotFound(
                    f"{problem}; begin anew with 'scan.startup.mode', or go on from its end: "
                    "'tablestore.fail-on-data-loss' = 'false'"
                )
            log.warning("%s; it goes on from there", problem)
        return cut

    def _lost(self, partition: Partition, position: int, first: int) -> None:
        part = PartitionRange(self.properties, *partition, position, first)
        if self.fail_on_data_loss:
            raise part.gone(first)
        log.warning("%s: offsets %d to %d are gone; it goes on without them", part, position, first - 1)


def _partitions(topics: Mapping[str, Topic]) -> list[Partition]:
    return [(name, number) for name, topic in topics.items() for number in range(topic.partitions)]


def positions(offset: Offset, part: str = "topics") -> dict[Partition, int]:
    """The offsets of partitions in an offset of the stream, or its bounds."""
    numbers_of = (
        offset[part] if part == "bound" else {name: t["next"] for name, t in offset["topics"].items()}
    )
    return {
        (name, int(n)): position for name, numbers in numbers_of.items() for n, position in numbers.items()
    }


def _offset(
    topics: Mapping[str, Topic], positions: Mapping[Partition, int], bound: Mapping[Partition, int] | None
) -> Offset:
    names = sorted(topics)
    parts = {name: {"id": topics[name].id, "next": _numbered(positions, name)} for name in names}
    offset: Offset = {"v": VERSION, "topics": parts}
    return offset if bound is None else offset | {"bound": {name: _numbered(bound, name) for name in names}}


def _numbered(positions: Mapping[Partition, int], topic: str) -> dict[str, int]:
    return {str(number): offset for (name, number), offset in sorted(positions.items()) if name == topic}
