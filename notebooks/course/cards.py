"""Cards of the course, as HTML that follows JupyterLab's theme and as text: a verdict, a table.

Invariants: every text is escaped; of markup only `code` between backticks, bold between double stars and
italics between single ones are known; all are made here; colours are tokens of `widgets.kit.theme`; without
its style sheet (a code host, an untrusted notebook) a card is still plain readable HTML. Pure. Called by
`Task` and by `Health`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from widgets.kit import svg
from widgets.kit.theme import TOKENS, Theme
from widgets.task.words import bare, paragraphs, segments

STYLE = Path(__file__).with_name("cards.css")
USED = ("panel", "line", "line2", "ink3", "ink2", "ink", "sel-tint", "ok", "warn", "err", "err-tint")


@dataclass(frozen=True, slots=True)
class Card:
    """Something to show: HTML for a notebook, text for everything else."""

    html: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"text/html": self.html, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text


@lru_cache
def style() -> str:
    """The style sheet of a card: the tokens it uses, light and dark, and its rules."""
    light, dark = (_variables(theme) for theme in ("light", "dark"))
    rules = " ".join(STYLE.read_text(encoding="utf-8").split())
    return (
        f"<style>.course-card{{{light}}}"
        f'body[data-jp-theme-light="false"] .course-card{{{dark}}}'
        f"@media (prefers-color-scheme:dark){{body:not([data-jp-theme-light]) .course-card{{{dark}}}}}"
        f"{rules}</style>"
    )


def _variables(theme: Theme) -> str:
    return "".join(f"--c-{name}:{TOKENS[theme][name]};" for name in USED)


def rich(text: object) -> str:
    """Text with `code`, **bold** and *italics*, everything else escaped."""
    tags = {"code": "code", "bold": "strong", "italic": "em"}
    pieces = []
    for style, part in segments(text):
        safe = escape(part)
        pieces.append(f"<{tags[style]}>{safe}</{tags[style]}>" if style else safe)
    return "".join(pieces)


def framed(inner: str, *, kind: str, label: str, live: bool = False) -> str:
    """A card around `inner`; `live` ones are read aloud when they appear."""
    role = "status" if live else "region"
    names = f"course-card course-{kind}"
    return f'{style()}<div class="{names}" role="{role}" aria-label="{escape(label)}">{inner}</div>'


def verdict(kind: str, sign: str, title: str, texts: Iterable[str], progress: str) -> Card:
    """What became of an answer: `kind` is right, wrong or open."""
    texts = [block for text in texts for block in paragraphs(text)]
    body = f'<p><span class="course-sign">{sign}</span><strong>{rich(title)}</strong></p>'
    body += "".join(f"<p>{rich(text)}</p>" for text in texts)
    foot = f'<p class="course-foot">{escape(progress)}</p>' if progress else ""
    lines = [f"{sign} {bare(title)}", *(f"  {bare(text)}" for text in texts)]
    lines += [f"  {progress}"] if progress else []
    return Card(framed(body + foot, kind=kind, label=f"{title}", live=True), "\n".join(lines))


def health(title: str, rows: Sequence[tuple[str, str, str, str]], *, kind: str) -> Card:
    """A table of (state, what, its value, remedy)."""
    signs = {"ok": "✓", "note": "–", "missing": "✕"}
    cells, lines = [], [bare(title)]
    wide = max((len(what) for _, what, _, _ in rows), default=0)
    for state, what, value, remedy in rows:
        more = f' <span class="course-soft">{rich(remedy)}</span>' if remedy else ""
        cells.append(
            f'<tr><td class="course-{escape(state)}">{signs[state]}</td><td>{escape(what)}</td>'
            f"<td>{escape(svg.plain(value))}{more}</td></tr>"
        )
        lines.append(f"  {signs[state]} {what:{wide}}  {value}" + (f"  → {bare(remedy)}" if remedy else ""))
    sign = {"right": "✓", "wrong": "✕", "note": "–"}[kind]
    head = f'<p><span class="course-sign">{sign}</span><strong>{rich(title)}</strong></p>'
    table = f"<table>{''.join(cells)}</table>"
    return Card(framed(head + table, kind=kind, label="Environment"), "\n".join(lines))
