"""Static pictures: a figure under its header, a footer, the `<img>` of a notebook, a frame.

Pure. Called by `View`, by the workbench and by every view's export. `SHOWN` is the MIME type by which the
JupyterLab extension (widgets/labextension) knows an output of ours; without it, nothing reads the type.
"""

import base64
from collections.abc import Mapping
from typing import Any

from widgets.kit.svg import Figure, esc, fit, group, line, live, num, rect, stack, text, text_width
from widgets.kit.theme import var

HEAD, FOOT = 44, 30
HINT = "run the cell for the live view"
SHOWN = "application/vnd.tablestore.view+json"


def framed(figure: Figure, *, words: Mapping[str, Any], note: str = "") -> Figure:
    """`figure` under a header with its title and, if there is a `note`, above a footer."""
    width = figure.width
    title = fit(words.get("title", ""), width * 0.5, size=15, weight=600)
    after = 16 + text_width(title, size=15, weight=600) + 10
    subtitle = fit(words.get("subtitle", ""), width - after - 16)
    head = text(16, 28, title, size=15, fill="ink", weight=600) + text(after, 28, subtitle)
    body = head + group(figure.body, transform=f"translate(0 {HEAD})")
    y = HEAD + figure.height
    if legend := words.get("legend_body", ""):
        body += group(legend, transform=f"translate(16 {num(y)})")
        y += 24
    framing = Figure(width, y, body, figure.label)
    return stack([framing, footer(width, note)]) if note else framing


def footer(width: float, note: str) -> Figure:
    """The chip `static`, when it was drawn, and how to get the live view."""
    body = line(16, 2, width - 16, 2) + rect(16, 8, 48, 18, rx=9, fill="none", stroke=var("line2"))
    body += text(40, 21, "static", size=11, text_anchor="middle") + text(72, 21, note, size=11)
    if width >= 560:
        body += text(width - 16, 21, HINT, size=11, text_anchor="end")
    return Figure(width, FOOT, body)


def image(svg: str, *, alt: str) -> str:
    """An `<img>` that carries the SVG: code hosts, converters and untrusted notebooks show it."""
    packed = base64.b64encode(svg.encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{packed}" alt="{esc(alt)}" style="max-width:100%">'


def mimebundle(bundle: Any, *, text: str, html: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The MIME bundle that a widget, `bundle`, with its text form and its static picture."""
    data = dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
    return data | {SHOWN: {"version": 1}, "text/plain": text, "text/html": html}, {}


def frame(figure: Figure) -> dict[str, Any]:
    """A figure as it crosses to the browser."""
    return {"svg": live(figure), "label": figure.label, "meta": figure.meta}
