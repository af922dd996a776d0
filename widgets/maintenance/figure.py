"""A maintenance service as a picture: its state, what was bought, the newest work with predicted beside
measured bytes, what waits. Pure: `MaintenanceModel` → `Figure`. Called by `widget`.
"""

from tablestore import WorkDone, WorkWaiting
from widgets.kit import format as fmt
from widgets.kit.svg import Figure, esc, fit, group, line, rect, tag, text, wrap
from widgets.kit.theme import var
from widgets.maintenance.model import SHOWN, MaintenanceModel

MARGIN, ROW, HEAD, BAR, NARROW = 16, 34, 112, 96, 560
SIGNS = {
    "running": ("●", "ok"),
    "paused": ("○", "warn"),
    "waiting": ("○", "warn"),
    "ended": ("✓", "ok"),
    "failed": ("✕", "err"),
}


def maintenance_figure(model: MaintenanceModel, *, width: float) -> Figure:
    """The picture."""
    report = model.report
    sign, colour = SIGNS.get(report.state, ("○", "ink2"))
    room = width - 2 * MARGIN - 22
    headline = fit(model.bought or report.summary, room, size=15, weight=600)
    body = [
        text(MARGIN, 26, sign, size=15, fill=colour, weight=600),
        text(MARGIN + 22, 26, headline, size=15, fill="ink", weight=600),
        *_facts(model, width),
    ]
    narrow = width < NARROW
    head = HEAD + (70 if narrow else 0)
    y = float(head)
    most = max((max(w.written, w.predicted_written) for w in model.newest), default=0)
    if model.newest:
        body += [
            text(MARGIN, head - 6, "newest work", size=11),
            text(width - MARGIN, head - 6, "written, predicted as outline", size=11, text_anchor="end"),
            line(MARGIN, head, width - MARGIN, head),
        ]
    for work in model.newest:
        row, y = _done(work, y, width, most)
        body.append(row)
    for waiting in report.waiting[:SHOWN]:
        body.append(_waiting(waiting, y, width))
        y += ROW
    if len(report.waiting) > SHOWN:
        more = fmt.plural(len(report.waiting) - SHOWN, "more piece")
        body.append(text(MARGIN + 22, y + 20, f"{more} of work wait", size=11))
        y += 28
    for table, error in report.troubles[:SHOWN]:
        words = fit(f"{table}: {error}", room)
        body += [text(MARGIN, y + 20, "✕", fill="err"), text(MARGIN + 22, y + 20, words, fill="err")]
        y += 28
    return Figure(width, y + 8, "".join(body), f"{model.title}: {report.summary}")


def _facts(model: MaintenanceModel, width: float) -> list[str]:
    """The large numbers below the headline."""
    report, (written, predicted) = model.report, model.written
    limit = "" if report.hour_bytes is None else f" of {fmt.bytes_text(report.hour_bytes)}"
    facts = [
        (fmt.count(len(report.tables)), "tables"),
        (fmt.count(len(report.waiting)), "pieces of work wait"),
        (fmt.bytes_text(report.spent_bytes), f"read, last hour{limit}"),
        (fmt.bytes_text(written), f"written, {fmt.bytes_text(predicted)} predicted"),
    ]
    columns = 2 if width < NARROW else len(facts)
    wide = (width - 2 * MARGIN) / columns
    parts = []
    for at, (number, noun) in enumerate(facts):
        x, y = MARGIN + at % columns * wide, 62 + at // columns * 56
        shown = fit(number, wide - 8, size=20, weight=600)
        parts.append(text(x, y, shown, size=20, fill="ink", weight=600))
        for row, words in enumerate(wrap(noun, wide - 8, size=11, lines=2)):
            parts.append(text(x, y + 18 + 14 * row, words, size=11))
    return parts


def _done(work: WorkDone, y: float, width: float, most: int) -> tuple[str, float]:
    """A piece of work: where, runs, why; its bytes at the right, where it is narrow below. And where it
    ends."""
    narrow, measured = width < NARROW, work.kind == "compact" and not work.error and bool(most)
    room = width - 2 * MARGIN - 22 - (0 if narrow else BAR + 76)
    runs = f", runs {work.runs_before} → {work.runs_after}" if work.runs_before and not work.error else ""
    sign, colour = ("✕", "err") if work.error else ("✓", "ok")
    parts, at = [text(MARGIN, y + 16, sign, fill=colour, weight=600)], y + 16
    for words in wrap(f"{work.table} {work.where or work.kind}{runs}", room / 1.1, lines=2):
        parts.append(text(MARGIN + 22, at, words, fill="ink", weight=600))
        at += 15
    for words in wrap(work.error or work.why, room, size=11, lines=4 if narrow else 2):
        parts.append(text(MARGIN + 22, at - 2, words, size=11, fill="err" if work.error else "ink2"))
        at += 14
    if measured:
        x, scale = width - MARGIN - BAR, BAR / most
        middle = at - 4 if narrow else y + 17
        parts.append(text(x - 8, middle + 4, fmt.bytes_text(work.written), size=11, text_anchor="end"))
        parts.append(rect(x, middle - 5, max(work.written * scale, 1), 10, fill=var("compact")))
        outline = {"fill": "none", "stroke": var("ink"), "stroke_width": 1}
        parts.append(rect(x, middle - 7, max(work.predicted_written * scale, 1), 14, **outline))
        at += 20 if narrow else 0
    end = max(at - 11, y + ROW)
    parts.append(line(MARGIN, end, width - MARGIN, end))
    return group(tag("title", esc(work.text)), *parts, class_="work"), end


def _waiting(work: WorkWaiting, y: float, width: float) -> str:
    room = width - 2 * MARGIN - 22
    head = fit(f"{work.table} {work.where or work.kind}", room, weight=600)
    why = fit(f"waits for {work.waits_for}" if work.waits_for else "comes next", room, size=11)
    return group(
        tag("title", esc(work.text)),
        text(MARGIN, y + 16, "…", fill="ink2", weight=600),
        text(MARGIN + 22, y + 16, head, fill="ink2"),
        text(MARGIN + 22, y + 29, why, size=11),
        line(MARGIN, y + ROW, width - MARGIN, y + ROW),
        class_="waiting",
    )
