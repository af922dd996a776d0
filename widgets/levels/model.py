"""One bucket's LSM tree as lanes of files, as columns.

Invariants: lanes come from `num_levels` and the number of level-0 slots, never from what happens to exist,
so rows do not jump when a level empties, unless levels may be `folded`: neighbours of those that are empty
are one row; x is the position of a key (or of a byte); lanes are newest first, as a reader looks them up. A
file becomes an object only where it is drawn or asked for, so ten thousand files cost what their columns
cost. Pure: from `table.inspect.levels()`. Called by the figures and the widget.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.kit import format as fmt
from widgets.levels.axis import KeyAxis, key_axis

MAX_LEVEL0 = 18
"""More level-0 runs than this do not get a row each."""
SLIVER = 1e-6
SIZES = ((128 << 20, "≥ 128 MiB"), (16 << 20, "16–128 MiB"), (1 << 20, "1–16 MiB"), (0, "< 1 MiB"))
"""The rows of a table without keys: its files by size."""


@dataclass(frozen=True, slots=True)
class FileBox:
    """One data file."""

    name: str
    level: int
    rows: int
    deletes: int
    bytes: int
    lo: float
    hi: float
    min_key: str | None
    max_key: str | None
    min_sequence: int
    max_sequence: int
    source: str
    origin: str
    """The snapshot that added the file if it is known, else the time it was written."""
    masked: int | None = None
    """How many rows its deletion vector takes away."""

    @property
    def many_deletes(self) -> bool:
        """Whether at least a fifth of the rows delete something."""
        return self.rows > 0 and self.deletes * 5 >= self.rows


@dataclass(frozen=True, slots=True)
class Running:
    """A compaction at work: the share of its input that is merged, bytes written and expected in all."""

    share: float
    written: int
    expected: int


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The next compaction of the bucket: names of its input files and its output level."""

    inputs: frozenset[str] = frozenset()
    output_level: int | None = None
    running: Running | None = None

    @classmethod
    def of(cls, trait: Mapping[str, Any]) -> "CompactionPlan":
        """The plan of a view's trait: `inputs`, `output_level`, and `running` while it is carried out."""
        running = trait.get("running")
        at_work = Running(**running) if isinstance(running, Mapping) else None
        return cls(frozenset(trait.get("inputs", ())), trait.get("output_level"), at_work)


