"""The lane of a reader: the state it takes from files, the switch, the rows it takes from the log.

Invariants: what it has read is solid, what it would read next is a dashed outline; state and files are blue
as the table's files are, rows of the log pale as the log is; the switch is a mark at its offset; where files
are read since the log has expired, the engine says why. Pure. Called by `figure`.
"""

from __future__ import annotations

from collections.abc import Mapping

from widgets.kit.svg import fit, line, num, path, rect, text, text_width, wrap
from widgets.kit.theme import var
from widgets.log.axis import OffsetAxis
from widgets.log.model import LogModel
from widgets.log.steps import ReaderModel, ReaderStep, next_text, reasons, step_words, taken_text

MARGIN, BAR = 16, 16


def reader_lane(model: LogModel, scale: OffsetAxis, y: float, width: float) -> tuple[str, float]:
    """The section from `y` on and where it ends; nothing without a reader."""
    reader = model.reader
    if reader is None:
        return "", y
    parts = [_heading(model, reader, y, width)]
    top = y + 42
    parts.append(text(MARGIN, top + 12, "reads"))
    parts.append(line(scale.left, top + BAR / 2, scale.right, top + BAR / 2))
    end = scale.left
    if reader.place is not None and not reader.taken:
        parts.append(_before(model, scale, reader.place, top))
    for planned, steps in ((False, reader.taken), (True, reader.planned)):
        for step in steps:
            drawn, end = _step(model, scale, step, top, end, planned=planned)
            parts.append(drawn)
    bottom = top + BAR
    if reader.switch is not None:
        parts.append(_switch(model, scale, reader, top))
    if reader.place is not None:
        x = scale.x(model.at(reader.place))
        parts.append(path([f"M{num(x)} {num(top + BAR + 2)}l5 8h-10z"], fill=var("ink"), class_="mark"))
        words = f"at {model.at(reader.place):,}"
        parts.append(_beside(x, top + BAR + 11, words, scale))
    if reader.place is not None or reader.switch is not None:
        bottom += 16
    for row, colour in _words(reader, width):
        bottom += 16
        parts.append(text(scale.left if width >= 700 else MARGIN, bottom, row, fill=colour))
    return "".join(parts), bottom + 10


def _before(model: LogModel, scale: OffsetAxis, place: Mapping[int, int], y: float) -> str:
    """What was delivered before a cursor: nobody says from where."""
    wide = scale.x(model.at(place)) - scale.left
    words = fit("delivered", wide - 10, size=11)
    drawn = rect(scale.left, y, max(wide - 1, 0), BAR, rx=2, fill=var("sel-tint"), class_="box")
    return drawn + (
        text(scale.left + wide / 2, y + 12, words, size=11, text_anchor="middle") if wide > 70 else ""
    )


def _heading(model: LogModel, reader: ReaderModel, y: float, width: float) -> str:
    name = text(MARGIN, y + 26, "Reader", size=13, fill="ink", weight=600)
    after = MARGIN + text_width("Reader", size=13, weight=600) + 8
    legend = [("read", "has read"), ("planned", "would read next")] if width >= 480 else []
    wide = sum(text_width(word, size=11) * 0.94 + 32 for _, word in legend) - 14
    parts, at = [name], width - MARGIN - wide
    for sign, word in legend:
        parts += [_outline(at, at + 12, y + 15, 12, state=True, planned=sign == "planned")]
        parts.append(text(at + 18, y + 26, word, size=11))
        at += text_width(word, size=11) * 0.94 + 32
    parts.append(text(after, y + 26, fit(reader.title, width - MARGIN - wide - after - 16)))
    return "".join(parts)


def _step(
    model: LogModel, scale: OffsetAxis, step: ReaderStep, y: float, at: float, *, planned: bool
) -> tuple[str, float]:
    """A bar from where the reader was to where it is then, and its words where they fit."""
    start, stop = step.start, step.stop
    if start is None and step.kind == "files":
        start = model.named(step.first - 1)
    if stop is None:
        stop = model.named(step.snapshot)
    begin = at if start is None else scale.x(model.at(start))
    end = begin if stop is None else scale.x(model.at(stop))
    if end - begin < 2:
        return "", max(end, at)
    drawn = _outline(begin, end, y, BAR, state=step.kind != "log", planned=planned)
    for words in (step_words(step), step.kind):
        wide = text_width(words, size=11)
        if wide + 10 <= end - begin:
            middle = (begin + end) / 2
            dark = step.kind != "log" and not planned
            ink = "bg" if dark else "ink"
            drawn += text(middle, y + 12, words, size=11, fill=ink, text_anchor="middle")
            break
    return drawn, end


def _outline(begin: float, end: float, y: float, tall: float, *, state: bool, planned: bool) -> str:
    wide = max(end - begin - 1, 1)
    if planned:
        dashed = {"stroke": var("append"), "stroke_width": 1.75, "stroke_dasharray": "4 3"}
        return rect(begin + 1, y + 1, wide - 2, tall - 2, rx=2, fill=var("bg"), class_="box", **dashed)
    fill = var("append") if state else var("l1")
    return rect(begin + 0.5, y + 0.5, wide - 1, tall - 1, rx=2, fill=fill, stroke=var("edge"), class_="box")


def _switch(model: LogModel, scale: OffsetAxis, reader: ReaderModel, y: float) -> str:
    """Where it leaves files for the log."""
    assert reader.switch is not None, "there is one"
    place = model.at(reader.switch)
    x = scale.x(place)
    mark = path(
        [f"M{num(x)} {num(y - 5)}V{num(y + BAR + 5)}"], stroke=var("ink"), stroke_width=2, fill="none"
    )
    if reader.place is not None and abs(scale.x(model.at(reader.place)) - x) < 150:
        return mark + _beside(x, y - 4, f"switch at {place:,}", scale, above=True)
    return mark + _beside(x, y + BAR + 11, f"switch at {place:,}", scale)


def _beside(x: float, y: float, words: str, scale: OffsetAxis, *, above: bool = False) -> str:
    """Words beside a mark, on the side that has room."""
    wide = text_width(words, size=11)
    if x - scale.left > wide + 10:
        return text(x - 8, y, words, size=11, text_anchor="end")
    return text(x + 8, y, words, size=11)


def _words(reader: ReaderModel, width: float) -> list[tuple[str, str]]:
    """What it has read and reads next, and why it reads files: (line, colour)."""
    room = width - 2 * MARGIN - (110 if width >= 700 else 0)
    ahead = next_text(reader)
    colour = "err" if reader.failed else "ink"
    done = wrap(f"has read: {taken_text(reader)}", room, lines=2) if reader.taken else []
    rows = [(row, "ink2") for row in done]
    rows += [(row, colour) for row in (wrap(f"next: {ahead}", room, lines=3) if ahead else [])]
    return rows + [
        (row, "ink2") for why in reasons(reader) for row in wrap(f"reads files: {why}", room, lines=2)
    ]
