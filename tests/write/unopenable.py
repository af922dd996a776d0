"""Options with which Paimon opens or writes no table, and what makes them sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Unopenable:
    """Options of a table that is refused, words of the error, and options that mend it."""

    options: dict[str, Any]
    words: str
    mended: dict[str, Any]
    keyed: bool = True
    partitioned: bool = False
    only_writes: bool = False  # Paimon fails at the first write

    @property
    def names(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in self.options.items())


OVERWRITE = {"streaming-read-overwrite": True}
CASES = [
    Unopenable(
        {"snapshot.num-retained.max": 5}, "snapshot.num-retained.min' to 5", {"snapshot.num-retained.min": 5}
    ),
    Unopenable(
        {"changelog.num-retained.max": 9},
        "changelog.num-retained.min' to 9",
        {"changelog.num-retained.min": 9},
    ),
    Unopenable(
        OVERWRITE, "streaming-read-append-overwrite", {"streaming-read-overwrite": False}, keyed=False
    ),
    Unopenable(
        {**OVERWRITE, "changelog-producer": "lookup"}, "gives changes twice", {"changelog-producer": "input"}
    ),
    Unopenable(
        {**OVERWRITE, "changelog-producer": "full-compaction"},
        "gives changes twice",
        {"changelog-producer": "none"},
    ),
    Unopenable(
        {"full-compaction.delta-commits": 3},
        "a primary key or a number of buckets",
        {"bucket": 2, "bucket-key": "k"},
        keyed=False,
    ),
    Unopenable(
        {"table-read.sequence-number.enabled": True},
        "needs a primary key",
        {"table-read.sequence-number.enabled": False},
        keyed=False,
    ),
    Unopenable({"manifest-sort.enabled": True}, "there are: none", {"manifest-sort.enabled": False}),
    Unopenable(
        {"manifest-sort.enabled": True, "manifest-sort.partition-field": "k"},
        "there are: p",
        {"manifest-sort.partition-field": "p"},
        partitioned=True,
    ),
    Unopenable({"scan.mode": "from-snapshot"}, "wants exactly one", {"scan.snapshot-id": 1}),
    Unopenable({"scan.mode": "from-timestamp"}, "wants exactly one", {"scan.timestamp-millis": 1}),
    Unopenable(
        {"scan.snapshot-id": 1, "scan.timestamp-millis": 1}, "has no place", {"scan.timestamp-millis": None}
    ),
    Unopenable(
        {"file.format": "avro", "file.compression": "none"},
        "its name there is 'null'",
        {"file.compression": "null"},
        only_writes=True,
    ),
    Unopenable(
        {"file.format.per.level": "0:avro", "file.compression": "gzip"},
        "its name there is 'deflate'",
        {"file.compression.per.level": "0:deflate"},
        only_writes=True,
    ),
    Unopenable(
        {"file.format": "orc", "file.compression.per.level": "0:uncompressed"},
        "'file.compression.per.level' is 'uncompressed'",
        {"file.compression.per.level": "0:none"},
        only_writes=True,
    ),
    Unopenable(
        {
            "changelog-producer": "input",
            "changelog-file.format": "avro",
            "changelog-file.compression": "none",
        },
        "'changelog-file.compression' is 'none'",
        {"changelog-file.compression": "null"},
        only_writes=True,
    ),
]
