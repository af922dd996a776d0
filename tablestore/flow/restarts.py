"""When a stream that has failed is started again: after which waits, and how often.

The strategies and their settings are Flink's `restart-strategy.*`. Flink's own default has no end, this one
has.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.flow.job_errors import is_transient


@dataclass(frozen=True, slots=True)
class RestartStrategy:
    """At most `attempts` restarts in turn. The first comes after `first_seconds`, each later one after
    `multiplier` times as long, `longest_seconds` at most. The default gives up after a quarter of an hour."""

    attempts: int = 20
    first_seconds: float = 1.0
    longest_seconds: float = 60.0
    multiplier: float = 2.0

    def wait_before(self, attempt: int) -> float | None:
        """Seconds before an attempt, the first is 1; None after the last."""
        if attempt > self.attempts:
            return None
        if self.multiplier == 1 or self.first_seconds == 0:
            return self.first_seconds
        wait = self.first_seconds
        for _ in range(attempt - 1):
            if wait >= self.longest_seconds:
                break
            wait *= self.multiplier
        return min(wait, self.longest_seconds)


NO_RESTART = RestartStrategy(attempts=0)


_WELL_SECONDS = 3_600.0  # as Flink's reset-backoff-threshold


class Restarts:
    """The restarts of one stream. A batch that was carried out since the last failure starts the count
    anew, as does an hour without a failure: a source may have nothing new."""

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy
        self._attempt, self._batches = 0, 0

    def wait_after(self, error: BaseException, batches: int, ran_seconds: float = 0.0) -> float | None:
        """Seconds to the next start after an error, with `batches` carried out in all, `ran_seconds` after
        the last start; None where none comes: the same batch would fail again, or it has been tried often
        enough."""
        if batches > self._batches or ran_seconds >= _WELL_SECONDS:
            self._attempt, self._batches = 0, batches
        if not is_transient(error):
            return None
        self._attempt += 1
        return self._strategy.wait_before(self._attempt)
