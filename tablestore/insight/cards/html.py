"""The frame of cards: HTML text with its style, colours by meaning, everything from data escaped. Pure.

Colours are those of the views of `widgets` (a test compares them); in JupyterLab ground and fonts are the
theme's. A notebook that is not trusted drops style and pictures and keeps the words.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tablestore.core.env import Env
from tablestore.core.quantities import many

_COLOURS = {  # on a light ground, on a dark one
    "bg": ("#ffffff", "#111111"),
    "panel": ("#f6f7f9", "#1a1c1f"),
    "line": ("#e2e5e9", "#31353b"),
    "line2": ("#848c96", "#777f89"),
    "ink": ("#1f2328", "#e8ebef"),
    "ink2": ("#57606a", "#a9b1bb"),
    "ink3": ("#67707a", "#8f98a3"),
    "append": ("#2470b3", "#6fb0ea"),
    "compact": ("#b04e03", "#f2994a"),
    "overwrite": ("#5c1a70", "#f0d0fa"),
    "analyze": ("#67707a", "#98a1ac"),
    "ok": ("#0b7a5e", "#45c09a"),
    "warn": ("#8a5a00", "#f0c24b"),
    "warn-tint": ("#fff5d9", "#2e2610"),
    "err": ("#b3261e", "#ff8a80"),
    "err-tint": ("#fdeceb", "#361b1a"),
}
LIGHT = {name: light for name, (light, _) in _COLOURS.items()}
DARK = {name: dark for name, (_, dark) in _COLOURS.items()}
_UI = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
_CODE = "ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"
LONGEST = 200  # characters of one text from data
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
CHIPS = {  # state: glyph, colour, ground
    "healthy": ("✓", "ok", "panel"),
    "sound": ("✓", "ok", "panel"),
    "due": ("▲", "warn", "warn-tint"),
    "risk": ("✕", "err", "err-tint"),
    "broken": ("✕", "err", "err-tint"),
    "empty": ("○", "ink2", "panel"),
    "plain": ("", "ink2", "panel"),
}


def esc(text: object, *, longest: int = LONGEST) -> str:
    """Text of data for HTML: on one line, control characters written out, cut, escaped; `$` too, which
    notebooks take for mathematics."""
    shown = str(text)
    shown = shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
    plain = "".join(
        c.encode("unicode_escape", "backslashreplace").decode("ascii")
        if unicodedata.category(c) in _INVISIBLE
        else c
        for c in shown
    )
    return html.escape(plain).replace("$", "&#36;")


def ink(name: str) -> str:
    """A colour by its meaning, as a value of a style."""
    return f"var(--ts-{name},{LIGHT[name]})"


def _declared(colours: dict[str, str]) -> str:
    given = {**colours, "bg": f"var(--jp-layout-color0,{colours['bg']})"}
    return "".join(f"--ts-{name}:{value};" for name, value in given.items())


STYLE = (
    f".ts-card{{{_declared(LIGHT)}--ts-ui:var(--jp-ui-font-family,{_UI});"
    f"--ts-code:var(--jp-code-font-family,{_CODE})}}"
    f'body[data-jp-theme-light="false"] .ts-card{{{_declared(DARK)}}}'
    f"@media (prefers-color-scheme:dark){{body:not([data-jp-theme-light]) .ts-card{{{_declared(DARK)}}}}}"
    ".ts-card table.ts-rows{border-collapse:collapse;border:0;margin:0;font-size:12px;width:auto}"
    ".ts-card table.ts-rows th,.ts-card table.ts-rows td{padding:3px 14px 3px 0;border:0;text-align:left;"
    "vertical-align:top;background:none;color:var(--ts-ink);font-weight:400;white-space:nowrap;max-width:360px;overflow:hidden;"
    "text-overflow:ellipsis}"
    ".ts-card table.ts-rows tr{background:none!important}"
    ".ts-card table.ts-rows th{color:var(--ts-ink2);border-bottom:1px solid var(--ts-line)}"
    ".ts-card table.ts-rows .ts-n{text-align:right}"
    ".ts-card table.ts-rows .ts-w{white-space:normal;overflow-wrap:break-word;max-width:460px}"
    ".ts-card summary{cursor:pointer;color:var(--ts-ink2)}"
)


def moment(env: Env, millis: int) -> str:
    """`2026-11-23 12:47:08`, local wall clock; the number itself where it is no moment."""
    try:
        seconds = pa.scalar(env.local_ms(millis) // 1000, pa.timestamp("s"))
        return str(seconds.cast(pa.string()).as_py())
    except (ValueError, OverflowError, OSError, pa.ArrowInvalid):
        return f"{millis} ms"


@dataclass(frozen=True, slots=True)
class TextCell:
    """One cell of a table: text of data, at the right where it is a number, in a colour by its meaning; with
    `markup` HTML of ours instead. What `wraps` is a sentence, shown whole; other text is cut to a line."""

    text: str
    number: bool = False
    colour: str = ""
    markup: str = ""
    wraps: bool = False


def card(
    title: str,
    subtitle: str = "",
    *,
    chip: tuple[str, str] | None = None,
    facts: Sequence[tuple[str, str]] = (),
    body: Sequence[str] = (),
    code: str = "",
    note: str = "",
) -> str:
    """A card: `title` and what it is, a `chip` (state, words), `facts` (number, noun), HTML of ours as
    `body`, a line of `code`, a quiet `note`."""
    head = f'<span style="font-size:15px;font-weight:600;color:{ink("ink")}">{esc(title)}</span>'
    if subtitle:
        head += f' <span style="color:{ink("ink2")}">{esc(subtitle)}</span>'
    parts = [f'<div style="line-height:20px;overflow-wrap:anywhere">{head}</div>']
    if chip is not None:
        parts.append(f'<div style="margin-top:6px">{_chip(*chip)}</div>')
    if facts:
        parts.append(f'<div style="margin-top:8px">{_facts(facts)}</div>')
    parts += [f'<div style="margin-top:10px;overflow-x:auto">{part}</div>' for part in body if part]
    if code:
        style = (
            f"font-family:var(--ts-code,{_CODE});font-size:11px;color:{ink('ink2')};background:none;padding:0"
        )
        above = f"margin-top:10px;padding-top:8px;border-top:1px solid {ink('line')};overflow-wrap:anywhere"
        parts.append(f'<div style="{above}"><code style="{style}">{esc(code, longest=400)}</code></div>')
    if note:
        parts.append(f'<div style="margin-top:6px;font-size:11px;color:{ink("ink3")}">{esc(note)}</div>')
    frame = (
        f"font-family:var(--ts-ui,{_UI});font-size:12px;line-height:16px;font-variant-numeric:tabular-nums;"
        f"color:{ink('ink')};background:{ink('bg')};border:1px solid {ink('line')};border-radius:6px;"
        "padding:12px 16px;margin:2px 0;max-width:900px;box-sizing:border-box"
    )
    return f'<div class="ts-card" style="{frame}"><style>{STYLE}</style>{"".join(parts)}</div>'


def _chip(state: str, words: str) -> str:
    glyph, colour, ground = CHIPS[state]
    style = (
        f"display:inline-block;padding:2px 10px;border-radius:10px;color:{ink(colour)};"
        f"background:{ink(ground)};font-weight:600"
    )
    return f'<span style="{style}">{f"{glyph} " if glyph else ""}{esc(words)}</span>'


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    """`12 files · 920 MiB`: numbers in ink, nouns quiet."""
    fact_table = (
        f'<span style="white-space:nowrap;margin-right:14px"><b style="font-weight:600;color:{ink("ink")}">'
        f'{esc(number)}</b> <span style="color:{ink("ink2")}">{esc(noun)}</span></span>'
        for number, noun in facts
    )
    return " ".join(fact_table)


def counted(number: int, noun: str, more: str = "") -> tuple[str, str]:
    """`("12", "files")`."""
    count, _, word = many(number, noun).partition(" ")
    return count, f"{word} {more}".strip()


def rows(heads: Sequence[tuple[str, bool]], lines: Sequence[Sequence[TextCell]]) -> str:
    """A table: headings (none if all are empty), each with whether numbers stand below it, and lines of
    cells."""
    head = "".join(f"<th{' class=ts-n' if number else ''}>{esc(name)}</th>" for name, number in heads)
    body = "".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines)
    above = f"<thead><tr>{head}</tr></thead>" if any(name for name, _ in heads) else ""
    return f'<table class="ts-rows">{above}<tbody>{body}</tbody></table>'


def _cell(cell: TextCell) -> str:
    style = f' style="color:{ink(cell.colour)}"' if cell.colour else ""
    longest = LONGEST * 3 if cell.wraps else LONGEST
    kind = " class=ts-n" if cell.number else " class=ts-w" if cell.wraps else ""
    return f"<td{kind}{style}>{cell.markup or esc(cell.text, longest=longest)}</td>"


def line(text: str, colour: str = "ink2") -> str:
    """A line of text of data."""
    return f'<span style="color:{ink(colour)}">{esc(text)}</span>'


def words(text: str) -> str:
    """Lines of text of data in the code font, as they are."""
    style = (
        f"font-family:var(--ts-code,{_CODE});font-size:11px;line-height:16px;color:{ink('ink2')};"
        "white-space:pre-wrap;overflow-wrap:anywhere"
    )
    shown = "<br>".join(esc(line, longest=400).replace("  ", "&nbsp; ") for line in text.splitlines())
    return f'<div style="{style}">{shown}</div>'


def folded(title: str, inside: str) -> str:
    """HTML of ours that is shown when its title is clicked."""
    return f"<details><summary>{esc(title)}</summary>{inside}</details>"
