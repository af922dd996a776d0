"""What stays in the log, and for how long: what is hot is there, what is cold in the lake alone.

Retention of a Fluss log (`table.log.ttl`, 7 days) goes on whether or not the lake has the rows, so a table
that fails for that long loses them; so does that of a topic of Kafka, which our coordinator gives as the same
option. The warning comes at half of it. Embedded logs keep what is not in files.

| | log | lake |
|---|---|---|
| hot: since the last round | yes | no: union reads add it |
| warm: younger than the log's retention | yes | yes |
| cold | no | yes, until its snapshots or partitions expire |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tablestore.core.errors import InvalidOption
from tablestore.core.options.names import UUID
from tablestore.core.options.values import duration_ms
from tablestore.core.quantities import duration
from tablestore.fluss.tables import TTL, kept_ms

Seconds = float
FRESHNESS = "table.datalake.freshness"
_FRESHNESS = "3min"


@dataclass(frozen=True, slots=True)
class LogPolicy:
    """How long a log keeps its rows, in milliseconds; None: until the lake has them."""

    kept_ms: int | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LogPolicy:
        """That of a table of the cluster with these options."""
        own = UUID in options and TTL not in options  # a table of a lake with an embedded log
        return cls(None if own else kept_ms(options))

    def warning(self, *, lag_rows: int, tiered_at: Seconds | None, now: Seconds) -> str:
        """What a person must know about rows that the lake lacks; empty where nothing is at risk.
        `tiered_at`: when the lake last had all, None if it is not known.

        >>> LogPolicy(60_000).warning(lag_rows=5, tiered_at=0.0, now=45.0)
        'the log keeps rows for 1:00, and the lake has lacked some for 45.0 s: older ones will be lost'
        """
        if self.kept_ms is None or not lag_rows or tiered_at is None:
            return ""
        behind = int((now - tiered_at) * 1000)
        if behind <= self.kept_ms // 2:
            return ""
        text = f"the log keeps rows for {duration(self.kept_ms)}, and the lake has lacked some for "
        if behind <= self.kept_ms:
            return f"{text}{duration(behind)}: older ones will be lost"
        return f"{text}{duration(behind)}: ROWS MAY BE LOST"


def freshness_seconds(options: Mapping[str, str]) -> Seconds:
    """How late the lake may be, by the options of a table of the cluster. Raises InvalidOption.

    >>> freshness_seconds({"table.datalake.freshness": "2 min"})
    120.0
    """
    given = options.get(FRESHNESS, _FRESHNESS)
    try:
        return duration_ms(given) / 1000
    except ValueError:
        raise InvalidOption(f"table option {FRESHNESS} = {given!r:.60}: write a duration, '3 min'") from None
