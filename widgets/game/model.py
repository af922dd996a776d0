"""What a picture of the game shows at one tick: the trees, four budgets, memory and disk, scores, the log.

Invariants: values only, taken from a shop between two ticks, so a picture never changes afterwards; the tree
and the next compaction are the simulation's own. Until a compaction is done its inputs are shown, with a
frontier as far as the disk has come, as readers meet them; files that were flushed meanwhile lie above.
Pure. Called by figure and widget.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from widgets.game.rules import GHOSTS, MOVES, Event, GameShop, GameWork, Reading, played_by
from widgets.game.stages import MIB, STAGES, Stage
from widgets.kit import format as fmt
from widgets.levels.model import CompactionPlan, LsmModel, Running, lsm_model

SLOTS = 8
"""Rows of level 0 that a picture has at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One bucket: its levels with the plan, whether a step would do anything, and that in words."""

    levels: LsmModel
    due: bool
    words: str

    @property
    def running(self) -> Running | None:
        """The compaction at work."""
        return self.levels.plan.running


def trees_of(shop: GameShop) -> tuple[Tree, ...]:
    """Every bucket as it stands, with as many rows of level 0 as the fullest needs."""
    picks = shop.table.compact(dry_run=True).picks
    files = [_files(shop, pick.bucket) for pick in picks]
    level0 = (pc.count_distinct(some.filter(pc.equal(some["level"], 0))["run"]).as_py() for some in files)
    slots = max(SLOTS, *level0)
    pairs = zip(picks, files, strict=True)
    return tuple(_tree(shop, pick.bucket, pick.decision, some, slots) for pick, some in pairs)


def _files(shop: GameShop, bucket: int) -> pa.Table:
    """The files that readers of a bucket meet."""
    inspect, work = shop.table.inspect, shop.works[bucket]
    now = inspect.levels(bucket=bucket)
    return now if work is None else _meanwhile(inspect.levels(work.snapshot, bucket=bucket), now, work)


def _tree(shop: GameShop, bucket: int, decision: Any, files: pa.Table, slots: int) -> Tree:
    work = shop.works[bucket]
    unit = decision.unit
    if work is None:
        inputs = frozenset(f.file_name for f in unit.files) if unit else frozenset()
        plan = CompactionPlan(inputs, unit.output_level if unit else None)
        words = decision.text
    else:
        share = work.share(shop.busy[bucket])
        running = Running(share, int(share * work.written), work.written)
        plan = CompactionPlan(work.inputs, work.output_level, running)
        words = (
            f"compaction into L{work.output_level}: {fmt.percent(share, 1)} of {fmt.bytes_text(work.bytes)}"
        )
    drawn = lsm_model(
        files,
        num_levels=6,
        bucket=bucket,
        l0_slots=slots,
        stop_trigger=shop.table.rules.stop_trigger,
        plan=plan,
    )
    return Tree(drawn, bool(unit) or work is not None, words)


def _meanwhile(before: pa.Table, now: pa.Table, work: GameWork) -> pa.Table:
    """The files of a bucket while a compaction is at work: of now, but its inputs for its outputs."""
    outputs, inputs = (pa.array(sorted(names), pa.string()) for names in (work.outputs, work.inputs))
    kept = now.filter(pc.invert(pc.is_in(now["file_name"], value_set=outputs)))
    files = pa.concat_tables([kept, before.filter(pc.is_in(before["file_name"], value_set=inputs))])
    files = files.sort_by(
        [("level", "ascending"), ("max_sequence", "descending"), ("min_key_pos", "ascending")]
    )
    runs: list[int] = []
    last: tuple[int, int] | None = None
    for level, newest in zip(files["level"].to_pylist(), files["max_sequence"].to_pylist(), strict=True):
        run = (level, newest if not level else 0)
        runs.append((runs[-1] if runs else -1) + (run != last))
        last = run
    return files.set_column(files.column_names.index("run"), "run", pa.array(runs, pa.int32()))


LOG_LINES = 6
BUDGETS = {"reads": "runs, mean", "writes": "written / in", "space": "stored / live, mean", "stalls": "ticks"}
_kept: dict[tuple[int, int], dict[str, tuple[Reading, ...]]] = {}


@dataclass(frozen=True, slots=True)
class Meter:
    """One budget: what is used of it, in words and as a share."""

    name: str
    used: str
    of: str
    share: float

    @property
    def text(self) -> str:
        """`reads 2.40 of 3.60`."""
        return f"{self.name} {self.used} of {self.of}"


@dataclass(frozen=True, slots=True)
class Player:
    """A line of the score board: the readings until now, and whether each budget is kept so far."""

    name: str
    readings: tuple[Reading, ...]
    shares: Mapping[str, float]

    @property
    def score(self) -> int:
        """The score by what was used until now."""
        return self.readings[-1].score if self.readings else Reading(0).score

    @property
    def over(self) -> tuple[str, ...]:
        """The budgets that are exceeded."""
        return tuple(name for name, share in self.shares.items() if share > 1)


@dataclass(frozen=True, slots=True, eq=False)
class GameModel:
    """The game at one tick."""

    stage: Stage
    tick: int
    over: bool
    meters: tuple[Meter, ...]
    players: tuple[Player, ...]  # the player first
    trees: tuple[Tree, ...]  # of each bucket
    waiting: int
    busy: float  # ticks, of the disk that is busy longest
    disk: float  # MiB a tick
    trigger: int
    strategy: str
    refusals: Mapping[str, str]
    log: tuple[Event, ...]

    @property
    def runs(self) -> tuple[int, ...]:
        """Sorted runs of each bucket."""
        return tuple(tree.levels.runs for tree in self.trees)

    @property
    def next_words(self) -> str:
        """What is at work, else what the next step does, in the first bucket that has any of it."""
        shown = next((tree for tree in self.trees if tree.running), None)
        shown = shown or next((tree for tree in self.trees if tree.due), self.trees[0])
        where = f"bucket {shown.levels.bucket}: " if len(self.trees) > 1 else ""
        state = "at work: " if shown.running else "next step: " if shown.due else ""
        return f"{state}{where}{shown.words}"

    @property
    def you(self) -> Player:
        """The player."""
        return self.players[0]

    @property
    def won(self) -> bool:
        """Whether the stage is over and every budget was kept."""
        return self.over and not self.you.over

    @property
    def verdict(self) -> str:
        """How it stands, in a sentence."""
        if not self.over:
            exceeded = self.you.over
            kept = f"over budget: {', '.join(exceeded)}" if exceeded else "every budget is kept"
            return f"Tick {self.tick} of {self.stage.ticks}: {kept}."
        beaten = [ghost.name for ghost in self.players[1:] if self.you.score > ghost.score]
        ahead = f", ahead of {' and '.join(beaten)}" if beaten else ", behind both ghosts"
        if self.won:
            further = f" Stage {self.stage.number + 1} is next." if self.stage.number < len(STAGES) else ""
            return f"Won: every budget was kept. {self.you.score} points{ahead}.{further}"
        return f"Lost: over budget in {', '.join(self.you.over)}. {self.you.score} points{ahead}."


def ghosts(stage: Stage, *, seed: int) -> dict[str, tuple[Reading, ...]]:
    """The readings of both ghosts on the same stage and seed, tick by tick; played once."""
    key = (stage.number, seed)
    if key not in _kept:
        while len(_kept) >= 4 * len(STAGES):
            _kept.pop(next(iter(_kept)))
        _kept[key] = {
            name: tuple(played_by(policy, stage, seed=seed).readings) for name, policy in GHOSTS.items()
        }
    return _kept[key]


def game_model(shop: GameShop) -> GameModel:
    """The game as it stands."""
    tick, stage = shop.tick_number, shop.stage
    others = ghosts(stage, seed=shop.seed)
    shares = shop.shares()
    players = [Player("you", tuple(shop.readings), shares)]
    for name, readings in others.items():
        past = readings[:tick]
        players.append(Player(name, past, shop.shares(past[-1] if past else Reading(0))))
    return GameModel(
        stage=stage,
        tick=tick,
        over=shop.over,
        meters=meters(shop.last, shares, stage),
        players=tuple(players),
        trees=trees_of(shop),
        waiting=shop.waiting,
        busy=max(shop.busy),
        disk=stage.disk_at(tick) / MIB,
        trigger=shop.trigger,
        strategy=shop.strategy,
        refusals={move: shop.refusal(move) for move in MOVES},
        log=tuple(shop.log[-LOG_LINES:]),
    )


def meters(at: Reading, shares: Mapping[str, float], stage: Stage) -> tuple[Meter, ...]:
    """The four budgets after a tick."""
    most = stage.budgets
    return (
        Meter("reads", f"{at.reads:.2f}", f"{most.reads:.2f}", shares["reads"]),
        Meter("writes", f"{at.writes:.2f}", f"{most.writes:.2f}", shares["writes"]),
        Meter("space", f"{at.space:.2f}", f"{most.space:.2f}", shares["space"]),
        Meter("stalls", str(at.stalls), str(most.stalls), shares["stalls"]),
    )


def text_form(model: GameModel) -> str:
    """The game in a terminal."""
    stage = model.stage
    lines = [
        f"Keep the shop fast  stage {stage.number}: {stage.name}  tick {model.tick} of {stage.ticks}",
        stage.says,
        "  ".join(f"{'✕' if meter.share > 1 else '✓'} {meter.text}" for meter in model.meters),
        f"{model.waiting:,} of {stage.buffer:,} orders wait; disk busy for {model.busy:.1f} ticks",
        model.next_words,
    ]
    lines += [f"{player.name:10} {player.score:4} points" for player in model.players]
    lines += [f"  {event.tick:3} {event.who}: {event.words}" for event in model.log]
    return "\n".join([*lines, model.verdict])


def spoken(model: GameModel) -> str:
    """What a screen reader hears after a move or a tick that matters."""
    runs = fmt.plural(model.runs[0], "run")
    exceeded = f"; over budget: {', '.join(model.you.over)}" if model.you.over else ""
    return f"tick {model.tick}: {model.waiting:,} orders wait, {runs}, {model.you.score} points{exceeded}"
