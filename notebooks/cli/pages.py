"""Executed notebooks as pages that stand alone: static pictures, a style of our own, no script.

Invariants: a page refers to nothing outside its folder but by links a reader clicks; the views' live parts
are left out, so what is shown is what their `text/html` says. Pure: notebooks in, HTML out. Called by
`docs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from nbconvert import HTMLExporter
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from widgets.kit.theme import TOKENS, Theme

VIEW = "application/vnd.jupyter.widget-view+json"
LIVE = (VIEW, "application/javascript")
_OUTSIDE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*?\bhref\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|@import\s+(?:url\()?["']?((?:https?:)?//[^"'\s)]+)|url\(\s*["']?((?:https?:)?//[^"'\s)]+)""",
    re.IGNORECASE,
)
_PRINTED = re.compile(r'<div class="output_area">(\s*<div class="output_subarea output_(?:stream|text))')
"""Printed lines, which may be broader than a telephone: keys scroll them."""
_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; background: var(--page-bg); color: var(--page-ink); font: 400 15px/24px system-ui,
  -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1064px; margin: 0 auto; padding: 24px 16px 64px; }
.text_cell_render > p, .text_cell_render > ul, .text_cell_render > ol { max-width: 760px; }
h1 { font-size: 26px; line-height: 34px; } h2 { font-size: 20px; line-height: 28px; margin: 32px 0 8px; }
a { color: var(--page-focus); } .anchor-link, .prompt { display: none; }
code, pre { font: 13px/19px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
p code, li code, td code { background: var(--page-panel); border-radius: 3px; padding: 1px 4px; }
.highlight, .highlight pre { background: var(--page-panel); }
.highlight { border: 1px solid var(--page-line); border-radius: 4px; margin: 8px 0; overflow-x: auto; }
.highlight pre { margin: 0; padding: 10px 12px; }
.output_area, .jp-OutputArea-output { margin: 8px 0 20px; overflow-x: auto; } .output_area pre { margin: 0; }
img { display: block; border: 1px solid var(--page-line); border-radius: 6px; }
table { border-collapse: collapse; font-size: 13px; line-height: 18px; border: 0;
  font-variant-numeric: tabular-nums; }
th, td { padding: 4px 12px 4px 0; text-align: left; vertical-align: top; border: 0;
  border-bottom: 1px solid var(--page-line); }
td.number, th.number { text-align: right; padding-right: 20px; white-space: nowrap; }
.problem { color: var(--page-err); } .quiet, td.quiet { color: var(--page-ink2); }
nav { font-size: 13px; margin-bottom: 8px; }
@media (max-width: 700px) { .highlight pre { white-space: pre-wrap; overflow-wrap: anywhere; } }
"""
_CODE: dict[Theme, str] = {"light": "default", "dark": "github-dark"}
"""The colours of code by theme, by their names in Pygments."""


def themed_style() -> str:
    """The style of all pages: colours as variables (`--page-ink`), dark where the reader's system is."""
    light, dark = ("".join(f"--page-{n}:{c};" for n, c in TOKENS[t].items()) for t in ("light", "dark"))
    code, dark_code = (HtmlFormatter(style=_CODE[t]).get_style_defs(".highlight") for t in ("light", "dark"))
    code = code.replace("#A2F", "#8718D6").replace("#767600", "#6E6E00")  # theirs are too faint on the panel
    dark_rules = f":root{{{dark}}}\n{dark_code}"
    return f":root{{{light}}}\n{code}\n@media (prefers-color-scheme:dark){{{dark_rules}}}\n{_STYLE}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one notebook; `problem` is empty if it ran to its end."""

    name: str
    title: str
    seconds: float
    cells: int
    problem: str = ""
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class PageParts:
    """What a page has beside its text: more style, the index's name, HTML above, scripts, and the policy
    that allows them."""

    style: str = ""
    index: str = "All notebooks"
    lead: str = ""
    scripts: str = ""
    policy: str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


STILL = PageParts()


def notebook_page(notebook: NotebookNode, *, title: str, parts: PageParts = STILL) -> str:
    """One executed notebook as a page."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            _without_live_parts(output)
    exporter = HTMLExporter(template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True)
    body, _ = exporter.from_notebook_node(notebook)
    body = re.sub(r'href="(\d\d_\w+)\.ipynb"', r'href="\1.html"', body)
    body = _PRINTED.sub(r'<div class="output_area" tabindex="0" role="group" aria-label="output">\1', body)
    nav = f'<nav><a href="index.html">{parts.index}</a></nav>'
    return styled_page(title, nav + parts.lead + body, parts)


def _without_live_parts(output: Any) -> None:
    """Leave an output what can be seen without a kernel."""
    data = output.get("data")
    if data:
        for kind in LIVE:
            data.pop(kind, None)


def references(page: str) -> list[str]:
    """Addresses a browser would ask for by itself when it shows the page; links to click are none."""
    return [next(filter(None, match.groups())) for match in _OUTSIDE.finditer(page)]


def index_page(outcomes: Iterable[Outcome]) -> str:
    """The notebooks with the time each took, and what failed."""
    executed = list(outcomes)
    rows = [_row(outcome) for outcome in executed]
    total = sum(outcome.seconds for outcome in executed)
    head = '<tr><th>notebook</th><th class="number">cells</th><th class="number">seconds</th><th></th></tr>'
    foot = f'<tr><td>{len(executed)} in all</td><td></td><td class="number">{total:.1f}</td><td></td></tr>'
    body = f"<h1>The notebooks, executed</h1><table>{head}{''.join(rows)}{foot}</table>"
    note = "Run from top to bottom, the tasks answered by the engine. Live in <code>./workbench lab</code>."
    return styled_page("The notebooks, executed", f'{body}<p class="quiet">{note}</p>')


def _row(outcome: Outcome) -> str:
    mark = "" if not outcome.problem else "– " if outcome.skipped else "✕ "
    kind = "quiet" if outcome.skipped or not outcome.problem else "problem"
    result = f'<td class="{kind}">{mark}{escape(outcome.problem)}</td>'
    link = f'<td><a href="{escape(outcome.name)}.html">{escape(outcome.title)}</a></td>'
    return (
        f'<tr>{link}<td class="number">{outcome.cells}</td>'
        f'<td class="number">{outcome.seconds:.1f}</td>{result}</tr>'
    )


def styled_page(title: str, body: str, parts: PageParts = STILL) -> str:
    """A page in the style of all, light or dark as the reader's system."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{parts.policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{themed_style()}{parts.style}</style></head>"
        f"<body><main>{body}</main>{parts.scripts}</body></html>\n"
    )
