"""The funnel of rules, the lanes of one bucket with skipped files hatched, and one file explained, as SVG.

Invariants: rules never reorder; bars are on a log scale, and say so; a skipped file is a ghost hatch with its
rule's letter, a read one has its level's fill; the panel's height is fixed, so choosing a file moves nothing.
Pure: model → `Figure`. Called by the widget and by the static export.
"""

from dataclasses import dataclass
from math import log10
from typing import Literal

from widgets.kit import format as fmt
from widgets.kit.svg import (
    Figure,
    code,
    esc,
    fit,
    group,
    hatch,
    labels,
    line,
    num,
    path,
    rect,
    stack,
    tag,
    text,
    text_width,
    wrap,
)
from widgets.kit.theme import level_fill, level_text, var
from widgets.pruning.model import FileGroup, PruningModel, PruningStep, RuleMark, RunLane, explained

Mode = Literal["files", "bytes"]
MARGIN, ROW, LANE, PITCH = 16, 29, 22, 29
LEFT, RIGHT, PANEL = 96, 64, 106


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the columns of the funnel stand."""

    bar: float
    bar_width: float
    count: float
    change: float
    reason: float
    bytes: float

    @classmethod
    def of(cls, width: float) -> "Columns":
        """Columns for a width; narrow ones give up bar before words."""
        bar = MARGIN + 122.0
        wide = 240.0 if width >= 960 else 150.0 if width >= 700 else max(min(90.0, width - 374), 40.0)
        count = bar + wide + (62 if width >= 700 else 46)
        return cls(bar, wide, count, count + 14, count + (76 if width >= 960 else 60), width - MARGIN)


def pruning_figure(
    model: PruningModel,
    *,
    width: float,
    mode: Mode = "files",
    selected: str = "",
    groups: tuple[FileGroup, ...] = (),
) -> Figure:
    """Rules, the opened bucket and the explained file below each other."""
    parts = [_condition(model, width), rules_figure(model, width=width, mode=mode)]
    if model.lanes:
        heading = heading_figure(model, width=width)
        lanes = lanes_figure(model, width=width, selected=selected)
        panel = panel_figure(model, width=width, selected=selected, groups=groups, fixed=False)
        parts += [heading, lanes, panel]
    whole = stack(parts)
    return Figure(whole.width, whole.height, hatch() + whole.body, label(model), {})


def _condition(model: PruningModel, width: float) -> Figure:
    """The condition, where there is no box to show it."""
    words = f"where {model.where}" if model.where else "every row is asked for"
    shown = fit(words, width - 2 * MARGIN, size=12, monospace=True)
    return Figure(width, 26, code(MARGIN, 16, shown, size=12, fill="ink"))


def label(model: PruningModel) -> str:
    """The conclusion in words."""
    if not model.steps:
        return "Pruning: nothing written yet"
    read, whole = model.read, model.whole
    size = f"{fmt.bytes_text(read.bytes)} of {fmt.bytes_text(whole.bytes)}"
    return f"Pruning: reads {read.files:,} of {fmt.plural(whole.files, 'file')}, {size}"


def rules_figure(model: PruningModel, *, width: float, mode: Mode = "files") -> Figure:
    """The funnel: one row a rule, and the row groups of what is left."""
    at, y = Columns.of(width), 8.0
    if not model.steps:
        body = text(MARGIN, 28, "Nothing written yet.", fill="ink", weight=600)
        return Figure(width, 60, body + text(MARGIN, 46, "Write some rows, then refresh()."), "")
    parts = []
    largest = max(_amount(model.whole, mode), 1)
    for step in model.steps:
        parts.append(_rule(step, at, y, width, mode, largest))
        y += ROW
    parts.append(line(MARGIN, y + 3, width - MARGIN, y + 3))
    parts.append(_row_groups(model, at, y + 7, width))
    y += ROW + 7
    what = "files" if mode == "files" else "bytes"
    parts.append(
        text(MARGIN, y + 14, f"bar length: log scale of {what}; hatched: skipped by this rule", size=11)
    )
    return Figure(width, y + 26, "".join(parts), label(model))


def _amount(step: PruningStep, mode: Mode) -> int:
    return step.files if mode == "files" else step.bytes


def _length(amount: float, largest: float, room: float) -> float:
    """A bar on a log scale from 1; nothing has no bar."""
    return 0.0 if amount <= 0 else max(room * log10(1 + amount) / log10(1 + largest), 2.0)


def _rule(step: PruningStep, at: Columns, y: float, width: float, mode: Mode, largest: int) -> str:
    middle, first = y + ROW / 2 + 4, step.rule == "all files"
    weight = 600 if first or step.skipped else 400
    parts = [] if first else [letter(step.letter, MARGIN, y + 4.5, faded=not step.skipped)]
    parts.append(text(MARGIN + 28, middle, step.rule, fill="ink" if weight == 600 else "ink2", weight=weight))
    now = _amount(step, mode)
    before = now + (step.skipped if mode == "files" else step.bytes_skipped)
    full, left = _length(before, largest, at.bar_width), _length(now, largest, at.bar_width)
    if full > left:
        ghost = {"fill": "url(#lw-ghost)", "stroke": var("line2"), "stroke_width": "1"}
        parts.append(rect(at.bar, y + 6.5, full, 16, rx=2, **ghost))
    if left:
        parts.append(rect(at.bar, y + 6.5, left, 16, rx=2, fill=var("append")))
    parts.append(text(at.count, middle, f"{step.files:,}", fill="ink", weight=600, text_anchor="end"))
    if not first:
        change = f"{fmt.MINUS}{step.skipped:,}" if step.skipped else "±0"
        parts.append(text(at.change, middle, change))
    size = fmt.bytes_text(step.bytes)
    room = at.bytes - 76 - at.reason
    if room > 60 and not first:
        parts.append(text(at.reason, middle, fit(step.reason, room), data_full=step.reason))
    parts.append(text(at.bytes, middle, size, fill="ink", text_anchor="end"))
    return group(*parts, class_="rule", data_rule=step.rule, data_reason=step.reason)


def _row_groups(model: PruningModel, at: Columns, y: float, width: float) -> str:
    """How many row groups of the read files are read; linear, on a scale of their own."""
    middle, groups = y + ROW / 2 + 4, model.groups
    parts = [text(MARGIN + 28, middle, "row groups", weight=600 if groups.read < groups.total else 400)]
    if not groups.total:
        parts.append(text(at.bar, middle, "none to read"))
        return "".join(parts)
    share = at.bar_width * groups.read / groups.total
    if groups.read < groups.total:
        ghost = {"fill": "url(#lw-ghost)", "stroke": var("line2"), "stroke_width": "1"}
        parts.append(rect(at.bar, y + 6.5, at.bar_width, 16, rx=2, **ghost))
    if share:
        parts.append(rect(at.bar, y + 6.5, max(share, 2.0), 16, rx=2, fill=var("append")))
    parts.append(text(at.count, middle, f"{groups.read:,}", fill="ink", weight=600, text_anchor="end"))
    skipped = groups.total - groups.read
    parts.append(text(at.change, middle, f"{fmt.MINUS}{skipped:,}" if skipped else "±0"))
    where = (
        f"first {groups.files:,} of {groups.files_left:,}"
        if groups.files < groups.files_left
        else f"{groups.files:,}"
    )
    reason = (
        f"of {groups.total:,} in {where} {'file' if groups.files_left == 1 else 'files'}; this bar is linear"
    )
    reason += f"; by {groups.letters.replace(' ', ', ')}" if groups.letters else ""
    room = at.bytes - 76 - at.reason
    if room > 60:
        parts.append(text(at.reason, middle, fit(reason, room), data_full=reason))
    parts.append(text(at.bytes, middle, fmt.bytes_text(groups.bytes_read), fill="ink", text_anchor="end"))
    return group(*parts, class_="rule", data_rule="row groups", data_reason=reason)


def letter(sign: str, x: float, y: float, *, faded: bool = False, size: float = 20) -> str:
    """A rule's letter in a square."""
    stroke, fill = ("line2", "ink3") if faded else ("ink2", "ink")
    box = rect(x, y, size, size, rx=4, fill=var("bg"), stroke=var(stroke))
    baseline = y + size / 2 + (4 if size >= 18 else 3.8)
    return box + text(x + size / 2, baseline, sign, size=11, fill=fill, weight=600, text_anchor="middle")


