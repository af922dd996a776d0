"""The log: what each chunk was read between, or what each batch takes, as brackets on one axis of bytes.

Invariants: ⊏ is the low watermark, ⊐ the high one; what is not committed is dashed, an open mark runs to the
head of the log; the head is an ink line. The number of rows is fixed, so nothing moves when marks come and
go. Pure: called by `figure`.
"""

from widgets.ingest.model import IngestState, LogMark
from widgets.kit import format as fmt
from widgets.kit.svg import code, fit, line, num, path, text, text_width
from widgets.kit.theme import var

MARGIN, GUTTER, HEAD_ROOM, ROW = 16, 116, 80, 19
ROWS = 6


def watermarks(progress: IngestState, y: float, width: float) -> tuple[str, float]:
    """The section from `y` on: its markup and where it ends."""
    shown = shown_marks(progress.marks)
    head = max(progress.log_head or 0, max((mark.high or mark.low for mark in shown), default=0))
    low = min((mark.low for mark in shown), default=0)
    left, right = MARGIN + GUTTER, width - MARGIN - HEAD_ROOM
    scale = (right - left) / max(head - low, 1)
    step = _tick_step(head - low, right - left)
    top, bottom = y + 42, y + 42 + ROWS * ROW
    parts = [text(MARGIN, y + 26, "Watermarks", size=13, fill="ink", weight=600)]
    remark = "low ⊏ and high ⊐ log position of each chunk and batch, dashed until committed"
    after = MARGIN + text_width("Watermarks", size=13, weight=600) + 6
    parts.append(text(after, y + 26, fit(remark, width - MARGIN - after)))
    for tick in range(-(-low // step) * step, head + 1, step):
        x = left + (tick - low) * scale
        parts.append(line(x, top, x, bottom))
        words = _tick_text(tick)
        if x + text_width(words, size=11) / 2 <= right:
            parts.append(text(x, bottom + 15, words, size=11, text_anchor="middle"))
    parts.append(code(MARGIN, bottom + 15, fit(progress.log_name, GUTTER - 24, size=11, monospace=True)))
    if not shown:
        parts.append(text(left, top + 14, "nothing read yet", size=11))
    x = left + (head - low) * scale
    parts.append(path([f"M{num(x)} {num(top - 4)}V{num(bottom)}"], stroke=var("ink"), stroke_width=2))
    parts.append(text(x + 8, top + 6, "log head", size=11, fill="ink", weight=600))
    parts.append(text(x + 8, top + 20, fmt.bytes_text(head), size=11))
    for row, mark in enumerate(shown):
        parts.append(_row(mark, top + row * ROW, left, x, low=low, head=head, scale=scale))
    return "".join(parts), bottom + 26


def shown_marks(marks: tuple[LogMark, ...]) -> tuple[LogMark, ...]:
    """As many as there are rows: all that are open, then the newest, in their order."""
    spare = ROWS - sum(not mark.committed for mark in marks)
    done = [mark for mark in marks if mark.committed]
    kept = set(map(id, done[-spare:] if spare > 0 else []))
    return tuple(mark for mark in marks if not mark.committed or id(mark) in kept)[-ROWS:]


def _row(mark: LogMark, top: float, left: float, right: float, *, low: int, head: int, scale: float) -> str:
    """Name, stretch with its brackets, and what is to be said beside it."""
    begin = left + (mark.low - low) * scale
    end = left + ((head if mark.high is None else mark.high) - low) * scale
    middle = top + 8
    parts = [text(MARGIN, middle + 4, fit(mark.name, GUTTER - 12), fill="ink")]
    dash = None if mark.committed else "3 2"
    if end - begin >= 1:
        blue = {"stroke": var("append"), "stroke_width": 6, "stroke_dasharray": dash}
        parts.append(path([f"M{num(begin)} {num(middle)}H{num(end)}"], **blue))
    brackets = [f"M{num(begin + 4)} {num(middle - 7)}h-4v14h4"]
    if mark.high is not None:
        at = max(end, begin + 3)
        brackets.append(f"M{num(at - 4)} {num(middle - 7)}h4v14h-4")
    parts.append(path(brackets, fill="none", stroke=var("ink"), stroke_width="1.75"))
    note = mark.note or ("" if mark.high is not None else "reading")
    if note:
        parts.append(_note(note, begin, max(end, begin + 4), middle + 4, left, right))
    return "".join(parts)


def _note(note: str, begin: float, end: float, y: float, left: float, right: float) -> str:
    """Beside the stretch, on the side where there is room."""
    after, before = right - end - 16, begin - left - 8
    if text_width(note, size=11) <= after or after >= before:
        return text(end + 8, y, fit(note, max(after, 0), size=11), size=11) if after > 24 else ""
    return text(begin - 8, y, fit(note, before, size=11), size=11, text_anchor="end") if before > 24 else ""


def _tick_step(span: int, width: float) -> int:
    """Bytes between two ticks: 1, 2 or 5 times a power of ten of a unit, at least 90 px apart."""
    limit = max(int(width // 90), 1)
    for unit in (1, 1 << 10, 1 << 20, 1 << 30, 1 << 40):
        for factor in (1, 2, 5, 10, 20, 50, 100, 200, 500):
            if span / (unit * factor) <= limit:
                return unit * factor
    return max(span, 1)


def _tick_text(tick: int) -> str:
    """`50 MiB`: ticks are whole numbers of their unit."""
    value, _, unit = fmt.bytes_text(tick).partition(" ")
    return f"{float(value):g} {unit}"
