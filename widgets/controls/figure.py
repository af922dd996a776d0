"""The compaction panel as SVG: run meter, the rules in order with their sums, before → after, what it costs.

Invariants: the engine's sums are printed as the engine wrote them; a size that is not known yet carries ≈;
a part is as high as what it says. Narrow: one column of 296; wide: plan at the left, reasons at the right.
The live panel has inputs and buttons of the page above this picture, so that they stay in their places; a
static one draws the inputs (`inputs`). Pure: model → `Figure`. Called by the widget and by the static export.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from widgets.controls.model import BucketPick, ControlsModel, RunSummary
from widgets.controls.rules import rules_block
from widgets.controls.settings import short_label
from widgets.history.moments import CommitStory
from widgets.kit import format as fmt
from widgets.kit.svg import (
    Figure,
    code,
    fit,
    fit_place,
    group,
    line,
    num,
    path,
    rect,
    stack,
    text,
    text_width,
    wrap,
)
from widgets.kit.theme import level_fill, var

MARGIN = 14
ONE_COLUMN = 560
BUTTONS = 84  # of two columns: what the page's buttons need above the left one


def controls_figure(model: ControlsModel, *, width: float, inputs: bool = False) -> Figure:
    """The panel without its buttons, which are the page's."""
    two = width >= ONE_COLUMN
    top = BUTTONS if two and not inputs else 0
    pick = model.pick
    if pick is None:
        empty = _empty(model, width)
        body = group(empty.body, transform=f"translate(0 {top})")
        return replace(empty, height=empty.height + top, body=body)
    taken = sum(1 for run in model.runs if run.planned)
    column = width / 2 - MARGIN - 22 if two else width - 2 * MARGIN
    plan, y = _plan(model, pick, MARGIN, top, column, inputs=inputs)
    if two:
        outcome, left = _outcome(model, pick, MARGIN, y + 6, column)
        words, left = _words(model, MARGIN, left + 2, column)
        rules, right = rules_block(pick, width / 2 + 10, 0, width / 2 - MARGIN - 10, runs=taken)
        y = max(left, right)
        words += line(width / 2 - 8, 4, width / 2 - 8, y)
    else:
        rules, y = rules_block(pick, MARGIN, y + 6, column, runs=taken)
        outcome, y = _outcome(model, pick, MARGIN, y + 4, column)
        words, y = _words(model, MARGIN, y + 2, column)
    body = plan + rules + outcome + words
    return Figure(width, y + 6, body, label_of(pick), {"waiting": model.waiting})


def past_figure(stories: Sequence[CommitStory], opened: str, *, width: float) -> Figure:
    """In the past: what the commit after this moment then did, below it what the one of the moment had done,
    with the engine's own record of both."""
    blocks = [_story_figure(story, opened, width) for story in stories]
    ruled = [
        Figure(each.width, each.height, (line(MARGIN, 0, width - MARGIN, 0) if at else "") + each.body)
        for at, each in enumerate(blocks)
    ]
    whole = stack(ruled)
    return Figure(width, whole.height, whole.body, stories[0].head, {"waiting": 0})


def _story_figure(story: CommitStory, opened: str, width: float) -> Figure:
    room = width - 2 * MARGIN
    heads = wrap(story.head, room * 0.9, lines=3)
    body = [text(MARGIN, 16 + 16 * at, row, fill="ink", weight=600) for at, row in enumerate(heads)]
    y = 16 + 16 * len(heads)
    for row in story.rows(opened):
        for part in wrap(row, room, size=11, lines=3):
            body.append(text(MARGIN, y + 12, part, size=11, fill="ink" if row.startswith("✓") else "ink2"))
            y += 15
    return Figure(width, y + 10, "".join(body))