@dataclass(frozen=True, slots=True, eq=False)
class LevelFiles:
    """The files of a bucket as columns; positions are clipped to 0 … 1."""

    table: pa.Table
    level: np.ndarray
    run: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    bytes: np.ndarray
    rows: np.ndarray
    deletes: np.ndarray
    masked: np.ndarray
    """Rows that a deletion vector takes away, −1 without one."""
    age: np.ndarray
    """0 for the newest rows of the bucket … 1 for the oldest, by sequence number."""
    planned: np.ndarray

    def boxes(self, at: np.ndarray) -> list[FileBox]:
        """These files as values."""
        rows = self.table.take(pa.array(at, pa.int64())).to_pylist()
        lo, hi = self.lo[at].tolist(), self.hi[at].tolist()
        return [_box(row, *ends) for row, *ends in zip(rows, lo, hi, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class LevelLane:
    """One row of the picture: a level, one run of level 0, or one size of a table without keys."""

    level: int
    label: str
    note: str
    at: np.ndarray
    """Positions in `columns`, in key order."""
    columns: LevelFiles
    merged: int = 0
    """How many of the oldest level-0 runs share this row, if there are too many for a row each."""

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self.at)

    @property
    def files(self) -> tuple[FileBox, ...]:
        """The files as values."""
        return tuple(self.columns.boxes(self.at))

    @property
    def runs(self) -> int:
        """The sorted runs of this row."""
        return self.merged or int(bool(len(self.at)))

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return int(self.columns.bytes[self.at].sum())

    @property
    def planned(self) -> bool:
        """Whether the next compaction reads any of it."""
        return bool(self.columns.planned[self.at].any())


@dataclass(frozen=True, slots=True, eq=False)
class LsmModel:
    """What the levels of one bucket show."""

    title: str
    partition: str
    bucket: int
    snapshot: int | None
    num_levels: int
    lanes: tuple[LevelLane, ...]
    columns: LevelFiles
    steps: tuple[np.ndarray, np.ndarray]
    """Where the number of runs to read changes, and what it is from there on."""
    axis: KeyAxis
    stop_trigger: int
    plan: CompactionPlan
    keyed: bool = True

    @property
    def files(self) -> tuple[FileBox, ...]:
        """All files, newest run first, in key order within a run."""
        return tuple(file for lane in self.lanes for file in lane.files)

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self.columns.level)

    @property
    def overlap(self) -> tuple[tuple[float, int], ...]:
        """Steps (from this x on, runs to read), closed by a step to 0."""
        return tuple(zip(*(values.tolist() for values in self.steps), strict=True))

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Labels of the whole key axis."""
        return self.axis.ticks()

    @property
    def runs(self) -> int:
        """The number of sorted runs; without keys there are none, and files are counted."""
        return sum(lane.runs for lane in self.lanes) if self.keyed else self.count

    @property
    def runs_text(self) -> str:
        """`7 sorted runs`, or `412 files` where there are no runs."""
        return fmt.plural(self.runs, "sorted run" if self.keyed else "file")

    @property
    def bytes(self) -> int:
        """The size of all live files."""
        return int(self.columns.bytes.sum())

    @property
    def rows(self) -> int:
        """The rows of all live files, superseded ones included."""
        return int(self.columns.rows.sum())

    @property
    def place(self) -> str:
        """`l_year=1995/l_month=6 · bucket 1`."""
        return f"{self.partition} · bucket {self.bucket}" if self.partition else f"bucket {self.bucket}"

    def find(self, name: str) -> FileBox | None:
        """The file of that name, or None."""
        if not self.count:
            return None
        at = pc.index(self.columns.table["file_name"], name).as_py()
        return self.columns.boxes(np.array([at]))[0] if at >= 0 else None

    def spoken(self, file: FileBox) -> str:
        """What a screen reader says of a file."""
        parts = [f"level {file.level}", fmt.bytes_text(file.bytes)]
        if file.min_key is not None:
            parts.append(f"keys {fmt.key(file.min_key)} to {fmt.key(file.max_key)}")
        parts += [f"{file.deletes:,} deletes"] if file.deletes else []
        parts += [f"deletion vector {file.masked:,}"] if file.masked is not None else []
        parts += ["input of next compaction"] if file.name in self.plan.inputs else []
        return ", ".join(parts)


def lsm_model(
    files: pa.Table,
    *,
    num_levels: int = 6,
    partition: str | None = None,
    bucket: int | None = None,
    snapshot: int | None = None,
    title: str = "",
    l0_slots: int = 0,
    stop_trigger: int = 8,
    plan: CompactionPlan | None = None,
    folded: Collection[int] = (),
) -> LsmModel:
    """The model of one bucket from `table.inspect.levels()`; rows of other buckets are left out.

    Level 0 gets `l0_slots` rows, or more if it has more runs; every other level one. Neighbours of the levels
    `folded` that have no files are one row, but for the one that the plan writes. Files without any key
    (tables that have none) are put in rows by size.
    """
    files = in_bucket(files, partition, bucket)
    columns = _columns(files, plan or CompactionPlan())
    keyed = not columns.table.num_rows or columns.table["min_key"].null_count < columns.table.num_rows
    lanes = _lanes(columns, num_levels, l0_slots) if keyed else _size_lanes(columns)
    lanes = _folded(lanes, folded, plan or CompactionPlan()) if keyed and len(columns.level) else lanes
    return LsmModel(
        title=title,
        partition=partition or "",
        bucket=bucket or 0,
        snapshot=snapshot,
        num_levels=max(num_levels, int(columns.level.max(initial=0)) + 1),
        lanes=tuple(lanes),
        columns=columns,
        steps=_steps(columns.lo, columns.hi, columns.run) if keyed else (np.zeros(0), np.zeros(0, np.int64)),
        axis=_axis(columns) if keyed else KeyAxis(),
        stop_trigger=stop_trigger,
        plan=plan or CompactionPlan(),
        keyed=keyed,
    )


def in_bucket(files: pa.Table, partition: str | None, bucket: int | None) -> pa.Table:
    """The rows of one bucket; None stands for any."""
    if not files.num_rows:
        return files
    if partition is not None:
        files = files.filter(pc.equal(files["partition"], partition))
    return files if bucket is None else files.filter(pc.equal(files["bucket"], bucket))


def _columns(files: pa.Table, plan: CompactionPlan) -> LevelFiles:
    if not files.num_rows:
        none, places = np.zeros(0, np.int64), np.zeros(0)
        return LevelFiles(
            files, none, none, places, places, none, none, none, none, places, none.astype(bool)
        )
    files = files.combine_chunks()
    names = pa.array(sorted(plan.inputs), pa.string())
    return LevelFiles(
        table=files,
        level=_ints(files, "level"),
        run=_ints(files, "run"),
        lo=_positions(files, "min_key_pos", 0.0),
        hi=_positions(files, "max_key_pos", 1.0),
        bytes=_ints(files, "bytes"),
        rows=_ints(files, "rows"),
        deletes=_ints(files, "deletes"),
        masked=_ints(files, "masked_rows", absent=-1),
        age=_age(_ints(files, "min_sequence"), _ints(files, "max_sequence")),
        planned=pc.is_in(files["file_name"].cast(pa.string()), names).to_numpy(),
    )


def _ints(files: pa.Table, name: str, *, absent: int = 0) -> np.ndarray:
    if name not in files.column_names:
        return np.full(files.num_rows, absent, dtype=np.int64)
    return pc.fill_null(files[name].cast(pa.int64()), absent).to_numpy()


def _positions(files: pa.Table, name: str, absent: float) -> np.ndarray:
    if name not in files.column_names:
        return np.full(files.num_rows, absent)
    return np.clip(pc.fill_null(files[name].cast(pa.float64()), absent).to_numpy(), 0.0, 1.0)


def _age(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """By the middle of each file's sequence numbers, which count the rows written to the bucket."""
    span = max(int(last.max()) - int(first.min()), 1)
    return np.clip((last.max() - (first + last) / 2) / span, 0.0, 1.0)


