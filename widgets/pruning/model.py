"""A plan's decisions as rules, as the lanes of one bucket, and as one file explained.

Invariants: every number and reason is the engine's own (`scan(where=…).explain()`); nothing is decided here.
Lanes are newest first and hold only runs that have files. Pure: Arrow of the explanation and of
`inspect.levels()` → frozen values, and the text form. Called by the figures and by the widget.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.kit import format as fmt
from widgets.levels.axis import Tick, key_axis

LETTERS = {
    "partition": "P",
    "bucket": "B",
    "key range": "K",
    "column stats": "S",
    "file index": "F",
    "deletion vector": "D",
    "invisible": "V",
}
HELP = {
    "partition": "The partition's values decide for all files in it, exactly.",
    "bucket": "Equality on the bucket key names the only bucket that can hold the rows.",
    "key range": "A key lies between a file's smallest and largest key, so any file may be left out by them.",
    "column stats": "S and F skip a file only where no other file has the same keys, or together with those: "
    "skip a newer file alone and an old version of its rows would come back.",
    "file index": "The index beside the file has no row of the condition.",
    "deletion vector": "Every row there is marked as deleted.",
    "invisible": "Level 0 is read here once it is compacted.",
}
LANES, MAX_BUCKETS = 14, 6


@dataclass(frozen=True, slots=True)
class PruningStep:
    """One rule of the funnel: what is left after it."""

    rule: str
    letter: str
    files: int
    skipped: int
    bytes: int
    bytes_skipped: int
    reason: str


@dataclass(frozen=True, slots=True)
class RuleMark:
    """One file of the opened bucket and the verdict on it."""

    name: str
    level: int
    lo: float
    hi: float
    bytes: int
    rows: int
    keys: str
    kept: bool
    rule: str
    reason: str
    compared: str
    note: str

    @property
    def letter(self) -> str:
        """The rule's letter; empty for a file that is read."""
        return LETTERS.get(self.rule, "?") if not self.kept else ""

    @property
    def spoken(self) -> str:
        """What a screen reader says of it."""
        verdict = "read" if self.kept else f"skipped by {self.rule}"
        compared = f", {self.compared}" if self.compared and not self.kept else ""
        return f"level {self.level}, {fmt.bytes_text(self.bytes)}, keys {self.keys}, {verdict}{compared}"


@dataclass(frozen=True, slots=True)
class RunLane:
    """One sorted run, or the oldest level-0 runs together."""

    level: int
    label: str
    note: str
    files: tuple[RuleMark, ...]

    @property
    def read(self) -> int:
        """Files of it that are read."""
        return sum(mark.kept for mark in self.files)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """One row group of the chosen file."""

    number: int
    rows: int
    bytes: int
    kept: bool
    letter: str
    compared: str


@dataclass(frozen=True, slots=True)
class FileGroups:
    """Row groups of all files whose footers were opened: how many are read."""

    files: int = 0
    files_left: int = 0
    total: int = 0
    read: int = 0
    bytes: int = 0
    bytes_read: int = 0
    letters: str = ""


@dataclass(frozen=True, slots=True)
class BucketSum:
    """Files of one bucket, and how many of them are read."""

    id: str
    label: str
    files: int
    read: int


@dataclass(frozen=True, slots=True)
class PruningModel:
    """What the picture shows."""

    title: str
    snapshot: int | None
    where: str
    num_levels: int
    steps: tuple[PruningStep, ...] = ()
    groups: FileGroups = FileGroups()
    buckets: tuple[BucketSum, ...] = ()
    opened: str = ""
    lanes: tuple[RunLane, ...] = ()
    ticks: tuple[Tick, ...] = ()
    asked: tuple[float, float, str] | None = None

    @property
    def read(self) -> PruningStep:
        """What is left in the end."""
        return self.steps[-1] if self.steps else PruningStep("", "", 0, 0, 0, 0, "")

    @property
    def whole(self) -> PruningStep:
        """All live files."""
        return self.steps[0] if self.steps else self.read

    @property
    def files(self) -> tuple[RuleMark, ...]:
        """The files of the opened bucket, newest run first."""
        return tuple(mark for lane in self.lanes for mark in lane.files)

    def find(self, name: str) -> RuleMark | None:
        """The file of that name in the opened bucket."""
        return next((mark for mark in self.files if mark.name == name), None)

    @property
    def first(self) -> str:
        """The file that is explained unless one is chosen: one that was skipped for its numbers, if any."""
        compared = [
            m for rule in ("column stats", "file index", "key range") for m in self.files if m.rule == rule
        ]
        rest = [m for m in self.files if not m.kept] + list(self.files)
        return next((mark.name for mark in (*compared, *rest)), "")

    @property
    def place(self) -> str:
        """`l_month=6 · bucket 1`."""
        return place_text(self.opened)


