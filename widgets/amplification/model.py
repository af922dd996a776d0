"""Write, read and space amplification over snapshots, as columns that charts draw.

Invariants: snapshots are in commit order; a number that is not known (an expired snapshot, a copy that was
not estimated) is NaN and is drawn as a gap, never as zero; what is exact and what is estimated is said in the
engine's words. Pure: from `inspect.amplification(per="snapshot")`. Called by figure, widget and by WhatIf.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.history.history import spans_of
from widgets.kit import format as fmt

WRITE, READ, SPACE = range(3)
NAMES = ("write", "read", "space")
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class NextAmplification:
    """What the next compaction would make of the three numbers, by its forecast; None: unknown."""

    write: float | None = None
    read: float | None = None
    space: float | None = None

    @property
    def values(self) -> tuple[float | None, float | None, float | None]:
        """Write, read, space."""
        return self.write, self.read, self.space


@dataclass(frozen=True, slots=True, eq=False)
class AmplificationModel:
    """The three numbers after every snapshot, oldest first. Immutable by agreement."""

    title: str
    place: str
    ids: np.ndarray
    kinds: tuple[str, ...]
    series: tuple[np.ndarray, np.ndarray, np.ndarray]
    compacted: np.ndarray
    flows_exact: np.ndarray
    space_exact: np.ndarray
    why: tuple[str, ...]
    space_ends: tuple[np.ndarray, np.ndarray]
    since: int | None = None
    one_bucket: bool = True
    trigger: int | None = None
    stop: int | None = None
    after: NextAmplification = NextAmplification()

    def __len__(self) -> int:
        return len(self.ids)

    def index_of(self, snapshot: int) -> int | None:
        """The position of a snapshot id, or None."""
        place = int(np.searchsorted(self.ids, snapshot))
        return place if place < len(self) and self.ids[place] == snapshot else None

    def value(self, series: int, index: int) -> float | None:
        """One number, None where it is not known."""
        return _known(self.series[series][index])

    def shown(self, series: int, index: int) -> str:
        """A number as charts show it: `2.22`, `7`, `1.1 to 1.9` or `≈ 1.31` of an estimate, `–`."""
        value = self.value(series, index)
        if series == SPACE and value is not None and not self.space_exact[index]:
            return fmt.factor(value, *(_known(ends[index]) for ends in self.space_ends))
        return number(series, value, self.one_bucket)

    def space_text(self, index: int) -> str:
        """`shown` of the space amplification."""
        return self.shown(SPACE, index)

    def sentence(self, index: int) -> str:
        """`#412 APPEND · write 2.22 · read 7 runs · space 1.1 to 1.9`."""
        write, read, space = (self.shown(series, index) for series in (WRITE, READ, SPACE))
        return f"#{self.ids[index]} {self.kinds[index]} · write {write} · read {read} · space {space}"

    @property
    def spans(self) -> list[list[int]]:
        """The ids as (position, id, how many) of each row of them without a gap."""
        return spans_of(self.ids)

    def exactnesses(self) -> list[str]:
        """`exactness` of every snapshot."""
        flows = np.logical_and.accumulate(self.flows_exact).tolist() if len(self) else []
        return [self._exactness(index, flow) for index, flow in enumerate(flows)]

    def exactness(self, index: int) -> str:
        """What is exact and what is estimated after a snapshot, and why, in the engine's words."""
        return self._exactness(index, bool(self.flows_exact[: index + 1].all()))

    def _exactness(self, index: int, flows: bool) -> str:
        parts = []
        if not flows:
            parts.append("compactions of other engines: bytes as far as snapshots record them")
        if self.value(READ, index) is None:
            parts.append("the snapshot has expired: what was live is not known")
        elif self.why[index]:
            exactness = "exact" if self.space_exact[index] else "estimated"
            what = f"space {exactness}" if self.value(SPACE, index) is not None else "space not known"
            parts.append(f"{what}: {self.why[index]}")
        return "; ".join(parts)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def number(series: int, value: float | None, whole: bool = True) -> str:
    """`2.22` of write and space, `7` runs of one bucket, `4.3` as a mean of several."""
    if value is None:
        return fmt.ABSENT
    return f"{value:.{(0 if whole else 1) if series == READ else 2}f}"


