"""The rules of the game: a shop takes orders tick by tick, and a player's moves keep its table fast.

    shop = Shop(STAGES[0], seed=7)
    shop.do("flush"); shop.tick()

The table is a simulation: which files a move merges, and why, is the engine's own decision (`ts.simulator`).
The shop adds a memory for orders, a disk with a speed, and four sums. A compaction takes the ticks that its
bytes need: until then readers meet the runs that it merges, and its inputs are stored, too. Deterministic:
no clock, no chance but the seed; the same stage, seed and moves give the same score (`played`). Policies are
players: they see the shop and name a move. Not thread-safe. Called by the widget and by tests.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any

import tablestore as ts
from widgets.game.stages import MIB, Stage

FLUSH, STEP, FULL, LOWER, RAISE, STRATEGY, DOUBLE = MOVES = (
    "flush",
    "step",
    "full",
    "lower",
    "raise",
    "strategy",
    "double",
)
LEAST_TRIGGER, MOST_TRIGGER, MOST_BUCKETS = 2, 12, 8
MOVES_A_TICK = 10
POINTS = 250  # of each budget
_TRIGGERS = ("num-sorted-run.compaction-trigger", "tablestore.compaction.leveled.level0-file-num-trigger")
_STRATEGY = "tablestore.compaction.strategy"
_SIZES = {"target-file-size": "4 mb", "tablestore.compaction.leveled.max-bytes-for-level-base": "8 mb"}


@dataclass(frozen=True, slots=True)
class Reading:
    """How the four budgets stand after a tick, and the score of what was used until then."""

    tick: int
    reads: float = 0.0
    writes: float = 1.0
    space: float = 1.0
    stalls: int = 0
    score: int = 4 * POINTS
    runs: float = 0.0


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the log: who acted in which tick, the player or the shop, and the engine's words."""

    tick: int
    who: str
    words: str


@dataclass(frozen=True, slots=True)
class GameWork:
    """A compaction that the disk of a bucket carries out: the snapshot before it, what it merges and makes,
    the ticks that it takes, the bytes that it reads and writes, and how many runs fewer there are then."""

    snapshot: int
    inputs: frozenset[str]
    outputs: frozenset[str]
    output_level: int
    ticks: float
    bytes: int
    written: int
    runs: int

    def share(self, busy: float) -> float:
        """The part that is done, by the ticks that the disk is busy still."""
        return min(max(1 - busy / self.ticks, 0.0), 1.0)