def label_of(pick: BucketPick) -> str:
    """The plan in a sentence, for screen readers."""
    if not pick.fires:
        return f"Next compaction, {pick.place}: none. {pick.reason}"
    files = fmt.plural(len(pick.inputs), "file")
    return f"Next compaction, {pick.place}: {pick.rule}, {files} to level {pick.output_level}"


def _empty(model: ControlsModel, width: float) -> Figure:
    """What is there when nothing can be planned: nothing yet, or what the table does not allow."""
    room = width - 2 * MARGIN
    if model.refused:
        rows = wrap(model.refused, room - 24, size=11, monospace=True, lines=6)
        tall = 48 + 14 * len(rows)
        body = rect(MARGIN, 4, room, tall, rx=4, fill=var("warn-tint"))
        body += rect(MARGIN, 4, 3, tall, fill=var("warn"))
        body += text(MARGIN + 12, 24, "▲ No compaction from here.", fill="warn", weight=600)
        body += text(MARGIN + 12, 40, "Snapshots, levels and sizes are shown.", size=11, fill="ink")
        body += "".join(code(MARGIN + 12, 56 + 14 * at, row) for at, row in enumerate(rows))
        return Figure(width, tall + 12, body, f"No compaction from here: {model.refused}", {"waiting": 0})
    body = text(MARGIN, 20, "Nothing to plan yet.", fill="ink", weight=600)
    body += text(MARGIN, 38, "The first commit appears after refresh().")
    words, y = _words(model, MARGIN, 44, room)
    return Figure(width, y + 6, body + words, "Next compaction: nothing to plan", {"waiting": 0})


def _plan(
    model: ControlsModel, pick: BucketPick, x: float, y: float, width: float, *, inputs: bool
) -> tuple[str, float]:
    """The bucket, the settings where the page has no inputs, and the meter of runs."""
    parts = []
    if inputs:
        parts.append(text(x, y + 14, fit_place(pick.place, width, weight=600), fill="ink", weight=600))
        y += 22
        if model.settings is not None and pick.trials:
            parts.append(_settings(model, x, y, width))
            y += 28
    if model.settings is not None and model.runs:
        parts.append(_meter(model, x, y + 4, width))
        y += 38
    return "".join(parts), y


def _settings(model: ControlsModel, x: float, y: float, width: float) -> str:
    """The strategy's triggers and their values, as the page's inputs show them."""
    parts, at = [], x
    assert model.settings is not None
    for setting in model.settings.settings:
        name = short_label(setting.key)
        wide = max(text_width(setting.text, size=11) + 12, 24)
        if at + text_width(name, size=11) + 6 + wide > x + width:
            break
        parts.append(text(at, y + 14, name, size=11))
        at += text_width(name, size=11) + 6
        parts.append(rect(at, y, wide, 20, rx=4, fill=var("bg"), stroke=var("line2")))
        parts.append(text(at + wide / 2, y + 14, setting.text, size=11, fill="ink", text_anchor="middle"))
        at += wide + 10
    return "".join(parts)


def _meter(model: ControlsModel, x: float, y: float, width: float) -> str:
    """One block a run (leveled: a level-0 file); marks after the trigger and after the stop trigger."""
    settings, backlog = model.settings, model.backlog
    assert settings is not None
    noun = "L0 file" if settings.leveled else "run"
    places = max(backlog, settings.stop_trigger + 1)
    many = fmt.plural(backlog, noun)
    step = (width - max(62, text_width(many, weight=600) + 8)) / places
    parts = []
    if step < 4:  # too many for a block each
        parts.append(rect(x, y + 3, places * step - 2, 9, rx=1, fill=var("line")))
        parts.append(rect(x, y + 3, max(backlog * step - 2, 0), 9, rx=1, fill=var("ink2")))
    for place in range(places if step >= 4 else 0):
        fill = var("ink2") if place < backlog else var("line")
        parts.append(rect(x + place * step, y + 3, step - 2, 9, rx=1, fill=fill))
    trigger, stall = (x + value * step - 1 for value in (settings.trigger, settings.stop_trigger))
    for at in (trigger, stall):
        parts.append(line(at, y - 1, at, y + 16, stroke="ink", stroke_width="1.75"))
    left, right = f"trigger {settings.trigger}", f"stall > {settings.stop_trigger}"
    fits = trigger - text_width(left, size=11) >= x and stall + text_width(right, size=11) <= x + width
    if fits and stall - trigger >= 12:
        parts.append(text(trigger + 4, y + 29, left, size=11, text_anchor="end"))
        parts.append(text(stall - 4, y + 29, right, size=11))
    else:
        parts.append(text(x, y + 29, f"{left} · {right}", size=11))
    parts.append(text(x + width, y + 12, many, fill="ink", weight=600, text_anchor="end"))
    return "".join(parts)