def heading_figure(model: PruningModel, *, width: float) -> Figure:
    """The opened bucket's name and the legend."""
    files = len(model.files)
    read = sum(mark.kept for mark in model.files)
    parts = [line(0, 0.5, width, 0.5)]
    place = fit(model.place, width * 0.4, size=13, weight=600)
    parts.append(text(MARGIN, 26, place, size=13, fill="ink", weight=600))
    x = MARGIN + text_width(place, size=13, weight=600) + 10
    count = f"{read:,} of {fmt.plural(files, 'file')} read"
    room = text_width(count)
    parts.append(text(x, 26, count))
    entries = [("skipped", "skipped, letter = rule"), ("read", "read")]
    entries = [("keys", "keys asked for"), *entries] if model.asked is not None else entries
    end = width - MARGIN
    while entries and sum(text_width(w, size=11) + 42 for _, w in entries) > end - x - room:
        entries.pop(0)
    for kind, words in entries:
        end -= text_width(words, size=11)
        parts.append(text(end, 26, words, size=11))
        end -= 28
        parts.append(_swatch(kind, end, 16))
        end -= 14
    return Figure(width, 38, "".join(parts))


def _swatch(kind: str, x: float, y: float) -> str:
    if kind == "read":
        return rect(x, y, 20, 12, rx=2, fill=level_fill(4, 6), stroke=var("edge"))
    if kind == "skipped":
        return rect(x, y, 20, 12, rx=2, fill="url(#lw-ghost)", stroke=var("line2"))
    return rect(x, y, 20, 12, rx=2, fill=var("sel-tint")) + path(
        [f"M{num(x)} {num(y)}v12M{num(x + 20)} {num(y)}v12"], stroke=var("ink"), stroke_width="1.75"
    )