def _axis(columns: LevelFiles) -> KeyAxis:
    if not columns.table.num_rows:
        return KeyAxis()
    low, high = (columns.table[name].combine_chunks() for name in ("min_key", "max_key"))
    return key_axis(columns.lo, columns.hi, low, high)


def _box(row: Mapping[str, Any], lo: float, hi: float) -> FileBox:
    snapshot, created = row.get("snapshot_id"), row.get("creation_time")
    return FileBox(
        name=str(row["file_name"]),
        level=int(row["level"]),
        rows=int(row["rows"] or 0),
        deletes=int(row.get("deletes") or 0),
        bytes=int(row["bytes"] or 0),
        lo=lo,
        hi=hi,
        min_key=_text(row.get("min_key")),
        max_key=_text(row.get("max_key")),
        min_sequence=int(row.get("min_sequence") or 0),
        max_sequence=int(row.get("max_sequence") or 0),
        source=str(row.get("file_source") or ""),
        origin=f"#{snapshot}" if snapshot is not None else fmt.stamp(created, today=created),
        masked=row.get("masked_rows"),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _lanes(columns: LevelFiles, num_levels: int, l0_slots: int) -> list[LevelLane]:
    """A row a run of level 0, newest first, then one a level."""
    zero = np.flatnonzero(columns.level == 0)
    zero = zero[np.lexsort((columns.hi[zero], columns.lo[zero], columns.run[zero]))]
    starts = np.flatnonzero(np.diff(columns.run[zero], prepend=-1)) if len(zero) else np.zeros(0, np.int64)
    runs = np.split(zero, starts[1:]) if len(starts) else []
    lanes = _level0(columns, runs, max(l0_slots, len(runs), 1))
    for level in range(1, max(num_levels, int(columns.level.max(initial=0)) + 1)):
        at = np.flatnonzero(columns.level == level)
        at = at[np.lexsort((columns.hi[at], columns.lo[at]))]
        lanes.append(
            LevelLane(level, f"L{level}", fmt.plural(len(at), "file") if len(at) else "empty", at, columns)
        )
    return lanes


def _folded(lanes: list[LevelLane], folded: Collection[int], plan: CompactionPlan) -> list[LevelLane]:
    """Neighbouring levels without files as one row: `L1–L4 empty`. The plan's output keeps its own."""
    lanes_folded: list[LevelLane] = []
    first: LevelLane | None = None  # of the empty levels just before
    for lane in lanes:
        if lane.count or lane.level == plan.output_level or lane.level not in folded:
            first = None
            lanes_folded.append(lane)
        elif first is None:
            first = lane
            lanes_folded.append(lane)
        else:
            lanes_folded[-1] = replace(first, label=f"{first.label}–{lane.label}")
    return lanes_folded


def _level0(columns: LevelFiles, runs: Sequence[np.ndarray], slots: int) -> list[LevelLane]:
    if len(runs) > MAX_LEVEL0:
        kept, older = runs[: MAX_LEVEL0 - 1], np.concatenate(runs[MAX_LEVEL0 - 1 :])
        older = older[np.lexsort((columns.hi[older], columns.lo[older]))]
        merged = len(runs) - MAX_LEVEL0 + 1
        return [
            *_level0(columns, kept, len(kept)),
            LevelLane(0, "", f"+{merged:,}", older, columns, merged=merged),
        ]
    lanes, none = [], np.zeros(0, np.int64)
    for slot in range(slots):
        at = runs[slot] if slot < len(runs) else none
        note = columns.boxes(at[:1])[0].origin if len(at) else ("empty" if slot == 0 else "")
        lanes.append(LevelLane(0, "L0" if slot == 0 else "", note, at, columns))
    return lanes


def _size_lanes(columns: LevelFiles) -> list[LevelLane]:
    """Files of a table without keys, largest first, in fixed classes of size."""
    order = np.argsort(-columns.bytes, kind="stable")
    lanes, over = [], np.inf
    for least, name in SIZES:
        at = order[(columns.bytes[order] >= least) & (columns.bytes[order] < over)]
        lanes.append(LevelLane(0, "", name, at, columns))
        over = least
    return lanes


def _steps(lo: np.ndarray, hi: np.ndarray, run: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many runs hold each key. Files of one run are disjoint, so each file adds one over its range."""
    if not len(lo):
        return np.zeros(0), np.zeros(0, np.int64)
    lo, hi = _widened(lo, hi, run)
    xs, inverse = np.unique(np.concatenate([lo, hi]), return_inverse=True)
    change = np.zeros(len(xs), dtype=np.int64)
    np.add.at(change, inverse, np.repeat([1, -1], len(lo)))
    heights = np.cumsum(change)
    keep = np.r_[True, heights[1:] != heights[:-1]]
    return xs[keep], heights[keep]


def _widened(lo: np.ndarray, hi: np.ndarray, run: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ranges, those of a single key a sliver wide; points of one run at one place count once."""
    points = np.flatnonzero(hi <= lo)
    wide = np.flatnonzero(hi > lo)
    _, first = np.unique(np.stack([run[points], lo[points]]), axis=1, return_index=True)
    points = points[first]
    hidden = np.zeros(len(points), dtype=bool)
    for each in np.intersect1d(run[points], run[wide]):
        ranges = wide[run[wide] == each]
        ranges = ranges[np.argsort(lo[ranges])]
        own = run[points] == each
        before = np.searchsorted(lo[ranges], lo[points[own]], side="right") - 1
        hidden[own] = (before >= 0) & (hi[ranges[before]] >= lo[points[own]])
    at = lo[points[~hidden]]
    return np.r_[lo[wide], np.maximum(at - SLIVER, 0.0)], np.r_[hi[wide], np.minimum(at + SLIVER, 1.0)]


def text_form(model: LsmModel, *, width: int = 40) -> str:
    """The levels in a terminal: one line a run, shade by level, `> next` at inputs of the next compaction."""
    head = [model.title, model.place, fmt.snapshot_id(model.snapshot) if model.snapshot else ""]
    head += [fmt.plural(model.runs, "run" if model.keyed else "file"), fmt.bytes_text(model.bytes)]
    rows = ["  ".join(part for part in head if part)]
    for lane in model.lanes:
        if lane.count:
            rows.append(_text_lane(model, lane, width))
    if not model.runs:
        rows.append("Nothing written yet.")
    return "\n".join(rows)


def _text_lane(model: LsmModel, lane: LevelLane, width: int) -> str:
    filled, at = model.columns, lane.at
    cells = _text_cells(model, lane, width) if model.keyed else [f"{lane.count:,} files"]
    label = f"L{lane.level} {lane.note if lane.level == 0 else ''}" if model.keyed else lane.note
    deletes, rows = int(filled.deletes[at].sum()), int(filled.rows[at].sum())
    marks = f" −D {fmt.percent(deletes, rows)}" if deletes else ""
    marks += " dv" if bool((filled.masked[at] >= 0).any()) else ""
    marks += " > next" if lane.planned else ""
    marks += ", out" if marks.endswith("next") and lane.level == model.plan.output_level else ""
    return f"{label:<12}{fmt.bytes_text(lane.bytes):>9}  {''.join(cells)}{marks}".rstrip()


def _text_cells(model: LsmModel, lane: LevelLane, width: int) -> list[str]:
    shade = "░▒▓█"[min(lane.level * 3 // max(model.num_levels - 1, 1), 3)]
    first = np.minimum((model.columns.lo[lane.at] * width).astype(np.int64), width - 1)
    last = np.clip(np.ceil(model.columns.hi[lane.at] * width).astype(np.int64), first + 1, width)
    change = np.bincount(first, minlength=width + 1) - np.bincount(last, minlength=width + 1)
    cells = [shade if filled else " " for filled in np.cumsum(change)[:width]]
    few = lane.count <= width  # else too many to tell them apart
    for begin in first[last - first > 1].tolist() if few else ():
        if begin and cells[begin - 1] == shade:
            cells[begin] = "|"
    return cells
