"""Pictures and pages that need no kernel: the `<img>` of a notebook, and one self-contained HTML file.

Invariants: nothing refers outside the file; JSON in the page cannot close its script element; frames are
drawn by the same pure figures as in a notebook and packed (deflate) because neighbours are almost equal.
Called by `View` and by `widgets.page`.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from widgets import _kit, _svg
from widgets._svg import Figure, esc, fit, group, line, num, rect, stack, text, text_width
from widgets._theme import var

HEAD, FOOT = 44, 30
PAGE_WIDTH = 1040
PANEL = 324


class Exports(Protocol):
    """A view that can be exported."""

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """Everything a page without a kernel needs."""
        ...


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
        body += text(width - 16, 21, "run the cell for the live view", size=11, text_anchor="end")
    return Figure(width, FOOT, body)


def image(svg: str, *, alt: str) -> str:
    """An `<img>` that carries the SVG: code hosts, converters and untrusted notebooks show it."""
    packed = base64.b64encode(svg.encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{packed}" alt="{esc(alt)}" style="max-width:100%">'


def frame(figure: Figure) -> dict[str, Any]:
    """A figure as it crosses to the browser."""
    return {"svg": _svg.live(figure), "label": figure.label, "meta": figure.meta}


def page(title: str, views: Sequence[Exports], *, heading: bool = True) -> str:
    """One HTML page of views below each other, a panel beside the view before it; linked as they are."""
    specs, rows = [], []
    groups = linked_groups(views)
    position = 0
    while position < len(views):
        beside = (
            position + 1 < len(views) and _is_panel(views[position + 1]) and not _is_panel(views[position])
        )
        if beside:
            specs.append(spec(views[position], groups[position], widths=(PAGE_WIDTH - PANEL, 660, 600)))
            specs.append(spec(views[position + 1], groups[position + 1], widths=(900, 660, PANEL)))
            rows.append(_row(f"{_place(position)}{_place(position + 1)}", panel=True))
        else:
            specs.append(spec(views[position], groups[position], widths=(PAGE_WIDTH, 920, 660)))
            rows.append(_row(_place(position), panel=False))
        position += 2 if beside else 1
    head = f"<h1>{esc(title)}</h1>" if heading else ""
    return _document(title, head + "".join(rows), specs)


def spec(view: Exports, group: int, *, widths: tuple[int, ...]) -> dict[str, Any]:
    """A view's export with what it follows: every view of its group, in the traits of `links` both have."""
    made = dict(view.export(widths=widths))
    state = dict(made["state"]) | {"code": getattr(view, "code", "")}
    entry = _kit.renderer(made["kind"])
    return made | {"state": state, "group": group, "links": list(getattr(view, "links", ())), "entry": entry}


def linked_groups(views: Sequence[Exports]) -> list[int]:
    """A number a view: views that are linked, also by way of others, have the same."""
    groups = list(range(len(views)))
    places = {id(view): at for at, view in enumerate(views)}
    for at, view in enumerate(views):
        for peer in getattr(view, "linked", ()):
            other = places.get(id(peer))
            if other is not None and groups[other] != groups[at]:
                low, high = sorted((groups[at], groups[other]))
                groups = [low if group == high else group for group in groups]
    return groups


def _is_panel(view: Exports) -> bool:
    return bool(getattr(view, "is_panel", False))


def _place(position: int) -> str:
    return f'<div data-view="{position}"></div>'


def _row(inner: str, *, panel: bool) -> str:
    return f'<div class="row{" panel" if panel else ""}">{inner}</div>'


def _document(title: str, rows: str, specs: list[dict[str, Any]]) -> str:
    """The page: style, packed frames, our modules, and the start."""
    packed = base64.b64encode(zlib.compress(json.dumps(specs, separators=(",", ":")).encode(), 6)).decode()
    used = sorted({spec["kind"] for spec in specs})
    views = "".join(_kit.scope(kind, page=True) for kind in used)
    script = f"{_kit.shared(host=True)}const lwViews = {{}};\n{views}lwBoot(lwViews);"
    style = _kit.sheet() + _PAGE_STYLE
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{esc(title)}</title><style>{style}</style></head>"
        f'<body><main class="lw lw-page">{rows}</main>'
        f'<script type="text/plain" id="lw-data">{packed}</script>'
        f"<script>{script}</script></body></html>\n"
    )


_PAGE_STYLE = """
body { margin: 0; background: #ffffff; }
@media (prefers-color-scheme: dark) { body { background: #111111; } }
.lw-page { max-width: 1064px; margin: 0 auto; padding: 12px; border: 0; overflow: visible; }
.lw-page h1 { font: 600 20px/26px var(--lw-ui); margin: 4px 0 12px; overflow-wrap: anywhere; }
.row { margin-bottom: 12px; }
.row.panel { display: grid; grid-template-columns: minmax(0, 1fr) 324px; gap: 0; }
@media (max-width: 959px) { .row.panel { grid-template-columns: minmax(0, 1fr); gap: 12px; } }
"""
