"""How much of what a log keeps is over for who reads it: beyond that, rows go before they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tablestore.core.quantities import duration, size

SECONDS: Literal["seconds"] = "seconds"
BYTES: Literal["bytes"] = "bytes"
_OF = {SECONDS: "time is over for which", BYTES: "size is over up to which"}


@dataclass(frozen=True, slots=True)
class LogRetention:
    """Of the log that is called `log`: `used` of `limit`, in seconds since what is read next may be removed,
    or in bytes that are kept for the reader. `limit` None: it is kept until it is read."""

    log: str
    unit: Literal["seconds", "bytes"]
    used: float
    limit: float | None = None

    @property
    def left(self) -> float | None:
        """What is left of the limit; None without one."""
        return None if self.limit is None else max(self.limit - self.used, 0.0)

    def ill(self, what: str = "what is not read") -> list[str]:
        """What is ill about it, where `what` is kept for the reader; empty where less than half is over.

        >>> LogRetention("slot s", BYTES, 3 << 20, 4 << 20).ill()
        ['half of the size is over up to which slot s keeps what is not read: 3.00 MiB of 4.00 MiB']
        """
        if self.limit is None or not self.used or self.used < self.limit / 2:
            return []
        used, limit = (
            size(round(n)) if self.unit == BYTES else duration(round(1000 * n))
            for n in (self.used, self.limit)
        )
        return [f"half of the {_OF[self.unit]} {self.log} keeps {what}: {used} of {limit}"]
