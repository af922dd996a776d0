"""One bucket's LSM tree as lanes of boxes, and all buckets of a table as an overview.

Invariants: lanes come from `num_levels` and the number of level-0 slots, never from what happens to exist,
so rows do not jump when a level empties; x is the position of a key (or of a byte); lanes are newest first,
as a reader looks them up. Pure: from `table.inspect.levels()`. Called by the figures and by the widget.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets import _format as fmt

NUMBER = re.compile(r"\[?(-?\d+(?:\.\d+)?)")
"""The leading number of a key as `inspect` writes it: `[15953, 1]`."""


MAX_LEVEL0 = 18
"""More level-0 runs than this do not get a row each."""


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

    @property
    def many_deletes(self) -> bool:
        """Whether at least a fifth of the rows delete something."""
        return self.rows > 0 and self.deletes * 5 >= self.rows


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the picture: a level, or one run of level 0."""

    level: int
    label: str
    note: str
    files: tuple[FileBox, ...]
    merged: int = 0
    """How many of the oldest level-0 runs share this row, if there are too many for a row each."""

    @property
    def runs(self) -> int:
        """The sorted runs of this row."""
        return self.merged or int(bool(self.files))

    @property
    def bytes(self) -> int:
        """The size of the run."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Plan:
    """The next compaction of the bucket: names of its input files and its output level."""

    inputs: frozenset[str] = frozenset()
    output_level: int | None = None


@dataclass(frozen=True, slots=True)
class LsmModel:
    """What the levels of one bucket show."""

    title: str
    partition: str
    bucket: int
    snapshot: int | None
    num_levels: int
    lanes: tuple[Lane, ...]
    overlap: tuple[tuple[float, int], ...]
    """Steps (from this x on, runs to read), closed by a step to 0."""
    ticks: tuple[tuple[float, str], ...]
    stop_trigger: int
    plan: Plan

    @property
    def files(self) -> tuple[FileBox, ...]:
        """All files, newest run first, in key order within a run."""
        return tuple(file for lane in self.lanes for file in lane.files)

    @property
    def runs(self) -> int:
        """The number of sorted runs."""
        return sum(lane.runs for lane in self.lanes)

    @property
    def bytes(self) -> int:
        """The size of all live files."""
        return sum(lane.bytes for lane in self.lanes)

    @property
    def rows(self) -> int:
        """The rows of all live files, superseded ones included."""
        return sum(file.rows for file in self.files)

    @property
    def place(self) -> str:
        """`l_year=1995/l_month=6 · bucket 1`."""
        return f"{self.partition} · bucket {self.bucket}" if self.partition else f"bucket {self.bucket}"

    def find(self, name: str) -> FileBox | None:
        """The file of that name, or None."""
        return next((file for file in self.files if file.name == name), None)

    def spoken(self, file: FileBox) -> str:
        """What a screen reader says of a file."""
        parts = [f"level {file.level}", fmt.bytes_text(file.bytes)]
        if file.min_key is not None:
            parts.append(f"keys {fmt.key(file.min_key)} to {fmt.key(file.max_key)}")
        parts += [f"{file.deletes:,} deletes"] if file.deletes else []
        parts += ["input of next compaction"] if file.name in self.plan.inputs else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class BucketCell:
    """One bucket of the overview."""

    partition: str
    bucket: int
    runs: int
    files: int
    bytes: int
    rows: int
    deletes: int

    @property
    def id(self) -> str:
        """Names the bucket in traits: `l_year=1995/l_month=6/1`."""
        return f"{self.partition}/{self.bucket}"


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
    plan: Plan | None = None,
) -> LsmModel:
    """The model of one bucket from `table.inspect.levels()`; rows of other buckets are left out.

    Level 0 gets `l0_slots` rows, or more if it has more runs; every other level one.
    """
    files = in_bucket(files, partition, bucket)
    boxes = [_box(row) for row in files.to_pylist()]
    runs = files["run"].to_pylist() if files.num_rows else []
    level0: dict[int, list[FileBox]] = {}
    deeper: dict[int, list[FileBox]] = {level: [] for level in range(1, num_levels)}
    for box, run in zip(boxes, runs, strict=True):
        target = level0.setdefault(run, []) if box.level == 0 else deeper.setdefault(box.level, [])
        target.append(box)
    newest_first = [level0[run] for run in sorted(level0)]
    lanes = _level0_lanes(newest_first, max(l0_slots, len(newest_first), 1))
    lanes += [_lane(level, deeper[level]) for level in sorted(deeper)]
    return LsmModel(
        title=title,
        partition=partition or "",
        bucket=bucket or 0,
        snapshot=snapshot,
        num_levels=max(num_levels, max((box.level for box in boxes), default=0) + 1),
        lanes=tuple(lanes),
        overlap=_overlap([lane for lane in lanes if lane.files]),
        ticks=key_ticks(boxes),
        stop_trigger=stop_trigger,
        plan=plan or Plan(),
    )


def in_bucket(files: pa.Table, partition: str | None, bucket: int | None) -> pa.Table:
    """The rows of one bucket; None stands for any."""
    if not files.num_rows:
        return files
    if partition is not None:
        files = files.filter(pc.equal(files["partition"], partition))
    return files if bucket is None else files.filter(pc.equal(files["bucket"], bucket))


def _box(row: dict[str, object]) -> FileBox:
    snapshot, created = row.get("snapshot_id"), row.get("creation_time")
    lo, hi = row.get("min_key_pos"), row.get("max_key_pos")
    return FileBox(
        name=str(row["file_name"]),
        level=int(row["level"]),
        rows=int(row["rows"] or 0),
        deletes=int(row.get("deletes") or 0),
        bytes=int(row["bytes"] or 0),
        lo=min(max(float(lo), 0.0), 1.0) if lo is not None else 0.0,
        hi=min(max(float(hi), 0.0), 1.0) if hi is not None else 1.0,
        min_key=_text(row.get("min_key")),
        max_key=_text(row.get("max_key")),
        min_sequence=int(row.get("min_sequence") or 0),
        max_sequence=int(row.get("max_sequence") or 0),
        source=str(row.get("file_source") or ""),
        origin=f"#{snapshot}" if snapshot is not None else fmt.stamp(created, today=created),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _level0_lanes(runs: list[list[FileBox]], slots: int) -> list[Lane]:
    if len(runs) > MAX_LEVEL0:
        kept, older = runs[: MAX_LEVEL0 - 1], runs[MAX_LEVEL0 - 1 :]
        rest = tuple(sorted((file for run in older for file in run), key=lambda box: (box.lo, box.hi)))
        lane = Lane(0, "", f"+{len(older):,}", rest, merged=len(older))
        return [*_level0_lanes(kept, len(kept)), lane]
    lanes = []
    for slot in range(slots):
        files = tuple(sorted(runs[slot], key=lambda box: box.lo)) if slot < len(runs) else ()
        note = files[0].origin if files else ("empty" if slot == 0 else "")
        lanes.append(Lane(0, "L0" if slot == 0 else "", note, files))
    return lanes


def _lane(level: int, files: list[FileBox]) -> Lane:
    ordered = tuple(sorted(files, key=lambda box: (box.lo, box.hi)))
    return Lane(level, f"L{level}", fmt.plural(len(ordered), "file") if ordered else "empty", ordered)


def _overlap(lanes: list[Lane]) -> tuple[tuple[float, int], ...]:
    """How many runs hold each key. Files of one run are disjoint, so each file adds one over its range."""
    if not lanes:
        return ()
    starts = np.array([file.lo for lane in lanes for file in lane.files])
    ends = np.array([file.hi for lane in lanes for file in lane.files])
    xs, inverse = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    change = np.zeros(len(xs), dtype=np.int64)
    np.add.at(change, inverse, np.repeat([1, -1], len(starts)))
    heights = np.cumsum(change)
    keep = np.r_[True, heights[1:] != heights[:-1]]
    return tuple(zip(xs[keep].tolist(), heights[keep].tolist(), strict=True))


def key_ticks(boxes: Collection[FileBox]) -> tuple[tuple[float, str], ...]:
    """Labels of the key axis: round numbers if positions follow the key's leading number, else its two ends.

    The rule is checked against every file, so a tick is never a guess.
    """
    if not boxes:
        return ()
    ends = [(box.lo, box.min_key) for box in boxes] + [(box.hi, box.max_key) for box in boxes]
    first, last = (pick(ends, key=lambda end: end[0]) for pick in (min, max))
    matches = [(x, NUMBER.match(text or "")) for x, text in ends]
    if all(match for _, match in matches) and last[0] > first[0]:
        xs = np.array([x for x, _ in matches])
        values = np.array([float(match.group(1)) for _, match in matches if match])
        slope, start = np.polyfit(xs, values, 1)
        if slope > 0 and np.abs(start + slope * xs - values).max() <= 0.005 * slope:
            return tuple(
                ((value - start) / slope, label) for value, label in _round_ticks(start, start + slope)
            )
    return tuple((x, fmt.key(text)) for x, text in (first, last) if text is not None)


def _round_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Four to eight round values between two keys."""
    span = high - low
    power = 10.0 ** np.floor(np.log10(span))
    step = next(s * power for s in (0.1, 0.2, 0.5, 1.0, 2.0) if span / (s * power) <= 8)
    values = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return [(float(value), _tick(float(value) + 0.0, step)) for value in values]


