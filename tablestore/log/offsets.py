"""Offsets of a log: bucket → offset of the next row. What a snapshot says of the log in its properties.

The rows below the offsets of a snapshot are in its files, those from there on are in the log only. A bucket
that is not named stands at the start of its log. Offsets grow, but need not be dense.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from tablestore.core.errors import Corrupt, NotFound
from tablestore.format.snapshot import Snapshot

Offsets = Mapping[int, int]

PARTITION_STEP = 2**20
"""Where each partition of a table has a log of its own, as in Fluss: how much the number of a bucket here
grows from one partition id to the next."""

PROPERTY = "tablestore.log-offsets"
"""The property of a snapshot that holds its offsets, as JSON {"bucket": offset}."""


def number(partition_id: int | None, bucket: int) -> int:
    """The number under which a log has a bucket of a partition; None: the partitions share the bucket.

    >>> number(None, 3), number(2, 3)
    (3, 2097155)
    """
    return bucket if partition_id is None else partition_id * PARTITION_STEP + bucket


def bucket_of(number: int) -> int:
    """The bucket of the table whose rows a log has under a number."""
    return number % PARTITION_STEP


def text(offsets: Offsets) -> str:
    """The offsets as a property holds them.

    >>> text({1: 5, 0: 20})
    '{"0": 20, "1": 5}'
    """
    return json.dumps({str(bucket): offsets[bucket] for bucket in sorted(offsets)})


def parse(value: str, path: str) -> dict[int, int]:
    """The offsets of a text; raises Corrupt, with the `path` of the file that holds it, for anything else."""
    try:
        return {int(bucket): _offset(offset) for bucket, offset in json.loads(value).items()}
    except (ValueError, AttributeError, TypeError):
        raise Corrupt(path, f"{PROPERTY} {value!r} is no JSON object of offsets") from None


def _offset(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def of_snapshot(snapshot: Snapshot, path: str = "") -> dict[int, int] | None:
    """The offsets that a snapshot names, None if it names none."""
    value = (snapshot.properties or {}).get(PROPERTY)
    return None if value is None else parse(value, path or f"snapshot-{snapshot.id}")


def known(latest: Snapshot | None, get: Callable[[int], Snapshot]) -> dict[int, int]:
    """The offsets that hold at a snapshot: its own, or where it names none (another engine made it) those of
    the newest older one that does. `get` gives the snapshot of an id or raises NotFound.

    Empty, the start of the log, for a table without snapshots and where no snapshot since the first names
    any. Raises NotFound if that is not known, since older snapshots have expired.
    """
    if latest is None:
        return {}
    at = latest
    while (named := of_snapshot(at)) is None:
        if at.id <= 1:
            return {}
        try:
            at = get(at.id - 1)
        except NotFound:
            text = f"snapshot {latest.id} names no offsets of the log, nor does any before it that is left"
            raise NotFound(f"{text}: make a new table with a log, and insert these rows") from None
    return named


def advanced(offsets: Offsets, to: Offsets) -> dict[int, int]:
    """`offsets` with those of the buckets of `to`."""
    return {**offsets, **to}


def reaches(offsets: Offsets, others: Offsets) -> bool:
    """Whether `offsets` are at or behind `others` in every bucket: nothing of `others` is missing."""
    return all(offsets.get(bucket, 0) >= offset for bucket, offset in others.items())
