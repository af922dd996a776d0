"""What an ingest has done so far, as a frozen value; how rate, time left, chunk map and log follow from it.

Invariants: `IngestState` is only replaced, never changed; the clock is an argument; a chunk moves forward
(waiting → reading → read → committed) unless it is retried; places in the log are bytes from its start. Pure.
Called by the figures and by the widget.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from widgets.kit import format as fmt

CHUNK_STATES = ("waiting", "reading", "read", "committed")
HISTORY = 120
"""Samples of the speed that are kept: a minute of them."""
MARKS = 12
TICKS = 200


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """What the source says about a chunk before it is read."""

    rows: int | None = None
    lo: object = None
    hi: object = None


@dataclass(frozen=True, slots=True)
class LogMark:
    """A stretch of the log: what a chunk was read between, or what a batch takes. `high` None: still open."""

    name: str
    low: int
    high: int | None = None
    note: str = ""
    committed: bool = False


@dataclass(frozen=True, slots=True)
class IngestState:
    """One moment of an ingest."""

    title: str
    state: str = "ready"
    """ready, running, paused, stopping, stopped, done, failed"""
    waits: bool = False
    """Whether a paused job has come to its next `proceed()` and waits there."""
    phase: str = ""
    rows: int = 0
    committed: int | None = None
    """Rows that are in a snapshot, if the caller reports them."""
    total: int | None = None
    commits: int = 0
    commit: int | None = None
    commit_at: float | None = None
    ticks: tuple[int, ...] = ()
    """Committed rows after each commit."""
    lag_s: float | None = None
    elapsed: float = 0.0
    speeds: tuple[float, ...] = ()
    stalls: tuple[int, ...] = ()
    """How many samples had been taken at each pause."""
    samples: int = 0
    chunks: Mapping[int, str] = field(default_factory=dict)
    fills: Mapping[int, float] = field(default_factory=dict)
    retried: Mapping[int, int] = field(default_factory=dict)
    chunk_count: int = 0
    facts: tuple[ChunkRange, ...] = ()
    key: str = ""
    marks: tuple[LogMark, ...] = ()
    log_head: int | None = None
    log_done: int | None = None
    log_name: str = ""
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
    def live(self) -> bool:
        """Whether the job is under way."""
        return self.state in ("running", "paused", "stopping")

    @property
    def awaited(self) -> str:
        """What happens before the first row, with the time it has taken; empty once there is one."""
        if not self.live or self.rows:
            return ""
        return f"{self.phase or 'the job starts'} · no row yet · {fmt.duration(self.elapsed)}"

    @property
    def left_s(self) -> float | None:
        """Seconds to go at the present speed, if both are known."""
        speed = self.speed or self.mean_speed
        if self.total is None or not speed or self.state in ("done", "stopped", "failed"):
            return None
        return max(self.total - self.rows, 0) / speed

    @property
    def lag_bytes(self) -> int | None:
        """Bytes of the log that are not in the table yet, if the caller reports it."""
        if self.log_head is None or self.log_done is None:
            return None
        return max(self.log_head - self.log_done, 0)

    @property
    def counts(self) -> Counter[str]:
        """Chunks by state; those never mentioned are waiting."""
        counts = Counter(self.chunks.values())
        counts["waiting"] += self.places - len(self.chunks)
        return counts

    @property
    def places(self) -> int:
        """How many chunks there are to draw."""
        return max(self.chunk_count, len(self.facts), max(self.chunks, default=-1) + 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows at a moment, for the speed between two of them."""

    at: float = 0.0
    rows: int = 0


def with_chunk(progress: IngestState, number: int, state: str, filled: float = 0.5) -> IngestState:
    """`progress` after chunk `number` entered `state`; going back counts as a retry.

    `filled` is the share read of a chunk that is being read.
    """
    if state not in CHUNK_STATES:
        raise ValueError(f"chunk state {state!r}; have {', '.join(CHUNK_STATES)}")
    if number < 0:
        raise ValueError(f"chunk {number}; chunks count from 0")
    before = progress.chunks.get(number, "waiting")
    retried, fills = progress.retried, progress.fills
    if CHUNK_STATES.index(state) < CHUNK_STATES.index(before):
        retried = {**retried, number: retried.get(number, 1) + 1}
    if state == "reading" or number in fills:
        fills = {**fills, number: min(max(filled, 0.0), 1.0)}
        if state != "reading":
            del fills[number]
    return replace(progress, chunks={**progress.chunks, number: state}, retried=retried, fills=fills)


