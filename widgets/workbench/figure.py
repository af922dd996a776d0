"""The head of the workbench as a picture, and all its parts as one static figure.

Pure. Called by `widget`; the live head is made of text by `view.js`.
"""

from widgets.kit import static, svg
from widgets.kit.svg import Figure, fit, group, line, num, rect, text, text_width, wrap
from widgets.kit.theme import var
from widgets.workbench.model import Able, Head

PANEL, WIDE = 324, 960
HEAD, STRIP, REASON = 40, 30, 18


def head_figure(head: Head, *, width: float) -> Figure:
    """Name, what it is, how much it holds; below it what does not work, and why."""
    facts = fit(head.summary, width * 0.46)
    room = width - 32 - text_width(facts) - 16
    name = fit(head.name, max(room * 0.6, 60), size=15, weight=600)
    after = 16 + text_width(name, size=15, weight=600) + 10
    kind = fit(head.kind, room - after) if room - after > 60 else ""
    body = text(16, 26, name, size=15, fill="ink", weight=600) + text(after, 26, kind)
    body += text(width - 16, 26, facts, text_anchor="end")
    label = f"{head.name}: {head.kind}, {head.summary}"
    top = Figure(width, HEAD, body + line(0, HEAD, width, HEAD), label)
    return svg.stack([top, able_figure(head, width=width)]) if head.warning else top


def able_figure(head: Head, *, width: float) -> Figure:
    """What works ✓ and what does not –, with the engine's reasons."""
    warns = any(not able.works for able in head.able)
    reasons = [
        row
        for able in head.reasons
        for row in wrap(f"{able.verb}: {able.why}", width - 32, size=11, monospace=True, lines=3)
    ]
    height = STRIP + 8 + REASON * len(reasons)
    body = rect(0, 0, width, height, fill=var("warn-tint")) if warns else ""
    body += text(
        16, 20, fit(_marked(head), width * 0.62), size=12, fill="warn" if warns else "ink2", weight=600
    )
    x = width - 16.0
    for able in reversed(head.able):
        chip, wide = _chip(able)
        x -= wide
        body += group(chip, transform=f"translate({num(x)} 6)")
        x -= 8
    body += "".join(svg.code(16, STRIP + 12 + REASON * at, row) for at, row in enumerate(reasons))
    return Figure(width, height, body + line(0, height, width, height), head.warning)


def _marked(head: Head) -> str:
    return f"▲ {head.warning}" if any(not able.works for able in head.able) else head.warning


def _chip(able: Able) -> tuple[str, float]:
    words = f"{'✓' if able.works else '–'} {able.verb}"
    wide = text_width(words, size=11) + 16
    dash = None if able.works else "3 3"
    edge = rect(0, 0, wide, 20, rx=10, fill=var("bg"), stroke=var("line2"), stroke_dasharray=dash)
    return edge + text(8, 14, words, size=11), wide


def cockpit_figure(parts: dict[str, Figure], *, width: float, note: str) -> Figure:
    """Head, timeline, health where it is shown, levels and charts beside the panel (around it where it is
    narrow), footer."""
    rows = [parts[name] for name in ("head", "timeline", "health") if name in parts]
    rows.append(_beside(parts["levels"], parts.get("controls"), parts.get("amplification"), width))
    ruled = [
        Figure(row.width, row.height, row.body + line(0, row.height, width, row.height), row.label)
        for row in rows
    ]
    return svg.stack([*ruled, *([static.footer(width, note)] if note else [])])


def _beside(levels: Figure, panel: Figure | None, charts: Figure | None, width: float) -> Figure:
    if panel is None or width < WIDE:
        below = [_tinted(panel, width, panel.height)] if panel is not None else []
        return svg.stack([levels, *below, *([charts] if charts is not None else [])])
    room = width - PANEL
    left = [levels]
    if charts is not None:  # at the foot of a taller panel
        space = max(panel.height - levels.height - charts.height, 0)
        ruled = line(0, space, room, space) + group(charts.body, transform=f"translate(0 {num(space)})")
        left.append(Figure(room, charts.height + space, ruled, charts.label))
    beside = svg.stack(left)
    height = max(beside.height, panel.height)
    side = group(_tinted(panel, PANEL, height).body, transform=f"translate({num(room)} 0)")
    return Figure(width, height, beside.body + side, f"{beside.label}. {panel.label}")


def _tinted(figure: Figure, width: float, height: float) -> Figure:
    """A panel's figure on the panel's colour."""
    ground = rect(0, 0, width, height, fill=var("panel")) + line(0, 0, 0, height)
    return Figure(width, height, ground + figure.body, figure.label)
