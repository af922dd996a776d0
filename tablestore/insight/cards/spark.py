"""The commits of a table as a small picture: rows added as bars above a line, kinds as glyphs on it. Pure.

x is commit order; heights are linear from 0. Without style the picture is not there, and the words beside it
say the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from tablestore.core.quantities import many
from tablestore.format.snapshot import ANALYZE, COMPACT, OVERWRITE, Snapshot
from tablestore.insight.cards.html import ink

NEWEST = 60  # commits that are drawn
_STEP, _UP, _DOWN = 8, 30, 10
_COLOURS = {COMPACT: "compact", OVERWRITE: "overwrite", ANALYZE: "analyze"}


def timeline(snapshots: Sequence[Snapshot], *, scale: float = 1.0) -> str:
    """SVG of the newest `NEWEST` of these snapshots, oldest at the left; `scale` makes it smaller."""
    shown = snapshots[-NEWEST:]
    most = max((_rows(s) for s in shown), default=0)
    width, height = len(shown) * _STEP, _UP + _DOWN
    parts = [f'<line x1="0" y1="{_UP}" x2="{width}" y2="{_UP}" stroke="{ink("line2")}" stroke-width="1"/>']
    for at, snapshot in enumerate(shown):
        colour, x = ink(_COLOURS.get(snapshot.commit_kind, "append")), at * _STEP
        if most and _rows(snapshot):
            tall = max(1.0, (_UP - 3) * _rows(snapshot) / most)
            parts.append(
                f'<rect x="{x + 1.5}" y="{_UP - tall:.1f}" width="5" height="{tall:.1f}" fill="{colour}"/>'
            )
        parts.append(_glyph(snapshot.commit_kind, x + 4, _UP + 5, colour))
    style = f"display:block;width:{width * scale:.0f}px;height:{height * scale:.0f}px;max-width:100%"
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width * scale:.0f}" height="{height * scale:.0f}" '
        f'preserveAspectRatio="xMinYMid meet" style="{style}" role="img" aria-label="{words(snapshots)}">'
        f"{''.join(parts)}</svg>"
    )


def words(snapshots: Sequence[Snapshot]) -> str:
    """`newest 60 commits: 51 APPEND, 9 COMPACT`."""
    shown = snapshots[-NEWEST:]
    kinds = dict.fromkeys(s.commit_kind for s in shown)
    counts = ", ".join(f"{sum(s.commit_kind == kind for s in shown):,} {kind}" for kind in sorted(kinds))
    newest = "newest " if len(shown) >= NEWEST else ""
    return f"{newest}{many(len(shown), 'commit')}: {counts}" if shown else "no commits"


def _rows(snapshot: Snapshot) -> int:
    """Rows that a commit brought; a compaction brings none."""
    return 0 if snapshot.commit_kind == COMPACT else max(snapshot.delta_record_count or 0, 0)


def _glyph(kind: str, x: float, y: float, colour: str) -> str:
    if kind == COMPACT:
        return f'<path d="M{x} {y - 3.5}l3.5 3.5l-3.5 3.5l-3.5-3.5z" fill="{colour}"/>'
    if kind == OVERWRITE:
        return f'<rect x="{x - 2.5}" y="{y - 2.5}" width="5" height="5" fill="{colour}"/>'
    if kind == ANALYZE:
        return f'<circle cx="{x}" cy="{y}" r="2.2" fill="none" stroke="{colour}" stroke-width="1.2"/>'
    return f'<circle cx="{x}" cy="{y}" r="1.8" fill="{colour}"/>'
