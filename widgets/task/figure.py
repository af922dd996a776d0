"""A whole task, a veil or a score as one picture: for code hosts, saved notebooks and pages of paper.

The question in words, the picture or the options, the verdict below. Live, the words are the page's own and
only the picture is drawn here. Pure: model → `Figure`. Called by the widgets.
"""

from typing import Any

from widgets.kit.svg import Figure, group, num, rect, text, text_width, wrap
from widgets.kit.theme import var
from widgets.task.model import SIGNS, Score, TaskQuestion, Verdict
from widgets.task.picture import picture_figure
from widgets.task.words import bare, paragraphs

MARGIN, LINE = 16, 18
TOKENS = {"right": "ok", "again": "err", "wrong": "err", "seen": "ink2", "open": "ink3"}


def task_figure(question: TaskQuestion, value: Any, verdict: Verdict | None, *, width: float) -> Figure:
    """The question, what can be chosen, and what became of it."""
    body, y = _lines([bare(block) for block in paragraphs(question.asked)], 8, width, fill="ink")
    shown = verdict if verdict is not None and verdict.settled else None
    if question.options:
        more, y = _options(question, value, shown, y + 4, width)
        body += more
    if picture := picture_figure(question, value, shown, width=width):
        body += group(picture.body, transform=f"translate(0 {num(y)})")
        y += picture.height
    if verdict is not None:
        more, y = _verdict(verdict, y + 6, width)
        body += more
    state = verdict.state if verdict else "open"
    return Figure(width, y + 8, body, f"Task {question.number}, {question.name}: {state}")


def _lines(
    blocks: list[str], y: float, width: float, *, fill: str = "ink2", size: int = 12
) -> tuple[str, float]:
    """Paragraphs from y on, and where they end."""
    drawn = ""
    for block in blocks:
        for row in wrap(block, min(width - 2 * MARGIN, 760), size=size, lines=8):
            y += LINE
            drawn += text(MARGIN, y - 4, row, fill=fill, size=size)
        y += 4
    return drawn, y


def _options(
    question: TaskQuestion, value: Any, verdict: Verdict | None, y: float, width: float
) -> tuple[str, float]:
    """One row an option: its sign, its id, its words. Those of an order stand as the learner has them."""
    options = {option.id: option for option in question.options}
    ids = [each for each in value or () if each in options] if question.kind == "order" else []
    shown = [options[each] for each in ids] or list(options.values())
    chosen = set(value if isinstance(value, list | tuple) else [value])
    own = verdict.own if verdict else None
    right = set(own if isinstance(own, list | tuple) else [own])
    drawn = ""
    wide = max(text_width(bare(option.id), weight=600) for option in shown) + 40
    for place, option in enumerate(shown):
        y += 24
        sign, token = str(place + 1) if question.kind == "order" else "○", "ink2"
        if question.kind != "order" and option.id in chosen:
            sign, token = "●", "ink"
        if verdict is not None and question.kind != "order" and option.id in chosen | right:
            sign, token = ("✓", "ok") if option.id in right else ("✗", "err")
        drawn += text(MARGIN + 4, y - 6, sign, fill=token, weight=600)
        drawn += text(MARGIN + 24, y - 6, bare(option.id), fill="ink", weight=600)
        rows = wrap(bare(option.words), max(width - 2 * MARGIN - wide, 80), lines=1)
        drawn += text(MARGIN + wide, y - 6, rows[0] if rows else "")
    return drawn, y + 4


def _verdict(verdict: Verdict, y: float, width: float) -> tuple[str, float]:
    """The guess beside the engine's answer, once that is shown, then why."""
    token = TOKENS[verdict.state]
    head = f"{SIGNS[verdict.state]} you: {bare(verdict.yours)}"
    drawn = text(MARGIN, y + 14, head, fill=token, weight=600)
    after = MARGIN + text_width(head, weight=600) + 24
    if verdict.settled:
        drawn += text(after, y + 14, f"engine: {bare(verdict.engine)}", fill="ink", weight=600)
    notes = [bare(each) for each in (verdict.remark, verdict.reason) if each]
    more, end = _lines(notes, y + 18, width)
    bar = rect(2, y, 3, end - y, fill=var(token))
    return bar + drawn + more, end


def veil_figure(note: str, picture: Figure | None, lines: list[str], *, width: float) -> Figure:
    """What a veil shows: the sentence that it is closed, or the note with the picture and lines below."""
    body, y = _lines(paragraphs(bare(note)), 0, width)
    if picture is not None:
        body += group(picture.body, transform=f"translate(0 {num(y)})")
        y += picture.height
    if lines:
        for row in lines[:24]:
            y += 16
            body += text(MARGIN, y, row[:160], size=11, fill="ink", class_="code")
        y += 8
    return Figure(width, max(y, 24), body, picture.label if picture else bare(note))


def score_figure(score: Score, *, width: float) -> Figure:
    """A chip a task, in rows."""
    drawn, x, y = "", float(MARGIN), 4.0
    for name, state in score.tasks:
        words = f"{SIGNS[state]} {name}"
        wide = min(text_width(words, size=11) + 20, width - 2 * MARGIN)
        if x + wide > width - MARGIN:
            x, y = float(MARGIN), y + 28
        drawn += rect(x, y, wide, 20, rx=10, fill="none", stroke=var("line2"))
        drawn += text(x + 10, y + 14, words, size=11, fill=TOKENS[state] if state != "open" else "ink2")
        x += wide + 8
    return Figure(width, y + 32, drawn, f"{score.title}: {score.line}")