def _tick(value: float, step: float) -> str:
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if step >= 0.05 * scale and value:
            return f"{value / scale:.10g} {unit}".replace("-", fmt.MINUS)
    return f"{value:.10g}".replace("-", fmt.MINUS)


def bucket_cells(files: pa.Table) -> tuple[BucketCell, ...]:
    """Every bucket with its runs, files, bytes and deletes, in partition and bucket order."""
    if not files.num_rows:
        return ()
    grouped = files.group_by(["partition", "bucket"]).aggregate(
        [
            ("run", "count_distinct"),
            ("file_name", "count"),
            ("bytes", "sum"),
            ("rows", "sum"),
            ("deletes", "sum"),
        ]
    )
    cells = [
        BucketCell(
            partition=row["partition"] or "",
            bucket=row["bucket"],
            runs=row["run_count_distinct"],
            files=row["file_name_count"],
            bytes=row["bytes_sum"] or 0,
            rows=row["rows_sum"] or 0,
            deletes=row["deletes_sum"] or 0,
        )
        for row in grouped.to_pylist()
    ]
    return tuple(sorted(cells, key=lambda cell: (natural(cell.partition), cell.bucket)))


def natural(text: str) -> list[tuple[int, int, str]]:
    """A sort key in which `l_month=10` follows `l_month=9`."""
    parts = re.split(r"(\d+)", text)
    return [(1, int(part), "") if part.isdigit() and part.isascii() else (0, 0, part) for part in parts]