def amplification_model(
    rows: pa.Table,
    *,
    title: str = "",
    place: str = "",
    options: Mapping[str, object] | None = None,
    after: NextAmplification | None = None,
) -> AmplificationModel:
    """The model of `inspect.amplification(per="snapshot")`; columns that are missing count as unknown."""
    rows = rows.sort_by("snapshot_id") if rows.num_rows else rows
    runs, point = _floats(rows, "runs"), _floats(rows, "point_files")
    is_point = bool(np.array_equal(runs, point, equal_nan=True)) or "point_files" not in rows.column_names
    triggers = _triggers(options or {}) if is_point else (None, None)
    return AmplificationModel(
        title=title,
        place=place,
        ids=_ids(rows),
        kinds=tuple(_texts(rows, "commit_kind")),
        series=(
            _floats(rows, "write_amplification"),
            runs if is_point else point,
            _floats(rows, "space_amplification"),
        ),
        compacted=_compacted(rows),
        flows_exact=_flags(rows, "compactions_exact", default=True),
        space_exact=_flags(rows, "space_exact", default=False),
        why=tuple(_texts(rows, "why")),
        space_ends=(_floats(rows, "space_min"), _floats(rows, "space_max")),
        since=_since(rows),
        one_bucket=is_point,
        trigger=triggers[0],
        stop=triggers[1],
        after=after or NextAmplification(),
    )


def _triggers(options: Mapping[str, object]) -> tuple[int, int]:
    """The run trigger and the stop trigger; absent keys mean what the format's defaults mean."""
    trigger = int(str(options.get("num-sorted-run.compaction-trigger", 5)))
    return trigger, int(str(options.get("num-sorted-run.stop-trigger", trigger + 3)))


def _ids(rows: pa.Table) -> np.ndarray:
    return rows["snapshot_id"].to_numpy() if rows.num_rows else np.zeros(0, dtype=np.int64)


def _floats(rows: pa.Table, name: str) -> np.ndarray:
    if name not in rows.column_names:
        return np.full(rows.num_rows, np.nan)
    return pc.fill_null(rows[name].cast(pa.float64()), float("nan")).to_numpy()


def _flags(rows: pa.Table, name: str, *, default: bool) -> np.ndarray:
    if name not in rows.column_names:
        return np.full(rows.num_rows, default)
    flags = pc.fill_null(rows[name].cast(pa.bool_()), default)
    return flags.to_numpy(zero_copy_only=False).astype(bool)


def _texts(rows: pa.Table, name: str) -> list[str]:
    if name not in rows.column_names:
        return [""] * rows.num_rows
    return [str(value or "") for value in rows[name].to_pylist()]


def _compacted(rows: pa.Table) -> np.ndarray:
    """Whether a snapshot did a compaction."""
    if "compactions" in rows.column_names:
        return pc.greater(pc.fill_null(rows["compactions"], 0), 0).to_numpy(zero_copy_only=False).astype(bool)
    return np.array([kind == "COMPACT" for kind in _texts(rows, "commit_kind")], dtype=bool)


def _since(rows: pa.Table) -> int | None:
    if not rows.num_rows or "since_snapshot" not in rows.column_names:
        return None
    since = rows["since_snapshot"][0].as_py()
    return None if since is None else int(since)


def text_form(model: AmplificationModel, index: int, *, width: int = 40) -> str:
    """The three charts in a terminal: a row of bars each, the value at `index`, and what is estimated."""
    if not len(model):
        return f"{model.title}  amplification\nNothing written yet.".strip()
    head = [model.title, "amplification", model.place, f"#{model.ids[0]} … #{model.ids[-1]}"]
    rows = ["  ".join(part for part in head if part)]
    for series, name in enumerate(NAMES):
        after = model.after.values[series]
        coming = f"  next ≈ {number(series, after, model.one_bucket)}" if after is not None else ""
        bars = sparkline(model.series[series], width, floor=0.0 if series == READ else 1.0)
        rows.append(f"{name:<6}{bars}  {model.shown(series, index)}{coming}")
    remark = model.exactness(index)
    return "\n".join([*rows, *([f"#{model.ids[index]}: {remark}"] if remark else [])])


def sparkline(values: np.ndarray, width: int, *, floor: float) -> str:
    """Values as bars of text, the mean of each bin; a blank where nothing is known."""
    if not len(values) or np.isnan(values).all():
        return ""
    top = max(float(np.nanmax(values)), floor + 1e-9)
    shown = []
    for part in np.array_split(values, min(width, len(values))):
        numbers = part[~np.isnan(part)]
        share = (float(numbers.mean()) - floor) / (top - floor) if len(numbers) else None
        shown.append(" " if share is None else _BARS[min(max(int(share * 8), 0), 7)])
    return "".join(shown)
