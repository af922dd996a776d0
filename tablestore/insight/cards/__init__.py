"""Cards: how lakes, tables, scans, snapshots, plans and results show themselves in a notebook, as HTML.

`card` is called by `core.rich`, for the `_repr_html_` of those objects. A card reads metadata of one snapshot
and a few commits, a scan's a few rows more; what it may read is bounded in each module. No scripts; all text
is escaped.
"""

from __future__ import annotations

from collections.abc import Callable

from tablestore.insight.cards import results, scan, table

__all__ = ["CARDS", "card"]

CARDS: dict[str, Callable[..., str | None]] = {
    "lake": table.lake_card,
    "table": table.card,
    "scan": scan.card,
    "plan": scan.plan_card,
    "explanation": scan.explanation_card,
    "snapshot": results.snapshot_card,
    "compaction": results.compaction_card,
    "what-if": results.what_if_card,
    "violations": results.violations_card,
    "health": table.health_card,
    "diagnosis": results.diagnosis_card,
    "advice": results.advice_card,
}


def card(kind: str, *what: object) -> str | None:
    """The HTML of one card, None where there is nothing to show beyond the text."""
    return CARDS[kind](*what)