def with_commit(progress: IngestState, commit: int, *, at: float) -> IngestState:
    """`progress` after snapshot `commit` was made, `at` seconds after the start."""
    ticks = progress.ticks
    if progress.committed is not None and (not ticks or progress.committed > ticks[-1]):
        ticks = (*ticks, progress.committed)[-TICKS:]
    return replace(progress, commit=commit, commits=progress.commits + 1, commit_at=at, ticks=ticks)


def with_mark(progress: IngestState, mark: LogMark) -> IngestState:
    """`progress` with `mark` in place of the one of its name, or after the others; old committed ones go."""
    names = [mark_there.name for mark_there in progress.marks]
    if mark.name in names:
        at = names.index(mark.name)
        return replace(progress, marks=(*progress.marks[:at], mark, *progress.marks[at + 1 :]))
    marks = [*progress.marks, mark]
    while len(marks) > MARKS and any(mark_there.committed for mark_there in marks[:-1]):
        marks.remove(next(mark_there for mark_there in marks if mark_there.committed))
    return replace(progress, marks=tuple(marks[:MARKS]))


def sampled(progress: IngestState, last: Sample, now: float) -> tuple[IngestState, Sample]:
    """`progress` with one more speed sample if half a second has passed since the last one."""
    span = now - last.at
    if span < 0.5:
        return progress, last
    speed = max(progress.rows - last.rows, 0) / span
    speeds = (*progress.speeds, speed)[-HISTORY:]
    return replace(progress, speeds=speeds, samples=progress.samples + 1), Sample(now, progress.rows)


def chunk_words(progress: IngestState, number: int) -> list[tuple[str, str]]:
    """What is known about a chunk, as names and values of its card."""
    facts = progress.facts[number] if number < len(progress.facts) else ChunkRange()
    words = [(f"chunk {number}", STATE_WORDS[progress.chunks.get(number, "waiting")])]
    if facts.lo is not None:
        words.append((progress.key or "keys", fmt.key_range(str(facts.lo), str(facts.hi))))
    if facts.rows is not None:
        words.append(("rows", fmt.count(facts.rows)))
    if times := progress.retried.get(number):
        words.append(("read", f"{times} times"))
    return words


STATE_WORDS = {
    "waiting": "waiting",
    "reading": "reading",
    "read": "read, awaiting commit",
    "committed": "committed",
}


def text_form(progress: IngestState) -> str:
    """The state in a terminal: one bar and the figures, then the chunks by state."""
    total = progress.total or 0
    filled = min(round(24 * progress.rows / total), 24) if total else 0
    bar = "█" * filled + "░" * (24 - filled) if total else "·" * 24
    parts = [bar, fmt.percent(min(progress.rows, total), total) if total else ""]
    of = f" / {total:,}" if total and progress.rows <= total else ""
    parts.append(f"{progress.rows:,}{of} rows")
    if (speed := progress.mean_speed) is not None:
        parts.append(f"{fmt.short_count(speed)} rows/s")
    if (left := progress.left_s) is not None:
        parts.append(f"{fmt.duration(left)} left")
    if progress.commits:
        parts.append(fmt.plural(progress.commits, "commit"))
    rows = ["  ".join(part for part in (progress.title, progress.phase, progress.state) if part)]
    rows.append("  ".join(part for part in parts if part))
    if progress.awaited:
        rows.append(progress.awaited)
    if progress.places:
        counts = progress.counts
        texts = [
            f"{STATE_WORDS[state]} {counts[state]:,}" for state in reversed(CHUNK_STATES) if counts[state]
        ]
        rows.append(f"{fmt.plural(progress.places, 'chunk')}: {' · '.join(texts)}")
    if (lag := progress.lag_bytes) is not None:
        rows.append(f"log: head at {fmt.bytes_text(progress.log_head)}, {fmt.bytes_text(lag)} not committed")
    if progress.error:
        rows.append(f"error: {progress.error}")
    return "\n".join(rows)