def lanes_figure(model: PruningModel, *, width: float, selected: str = "") -> Figure:
    """The runs of the opened bucket over its keys."""
    left, right = float(MARGIN + LEFT), width - MARGIN - RIGHT
    top = 24.0
    bottom = top + len(model.lanes) * PITCH
    parts = [_asked(model, left, right, top, bottom)]
    for at, lane in enumerate(model.lanes):
        y = top + at * PITCH
        middle = y + LANE / 2 + 4
        parts.append(text(MARGIN, middle, lane.label, size=13, fill="ink", weight=600))
        parts.append(text(MARGIN + 28, middle, lane.note, size=11))
        parts.append(_files(model, lane, (left, right), y, at, selected))
        parts.append(text(right + 12, middle, f"{lane.read:,} of {len(lane.files):,}"))
    parts.append(_edges(model, left, right, top, bottom))
    parts.append(_axis(model, left, right, bottom))
    meta: dict[str, object] = {"lanes": len(model.lanes)}
    return Figure(width, bottom + 24, "".join(parts), label(model), meta)


def _asked(model: PruningModel, left: float, right: float, top: float, bottom: float) -> str:
    """The part of the key axis that is asked for, behind the files, and the condition above it."""
    if model.asked is None:
        return ""
    low, high, words = model.asked
    x, end = left + low * (right - left), left + high * (right - left)
    shown = fit(fmt.grouped(words), right - left, size=11, weight=600)
    wide = text_width(shown, size=11, weight=600)
    at = min(max((x + end) / 2 - wide / 2, left), right - wide)
    band = rect(x, top - 6, max(end - x, 1), bottom - top + 4, fill=var("sel-tint"))
    return band + text(at, top - 11, shown, size=11, fill="ink", weight=600)


def _edges(model: PruningModel, left: float, right: float, top: float, bottom: float) -> str:
    """The ends of the keys asked for: short ink marks above and below the files."""
    if model.asked is None:
        return ""
    steps = []
    for place in dict.fromkeys(model.asked[:2]):
        x = left + place * (right - left)
        steps.append(f"M{num(x)} {num(top - 6)}V{num(top - 1)}M{num(x)} {num(bottom - 5)}V{num(bottom - 2)}")
        for at in range(len(model.lanes) - 1):
            y = top + at * PITCH + LANE + 1
            steps.append(f"M{num(x)} {num(y)}v{PITCH - LANE - 2}")
    return path(steps, stroke=var("ink"), stroke_width="1.75", fill="none")


def _files(
    model: PruningModel, lane: RunLane, span: tuple[float, float], y: float, at: int, selected: str
) -> str:
    left, room = span[0], span[1] - span[0]
    if len(lane.files) * 3 > room or lane.note.startswith("+"):
        return _dense(model, lane, left, room, y)
    parts = []
    for mark in lane.files:
        x = left + mark.lo * room
        wide = max(left + mark.hi * room - x - 1, 3.0)
        x = min(x, left + room - wide)
        parts.append(_file(model, mark, (x, y, wide, float(LANE)), at, selected))
    return "".join(parts)


def _file(
    model: PruningModel, mark: RuleMark, box: tuple[float, float, float, float], lane: int, selected: str
) -> str:
    x, y, wide, tall = box
    radius = 2 if wide > 6 else 0
    if mark.kept:
        fill = level_fill(mark.level, model.num_levels)
        parts = [rect(x, y, wide, tall, rx=radius, fill=fill, stroke=var("edge"), class_="box")]
        size = fmt.bytes_text(mark.bytes)
        if text_width(size) + 14 <= wide:
            colour = level_text(mark.level, model.num_levels)
            parts.append(text(x + 8, y + tall / 2 + 4, size, fill=colour))
    else:
        ground = {"rx": radius, "fill": var("bg")}
        parts = [rect(x, y, wide, tall, **ground)]
        ghost = {"rx": radius, "fill": "url(#lw-ghost)", "stroke": var("line2"), "class_": "box"}
        parts.append(rect(x, y, wide, tall, **ghost))
        if wide >= 22:
            parts.append(letter(mark.letter, x + wide / 2 - 8, y + tall / 2 - 8, size=16))
    if mark.name == selected:
        parts.append(ring(x, y, wide, tall))
    return group(
        *parts, class_="file", data_name=mark.name, data_lane=lane, role="gridcell", aria_label=mark.spoken
    )


