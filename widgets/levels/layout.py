"""Where the files of a bucket stand in a picture of a given width: lanes, spans, boxes or columns.

Invariants: a lane whose boxes would be under 3 px becomes columns of count; every lane keeps its y whatever
it holds, and keeps its row as long as the past is gone through (`rows_kept`; `local.js` does the same); only
files that are drawn as boxes become objects. Pure. Called by the figure and by the widget.
"""

from dataclasses import dataclass
from typing import Literal, overload

import numpy as np

from widgets.history.history import History
from widgets.levels.model import FileBox, LevelLane, LsmModel

Mode = Literal["keys", "bytes"]
MARGIN, LEFT, TOP = 16, 96, 8
NARROWEST = 3.0
LANES = ((3, (34, 48)), (5, (28, 38)), (8, (20, 25)), (12, (18, 23)), (16, (16, 22)), (24, (14, 19)))
"""Up to so many lanes: (height of one, from one to the next); more are `THIN`, without labels."""
THIN = (8, 10)
FOLDABLE = 64
"""More levels than any table has."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where things stand: the plot, the lanes, and the part of the axis that is shown."""

    left: float
    right: float
    gutter: float
    lane: float
    pitch: float
    view: tuple[float, float]
    labels: bool

    @overload
    def x(self, place: float) -> float: ...
    @overload
    def x(self, place: np.ndarray) -> np.ndarray: ...
    def x(self, place: float | np.ndarray) -> float | np.ndarray:
        """The x of a position on the axis."""
        low, high = self.view
        return self.left + (place - low) / (high - low) * (self.right - self.left)

    def y(self, lane: int) -> float:
        """The top of a lane."""
        return TOP + lane * self.pitch

    @property
    def width(self) -> float:
        """The width of the plot."""
        return self.right - self.left


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """One lane: the files in view with their span in pixels; as values where they are drawn as boxes."""

    lane: LevelLane
    at: np.ndarray
    x: np.ndarray
    end: np.ndarray
    boxes: tuple[FileBox, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class LevelsLayout:
    """All lanes of a picture."""

    frame: Frame
    mode: Mode
    lanes: tuple[Placed, ...]

    @property
    def boxes(self) -> list[tuple[int, FileBox]]:
        """The files drawn as boxes, with the position of their lane."""
        return [(at, file) for at, placed in enumerate(self.lanes) for file in placed.boxes or ()]


def lay_out(
    model: LsmModel,
    *,
    width: float,
    mode: Mode = "keys",
    view: tuple[float, float] | None = None,
    thin: bool = False,
) -> LevelsLayout:
    """The layout for a width. `view` is the shown part of the key axis; bytes are always shown whole. `thin`
    lanes have no labels: for one of many pictures beside each other."""
    mode = mode if model.keyed else "bytes"
    shown = (view if mode == "keys" else None) or (0.0, 1.0)
    frame = Frame(MARGIN + 26, width - 10, 0, 6, 8, shown, False) if thin else _frame(model, width, shown)
    return LevelsLayout(frame, mode, tuple(_place(model, lane, frame, mode) for lane in model.lanes))


def _frame(model: LsmModel, width: float, view: tuple[float, float]) -> Frame:
    """Thinner lanes when there are many, no run bars when it is narrow."""
    lanes = len(model.lanes)
    lane, pitch = next((sizes for most, sizes in LANES if lanes <= most), THIN)
    gutter = 112.0 if width >= 700 else 78.0
    return Frame(MARGIN + LEFT, width - MARGIN - gutter, gutter, lane, pitch, view, lanes <= 24)


def _place(model: LsmModel, lane: LevelLane, frame: Frame, mode: Mode) -> Placed:
    lo, hi = _spans(model, lane, mode)
    low, high = frame.view
    visible = (hi >= low) & (lo <= high)
    at, lo, hi = lane.at[visible], np.maximum(lo[visible], low), np.minimum(hi[visible], high)
    x, end = frame.x(lo), frame.x(hi)
    dense = bool(lane.merged) or _too_dense(x, end, frame)
    return Placed(lane, at, x, end, None if dense else tuple(model.columns.boxes(at)) if len(at) else ())


def _spans(model: LsmModel, lane: LevelLane, mode: Mode) -> tuple[np.ndarray, np.ndarray]:
    """Where each file of a lane begins and ends, on an axis of 0 … 1."""
    if mode == "keys":
        return model.columns.lo[lane.at], model.columns.hi[lane.at]
    largest = max((other.bytes for other in model.lanes), default=0) or 1
    ends = np.cumsum(model.columns.bytes[lane.at]) / largest
    return np.concatenate([[0.0], ends[:-1]])[: len(ends)], ends


def _too_dense(x: np.ndarray, end: np.ndarray, frame: Frame) -> bool:
    """Whether most boxes would be under 3 px."""
    if len(x) * NARROWEST > frame.width:
        return True
    return len(x) > 40 and float(np.median(end - x)) < NARROWEST


def rows_kept(
    history: History | None, place: str, snapshot: int | None, stop: int
) -> tuple[int, tuple[int, ...]]:
    """How many rows level 0 has at least (at most `stop`), and the levels that are one row where they are
    empty: all of them now, in the past those that the bucket `place` never used."""
    past = (
        history is not None and snapshot is not None and history.covers(snapshot) and snapshot != history.last
    )
    if history is None or not past:
        return 0, tuple(range(FOLDABLE))
    ids = ["{}/{}".format(*each) for each in history.places]
    at = np.flatnonzero(history.place == ids.index(place)) if place in ids else np.zeros(0, np.int64)
    level = history.ints("level")[at]
    used = set(level.tolist())
    zero = at[level == 0]
    when = np.r_[history.added[zero], history.removed[zero]]
    by = np.repeat([1, -1], len(zero))
    most = int(np.cumsum(by[np.lexsort((by, when))]).max(initial=0))  # what goes, goes before what comes
    return min(most, stop), tuple(level for level in range(FOLDABLE) if level not in used)
