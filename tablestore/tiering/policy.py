"""What stays in the log, and for how long: what is hot is there, what is cold in the lake alone.

Retention of a Fluss log (`table.log.ttl`, 7 days) goes on whether or not the lake has the rows, so a table
that fails for that long loses them. The warning comes at half of it. Logs of our own tables keep what is not
in files.

| | log | lake |
|---|---|---|
| hot: since the last round | yes | no: union reads add it |
| warm: younger than the log's retention | yes | yes |
| cold | no | yes, until its snapshots or partitions expire |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tablestore.core.options.names import UUID
from tablestore.core.options.values import duration_ms
from tablestore.core.quantities import duration

TTL = "table.log.ttl"
_TTL, _NEVER = "7d", 0
Seconds = float


@dataclass(frozen=True, slots=True)
class LogPolicy:
    """How long a log keeps its rows, in milliseconds; None: until the lake has them."""

    kept_ms: int | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LogPolicy:
        """That of a table of the cluster with these options."""
        if UUID in options:
            return cls(None)
        try:
            kept = duration_ms(options.get(TTL, _TTL))
        except ValueError:  # such as -1
            return cls(None)
        return cls(kept if kept > _NEVER else None)

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
