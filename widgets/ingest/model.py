"""What an ingest has done so far, as a frozen value; how its rate, time left and chunk map follow from it.

Invariants: `Progress` is only replaced, never changed; the clock is an argument; a chunk moves forward
(waiting → reading → read → committed) unless it is retried. Pure. Called by the figure and by the widget.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from widgets import _format as fmt

CHUNK_STATES = ("waiting", "reading", "read", "committed")
HISTORY = 90


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of an ingest."""

    title: str
    state: str = "ready"
    """ready, running, paused, stopping, stopped, done, failed"""
    phase: str = ""
    rows: int = 0
    committed: int | None = None
    """Rows that are in a snapshot, if the caller tells."""
    total: int | None = None
    commits: int = 0
    commit: int | None = None
    lag_s: float | None = None
    elapsed: float = 0.0
    speeds: tuple[float, ...] = ()
    chunks: Mapping[int, str] = field(default_factory=dict)
    retried: Mapping[int, int] = field(default_factory=dict)
    chunk_count: int = 0
    error: str = ""
    next_step: str = ""

    @property
    def speed(self) -> float | None:
        """Rows a second over the last few samples."""
        recent = self.speeds[-5:]
        return sum(recent) / len(recent) if recent else None

    @property
    def mean_speed(self) -> float | None:
        """Rows a second since the start."""
        return self.rows / self.elapsed if self.elapsed > 0 and self.rows else None

    @property
    def left_s(self) -> float | None:
        """Seconds to go at the present speed, if both are known."""
        speed = self.speed or self.mean_speed
        if self.total is None or not speed or self.state in ("done", "stopped", "failed"):
            return None
        return max(self.total - self.rows, 0) / speed

    @property
    def counts(self) -> Counter[str]:
        """Chunks by state; those never mentioned are waiting."""
        counts = Counter(self.chunks.values())
        counts["waiting"] += self.places - len(self.chunks)
        return counts

    @property
    def places(self) -> int:
        """How many chunks there are to draw."""
        return max(self.chunk_count, max(self.chunks, default=-1) + 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows at a moment, for the speed between two of them."""

    at: float = 0.0
    rows: int = 0


def with_chunk(progress: Progress, number: int, state: str) -> Progress:
    """`progress` after chunk `number` entered `state`; going back counts as a retry."""
    if state not in CHUNK_STATES:
        raise ValueError(f"chunk state {state!r}; have {', '.join(CHUNK_STATES)}")
    if number < 0:
        raise ValueError(f"chunk {number}; chunks count from 0")
    before = progress.chunks.get(number, "waiting")
    retried = progress.retried
    if CHUNK_STATES.index(state) < CHUNK_STATES.index(before):
        retried = {**retried, number: retried.get(number, 1) + 1}
    return replace(progress, chunks={**progress.chunks, number: state}, retried=retried)


def sampled(progress: Progress, last: Sample, now: float) -> tuple[Progress, Sample]:
    """`progress` with one more speed sample if half a second has passed since the last one."""
    span = now - last.at
    if span < 0.5:
        return progress, last
    speed = max(progress.rows - last.rows, 0) / span
    return replace(progress, speeds=(*progress.speeds, speed)[-HISTORY:]), Sample(now, progress.rows)


def text_form(progress: Progress) -> str:
    """The state in a terminal: one bar and the figures."""
    share = progress.rows / progress.total if progress.total else 0.0
    filled = min(round(share * 24), 24)
    bar = "█" * filled + "░" * (24 - filled) if progress.total else "·" * 24
    parts = [bar, fmt.percent(progress.rows, progress.total) if progress.total else ""]
    parts.append(f"{progress.rows:,}" + (f" / {progress.total:,}" if progress.total else "") + " rows")
    if (speed := progress.mean_speed) is not None:
        parts.append(f"{fmt.short_count(speed)} rows/s")
    if (left := progress.left_s) is not None:
        parts.append(f"{fmt.duration(left)} left")
    if progress.commits:
        parts.append(fmt.plural(progress.commits, "commit"))
    head = "  ".join(part for part in (progress.title, progress.phase, progress.state) if part)
    tail = f"\nerror: {progress.error}" if progress.error else ""
    return f"{head}\n{'  '.join(part for part in parts if part)}{tail}"