def _outcome(model: ControlsModel, pick: BucketPick, x: float, y: float, width: float) -> tuple[str, float]:
    """Before → after as small boxes, bytes in and out, what becomes of deletes. Where nothing fires: why, if
    the rules do not say it."""
    if not pick.fires:
        rows = wrap(pick.reason, width, size=12, lines=4)
        if pick.trials and (len(rows) > 3 or any(pick.reason == trial.text for trial in pick.trials)):
            return "", y
        reasons = [text(x, y + 20 + at * 16, row) for at, row in enumerate(rows)]
        return "".join([line(x, y, x + width, y), *reasons]), y + 10 + 16 * len(rows)
    parts = [line(x, y, x + width, y)]
    before, at = _boxes(model.runs, x, y + 10, model.num_levels, dashed=True, room=width * 0.42)
    parts.append(before)
    parts.append(path([f"M{num(at + 6)} {num(y + 21)}h18m-5 -5l5 5l-5 5"], fill="none", stroke=var("ink2")))
    after, at = _boxes(model.after, at + 32, y + 10, model.num_levels, dashed=False, room=width * 0.22)
    parts.append(after)
    words = f"runs {len(model.runs)} → {len(model.after)}"
    parts.append(text(x + width, y + 25, words, fill="ink", weight=600, text_anchor="end"))
    costs = _costs(pick)
    for row, (left, right) in enumerate(costs):
        parts.append(text(x, y + 52 + row * 16, left))
        parts.append(text(x + width, y + 52 + row * 16, right, text_anchor="end"))
    at, free = y + 51 + 16 * len(costs), 4 - len(costs)
    for remark in _remarks(model, pick):
        rows = wrap(remark, width, size=11, lines=min(free, 2)) if free else []
        parts += [text(x, at + 14 * n, row, size=11) for n, row in enumerate(rows)]
        at, free = at + 14 * len(rows), free - len(rows)
    return "".join(parts), at - 6


def _costs(pick: BucketPick) -> list[tuple[str, str]]:
    """Left and right: what is read and written, then what only changes its level."""
    forecast = pick.forecast
    if forecast is None:
        files = fmt.plural(len(pick.inputs), "file")
        return [(f"reads {fmt.bytes_text(pick.bytes)} · {files}", f"writes ≈ {fmt.bytes_text(pick.bytes)}")]
    rows = []
    if forecast.files_read or not forecast.files_moved:
        files = fmt.plural(forecast.files_read, "file")
        rows.append(
            (
                f"reads {fmt.bytes_text(forecast.read)} · {files}",
                f"writes {forecast.written_text}",
            )
        )
    if forecast.files_moved:
        files = fmt.plural(forecast.files_moved, "file")
        rows.append((f"moves {fmt.bytes_text(forecast.moved)} · {files}", "not rewritten"))
    return rows


def _remarks(model: ControlsModel, pick: BucketPick) -> list[str]:
    """What becomes of deletes, what the estimate rests on, and the reason where no rule says it."""
    forecast, lines = pick.forecast, []
    if forecast is not None and forecast.deletes:
        lines.append(f"−D: {forecast.deletes}")
    if forecast is not None and forecast.files_read:
        rows = "" if forecast.exact else "≈ "
        lines.append(f"{rows}{fmt.count(forecast.rows)} rows: {forecast.why}")
    if not any(pick.reason == trial.text for trial in pick.trials):
        lines.append(pick.reason)
    return lines