class GameShop:
    """A stage being played. `moves` are those that were carried out, with their tick."""

    def __init__(self, stage: Stage, *, seed: int) -> None:
        self.stage, self.seed = stage, seed
        self.tick_number, self.waiting = 0, 0
        self.trigger, self.strategy = 5, "universal"
        workload = stage.workload_at(1, stage.rows)
        self.table = ts.simulator(workload, self._options(), seed=seed)
        self.busy = [0.0]  # ticks that each bucket's disk is busy
        self.works: list[GameWork | None] = [None]  # what it is busy with
        self.moves: list[tuple[int, str]] = []
        self.log: list[Event] = []
        self.readings: list[Reading] = []
        self._ingested = self._written = 0
        self._asked = self._space = 0.0
        self._measured = 0
        self.stalls = 0

    # what is to be seen

    @property
    def over(self) -> bool:
        """Whether the last tick has passed."""
        return self.tick_number >= self.stage.ticks

    @property
    def last(self) -> Reading:
        """The newest reading."""
        return self.readings[-1] if self.readings else Reading(0)

    @property
    def runs(self) -> float:
        """Sorted runs that a reader meets in a bucket, on average."""
        return sum(map(self.runs_of, range(len(self.busy)))) / len(self.busy)

    def runs_of(self, bucket: int) -> int:
        """Sorted runs that a reader meets in a bucket: those of a compaction at work until it is done."""
        work = self.works[bucket]
        return int(self.table.buckets[bucket].levels.run_count) + (work.runs if work else 0)

    @property
    def asked(self) -> float:
        """Runs that a reader asks, on average: those of one bucket, or of all where it scans the table."""
        return self.runs * (1 + self.stage.scans * (len(self.busy) - 1))

    def shares(self, at: Reading | None = None) -> dict[str, float]:
        """Which part of each budget is used; above 1 it is exceeded."""
        now, most = at or self.last, self.stage.budgets
        return {
            "reads": max(now.reads - 1, 0) / (most.reads - 1),
            "writes": max(now.writes - 1, 0) / (most.writes - 1),
            "space": max(now.space - 1, 0) / (most.space - 1),
            "stalls": now.stalls / most.stalls,
        }

    @property
    def score(self) -> int:
        """POINTS for each budget that is not touched, half of them for one that is used up, down to none."""
        return self.last.score

    @property
    def won(self) -> bool:
        """Whether the stage is over and every budget was kept."""
        return self.over and all(share <= 1 for share in self.shares().values())

    def refusal(self, move: str) -> str:
        """Why a move cannot be made now; empty if it can."""
        if self.over:
            return "the stage is over"
        if move == FLUSH:
            return "" if self.waiting else "no orders wait"
        if move in (STEP, FULL):
            idle = [i for i, busy in enumerate(self.busy) if busy < 1]
            if not idle:
                return f"the disk is busy for {ceil(min(self.busy))} more ticks"
            if move == STEP:
                picks = self.table.compact(dry_run=True, bucket=idle).picks
                return "" if any(pick.decision.unit for pick in picks) else picks[0].decision.text
            return "" if self.runs else "nothing is written yet"
        if move == LOWER:
            return "" if self.trigger > LEAST_TRIGGER else f"the trigger is {LEAST_TRIGGER} already"
        if move == RAISE:
            return "" if self.trigger < MOST_TRIGGER else f"the trigger is {MOST_TRIGGER} already"
        if move == DOUBLE:
            if len(self.busy) >= MOST_BUCKETS:
                return f"there are {MOST_BUCKETS} buckets already"
            return "" if self.runs and max(self.busy) < 1 else "the disk is busy, or nothing is written yet"
        return "" if move == STRATEGY else f"{move!r} is no move; one of {', '.join(MOVES)}"

    # what a player does

    def do(self, move: str) -> str:
        """Make a move in this tick; what came of it in the engine's words. A move that cannot be made changes
        nothing, and says why."""
        if why := self.refusal(move):
            return why
        acts: dict[str, Callable[[], str]] = {
            FLUSH: lambda: self._flush(self.waiting),
            STEP: lambda: self._compact(full=False),
            FULL: lambda: self._compact(full=True),
            LOWER: lambda: self._turn(self.trigger - 1, self.strategy),
            RAISE: lambda: self._turn(self.trigger + 1, self.strategy),
            STRATEGY: lambda: self._turn(
                self.trigger, "universal" if self.strategy == "leveled" else "leveled"
            ),
            DOUBLE: self._double,
        }
        self.moves.append((self.tick_number, move))
        words = acts[move]()
        self._note("you", words)
        return words

    def _options(self) -> dict[str, str]:
        triggers = {key: str(self.trigger) for key in _TRIGGERS}
        return {**_SIZES, **triggers, _STRATEGY: self.strategy}

    def _note(self, who: str, words: str) -> None:
        self.log.append(Event(self.tick_number, who, words))

    def _flush(self, rows: int) -> str:
        """Waiting orders become a run in each bucket; a bucket with too many runs compacts before it."""
        stage, many = self.stage, len(self.busy)
        table = self.table
        table.set_workload(type(table.workload)(**stage.workload_at(self.tick_number, max(rows, many))))
        waited = self._wait_for_runs()
        for step in table.flush():
            self._written += step.bytes_written
            if step.decision is None:
                self._ingested += step.bytes_written
            else:
                took = self._took(step.bytes_read + step.bytes_written)
                self.busy[step.bucket] += took
                self.works[step.bucket] = None
                waited = max(waited, took)
                self._note("writers wait", step.decision.text)
        self.stalls += ceil(waited)
        self.waiting -= rows
        noun = "run" if self.runs == 1 else "runs"
        return f"flushed {rows:,} orders: {self.runs:.3g} {noun}" + (" a bucket" if many > 1 else "")

    def _wait_for_runs(self) -> float:
        """Ticks that writers wait for compactions at work, in buckets with more runs than may be."""
        stop, waited = self.table.rules.stop_trigger, 0.0
        for i, work in enumerate(self.works):
            if work is not None and self.runs_of(i) > stop:
                words = f"runs {self.runs_of(i)} > stop trigger {stop}: a compaction is still at work"
                self._note("writers wait", words)
                waited, self.works[i] = max(waited, self.busy[i]), None
        return waited

    def _took(self, size: int) -> float:
        """Ticks that the disk needs for so many bytes."""
        return size / self.stage.disk_at(self.tick_number)

    def _compact(self, *, full: bool) -> str:
        """One pick in each bucket whose disk is idle."""
        idle = [i for i, busy in enumerate(self.busy) if busy < 1]
        words = []
        for i in idle:
            before = self.table.buckets[i].levels
            done = self.table.compact(full=full, bucket=i)
            self._written += done.bytes_written
            self.busy[i] += self._took(done.bytes_read + done.bytes_written)
            if done.committed is not None and done.committed.snapshot:
                self._begin(i, done.committed.snapshot - 1, before, done.bytes_written)
            words += [pick.decision.text for pick in done.picks if pick.decision.unit]
        more = f" (and {len(words) - 1} more buckets)" if len(words) > 1 else ""
        return f"{words[0]}{more}" if words else "nothing to compact"

    def _begin(self, bucket: int, snapshot: int, before: Any, written: int) -> None:
        """Remember what the disk works on, if that takes a tick at least."""
        after = self.table.buckets[bucket].levels
        old, new = ({f.file_name: f for f in levels.files} for levels in (before, after))
        fresh = [file for name, file in new.items() if name not in old]
        if self.busy[bucket] < 1 or not fresh:
            return
        self.works[bucket] = GameWork(
            snapshot=snapshot,
            inputs=frozenset(old.keys() - new.keys()),
            outputs=frozenset(file.file_name for file in fresh),
            output_level=max(file.level for file in fresh),
            ticks=self.busy[bucket],
            written=written,
            runs=before.run_count - after.run_count,
            bytes=sum(file.file_size for name, file in old.items() if name not in new),
        )

    def _turn(self, trigger: int, strategy: str) -> str:
        other = strategy != self.strategy
        self.trigger, self.strategy = trigger, strategy
        self.table.set_options(self._options())
        return f"strategy {strategy}" if other else f"trigger {trigger}"

    def _double(self) -> str:
        """Rewrite the table into twice the buckets, which share its disk work from then on."""
        size = sum(bucket.compacted_bytes() for bucket in self.table.buckets)
        read = sum(bucket.account.live_bytes for bucket in self.table.buckets)
        many = 2 * len(self.busy)
        self.table = self.table.rescaled(many)
        self._written += size
        self.busy = [self._took(read + size) * 2 / many] * many
        self.works = [None] * many
        return f"{many} buckets: {size / MIB:.1f} MiB rewritten"

    # what the shop does

    def tick(self) -> Reading:
        """A tick passes: the disk works, orders come in, readers read."""
        if self.over:
            return self.last
        self.tick_number += 1
        self.busy = [max(busy - 1, 0.0) for busy in self.busy]
        self.works = [work if busy >= 1 else None for work, busy in zip(self.works, self.busy, strict=True)]
        spell = self.stage.spell(self.tick_number)
        if spell is not None and spell.start == self.tick_number:
            self._note("the shop", spell.says)
        self.waiting += self.stage.rows_at(self.tick_number)
        if self.waiting > self.stage.buffer:
            self.stalls += 1
            self._note("writers wait", "memory is full: " + self._flush(self.waiting))
        self._measure()
        return self.last

    def _in_compaction(self) -> float:
        """Bytes of compactions at work: their inputs until they are done, and what they have written."""
        return sum(
            work.bytes - work.written * (1 - work.share(busy))
            for work, busy in zip(self.works, self.busy, strict=True)
            if work is not None
        )

    def _measure(self) -> None:
        if self._ingested:
            state = self.table.inspect.amplification("table").to_pylist()[0]
            self._asked += self.asked
            self._space += state["space_amplification"] * (1 + self._in_compaction() / state["live_bytes"])
            self._measured += 1
        many = max(self._measured, 1)
        writes = self._written / self._ingested if self._ingested else 1.0
        reading = Reading(
            tick=self.tick_number,
            reads=self._asked / many,
            writes=writes,
            space=self._space / many if self._measured else 1.0,
            stalls=self.stalls,
            runs=self.runs,
        )
        points = sum(POINTS * max(1 - share / 2, 0) for share in self.shares(reading).values())
        self.readings.append(
            Reading(
                reading.tick,
                reading.reads,
                reading.writes,
                reading.space,
                reading.stalls,
                round(points),
                reading.runs,
            )
        )


