"""The advice as a picture: its sums, the numbers tried as bars against the target, the chosen one's buckets.

All bars begin at zero; the sizes of the numbers tried end at four times the target, what is larger ends in
chevrons beside its number. Pure: `AdviceModel` → SVG. Called by `widget`.
"""

from widgets.buckets.model import AdviceModel, Suggestion
from widgets.kit import format as fmt
from widgets.kit import svg
from widgets.kit.svg import Figure, code, fit, group, line, num, path, rect, text, text_width, wrap
from widgets.kit.theme import var

MARGIN, ROW, PLOT = 16.0, 26.0, 120.0
NUMBER, LARGEST, MEAN, SKEW, EMPTY = 62.0, 78.0, 78.0, 48.0, 48.0  # widths of the columns
NARROWEST = 3.0  # of a bucket's bar; more buckets are drawn as columns of several


def advice_figure(model: AdviceModel, *, width: float) -> Figure:
    """Sums, numbers tried, buckets, what no number mends, and the call."""
    parts = [_sums(model, width), _tried(model, width), _buckets(model, width), _end(model, width)]
    whole = svg.stack(parts)
    label = f"{fmt.plural(model.proposed, 'bucket')} proposed: {model.reason}. Shown: {model.chosen.label}"
    return Figure(width, whole.height + 12, whole.body, label)


def _sums(model: AdviceModel, width: float) -> Figure:
    head = f"{fmt.plural(model.proposed, 'bucket')} a partition" if model.partition else ""
    head = head or fmt.plural(model.proposed, "bucket")
    body = text(MARGIN, 26, head, size=20, fill="ink", weight=600)
    after = MARGIN + text_width(head, size=20, weight=600) + 14
    body += text(after, 26, fit(model.reason, width - after - MARGIN), fill="ink")
    y = 48.0
    for sum_ in model.sums:
        for words in wrap(sum_, width - 2 * MARGIN, size=11, lines=2):
            body += text(MARGIN, y, words, size=11)
            y += 16
    return Figure(width, y + 2, body)


def _tried(model: AdviceModel, width: float) -> Figure:
    """A row a number: how large its largest bucket would be, and its mean."""
    wide = width >= 860
    verdicts = 190.0 if wide else 0.0
    lane = width - 2 * MARGIN - NUMBER - LARGEST - MEAN - SKEW - EMPTY - verdicts - 12
    x = MARGIN + NUMBER
    full = min(max(1.25 * model.target, *(1.05 * t.largest for t in model.tried)), 4.0 * model.target)
    at_target = x + lane * model.target / full
    words = ("largest", "mean", "skew", "empty")
    ends = _ends(x + lane)
    head = text(MARGIN, 16, "buckets", size=11)
    above = f"target {fmt.bytes_text(model.target)}"
    head += text(at_target, 16, above, size=11, text_anchor="middle")
    head += "".join(
        text(end, 16, word, size=11, text_anchor="end") for end, word in zip(ends, words, strict=True)
    )
    rows = [
        _row(t, model, at, lane=lane, full=full, ends=ends, width=width) for at, t in enumerate(model.tried)
    ]
    height = 24 + ROW * len(rows)
    rule = line(at_target, 22, at_target, height - 4, stroke="ink2", stroke_width=1.5)
    legend = "bar: the largest bucket · tick: the mean · line: the target"
    rule += text(x, height + 12, fit(legend, width - x - MARGIN, size=11), size=11)
    return Figure(width, height + 24, head + "".join(rows) + rule)


def _ends(x: float) -> tuple[float, ...]:
    """Where the numbers at the right end."""
    first = x + LARGEST
    return first, first + MEAN, first + MEAN + SKEW, first + MEAN + SKEW + EMPTY


def _row(
    t: Suggestion,
    model: AdviceModel,
    at: int,
    *,
    lane: float,
    full: float,
    ends: tuple[float, ...],
    width: float,
) -> str:
    y, x = 24 + ROW * at, MARGIN + NUMBER
    shown, over = t.buckets == model.shown, t.largest > model.target
    ink = "ink" if shown else "ink2"
    body = rect(
        MARGIN - 8, y, width - 2 * MARGIN + 16, ROW - 2, rx=4, fill=var("sel-tint" if shown else "bg")
    )
    mark = "→ " if t.buckets == model.proposed else ""
    weight = 600 if t.buckets == model.proposed else 400
    number = f"{mark}{t.buckets:,}"
    body += text(x - 14, y + 16, number, fill="ink", weight=weight, text_anchor="end")
    long = lane * min(t.largest / full, 1.0)
    body += rect(x, y + 6, long, ROW - 14, rx=2, fill=var("l2"), stroke=var("edge"))
    if t.largest > full:
        tip, middle = x + lane, y + ROW / 2 - 1
        steps = (
            f"M{num(tip - 8)} {num(middle - 5)}l5 5l-5 5",
            f"M{num(tip - 14)} {num(middle - 5)}l5 5l-5 5",
        )
        body += path(steps, fill="none", stroke=var("ink"), stroke_width=1.75)
    mean = x + lane * min(t.mean / full, 1.0)
    body += line(mean, y + 3, mean, y + ROW - 5, stroke="ink", stroke_width=2)
    cells = (fmt.bytes_text(t.largest), fmt.bytes_text(t.mean), f"{t.skew:.2f}", fmt.count(t.empty))
    for end, cell in zip(ends, cells, strict=True):
        body += text(end, y + 16, cell, size=11, fill=ink, text_anchor="end")
    if over:
        body += text(ends[0] - LARGEST + 6, y + 16, "▲", size=11, fill="warn")
    room = width - MARGIN - ends[-1] - 14
    if room > 60:
        body += text(
            ends[-1] + 14, y + 16, fit(t.verdict, room, size=11), size=11, fill="warn" if over else ink
        )
    return group(
        body,
        class_="tried",
        role="button",
        tabindex=0,
        data_buckets=t.buckets,
        aria_label=t.label,
        aria_pressed=str(shown).lower(),
    )


