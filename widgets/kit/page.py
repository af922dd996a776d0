"""One self-contained HTML file of views that is live without a kernel.

Invariants: nothing refers outside the file; JSON in the page cannot close its script element; frames are
drawn by the same figures as in a notebook and packed (deflate) because neighbours are almost equal. Views of
one group (linked, directly or by others) follow each other in every trait both have. What is not in the file
is said there. Called by `View.to_html`, by `Workbench.to_html` and as `widgets.page`.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, Protocol

from widgets.kit import assets, static
from widgets.kit.svg import esc, standalone

PAGE_WIDTH, PANEL = 1040, 324
NARROW = (500, 376)
"""Telephones, and half a screen at 200 %."""
WIDE_WIDTHS = (PAGE_WIDTH, 920, 660, *NARROW)
PANEL_WIDTHS = (900, 660, 500, PANEL)
BESIDE_WIDTHS = (PAGE_WIDTH - PANEL, 660, 600, *NARROW)
BENCH_WIDTHS = (1560, 1400, 1240, PAGE_WIDTH, 860, 660, *NARROW)
"""A workbench takes the width there is; its panel is 372 wide from 1180 on, and below the rest under 940."""
BENCH_PANEL_WIDTHS = (860, 660, 500, 360, PANEL)
BENCH_BESIDE_WIDTHS = (1180, 1040, 860, PAGE_WIDTH - PANEL, 660, 600, *NARROW)


class Exports(Protocol):
    """A view that can be exported."""

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """Everything a page without a kernel needs."""
        ...


POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(
    title: str,
    views: Sequence[Any],
    *,
    heading: bool = True,
    intro: str = "",
    leads: Mapping[int, str] = MappingProxyType({}),
    after: str = "",
    policy: str = POLICY,
    columns: int = 1,
) -> str:
    """One HTML page of views and workbenches, live without a kernel and without a network.

    `title` is the page's, shown above the views unless `heading` is False. `views` stand in their order, a
    panel beside the view before it; those of one source that are not linked to anything yet are linked
    first. `intro` is HTML above the views, `leads` HTML above those at some places, `after` HTML below the
    page's own script, which `policy` allows.
    With `columns` so many stand side by side where there is room: two tables, or one at two moments.

    >>> text = widgets.page("Orders", [widgets.SnapshotTimeline(orders), widgets.LsmLevels(orders)])
    >>> text.startswith("<!doctype html>"), "http://" in text.replace("http://www.w3.org/2000/svg", "")
    (True, False)
    """
    _join_same_source([view for view in views if not _is_bench(view)])
    flat = [part for view in views for part in _parts(view)]
    groups = dict(zip(map(id, flat), linked_groups(flat), strict=True))
    specs: list[dict[str, Any]] = []
    rows = []
    at = 0
    while at < len(views):
        view, following = views[at], views[at + 1] if at + 1 < len(views) else None
        rows.append(leads.get(at, ""))
        if _is_bench(view):
            rows.append(_row(_place(len(specs)), panel=False))
            specs += _bench_specs(view, groups, len(specs))
        elif following is not None and _is_panel(following) and not _is_panel(view):
            rows.append(_row(_place(len(specs)) + _place(len(specs) + 1), panel=True))
            specs.append(spec(view, groups[id(view)], widths=BESIDE_WIDTHS))
            specs.append(spec(following, groups[id(following)], widths=PANEL_WIDTHS))
            at += 1
        else:
            rows.append(_row(_place(len(specs)), panel=False))
            specs.append(spec(view, groups[id(view)], widths=WIDE_WIDTHS))
        at += 1
    head = f"<h1>{esc(title)}</h1>" if heading else ""
    limits = [
        f'<p class="lw-sub">{esc(text)}</p>' for text in (each.get("limits", "") for each in specs) if text
    ]
    broad = any(_is_bench(view) for view in views)
    if columns > 1:
        rows = [f'<div class="lw-beside" style="--columns:{columns:d}">', *rows, "</div>"]
    body = head + intro + "".join(rows + limits) + _pictures(views)
    return _document(title, body, specs, broad=broad, after=after, policy=policy)


def _pictures(views: Sequence[Any]) -> str:
    """The views as static pictures, for browsers without scripts."""
    drawn = [view.picture(width=PAGE_WIDTH, footer=False) for view in views]
    images = "".join(static.image(standalone(each), alt=each.label) for each in drawn)
    return f"<noscript><p>Static pictures: the live views need JavaScript.</p>{images}</noscript>"


def spec(view: Exports, group: int, *, widths: tuple[int, ...]) -> dict[str, Any]:
    """A view's export with what it follows: every view of its group, in the traits of `links` both have."""
    exported = dict(view.export(widths=widths))
    state = dict(exported["state"]) | {"code": getattr(view, "code", "")}
    entry = assets.renderer(exported["kind"])
    return exported | {
        "state": state,
        "group": group,
        "links": list(getattr(view, "links", ())),
        "entry": entry,
    }


