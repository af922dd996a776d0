"""The compaction panel as SVG: triggers, run meter, the rules in order with their sums, before → after.

Invariants: rules never reorder and the one that fires is tinted; the engine's sums are printed as the
engine wrote them; a size that is not known yet carries ≈. Narrow: one column of 296; wide: plan at the
left, reasons at the right. Pure: model → `Figure`. Called by the widget and by the static export.
"""

from widgets import _format as fmt
from widgets._svg import Figure, code, fit, group, hatch, line, num, path, rect, text, text_width, wrap
from widgets._theme import level_fill, var
from widgets.controls.model import STATES, ControlsModel, Pick, RunSummary, Trial

MARGIN = 14
ONE_COLUMN = 560
TITLES = {"✓": "compact", "×": "ink2", "○": "ink2", "–": "ink2"}


def controls_figure(model: ControlsModel, *, width: float) -> Figure:
    """The panel without its buttons, which are the page's."""
    if model.pick is None:
        return _empty(model, width)
    pick = model.pick
    if width < ONE_COLUMN:
        column = width - 2 * MARGIN
        plan, y = _plan(model, pick, MARGIN, 0, column)
        rules, y = _rules(pick, MARGIN, y + 8, column)
        outcome, y = _outcome(model, pick, MARGIN, y + 4, column)
        body = plan + rules + outcome
    else:
        column = width / 2 - MARGIN - 14
        plan, left = _plan(model, pick, MARGIN, 0, column)
        outcome, left = _outcome(model, pick, MARGIN, left + 6, column)
        rules, right = _rules(pick, width / 2 + 6, 4, column)
        y = max(left, right)
        body = plan + outcome + rules + line(width / 2 - 8, 4, width / 2 - 8, y)
    words, y = _words(model, MARGIN, y + 4, width - 2 * MARGIN)
    return Figure(width, y + 8, hatch() + body + words, _label(pick), {"waiting": model.waiting})


def _label(pick: Pick) -> str:
    if not pick.fires:
        return f"Next compaction, {pick.place}: none. {pick.reason}"
    return (
        f"Next compaction, {pick.place}: {pick.rule}, {len(pick.inputs)} files to level {pick.output_level}"
    )


def _empty(model: ControlsModel, width: float) -> Figure:
    body = text(MARGIN, 24, "Nothing to plan.", fill="ink", weight=600)
    body += text(MARGIN, 42, "No bucket holds a file yet.")
    words, y = _words(model, MARGIN, 52, width - 2 * MARGIN)
    return Figure(width, y + 8, body + words, "Next compaction: nothing to plan", {"waiting": 0})


def _plan(model: ControlsModel, pick: Pick, x: float, y: float, width: float) -> tuple[str, float]:
    """Which bucket, the three triggers, and the meter of runs against them."""
    triggers = model.triggers
    parts = [text(x, y + 16, fit(pick.place, width, weight=600), fill="ink", weight=600)]
    words = f"{fmt.plural(model.waiting, 'bucket')} of {len(model.picks):,} with work"
    parts.append(text(x, y + 34, words, size=11))
    at = x
    for name, value in (
        ("runs >", triggers.runs),
        ("ratio %", triggers.ratio),
        ("max amp %", triggers.amplification),
    ):
        parts.append(text(at, y + 60, name, size=11))
        at += text_width(name, size=11) + 6
        wide = text_width(str(value), size=11) + 12
        parts.append(rect(at, y + 46, wide, 20, rx=4, fill=var("bg"), stroke=var("line")))
        parts.append(text(at + 6, y + 60, value, size=11, fill="ink"))
        at += wide + 10
    parts.append(_meter(model, x, y + 78, width))
    return "".join(parts), y + 116


def _meter(model: ControlsModel, x: float, y: float, width: float) -> str:
    """One block a run; marks after the compaction trigger and after the stop trigger."""
    runs, stop = len(model.runs), model.triggers.stop
    places = max(runs, stop + 1)
    step = (width - 60) / places
    parts = []
    for place in range(places):
        fill = var("ink2") if place < runs else var("line")
        parts.append(rect(x + place * step, y + 3, max(step - 2, 1), 9, rx=1, fill=fill))
    trigger, stall = (x + value * step - 1 for value in (model.triggers.runs, stop))
    for at in (trigger, stall):
        parts.append(line(at, y - 1, at, y + 16, stroke="ink", stroke_width="1.75"))
    left, right = f"trigger {model.triggers.runs}", f"stall > {stop}"
    if trigger - text_width(left, size=11) >= x and stall - trigger >= 12:
        parts.append(text(trigger + 4, y + 29, left, size=11, text_anchor="end"))
        parts.append(text(stall - 4, y + 29, right, size=11))
    else:
        parts.append(text(x, y + 29, f"{left} · {right}", size=11))
    parts.append(text(x + width, y + 12, fmt.plural(runs, "run"), fill="ink", weight=600, text_anchor="end"))
    return "".join(parts)


