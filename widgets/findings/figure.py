"""The doctor's findings as a picture: severity by shape and word, the sentence, the numbers, the call.

Pure: `FindingsModel` → SVG. What was looked at and found sound stands below in columns. `meta` gives the page
where the buttons of calls that can be carried out go, in percent. Called by `widget`.
"""

from widgets.findings.model import FindingsModel, Row
from widgets.kit import svg
from widgets.kit.svg import Figure, code, fit, group, line, rect, text, text_width, wrap
from widgets.kit.theme import var

MARGIN, LEFT = 16, 110
NARROW = 560  # below this width words stand below the sign, and what is said takes more lines
BUTTON = 72  # kept free at the right of a call
SIGNS = {"risk": ("✕", "err"), "slow": ("▲", "warn"), "waste": ("■", "ink2"), "note": ("○", "ink3")}


def findings_figure(model: FindingsModel, *, width: float) -> Figure:
    """Findings first, then what each other rule looked at."""
    rows = [_finding(row, width) for row in model.rows]
    if not rows:
        rows = [_sound(model, width)]
    if model.more:
        rows.append(
            Figure(width, 24, text(MARGIN, 16, f"{model.more} more: table.inspect.doctor()", size=11))
        )
    if model.looked:
        rows.append((_without if model.readers else _looked)(model.looked, width))
    whole = svg.stack(rows)
    height = whole.height + 12
    calls, above = {}, 0.0
    for at, row in enumerate(rows):
        if "call" in row.meta:
            top = above + float(row.meta["call"]) + 2
            calls[str(at)] = [round(100 * top / height, 3), round(100 * (MARGIN + 2) / width, 3)]
        above += row.height
    return Figure(
        width,
        height,
        whole.body,
        f"{'readers' if model.readers else 'doctor'}: {model.summary}",
        {"calls": calls},
    )


def _sound(model: FindingsModel, width: float) -> Figure:
    words = "No reader has a finding." if model.readers else "Nothing to mend."
    words = words if model.snapshot is not None else "Nothing written yet: nothing to look at."
    sign = text(MARGIN, 24, "✓", size=15, fill="ok", weight=600)
    return Figure(width, 36, sign + text(MARGIN + 22, 24, words, size=13, fill="ink", weight=600), words)


def _finding(row: Row, width: float) -> Figure:
    sign, colour = SIGNS.get(row.severity, SIGNS["note"])
    left, more = (LEFT, 1) if width >= NARROW else (MARGIN, 3)
    room = width - left - MARGIN
    body = text(MARGIN, 22, sign, size=13, fill=colour, weight=600)
    body += text(MARGIN + 20, 22, row.severity, fill=colour, weight=600)
    title = fit(row.kind, room * 0.4 if more == 1 else width - LEFT - MARGIN, size=13, weight=600)
    body += text(LEFT, 22, title, size=13, fill="ink", weight=600)
    after, y = LEFT + text_width(title, size=13, weight=600) + 10, 40
    if more == 1:
        body += text(after, 22, fit(row.where, width - after - MARGIN), size=11)
    for words in wrap(row.where, room, size=11, lines=2) if more > 1 else ():
        body += text(left, y - 2, words, size=11)
        y += 15
    for words in wrap(row.what, room, lines=3 * more):
        body += text(left, y, words, fill="ink")
        y += 16
    for words in wrap(row.numbers, room, size=11, lines=2 * more) if row.numbers else ():
        body += text(left, y, words, size=11)
        y += 15
    verb = "mend" if row.mends else "look"
    free = room - 54 - (BUTTON if row.mends else 0)
    calls = wrap(row.remedy, free, size=11, monospace=True, lines=2 * more)
    box = y - 6
    body += rect(left, box, room, 12 + 16 * len(calls), rx=4, fill=var("panel"), stroke=var("line"))
    body += text(left + 8, y + 12, verb, size=11)
    for words in calls:
        body += code(left + 46, y + 12, words, fill="ink")
        y += 16
    y += 22
    for words in wrap(f"decide: {row.asks}", room, size=11, lines=2 * more) if row.asks else ():
        body += text(left, y, words, size=11, fill="warn")
        y += 15
    height = y - 2
    label = f"{row.severity}, {row.kind}, {row.where}: {row.what}. {verb}: {row.remedy}"
    label += f". decide: {row.asks}" if row.asks else ""
    framed = group(body, class_="finding", role="listitem", aria_label=label)
    meta: dict[str, object] = {"call": box} if row.mends else {}
    return Figure(width, height, framed + line(MARGIN, height, width - MARGIN, height), label, meta)


def _looked(looked: tuple[tuple[str, str], ...], width: float) -> Figure:
    columns = 2 if width >= 900 else 1
    wide = (width - 2 * MARGIN - 24 * (columns - 1)) / columns
    body = text(MARGIN, 28, "looked at, and sound", size=11, fill="ink2", weight=600)
    rows = -(-len(looked) // columns)
    ends = []
    for column in range(columns):
        x, y = MARGIN + column * (wide + 24), 48
        for rule, words in looked[column * rows : (column + 1) * rows]:
            body += text(x, y, f"✓ {fit(rule, 104, size=11)}", size=11, fill="ink2")
            for row in wrap(words, wide - 124, size=11, lines=3 if columns == 1 else 1):
                body += text(x + 124, y, row, size=11, fill="ink3")
                y += 15
            y += 3
        ends.append(y)
    return Figure(width, max(ends) - 8, body, "")


def _without(looked: tuple[tuple[str, str], ...], width: float) -> Figure:
    """Readers without a finding, by their whole names; no sign says that they are right."""
    body = text(MARGIN, 28, "without a finding", size=11, fill="ink2", weight=600)
    y = 48
    for name, reason in looked:
        for words in wrap(f"{name}: {reason}", width - 2 * MARGIN, size=11):
            body += text(MARGIN, y, words, size=11, fill="ink3")
            y += 14
        y += 4
    return Figure(width, y - 8, body, "")