def _bench_specs(bench: Any, groups: dict[int, int], first: int) -> list[dict[str, Any]]:
    """A workbench, then its parts, to which it refers by their place."""
    parts = dict(bench.parts)
    exported = bench.export()
    refs = {name: first + 1 + at for at, name in enumerate(parts)}
    state = exported["state"] | {"parts": refs}
    group = groups[id(next(iter(parts.values())))]
    specs = [exported | {"state": state, "group": group, "entry": assets.renderer(exported["kind"])}]
    for name, view in parts.items():
        beside = name in ("levels", "amplification") and "controls" in parts
        widths = BENCH_BESIDE_WIDTHS if beside else BENCH_WIDTHS
        specs.append(spec(view, groups[id(view)], widths=BENCH_PANEL_WIDTHS if _is_panel(view) else widths))
    return specs


def linked_groups(views: Sequence[object]) -> list[int]:
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


def _join_same_source(views: Sequence[Any]) -> None:
    alone = {id(view) for view in views if not getattr(view, "linked", ())}
    for first_view, other in combinations(views, 2):
        source = getattr(first_view, "source", None)
        same = source is not None and source is getattr(other, "source", None)
        if same and (id(first_view) in alone or id(other) in alone):
            first_view.link(other)


def _is_bench(view: object) -> bool:
    return hasattr(view, "parts")


def _parts(view: Any) -> tuple[Any, ...]:
    return tuple(view.parts.values()) if _is_bench(view) else (view,)


def _is_panel(view: object) -> bool:
    return bool(getattr(view, "is_panel", False))


def _place(position: int) -> str:
    return f'<div data-view="{position}"></div>'


def _row(inner: str, *, panel: bool) -> str:
    return f'<div class="row{" panel" if panel else ""}">{inner}</div>'


def _document(
    title: str, rows: str, specs: list[dict[str, Any]], *, broad: bool, after: str, policy: str
) -> str:
    """The page: style, what is seen, and the scripts."""
    style = assets.sheet() + _PAGE_STYLE
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{esc(title or 'Tablestore')}</title><style>{style}</style></head>"
        f'<body><main class="lw lw-page{" lw-broad" if broad else ""}">{rows}</main>'
        f"{boot(specs)}{after}</body></html>\n"
    )


def boot(specs: list[dict[str, Any]]) -> str:
    """The packed frames, our modules, and the start: the scripts of a page with a place for each spec."""
    packed = base64.b64encode(zlib.compress(json.dumps(specs, separators=(",", ":")).encode(), 6)).decode()
    used = sorted({spec["kind"] for spec in specs})
    views = "".join(assets.scope(kind, page=True) for kind in used)
    script = f"{assets.library(host=True)}const lwViews = {{}};\n{views}lwBoot(lwViews);"
    return f'<script type="text/plain" id="lw-data">{packed}</script><script>{script}</script>'


_PAGE_STYLE = """
body { margin: 0; background: #ffffff; }
@media (prefers-color-scheme: dark) { body { background: #111111; } }
.lw-page { max-width: 1064px; margin: 0 auto; padding: 12px; border: 0; overflow: visible; }
.lw-broad { max-width: 1600px; }
.lw-broad .lw-bench .lw-pic > svg { max-width: 100% !important; }
.lw-page h1 { font: 600 20px/26px var(--lw-ui); margin: 4px 0 12px; overflow-wrap: anywhere; }
.lw-page > h2 { font: 600 15px/20px var(--lw-ui); margin: 20px 16px 4px; overflow-wrap: anywhere; }
.lw-page > h2 { max-width: none; white-space: normal; }
.lw-page > p.lw-sub { margin: 0 16px 12px; white-space: normal; }
.lw-beside { display: grid; gap: 12px; grid-template-columns: repeat(var(--columns), minmax(0, 1fr)); }
@media (max-width: 1099px) { .lw-beside { grid-template-columns: minmax(0, 1fr); } }
.row { margin-bottom: 12px; }
.row.panel { display: grid; grid-template-columns: minmax(0, 1fr) 324px; gap: 0; }
@media (max-width: 959px) { .row.panel { grid-template-columns: minmax(0, 1fr); gap: 12px; } }
"""
