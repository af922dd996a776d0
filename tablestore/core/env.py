"""Env: the clock, uuids and random numbers of the engine.

Nothing else in `tablestore` asks the clock, makes a uuid or draws a random number, so a test can pass an
`Env` of its own and replay a run exactly. Safe to share: immutable apart from the random source, which has
its own lock.
"""

from __future__ import annotations

import os
import random
import socket
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True)
class Env:
    """Clock, uuids and random numbers of one process."""

    rng: random.Random = field(default_factory=random.SystemRandom)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process gets: the clock, not the random numbers, since no two processes may
        draw the same names."""
        return {name: value for name, value in self.__dict__.items() if name != "rng"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, rng=random.SystemRandom())

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def local_now_ms(self) -> int:
        """The local wall clock read as if it were UTC (the form of `_CREATION_TIME`), in milliseconds."""
        return self.local_ms(self.now_ms())

    def local_ms(self, instant_ms: int) -> int:
        """What the local wall clock showed at an instant, by the offset that was in force then."""
        seconds, millis = divmod(instant_ms, 1000)
        offset = datetime.fromtimestamp(seconds, tz=UTC).astimezone().utcoffset()
        return (seconds + int(offset.total_seconds() if offset else 0)) * 1000 + millis

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back, for durations."""
        return time.monotonic()

    def uuid(self) -> str:
        """A fresh random name."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def process(self) -> int:
        """A number of this process, another one in each child."""
        return os.getpid()

    def host(self) -> str:
        """The name of this machine."""
        return socket.gethostname()

    def sleep(self, seconds: float) -> None:
        """Wait; a test's environment moves its clock instead."""
        time.sleep(seconds)

    def jitter(self) -> float:
        """A number in [0, 1) for spreading retries."""
        return self.rng.random()


SYSTEM = Env()
