"""Which rows a topic no longer has that are asked for, and how errors name them. Pure.

Where messages were, nobody can say: of the offsets that are gone some may have been ends of transactions, or
messages of aborted ones. So the rows are counted as at most so many.
"""

from __future__ import annotations

from collections.abc import Mapping

from tablestore.core.errors import Corrupt
from tablestore.log.offsets import Offsets


def between(at: Offsets, start: Offsets) -> dict[int, range]:
    """The offsets from `at` up to the first that is there, of each bucket that has such."""
    return {b: range(at[b], first) for b, first in start.items() if b in at and at[b] < first}


def text(topic: str, lost: Mapping[int, range]) -> str:
    """What is gone: topic, partitions, offsets, how many rows at most."""
    parts = [
        f"partition {bucket}: offsets {gone.start} to {gone.stop - 1} (at most {len(gone):,} rows)"
        for bucket, gone in sorted(lost.items())
    ]
    return f"topic {topic!r}, {', '.join(parts)}: gone, retention was faster than who needs them"


def require_end(topic: str, at: Offsets, written: Offsets) -> None:
    """Raise Corrupt where the topic ends before the offsets up to which files have its rows."""
    for bucket, offset in sorted(at.items()):
        if written.get(bucket, 0) < offset:
            raise Corrupt(
                f"topic {topic!r}, partition {bucket}",
                f"it ends at offset {written.get(bucket, 0)}, and files of the table have its rows up to "
                f"{offset}: the topic was made again, or its brokers lost messages; what is written there "
                "would not be seen: table.log.repair() goes on behind",
            )
