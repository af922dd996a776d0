"""All buckets of a table in one picture: a column per partition, a row per bucket, a gap between years.

Invariants: colour is one quantity by lightness; the ring means "above the compaction trigger", the dot
"writers stall". More than eight buckets become one row of the worst bucket a partition; partitions that do
not fit are left out by name. Pure: cells → `Figure`. Called by the levels widget and by the static export.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from widgets.kit import format as fmt
from widgets.kit.svg import (
    Figure,
    esc,
    fit,
    group,
    labels,
    legend,
    line,
    num,
    path,
    rect,
    tag,
    text,
)
from widgets.kit.theme import level_fill, level_text, var
from widgets.levels.buckets import BucketCell

ColourBy = Literal["runs", "files", "bytes", "deletes", "masked"]
MARGIN, LEFT, BARS, ROW = 16, 92, 40, 30
RINGED = 9.0
MAX_ROWS = 8
STEPS = 6
STEP_FILLS = [level_fill(step, STEPS) for step in range(STEPS)]
STEP_INKS = [level_text(step, STEPS) for step in range(STEPS)]
SHARES = {"deletes": "−D share", "masked": "DV share"}


@dataclass(frozen=True, slots=True)
class Overview:
    """The cells that are shown, and what was left out."""

    partitions: tuple[str, ...]
    rows: tuple[tuple[str, tuple[BucketCell | None, ...]], ...]
    left_out: int
    trigger: int
    stop_trigger: int


def overview(cells: Sequence[BucketCell], *, trigger: int, stop_trigger: int, places: int) -> Overview:
    """The newest `places` partitions; a row a bucket, or one row of the worst bucket above eight of them.
    `cells` come in partition order."""
    partitions = list(dict.fromkeys(cell.partition for cell in cells))
    shown = partitions[-places:]
    buckets = sorted({cell.bucket for cell in cells})
    by_place = {(cell.partition, cell.bucket): cell for cell in cells}
    if len(buckets) <= MAX_ROWS:
        rows = [(f"bucket {b}", tuple(by_place.get((p, b)) for p in shown)) for b in buckets]
    else:
        worst = {}
        for cell in sorted(cells, key=lambda cell: (cell.runs, cell.bytes)):
            worst[cell.partition] = cell
        rows = [(f"worst of {len(buckets)}", tuple(worst.get(p) for p in shown))]
    return Overview(tuple(shown), tuple(rows), len(partitions) - len(shown), trigger, stop_trigger)


def places_for(width: float, cells: Sequence[BucketCell]) -> int:
    """How many partitions fit at the smallest pitch that can still be clicked."""
    years = len({_year(cell.partition) for cell in cells})
    return max(int((width - 2 * MARGIN - LEFT - 7 * years) // 5), 1)


def overview_figure(view: Overview, *, width: float, colour_by: ColourBy, opened: str) -> Figure:
    """The grid with bytes a partition above it. `opened` is the id of the bucket shown below."""
    years = [_year(partition) for partition in view.partitions]
    gaps = len(set(years)) - 1
    room = width - 2 * MARGIN - LEFT - 7 * max(gaps, 0)
    pitch = min(max(room / max(len(view.partitions), 1), 5.0), 11.0 if len(view.partitions) > 12 else 32.0)
    xs, x = list[float](), float(MARGIN + LEFT)
    for at, year in enumerate(years):
        x += 7 if at and year != years[at - 1] else 0
        xs.append(x)
        x += pitch
    shown = [cell for _, row in view.rows for cell in row if cell]
    largest = max((_value(cell, colour_by) for cell in shown), default=0)
    largest = view.stop_trigger if colour_by == "runs" else largest
    body, cells, chosen = [_bars(view, xs, pitch)], list[str](), ""
    for at, (name, row) in enumerate(view.rows):
        y = BARS + 22 + at * ROW
        body.append(text(MARGIN, y + 18, fit(name, LEFT - 8, size=11), size=11))
        for cell_x, cell in zip(xs, row, strict=True):
            if cell:
                cells.append(_cell(cell, view, (cell_x, y, pitch - 2, ROW - 4), colour_by, largest))
                chosen += _opened(cell_x, y, pitch - 2, ROW - 4) if cell.id == opened else ""
    body.append(group(*cells, stroke=var("edge")) + chosen)
    bottom = BARS + 22 + len(view.rows) * ROW
    body.append(_years(years, xs, bottom + 12))
    words, last = _legend(view, shown, colour_by, largest, (width, bottom + 32, pitch))
    body.append(words)
    label = f"{len({c.partition for c in shown}):,} partitions, {len(shown):,} buckets shown"
    return Figure(width, last + 12, "".join(body), label)


def _year(partition: str) -> str:
    """The first partition value when there are several; columns of one value stand together."""
    return partition.split("/", 1)[0] if "/" in partition else ""


def _value(cell: BucketCell, colour_by: ColourBy) -> float:
    if colour_by in SHARES:
        return getattr(cell, colour_by) / cell.rows if cell.rows else 0.0
    return float({"runs": cell.runs, "files": cell.files, "bytes": cell.bytes}[colour_by])


def _shown_value(value: float, colour_by: ColourBy) -> str:
    if colour_by in SHARES:
        return fmt.percent(value, 1)
    return fmt.bytes_text(round(value)) if colour_by == "bytes" else fmt.count(round(value))


def _bars(view: Overview, xs: list[float], pitch: float) -> str:
    """The bytes of each partition."""
    columns = ([row[at] for _, row in view.rows] for at in range(len(xs)))
    sums = [sum(cell.bytes for cell in column if cell) for column in columns]
    largest = max(sums, default=0) or 1
    base = BARS + 14
    parts = [
        text(MARGIN, 24, "bytes", size=11),
        text(MARGIN, 38, f"max {fmt.bytes_text(largest)}", size=11, class_="most"),
    ]
    talls = (max(BARS * size / largest, 0.5 if size else 0.0) for size in sums)
    wide = num(pitch - 2)
    bars = (
        f"M{num(x)} {num(base)}v-{num(tall)}h{wide}v{num(tall)}z" for x, tall in zip(xs, talls, strict=True)
    )
    parts.append(path(bars, fill=var("line2"), class_="sums"))
    end = xs[-1] + pitch if xs else MARGIN + LEFT
    parts.append(line(MARGIN + LEFT, base, end, base, stroke="line2"))
    return "".join(parts)


def _cell(
    cell: BucketCell,
    view: Overview,
    box: tuple[float, float, float, float],
    colour_by: ColourBy,
    largest: float,
) -> str:
    """One bucket: shade, a ring or bar above the trigger, a dot where writers stall."""
    share = _value(cell, colour_by) / largest if largest else 0.0
    parts = _marks(cell.runs, view, box, min(int(share * STEPS), STEPS - 1))
    over, stalls = cell.runs > view.trigger, cell.runs > view.stop_trigger
    says = f"{cell.partition or 'table'}, bucket {cell.bucket}: {fmt.plural(cell.runs, 'run')}, "
    says += f"{fmt.plural(cell.files, 'file')}, {fmt.bytes_text(cell.bytes)}"
    says += ", above the trigger" if over else ""
    says += ", writers stall" if stalls else ""
    title = f"<title>{esc(says)}</title>"  # its name for a screen reader, too
    return group(title, *parts, class_="cell", data_bucket=cell.id, role="gridcell")


def _marks(runs: int, view: Overview, box: tuple[float, float, float, float], step: int) -> list[str]:
    """The shade of a cell and its signs."""
    x, y, wide, tall = box
    parts = [rect(x, y, wide, tall, rx=2, fill=STEP_FILLS[step], class_="box")]
    if runs > view.trigger:
        parts.append(_over(x, y, wide, tall))
    if runs > view.stop_trigger:
        dot = {"r": min(2.5, wide / 2 - 0.5), "fill": STEP_INKS[step], "stroke": "none", "class_": "sign"}
        parts.append(tag("circle", cx=x + wide / 2, cy=y + tall / 2, **dot))
    return parts


def _swatch(pitch: float, runs: int, view: Overview, colour_by: ColourBy) -> str:
    """A cell of that many runs, as the grid has it; where shades mean something else, the palest."""
    step = min(int(runs / view.stop_trigger * STEPS), STEPS - 1) if colour_by == "runs" else 0
    return group(*_marks(runs, view, (1, -8, min(pitch - 2, 10), 10), step), stroke=var("edge"))


def _opened(x: float, y: float, wide: float, tall: float) -> str:
    """The ring and stem of the bucket that is shown below; above everything else."""
    ring = {"fill": "none", "stroke": var("ink"), "stroke_width": 2}
    stem = line(x + wide / 2, y + tall + 3, x + wide / 2, y + tall + 9, stroke="ink", stroke_width=2)
    return rect(x - 3, y - 3, wide + 6, tall + 6, rx=4, **ring) + stem


def _over(x: float, y: float, wide: float, tall: float) -> str:
    """The sign of a bucket above the trigger: a ring, or a bar on top where rings would touch."""
    if wide + 2 < RINGED:
        return rect(x - 0.5, y - 4, wide + 1, 3, fill=var("compact"), stroke="none", class_="sign")
    ring = {"fill": "none", "stroke": var("compact"), "stroke_width": 2, "class_": "sign"}
    return rect(x - 2, y - 2, wide + 4, tall + 4, rx=3, **ring)


def _years(years: list[str], xs: list[float], y: float) -> str:
    """The first partition value under the first of its columns."""
    firsts = (next(members) for _, members in groupby(range(len(years)), key=lambda at: years[at]))
    places = ((xs[at], fit(fmt.short_partition(years[at]), 90, size=11)) for at in firsts)
    return labels(places, y, (0, 0), gap=6, middle=False)


def _legend(
    view: Overview,
    shown: list[BucketCell],
    colour_by: ColourBy,
    largest: float,
    place: tuple[float, float, float],
) -> tuple[str, float]:
    """Shades with their ends, how many buckets are above the trigger, how many stall, what is left out; and
    the y of its last row."""
    width, y, pitch = place
    boxes = (
        rect(step * 13, -10, 11, 12, rx=2, fill=fill, stroke=var("edge"))
        for step, fill in enumerate(STEP_FILLS)
    )
    name = SHARES.get(colour_by, "" if colour_by == "bytes" else colour_by)
    over = sum(1 for cell in shown if cell.runs > view.trigger)
    stalls = sum(1 for cell in shown if cell.runs > view.stop_trigger)
    more = "+" if colour_by == "runs" else ""
    above, beyond = (_swatch(pitch, runs + 1, view, colour_by) for runs in (view.trigger, view.stop_trigger))
    entries = [
        (STEPS * 13.0, "".join(boxes), f"0 … {_shown_value(largest, colour_by)}{more} {name}".rstrip()),
        (12.0, above, f"above trigger {view.trigger}: {fmt.plural(over, 'bucket')}"),
        (11.0, beyond, f"writers stall: {stalls}"),
    ]
    start, names = (MARGIN + LEFT, y), ("range", "above", "stalls")
    drawn, _, last = legend(entries, start, width - MARGIN, top=0, gap=16, rows=3, left=MARGIN, classes=names)
    if view.left_out:
        words = f"newest {len(view.partitions)} of {len(view.partitions) + view.left_out:,} partitions"
        drawn += text(width - MARGIN, 12, words, size=11, text_anchor="end")
    return drawn, last