def _boxes(
    runs: tuple[RunSummary, ...], x: float, y: float, num_levels: int, *, dashed: bool, room: float
) -> tuple[str, float]:
    """A small box a run, shaded by level; the planned ones ringed."""
    step, left = min(15.0, room / max(len(runs), 1)), x
    parts = []
    if step < 3:
        return _bar_of(runs, x, y, num_levels, dashed=dashed, room=room)
    for run in runs:
        wide = max(step - (4 if step >= 9 else 1.5), 1.0)
        fill = level_fill(run.level, num_levels)
        parts.append(rect(x + 1, y + 2, wide, 18, rx=1, fill=fill, stroke=var("edge"), class_="box"))
        if run.planned and step >= 9:
            ring = {"stroke_dasharray": "4 3"} if dashed else {}
            outline = {"fill": "none", "stroke": var("compact"), "stroke_width": "1.5"} | ring
            parts.append(rect(x - 1, y, wide + 4, 22, rx=3, **outline))
        x += step
    if step < 9 and (taken := [at for at, run in enumerate(runs) if run.planned]):
        outline = {"fill": "none", "stroke": var("compact"), "stroke_width": "1.5"}
        outline |= {"stroke_dasharray": "4 3"} if dashed else {}
        first, last = left + taken[0] * step, left + (taken[-1] + 1) * step
        parts.append(rect(first - 1, y, last - first + 1, 22, rx=3, **outline))
    return group(*parts), x


def _bar_of(
    runs: tuple[RunSummary, ...], x: float, y: float, num_levels: int, *, dashed: bool, room: float
) -> tuple[str, float]:
    """More runs than there is room for: one box for neighbours of one level, ringed if all are planned."""
    parts, step, start = [], room / len(runs), x
    for (level, planned), same in groupby(runs, key=lambda run: (run.level, run.planned)):
        wide = max(len(list(same)) * step, 3.0)
        fill = level_fill(level, num_levels)
        parts.append(rect(x + 1, y + 2, wide - 1.5, 18, rx=1, fill=fill, stroke=var("edge"), class_="box"))
        if planned:
            ring = {"stroke_dasharray": "4 3"} if dashed else {}
            outline = {"fill": "none", "stroke": var("compact"), "stroke_width": "1.5"} | ring
            parts.append(rect(x - 1, y, wide + 2.5, 22, rx=3, **outline))
        x += wide + 3
    return group(*parts), max(x, start)


def _words(model: ControlsModel, x: float, y: float, width: float) -> tuple[str, float]:
    """A line for what is going on, what was done last, or what failed."""
    parts = []
    if model.error:
        rows = wrap(model.error, width - 30, size=11, monospace=True, lines=3)
        hints = wrap(model.next_step, width - 24, size=11, lines=2)
        tall = 26 + 14 * (len(rows) + len(hints))
        parts.append(rect(x, y, width, tall + 6, rx=4, fill=var("err-tint")))
        parts.append(rect(x, y, 3, tall + 6, fill=var("err")))
        parts.append(text(x + 12, y + 18, "✕ That did not finish.", fill="err", weight=600))
        parts += [code(x + 12, y + 34 + 14 * at, row) for at, row in enumerate(rows)]
        below = y + 36 + 14 * len(rows)
        parts += [text(x + 12, below + 14 * at, row, size=11, fill="ink") for at, row in enumerate(hints)]
        return "".join(parts), y + tall + 10
    lines = model.busy or model.note or (model.done[-1] if model.done else "")
    return text(x, y + 12, fit(lines, width, size=11), size=11, fill="ink"), y + 20