def worst(cells: Collection[BucketCell], limit: int = 5) -> list[BucketCell]:
    """The buckets with most runs, then most bytes."""
    return sorted(cells, key=lambda cell: (-cell.runs, -cell.bytes, natural(cell.id)))[:limit]


def short_partition(partition: str) -> str:
    """`l_year=1995/l_month=6` → `1995/6`."""
    return "/".join(part.split("=", 1)[-1] for part in partition.split("/"))


def text_form(model: LsmModel, *, width: int = 40) -> str:
    """The levels in a terminal: one line a run, shade by level, `> next` at inputs of the next compaction."""
    head = [model.title, model.place, fmt.snapshot_id(model.snapshot) if model.snapshot else ""]
    head += [fmt.plural(model.runs, "run"), fmt.bytes_text(model.bytes)]
    rows = ["  ".join(part for part in head if part)]
    for lane in model.lanes:
        if lane.files:
            rows.append(_text_lane(model, lane, width))
    if not model.runs:
        rows.append("Nothing written yet.")
    return "\n".join(rows)


def _text_lane(model: LsmModel, lane: Lane, width: int) -> str:
    shade = "░▒▓█"[min(lane.level * 3 // max(model.num_levels - 1, 1), 3)]
    cells = [" "] * width
    for file in lane.files:
        first = min(int(file.lo * width), width - 1)
        last = max(min(int(np.ceil(file.hi * width)), width), first + 1)
        cells[first:last] = [shade] * (last - first)
        if first and cells[first - 1] == shade and last - first > 1:
            cells[first] = "|"
    label = f"L{lane.level} {lane.note if lane.level == 0 else ''}"
    deletes, rows = sum(f.deletes for f in lane.files), sum(f.rows for f in lane.files)
    marks = f" −D {fmt.percent(deletes, rows)}" if deletes else ""
    marks += " > next" if any(file.name in model.plan.inputs for file in lane.files) else ""
    marks += ", out" if marks.endswith("next") and lane.level == model.plan.output_level else ""
    return f"{label:<12}{fmt.bytes_text(lane.bytes):>9}  {''.join(cells)}{marks}".rstrip()