Policy = Callable[[GameShop], str | None]
"""A player: it names a move, and is asked again, up to MOVES_A_TICK times a tick; None lets the tick pass."""


def played(stage: Stage, *, seed: int, moves: Iterable[tuple[int, str]]) -> GameShop:
    """The stage played to its end with recorded moves: (tick after which it was made, move)."""
    shop, rest = GameShop(stage, seed=seed), sorted(moves, key=lambda move: move[0])
    at = 0
    while not shop.over:
        while at < len(rest) and rest[at][0] <= shop.tick_number:
            shop.do(rest[at][1])
            at += 1
        shop.tick()
    return shop


def played_by(policy: Policy, stage: Stage, *, seed: int) -> GameShop:
    """The stage played to its end by a policy."""
    shop = GameShop(stage, seed=seed)
    while not shop.over:
        for _ in range(MOVES_A_TICK):
            move = policy(shop)
            if move is None or shop.refusal(move):
                break
            shop.do(move)
        shop.tick()
    return shop


def nothing(_shop: GameShop) -> str | None:
    """A player who sleeps."""
    return None


def universal(shop: GameShop) -> str | None:
    """The ghost that flushes at half of the memory and compacts by Paimon's defaults."""
    if shop.waiting >= shop.stage.buffer // 2:
        return FLUSH
    return STEP if not shop.refusal(STEP) else None


def leveled(shop: GameShop) -> str | None:
    """The ghost that does the same by leveled rules."""
    return STRATEGY if shop.strategy != "leveled" else universal(shop)


GHOSTS: dict[str, Policy] = {"universal": universal, "leveled": leveled}
