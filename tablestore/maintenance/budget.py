"""The bytes of an hour, spent and left. Pure but for what it remembers; not thread-safe."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

HOUR_MS = 3_600_000


class ByteBudget:
    """At most `hour_bytes` in any hour (None: no limit). What is larger than that alone is let through when
    nothing else was spent within the hour, so that it is not put off for ever."""

    def __init__(self, hour_bytes: int | None, spent: Iterable[tuple[int, int]] = ()) -> None:
        self.hour_bytes = hour_bytes
        self._spent = deque(spent)  # (milliseconds after 1970, bytes), in order of time

    def spend(self, now_ms: int, size: int) -> None:
        """Note that so many bytes were spent."""
        self._spent.append((now_ms, size))

    def spent(self, now_ms: int) -> int:
        """Bytes of the hour before."""
        while self._spent and self._spent[0][0] <= now_ms - HOUR_MS:
            self._spent.popleft()
        return sum(size for _, size in self._spent)

    def allows(self, now_ms: int, size: int) -> bool:
        """Whether so many may be spent now."""
        if self.hour_bytes is None:
            return True
        spent = self.spent(now_ms)
        return spent == 0 or spent + size <= self.hour_bytes

    def wait_ms(self, now_ms: int, size: int) -> int:
        """How long until so many may be spent; 0 for now."""
        if self.allows(now_ms, size):
            return 0
        assert self.hour_bytes is not None
        left = self.spent(now_ms)
        for at, some in self._spent:
            left -= some
            if left == 0 or left + size <= self.hour_bytes:
                return at + HOUR_MS - now_ms
        return 0
