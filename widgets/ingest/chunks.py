"""The chunk map: one box a chunk in key order, under a legend with counts.

Invariants: waiting is empty, reading fills from below inside an ink ring, read is striped, committed is
solid; boxes keep their places whatever their state; more than 600 chunks become columns of 4 px that say how
many they stand for. One path a state, so the size of the picture hardly grows with the chunks. Pure: called
by `figure`.
"""

from dataclasses import dataclass
from typing import Any

from widgets.ingest.model import CHUNK_STATES, STATE_WORDS, IngestState
from widgets.kit import format as fmt
from widgets.kit.svg import fit, num, path, rect, text, text_width
from widgets.kit.theme import var

MARGIN = 16
CHUNK_W, CHUNK_H, GAP, PER_ROW, MAX_CHUNKS = 15.0, 24.0, 5.0, 50, 600
WIDEST = 150.0
COLUMN, COLUMN_H = 4, 48.0


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """Where the boxes are."""

    top: float
    wide: float
    pitch: float
    per_row: int
    count: int

    def place(self, number: int) -> tuple[float, float]:
        """The upper left corner of a box."""
        row, column = divmod(number, self.per_row)
        return MARGIN + column * self.pitch, self.top + row * (CHUNK_H + GAP)

    @property
    def bottom(self) -> float:
        """Below the last row."""
        return self.top + -(-self.count // self.per_row) * (CHUNK_H + GAP)

    def meta(self) -> dict[str, Any]:
        """For the page, which finds the box below a pointer."""
        return {"x": MARGIN, "y": self.top, "w": self.wide, "h": CHUNK_H, "pitch": self.pitch} | {
            "row": CHUNK_H + GAP,
            "per_row": self.per_row,
            "count": self.count,
        }


def grid_of(count: int, top: float, width: float) -> ChunkGrid:
    """Fifty boxes a row where they fit; few chunks get wider boxes."""
    room = width - 2 * MARGIN + 4
    pitch = max(min(room / count, WIDEST), room / PER_ROW, CHUNK_W + 4)
    per_row = max(int(room / pitch + 1e-6), 1)
    return ChunkGrid(top, pitch - 4 if pitch > 24 else CHUNK_W, pitch, per_row, count)


def chunk_map(progress: IngestState, y: float, width: float) -> tuple[str, float, dict[str, object]]:
    """The section from `y` on: its markup, where it ends, and where its boxes are."""
    places = progress.places
    dense = places > MAX_CHUNKS
    parts = [text(MARGIN, y + 26, "Chunks", size=13, fill="ink", weight=600)]
    legend_y = y + 26 if width >= 860 else y + 48
    left, legend = _legend(progress, width, legend_y)
    after = MARGIN + text_width("Chunks", size=13, weight=600) + 6
    room = (left if width >= 860 else width - MARGIN) - after - 12
    parts.append(text(after, y + 26, fit(_remark(progress, width), room)))
    parts.append(legend)
    top = legend_y + 16
    if dense:
        columns, bottom = _columns(progress, top, width)
        parts.append(columns)
        meta: dict[str, object] = {}
    else:
        grid = grid_of(places, top, width)
        parts.append(_boxes(progress, grid))
        bottom, meta = grid.bottom - GAP, grid.meta()
    parts.append(_keys(progress, bottom + 16, width))
    return "".join(parts), bottom + (28 if progress.facts else 12), meta


def _remark(progress: IngestState, width: float) -> str:
    """`150 of ≈ 400,000 rows, in key order`."""
    places = progress.places
    sizes = [facts.rows for facts in progress.facts if facts.rows is not None]
    of = f" of ≈ {round(sum(sizes) / len(sizes), -3):,.0f} rows" if sizes and max(sizes) >= 2_000 else ""
    if places <= MAX_CHUNKS:
        return f"{places:,}{of}, in key order"
    per = -(-places // int((width - 2 * MARGIN) // COLUMN))
    return f"{places:,}, in key order · 1 column = {fmt.plural(per, 'chunk')}"


def _legend(progress: IngestState, width: float, y: float) -> tuple[float, str]:
    """Its left edge and its markup; from right to left: retried, waiting, reading, read, committed."""
    counts, parts, x = progress.counts, [], width - MARGIN
    named = [(state, f"{STATE_WORDS[state]} {counts.get(state, 0):,}") for state in CHUNK_STATES]
    if progress.retried:
        named = [("", f"2× retried {len(progress.retried)}"), *named]
    for place, (state, words) in enumerate(named):
        wide = text_width(words, size=11)
        if place == 0:
            parts.append(text(x, y, words, size=11, text_anchor="end"))
            x -= wide - 0.12 * wide  # a text that ends here: its estimate is wider than the text
        else:
            x -= wide
            parts.append(text(x, y, words, size=11))
        if state:
            x -= 20 if state == "reading" else 18
            parts.append(_sample(x, y - 10, state))
        x -= 14
    return x, "".join(parts)


def _sample(x: float, y: float, state: str) -> str:
    """A chunk in the legend."""
    if state == "reading":
        return _outlines([(x, y)], 12, 12) + _rings([(x, y)], 12, 12)
    return {"committed": _solid, "read": _striped, "waiting": _outlines}[state]([(x, y)], 12, 12)


Places = list[tuple[float, float]]


def _solid(places: Places, wide: float, tall: float) -> str:
    steps = [_box(x, y, wide, tall) for x, y in places]
    return path(steps, fill=var("append"), class_="box")


def _striped(places: Places, wide: float, tall: float) -> str:
    steps = [_box(x + 0.5, y + 0.5, wide - 1, tall - 1) for x, y in places]
    return path(steps, fill="url(#lw-read)", stroke=var("append"))


def _outlines(places: Places, wide: float, tall: float) -> str:
    steps = [_box(x + 0.5, y + 0.5, wide - 1, tall - 1) for x, y in places]
    return path(steps, fill="none", stroke=var("line2"))


def _rings(places: Places, wide: float, tall: float) -> str:
    """The ring around what is being read stands off the box by a pixel of background."""
    steps = [_box(x - 2, y - 2, wide + 4, tall + 4, round_=4) for x, y in places]
    return path(steps, fill="none", class_="ring", stroke=var("ink"), stroke_width=2)


def _box(x: float, y: float, wide: float, tall: float, *, round_: int = 2) -> str:
    """A box with round corners, as part of a path."""
    r, across, down = round_, num(wide - 2 * round_), num(tall - 2 * round_)
    return (
        f"M{num(x + r)} {num(y)}h{across}q{r} 0 {r} {r}v{down}q0 {r}-{r} {r}"
        f"h-{across}q-{r} 0-{r}-{r}v-{down}q0-{r} {r}-{r}z"
    )


def _boxes(progress: IngestState, grid: ChunkGrid) -> str:
    """All boxes, a path a state; then what is filled so far, retries, and labels where they fit."""
    by_state: dict[str, list[int]] = {state: [] for state in CHUNK_STATES}
    for number in range(grid.count):
        by_state[progress.chunks.get(number, "waiting")].append(number)
    places = {state: [grid.place(number) for number in numbers] for state, numbers in by_state.items()}
    drawn = {"waiting": _outlines, "read": _striped, "committed": _solid}
    parts = [drawn[state](places[state], grid.wide, CHUNK_H) for state in drawn if places[state]]
    if by_state["reading"]:
        shares = [progress.fills.get(number, 0.5) for number in by_state["reading"]]
        parts.append(_reading(places["reading"], shares, grid))
    labelled = progress.retried if grid.wide < 44 else range(grid.count)
    parts += [_label(progress, grid, number) for number in labelled if number < grid.count]
    return "".join(parts)


def _reading(places: Places, shares: list[float], grid: ChunkGrid) -> str:
    """Boxes filled from below inside their rings; where neighbours are close the ring takes from the box."""
    inset = 1.0 if grid.pitch - grid.wide < 6 else 0.0
    wide, tall = grid.wide - 2 * inset, CHUNK_H - 2 * inset
    inner = [(x + inset, y + inset) for x, y in places]
    levels = []
    for (x, y), share in zip(inner, shares, strict=True):
        filled, across = (tall - 2) * share, num(wide - 2)
        levels.append(f"M{num(x + 1)} {num(y + tall - 1)}h{across}v{num(-filled)}h-{across}z")
    return _outlines(inner, wide, tall) + path(levels, fill=var("append")) + _rings(inner, wide, tall)


def _label(progress: IngestState, grid: ChunkGrid, number: int) -> str:
    """The number of rows in a wide box, `2×` in one that was read again."""
    times = progress.retried.get(number)
    words = "" if not times else f"{times}×" if times < 10 else "9+"
    if grid.wide >= 44:
        rows = progress.facts[number].rows if number < len(progress.facts) else None
        words = " ".join(part for part in (words, fmt.short_count(rows) if rows is not None else "") if part)
    if not words or text_width(words, size=11) > max(grid.wide - 2, 22):
        return ""
    x, y = grid.place(number)
    state = progress.chunks.get(number, "waiting")
    if state == "committed":
        return text(x + grid.wide / 2, y + 16, words, size=11, fill="on-wb", weight=600, text_anchor="middle")
    patch = ""
    if state != "waiting":
        half = min(text_width(words, size=11) / 2 + 3, grid.wide / 2 - 1)
        patch = rect(x + grid.wide / 2 - half, y + 5, 2 * half, 14, fill=var("bg"))
    return patch + text(x + grid.wide / 2, y + 16, words, size=11, fill="ink", text_anchor="middle")


def _columns(progress: IngestState, top: float, width: float) -> tuple[str, float]:
    """Columns of 4 px: the share committed solid from below, the share read striped on top of it."""
    columns = int((width - 2 * MARGIN) // COLUMN)
    per = -(-progress.places // columns)
    used = -(-progress.places // per)
    ground = rect(MARGIN, top, used * COLUMN, COLUMN_H, fill=var("line"))
    solid, striped = [], []
    for column in range(used):
        members = range(column * per, min((column + 1) * per, progress.places))
        states = [progress.chunks.get(number) for number in members]
        done = COLUMN_H * states.count("committed") / len(states)
        read = COLUMN_H * (states.count("read") + states.count("reading")) / len(states)
        x = MARGIN + column * COLUMN
        if done:
            solid.append(f"M{x} {num(top + COLUMN_H)}v{num(-done)}h3v{num(done)}z")
        if read:
            striped.append(f"M{x} {num(top + COLUMN_H - done)}v{num(-read)}h3v{num(read)}z")
    return ground + path(solid, fill=var("append")) + path(striped, fill="url(#lw-read)"), top + COLUMN_H


def _keys(progress: IngestState, y: float, width: float) -> str:
    """The smallest and the largest key, below the ends of the map."""
    with_keys = [facts for facts in progress.facts if facts.lo is not None]
    if not with_keys:
        return ""
    low = fit(f"{progress.key} {fmt.key(str(with_keys[0].lo))}".strip(), width / 2 - 30, size=11)
    high = fit(fmt.key(str(with_keys[-1].hi)), width / 2 - 30, size=11)
    edge = _right_edge(progress.places, width)
    edge = max(edge, MARGIN + text_width(low, size=11) + 16 + text_width(high, size=11))
    return text(MARGIN, y, low, size=11) + text(edge, y, high, size=11, text_anchor="end")


def _right_edge(places: int, width: float) -> float:
    if places > MAX_CHUNKS:
        per = -(-places // int((width - 2 * MARGIN) // COLUMN))
        return MARGIN + -(-places // per) * COLUMN - 1
    grid = grid_of(places, 0, width)
    return MARGIN + (min(places, grid.per_row) - 1) * grid.pitch + grid.wide
