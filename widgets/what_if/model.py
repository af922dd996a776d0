"""Two sides of a what-if, commit by commit: levels, lanes of commits, the three amplifications, the verdict.

Invariants: both sides have the same commits, so one index serves both; their level pictures have the same
rows (level-0 slots and levels that either side ever used) and one key axis; all words and numbers are the
engine's. Pure: from a comparison of the engine. Called by figure and widget.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from widgets.amplification.model import READ, SPACE, WRITE, AmplificationModel, amplification_model
from widgets.kit import format as fmt
from widgets.levels.model import LevelLane, LsmModel, lsm_model

MAX_SLOTS = 12
FIELDS = {
    "strategy": "tablestore.compaction.strategy",
    "trigger": "num-sorted-run.compaction-trigger",
    "ratio": "compaction.size-ratio",
    "amplification": "compaction.max-size-amplification-percent",
    "level0": "tablestore.compaction.leveled.level0-file-num-trigger",
    "base": "tablestore.compaction.leveled.max-bytes-for-level-base",
    "multiplier": "tablestore.compaction.leveled.max-bytes-for-level-multiplier",
}


NO_FILES = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Chip:
    """One option of a side; `differs` from the other side's."""

    name: str
    value: str
    differs: bool


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One set of options: what it is called, its options, its kind of commit by commit, its numbers."""

    letter: str
    name: str
    chips: tuple[Chip, ...]
    kinds: tuple[str, ...]
    numbers: AmplificationModel
    num_levels: int


@dataclass(frozen=True, slots=True, eq=False)
class WhatIfModel:
    """Both sides of one bucket. Immutable by agreement."""

    title: str
    place: tuple[str, int]
    places: tuple[tuple[str, int], ...]
    ids: np.ndarray
    a: Side
    b: Side
    first_kept: int
    slots: int
    used: frozenset[int]
    """The levels that either side used at some commit, counted from the deepest one, which is 0."""
    verdict: str
    trust: tuple[str, ...]
    reproduced: bool | None
    form: dict[str, str]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sides(self) -> tuple[Side, Side]:
        """A and B."""
        return self.a, self.b

    @property
    def opened(self) -> str:
        """The bucket's id, as other views name it."""
        return f"{self.place[0]}/{self.place[1]}"

    def index_at(self, snapshot: int) -> int:
        """The last commit of the bucket up to a snapshot."""
        return max(int(np.searchsorted(self.ids, snapshot, side="right")) - 1, 0)

    def change(self, series: int) -> float | None:
        """How much larger B's number is than A's: the last one, of runs the mean."""
        actual, other = (_figure(side.numbers.series[series], series) for side in self.sides)
        return other / actual - 1 if actual and other is not None else None

    def state(self, side: Side, index: int) -> str:
        """`5 runs, write 3.28, space ≈ 1.31`."""
        read, write, space = (side.numbers.shown(series, index) for series in (READ, WRITE, SPACE))
        return f"{read} {'run' if read == '1' else 'runs'}, write {write}, space {space}"

    def sentence(self, index: int) -> str:
        """`#412: A 5 runs, write 3.28, space ≈ 1.31; B 7 runs, write 2.25, space ≈ 1.50`."""
        states = "; ".join(f"{side.letter} {self.state(side, index)}" for side in self.sides)
        return f"#{self.ids[index]}: {states}"


def _figure(values: np.ndarray, series: int) -> float | None:
    numbers = values[~np.isnan(values)]
    if not len(numbers):
        return None
    return float(numbers.mean()) if series == READ else float(numbers[-1])


def what_if_model(compared: Any, *, place: tuple[str, int] | None = None, title: str = "") -> WhatIfModel:
    """The model of one bucket (None: that with most live bytes) of a comparison of the engine."""
    places = compared.places
    chosen = place if place is not None and place in places else places[0]
    sides = compared.actual, compared.changed
    rows = [side.commits(chosen) for side in sides]
    return WhatIfModel(
        title=title,
        place=chosen,
        places=places,
        ids=np.array([row.snapshot for row in rows[0]], dtype=np.int64),
        a=_side("A", compared.names[0], sides[0], sides[1], chosen, rows[0]),
        b=_side("B", compared.names[1], sides[1], sides[0], chosen, rows[1]),
        first_kept=max(side.steps[chosen].first_kept for side in sides),
        slots=min(max(_slots(side, chosen) for side in sides), MAX_SLOTS),
        used=frozenset().union(*(_used(side, chosen) for side in sides)),
        verdict=compared.verdict("B"),
        trust=tuple(compared.trust.splitlines()),
        reproduced=getattr(compared, "reproduced", None),
        form=form_of(compared.changed.options),
    )


def _side(letter: str, name: str, side: Any, other: Any, place: tuple[str, int], rows: Any) -> Side:
    options = {
        FIELDS["trigger"]: side.options.trigger,
        "num-sorted-run.stop-trigger": side.options.stop_trigger,
    }
    label = name if name != letter else ""
    numbers = amplification_model(side.amplification(place), options=options)
    return Side(
        letter, label, chips_of(side.options, other.options), _kinds(rows), numbers, side.options.num_levels
    )


def _kinds(rows: Any) -> tuple[str, ...]:
    """What each commit shows in its lane: a compaction if it did one, else what it wrote; "" for nothing."""
    kinds, before = [], 0
    for row in rows:
        kind = "COMPACT" if row.compactions > before else "" if row.kind == "COMPACT" else row.kind
        kinds.append(kind)
        before = row.compactions
    return tuple(kinds)