def _buckets(model: AdviceModel, width: float) -> Figure:
    """Each bucket of the chosen number as a bar; the mean dashed, the target if it is near."""
    chosen, room = model.chosen, width - 2 * MARGIN - 64
    top = max(chosen.largest, 1)
    near = model.target <= 1.6 * top
    scale = (PLOT - 8) / max(top, model.target if near else 0)
    of = f"largest partition {model.partition}" if model.partition else "table"
    head = f"{fmt.plural(model.shown, 'bucket')} of the {of}, by {model.key}"
    body = line(MARGIN, 4, width - MARGIN, 4)
    body += text(
        MARGIN, 26, fit(head, width - 2 * MARGIN, size=13, weight=600), size=13, fill="ink", weight=600
    )
    step = room / model.shown
    per_bar = max(1, -(-int(NARROWEST * model.shown) // int(room)))
    if per_bar > 1:
        step = room * per_bar / model.shown
    base = 40 + PLOT
    for at in range(0, model.shown, per_bar):
        size = max(model.sizes[at : at + per_bar])
        x, tall = MARGIN + at / per_bar * step, size * scale
        wide = max(step - (2 if step > 8 else 1), 1)
        bar = rect(x, base - tall, wide, tall, fill=var("l2"), stroke=var("edge") if step > 8 else None)
        last = min(at + per_bar, model.shown) - 1
        name = f"bucket-{at}" if per_bar == 1 else f"buckets {at} to {last}, the largest"
        rows = max(model.rows[at : at + per_bar])
        body += group(
            bar, svg.tag("title", svg.esc(f"{name}: {fmt.bytes_text(size)}, {fmt.count(rows)} rows"))
        )
    body += line(MARGIN, base, MARGIN + room, base, stroke="line2")
    lines = [(chosen.mean, "mean", "4 3"), *([(model.target, "target", None)] if near else [])]
    marks = sorted((base - value * scale, word, value, dash) for value, word, dash in lines)
    below = 0.0
    for y, word, value, dash in marks:
        body += line(MARGIN, y, MARGIN + room, y, stroke="ink2", stroke_dasharray=dash, stroke_width=1.5)
        at_y = max(y + 4, below)
        body += text(MARGIN + room + 6, at_y, word, size=11, fill="ink")
        body += text(MARGIN + room + 6, at_y + 12, fmt.bytes_text(value), size=11)
        below = at_y + 26
    body += text(MARGIN, base + 16, "bucket 0", size=11)
    body += text(MARGIN + room, base + 16, fmt.count(model.shown - 1), size=11, text_anchor="end")
    caption = f"skew {chosen.skew:.2f}: the largest, {fmt.bytes_text(chosen.largest)}, over the mean"
    caption += "" if per_bar == 1 else f"; 1 bar = {per_bar} buckets, the largest of them"
    caption += "" if near else f"; the target of {fmt.bytes_text(model.target)} is above the picture"
    body += text(
        MARGIN + room / 2, base + 16, fit(caption, room - 120, size=11), size=11, text_anchor="middle"
    )
    return Figure(width, base + 28, body)


def _end(model: AdviceModel, width: float) -> Figure:
    y, body = 4.0, ""
    for note in model.notes:
        for at, words in enumerate(wrap(note, width - 2 * MARGIN - 18, lines=3)):
            body += text(MARGIN, y + 14, "▲" if at == 0 else "", fill="warn")
            body += text(MARGIN + 18, y + 14, words, fill="ink")
            y += 16
    y += 6
    body += rect(MARGIN, y, width - 2 * MARGIN, 26, rx=4, fill=var("panel"), stroke=var("line"))
    call = fit(model.call, width - 2 * MARGIN - 16, size=11, monospace=True)
    return Figure(width, y + 26, body + code(MARGIN + 8, y + 17, call, fill="ink"))