def _rules(pick: Pick, x: float, y: float, width: float) -> tuple[str, float]:
    """Every rule with its state and its sum, in the order the engine tried them."""
    parts = []
    for trial in pick.trials:
        body, tall = _rule(trial, x, y, width)
        if trial.state == "fired":
            parts.append(rect(x - 6, y, width + 12, tall, rx=4, fill=var("compact-tint")))
            parts.append(rect(x - 6, y, 3, tall, fill=var("compact")))
        parts.append(body)
        y += tall + 4
    return "".join(parts), y


def _rule(trial: Trial, x: float, y: float, width: float) -> tuple[str, float]:
    """Glyph, name, state, and the engine's text below."""
    sign = STATES[trial.state]
    fired = trial.state == "fired"
    words = "fires" if fired else trial.state if trial.state != "no" else "does not fire"
    colour = "compact" if fired else "ink2"
    state_room = text_width(words, size=11, weight=600) + 8
    parts = [
        text(x + 6, y + 18, sign, fill=colour, weight=600, text_anchor="middle"),
        text(x + 22, y + 18, fit(trial.rule.capitalize(), width - 22 - state_room), fill="ink", weight=600),
        text(x + width, y + 18, words, size=11, fill=colour, weight=600 if fired else 400, text_anchor="end"),
    ]
    at = y + 20
    said = "" if trial.text == trial.state else trial.text
    for row in wrap(said, width - 22, size=11, monospace=True, lines=3) if said else ():
        at += 15
        parts.append(code(x + 22, at, row))
    for row in trial.lines if trial.state in ("fired", "no") else ():
        at += 15
        parts.append(code(x + 22, at, fit(row, width - 22, size=11, monospace=True), fill="ink"))
    return "".join(parts), at - y + 8


def _outcome(model: ControlsModel, pick: Pick, x: float, y: float, width: float) -> tuple[str, float]:
    """Before → after as small boxes, bytes in and out."""
    parts = [line(x, y, x + width, y)]
    if not pick.fires:
        rows = wrap(pick.reason, width, size=12, lines=3)
        parts += [text(x, y + 20 + at * 16, row) for at, row in enumerate(rows)]
        return "".join(parts), y + 20 + len(rows) * 16 + 36
    before, at = _boxes(model.runs, x, y + 10, model.num_levels, dashed=True, room=width * 0.42)
    parts.append(before)
    parts.append(path([f"M{num(at + 6)} {num(y + 21)}h18m-5 -5l5 5l-5 5"], fill="none", stroke=var("ink2")))
    after, at = _boxes(model.after, at + 32, y + 10, model.num_levels, dashed=False, room=width * 0.22)
    parts.append(after)
    words = f"runs {len(model.runs)} → {len(model.after)}"
    parts.append(text(x + width, y + 25, words, fill="ink", weight=600, text_anchor="end"))
    reads = f"reads {fmt.bytes_text(pick.bytes)} · {fmt.plural(len(pick.inputs), 'file')}"
    parts.append(text(x, y + 52, reads))
    parts.append(text(x + width, y + 52, f"writes ≈ {fmt.bytes_text(pick.bytes)}", text_anchor="end"))
    told = any(pick.reason == trial.text for trial in pick.trials)
    for row, words in enumerate(wrap(pick.reason, width, size=11, lines=2) if not told else ()):
        parts.append(text(x, y + 70 + row * 14, words, size=11))
    return "".join(parts), y + 92


def _boxes(
    runs: tuple[RunSummary, ...], x: float, y: float, num_levels: int, *, dashed: bool, room: float
) -> tuple[str, float]:
    """A small box a run, shaded by level; the planned ones ringed."""
    step, left = min(15.0, room / max(len(runs), 1)), x
    parts = []
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


def _words(model: ControlsModel, x: float, y: float, width: float) -> tuple[str, float]:
    """Two lines for what is going on, what was done last, or what failed: the space is always there."""
    parts = []
    if model.error:
        rows = wrap(model.error, width - 30, size=11, monospace=True, lines=3)
        tall = 22 + 14 * len(rows) + (16 if model.next_step else 0)
        parts.append(rect(x, y, width, tall + 6, rx=4, fill=var("err-tint")))
        parts.append(rect(x, y, 3, tall + 6, fill=var("err")))
        parts.append(text(x + 12, y + 18, "✕ The compaction did not finish.", fill="err", weight=600))
        parts += [code(x + 12, y + 34 + 14 * at, row) for at, row in enumerate(rows)]
        if model.next_step:
            parts.append(
                text(x + 12, y + tall - 2, fit(model.next_step, width - 24, size=11), size=11, fill="ink")
            )
        return "".join(parts), y + tall + 10
    rows = [model.busy] if model.busy else list(model.done[-2:])
    rows = rows or [model.note]
    for at, row in enumerate(rows[:2]):
        parts.append(
            text(x, y + 16 + 15 * at, fit(row, width, size=11), size=11, fill="ink" if at == 0 else "ink2")
        )
    return "".join(parts), y + 34