def place_text(bucket: str) -> str:
    """`l_month=6 · bucket 1` of `l_month=6/1`; the bucket alone without partitions."""
    partition, _, number = bucket.rpartition("/")
    if not number:
        return ""
    return f"{partition} · bucket {number}" if partition else f"bucket {number}"


def steps_of(table: pa.Table) -> tuple[PruningStep, ...]:
    """The funnel from `explain().steps()`."""
    return tuple(
        PruningStep(
            row["rule"],
            LETTERS.get(row["rule"], ""),
            row["files"],
            row["files_skipped"],
            row["bytes"],
            row["bytes_skipped"],
            fmt.grouped(row["reason"]),
        )
        for row in table.to_pylist()
    )


def buckets_of(decisions: pa.Table) -> tuple[BucketSum, ...]:
    """Every bucket with its files, those with most files to read first."""
    if not decisions.num_rows:
        return ()
    counted = decisions.append_column("read", pc.cast(decisions["kept"], pa.int64()))
    sums = counted.group_by(["partition", "bucket"]).aggregate([("read", "sum"), ("read", "count")])
    sums = sums.sort_by(
        [("read_sum", "descending"), ("read_count", "descending"), ("partition", "ascending")]
    )
    return tuple(_bucket(row) for row in sums.to_pylist())


def _bucket(row: Mapping[str, Any]) -> BucketSum:
    partition = row["partition"] or ""
    values = fmt.short_partition(partition)
    label = f"{values}/{row['bucket']}" if partition else f"bucket {row['bucket']}"
    return BucketSum(f"{partition}/{row['bucket']}", label, row["read_count"], row["read_sum"])


def groups_of(row_groups: pa.Table, *, files_left: int) -> FileGroups:
    """The sums of `explain().row_groups()`."""
    if not row_groups.num_rows:
        return FileGroups(files_left=files_left)
    kept = row_groups.filter(row_groups["kept"])
    rules = sorted({rule for rule in row_groups["rule"].to_pylist() if rule})
    return FileGroups(
        files=pc.count_distinct(row_groups["file_name"]).as_py(),
        files_left=files_left,
        total=row_groups.num_rows,
        read=kept.num_rows,
        bytes=pc.sum(row_groups["bytes"]).as_py() or 0,
        bytes_read=pc.sum(kept["bytes"]).as_py() or 0,
        letters=" ".join(LETTERS.get(rule, "?") for rule in rules),
    )


def group_marks(row_groups: pa.Table) -> tuple[FileGroup, ...]:
    """The row groups of one file."""
    return tuple(
        FileGroup(
            row["row_group"],
            row["rows"],
            row["bytes"],
            row["kept"],
            LETTERS.get(row["rule"] or "", ""),
            fmt.grouped(row["compared"] or row["reason"] or ""),
        )
        for row in row_groups.to_pylist()
    )


def lanes_of(levels: pa.Table, decisions: pa.Table) -> tuple[tuple[RunLane, ...], tuple[Tick, ...]]:
    """The lanes of one bucket from `inspect.levels()` and the verdicts on its files, and the key axis."""
    verdicts = {row["file_name"]: row for row in decisions.to_pylist()}
    runs: dict[int, list[tuple[RuleMark, Any]]] = {}
    for row in levels.to_pylist():
        if row["file_name"] in verdicts:
            mark = _mark(row, verdicts[row["file_name"]])
            runs.setdefault(row["run"], []).append((mark, row.get("snapshot_id")))
    lanes = [_lane(runs[run]) for run in sorted(runs)]
    level0 = [lane for lane in lanes if lane.level == 0]
    if len(lanes) > LANES and len(level0) > 2:
        keep = max(LANES - (len(lanes) - len(level0)) - 1, 1)
        older = tuple(mark for lane in level0[keep:] for mark in lane.files)
        lanes = [*level0[:keep], RunLane(0, "", f"+{len(level0) - keep}", older), *lanes[len(level0) :]]
    last_level = None
    named = []
    for lane in lanes:
        named.append(
            RunLane(lane.level, f"L{lane.level}" if lane.level != last_level else "", lane.note, lane.files)
        )
        last_level = lane.level
    return tuple(named), _ticks(levels)