def ring(x: float, y: float, wide: float, tall: float) -> str:
    """The ring of the chosen file, off the box by a gap."""
    return rect(x - 3, y - 3, wide + 6, tall + 6, rx=5, fill="none", stroke=var("ink"), stroke_width=2)


def _dense(model: PruningModel, lane: RunLane, left: float, room: float, y: float) -> str:
    """Files under 3 px: read ones as one path, skipped ones as another."""
    steps: dict[bool, list[str]] = {True: [], False: []}
    for mark in lane.files:
        x, wide = left + mark.lo * room, max((mark.hi - mark.lo) * room, 1.0)
        steps[mark.kept].append(f"M{num(x)} {num(y)}h{num(wide)}v{LANE}h{num(-wide)}z")
    words = f"{lane.read:,} of {fmt.plural(len(lane.files), 'file')} read"
    return group(
        path(steps[False], fill="url(#lw-ghost)", stroke=var("line"), stroke_width="0.5")
        if steps[False]
        else "",
        path(steps[True], fill=level_fill(lane.level, model.num_levels)) if steps[True] else "",
        class_="dense",
        aria_label=words,
    )


def _axis(model: PruningModel, left: float, right: float, y: float) -> str:
    if not model.ticks:
        return text(left, y + 12, "no key: files of the bucket side by side", size=11)
    wide = right - left
    places = ((left + place * wide, fit(words, wide / 2, size=11)) for place, words in model.ticks)
    return labels(places, y + 12, (left, right), gap=10)


def panel_figure(
    model: PruningModel,
    *,
    width: float,
    selected: str = "",
    groups: tuple[FileGroup, ...] = (),
    fixed: bool = True,
) -> Figure:
    """The chosen file explained: verdict, the numbers compared, what the rule rests on, its row groups.

    Unless `fixed` it is only as high as what it says.
    """
    mark = model.find(selected)
    verdict, reason, rests = explained(mark, groups)
    inner = width - 2 * MARGIN - 24
    parts = [text(MARGIN + 12, 26, fit(verdict, inner * 0.7, size=12, weight=600), fill="ink", weight=600)]
    if mark is not None:
        name = f"{fmt.file_name(mark.name)} · L{mark.level}"
        wide = text_width(name, size=11, monospace=True)
        if text_width(verdict, weight=600) + wide + 24 < inner:
            parts.append(text(width - MARGIN - 12, 26, name, size=11, text_anchor="end", class_="code"))
    y, room = 44, 2 if groups else 4
    lines = wrap(reason, inner, lines=2) + (wrap(rests, inner, lines=2) if rests else [])
    for row in lines[:room]:
        parts.append(text(MARGIN + 12, y, row, fill="ink2"))
        y += 16
    tall = PANEL if fixed or groups else y - 10
    body = rect(MARGIN, 4, width - 2 * MARGIN, tall, rx=6, fill=var("panel"), stroke=var("line"))
    strip = _strip(groups, MARGIN + 12, inner, 74)
    return Figure(width, tall + 18, body + "".join(parts) + strip)


def _strip(groups: tuple[FileGroup, ...], x: float, room: float, y: float) -> str:
    """The row groups of a file that is read, those left out hatched."""
    if not groups:
        return ""
    shown = groups[: int(room // 14)]
    pitch = min(room / len(shown), 160.0)
    parts = []
    if len(shown) < len(groups):
        words = f"first {len(shown):,} of {len(groups):,} row groups drawn"
        parts.append(text(x + room, y - 14, words, size=11, text_anchor="end"))
    return "".join(
        [*parts, *(_group(row_group, x + at * pitch, y, pitch - 3) for at, row_group in enumerate(shown))]
    )


def _group(files: FileGroup, x: float, y: float, wide: float) -> str:
    words = f"row group {files.number}, {files.rows:,} rows, {fmt.bytes_text(files.bytes)}, "
    words += "read" if files.kept else f"skipped by {files.letter}: {files.compared}"
    fill, stroke = ("append", "append") if files.kept else ("bg", "line2")
    parts = [rect(x, y, wide, 22, rx=2, fill=var(fill), stroke=var(stroke))]
    size = fmt.bytes_text(files.bytes)
    if files.kept and text_width(size, size=11) + 10 < wide:
        parts.append(text(x + 6, y + 15, size, size=11, fill="bg"))
    if not files.kept:
        parts.append(rect(x, y, wide, 22, rx=2, fill="url(#lw-ghost)"))
        parts += [letter(files.letter, x + wide / 2 - 8, y + 3, size=16)] if wide >= 22 else []
    return group(*parts, tag("title", esc(words)), class_="rg", role="img", aria_label=words)