def _levels_by_commit(side: Any, place: tuple[str, int]) -> Any:
    steps = side.steps[place]
    return (steps.at(commit) for commit in range(steps.first_kept, len(steps)))


def _slots(side: Any, place: tuple[str, int]) -> int:
    return max((len(levels.level0) for levels in _levels_by_commit(side, place)), default=1) or 1


def _used(side: Any, place: tuple[str, int]) -> set[int]:
    """The levels that some commit used, counted from the deepest one, which is 0."""
    deepest = side.options.num_levels - 1
    levels_used = {
        run.level for levels in _levels_by_commit(side, place) for run in levels.upper if run.files
    }
    return {deepest - level for level in levels_used}


def chips_of(options: Any, other: Any) -> tuple[Chip, ...]:
    """The options that say how a side compacts, those of its strategy."""
    leveled, unlike = options.leveled, options.strategy != other.strategy
    chips = [Chip("strategy", "leveled", unlike)] if leveled else []
    if not leveled and unlike:
        chips.append(Chip("strategy", "universal", True))
    names = _LEVELED if leveled else _UNIVERSAL
    for name, attribute, show in names:
        value = getattr(options, attribute)
        chips.append(Chip(name, show(value), unlike or value != getattr(other, attribute)))
    return tuple(chips)


_UNIVERSAL = (
    ("trigger", "trigger", str),
    ("size-ratio", "size_ratio", "{} %".format),
    ("max amp", "max_size_amplification", "{} %".format),
)
_LEVELED = (
    ("L0 files", "level0_trigger", str),
    ("base", "level_base_bytes", fmt.bytes_text),
    ("each level", "level_multiplier", "×{}".format),
)


def form_of(options: Any) -> dict[str, str]:
    """B's options as the fields show them, those of both strategies."""
    return {
        "strategy": "leveled" if options.leveled else "universal",
        "trigger": str(options.trigger),
        "ratio": str(options.size_ratio),
        "amplification": str(options.max_size_amplification),
        "level0": str(options.level0_trigger),
        "base": _size_option(options.level_base_bytes),
        "multiplier": str(options.level_multiplier),
    }


def _size_option(size: int) -> str:
    """Bytes as an option takes them, exactly: `64 mb`."""
    units = ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"), (1, "b"))
    unit, name = next((unit, name) for unit, name in units if size % unit == 0)
    return f"{size // unit} {name}"


def levels_pair(model: WhatIfModel, sides: Any, index: int) -> tuple[LsmModel, LsmModel]:
    """The level pictures of both sides after a commit, with the same rows: level 0, then those counted from
    the deepest level, so that a tree of six levels and one of nine stand on the same ground."""
    files = sides.levels(model.place, index)
    partition, bucket = model.place
    axis = lsm_model(pa.concat_tables(files)).axis
    pair = []
    for side, table in zip(model.sides, files, strict=True):
        drawn = lsm_model(
            table,
            num_levels=side.num_levels,
            partition=partition,
            bucket=bucket,
            snapshot=int(model.ids[index]),
            l0_slots=model.slots,
        )
        upper = {lane.level: lane for lane in drawn.lanes if lane.level}
        deepest = max([side.num_levels - 1, *upper])
        lanes = [lane for lane in drawn.lanes if lane.level == 0]
        for depth in sorted(model.used, reverse=True):
            level = deepest - depth
            there = upper.get(level) if level > 0 else None
            absent = replace(
                lanes[0], level=max(level, 1), label="", note=f"not in {side.letter}", at=NO_FILES
            )
            lanes.append(absent if there is None else _deepest(there) if not depth else there)
        pair.append(replace(drawn, lanes=tuple(lanes), num_levels=max(side.num_levels, 2), axis=axis))
    return pair[0], pair[1]


def _deepest(lane: LevelLane) -> LevelLane:
    """The lane of the deepest level, which says so where it is empty."""
    return lane if lane.count else replace(lane, note="deepest, empty")


def unused_levels(model: WhatIfModel) -> str:
    """`L1 … L4` or `A L1 … L4, B L1 … L7`: levels that no commit used, which have no row; empty if all
    have."""
    named = [_spans(side.num_levels, model.used) for side in model.sides]
    if named[0] == named[1]:
        return named[0]
    return ", ".join(f"{side.letter} {text}" for side, text in zip(model.sides, named, strict=True) if text)


def _spans(num_levels: int, used: frozenset[int]) -> str:
    spans: list[list[int]] = []
    for level in (level for level in range(1, num_levels) if num_levels - 1 - level not in used):
        if spans and spans[-1][-1] == level - 1:
            spans[-1].append(level)
        else:
            spans.append([level])
    return ", ".join(
        ", ".join(f"L{n}" for n in span) if len(span) < 3 else f"L{span[0]} … L{span[-1]}" for span in spans
    )


def text_form(model: WhatIfModel, sides: Any, index: int) -> str:
    """Both sides in a terminal: the verdict, the state at `index`, every difference, how far to trust it."""
    head = "  ".join(part for part in (model.title, "what if", f"{len(model):,} commits") if part)
    return "\n".join([head, model.verdict, model.sentence(index), repr(sides)])