def _ticks(levels: pa.Table) -> tuple[Tick, ...]:
    placed = levels.filter(pc.is_valid(levels["min_key_pos"])) if levels.num_rows else levels
    if not placed.num_rows:
        return ()
    low, high = (placed[c].to_numpy() for c in ("min_key_pos", "max_key_pos"))
    keys = (placed[c].combine_chunks() for c in ("min_key", "max_key"))
    return key_axis(low, high, *keys).ticks()


def _lane(pairs: list[tuple[RuleMark, Any]]) -> RunLane:
    marks = tuple(sorted((mark for mark, _ in pairs), key=lambda mark: (mark.lo, mark.hi)))
    origin = pairs[0][1]
    note = fmt.snapshot_id(origin) if marks[0].level == 0 and origin is not None else ""
    return RunLane(marks[0].level, "", note, marks)


def _mark(row: Mapping[str, Any], verdict: Mapping[str, Any]) -> RuleMark:
    lo, hi = row["min_key_pos"], row["max_key_pos"]
    return RuleMark(
        name=row["file_name"],
        level=row["level"],
        lo=0.0 if lo is None else float(np.clip(lo, 0, 1)),
        hi=1.0 if hi is None else float(np.clip(hi, 0, 1)),
        bytes=row["bytes"],
        rows=row["rows"],
        keys=fmt.ABSENT if row["min_key"] is None else fmt.key_range(row["min_key"], row["max_key"]),
        kept=verdict["kept"],
        rule=verdict["rule"] or "",
        reason=fmt.grouped(verdict["reason"] or ""),
        compared=fmt.grouped(verdict["compared"] or ""),
        note=verdict["note"] or "",
    )


def explained(mark: RuleMark | None, groups: tuple[FileGroup, ...]) -> tuple[str, str, str]:
    """One file in words: the verdict, the engine's reason, what the rule rests on."""
    if mark is None:
        return "Nothing to explain.", "This bucket has no file.", ""
    if not mark.kept:
        compared = f" {mark.compared}." if mark.compared else ""
        return (
            f"Skipped by {mark.letter}, {mark.rule}.{compared}",
            _sentence(mark.reason),
            HELP.get(mark.rule, ""),
        )
    read = sum(group.kept for group in groups)
    verdict = f"Read: {read} of {fmt.plural(len(groups), 'row group')}." if groups else "Read."
    reason = (
        _sentence(mark.note)
        if mark.note
        else "No rule excludes it: it may have rows that meet the condition."
    )
    if mark.note and mark.compared:
        reason = f"{mark.compared}, but it is kept: {mark.note}."
    left = "Row groups are left out by their own minimum and maximum." if read < len(groups) else ""
    return verdict, reason, left


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def text_form(model: PruningModel) -> str:
    """The funnel in a terminal, a line a rule, and the opened bucket's files by letter."""
    if not model.steps:
        return f"{model.title}: nothing written yet."
    whole, read = model.whole, model.read
    head = f"{model.title} where {model.where or 'TRUE'}" if model.title else f"where {model.where or 'TRUE'}"
    rows = [f"{head}: reads {read.files:,} of {fmt.plural(whole.files, 'file')}, {_of(read, whole)}"]
    for step in model.steps:
        change = f"{fmt.MINUS}{step.skipped:,}" if step.skipped else "±0"
        size = fmt.bytes_text(step.bytes)
        shown = "" if step.rule == "all files" else change
        rows.append(f"{step.letter:1} {step.rule:<13}{step.files:>8,} {shown:>8}  {size:>9}  {step.reason}")
    if model.groups.total:
        rows.append(
            f"  row groups   {model.groups.read:>8,} of {model.groups.total:,} in "
            f"{fmt.plural(model.groups.files, 'file')}  {fmt.bytes_text(model.groups.bytes_read)}"
        )
    if model.lanes:
        rows.append(f"{model.place}: █ read, a letter = skipped by that rule")
    for lane in model.lanes:
        marks = " ".join("█" if mark.kept else mark.letter for mark in lane.files[:60])
        more = " …" if len(lane.files) > 60 else ""
        rows.append(f"  L{lane.level} {lane.note:<6} {marks}{more}")
    return "\n".join(rows)


def _of(read: PruningStep, whole: PruningStep) -> str:
    return f"{fmt.bytes_text(read.bytes)} of {fmt.bytes_text(whole.bytes)}"
