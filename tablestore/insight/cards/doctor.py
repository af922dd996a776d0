"""The cards of what the doctor says: a diagnosis with its findings, an advice on buckets.

From values in memory.
"""

from __future__ import annotations

from tablestore.core.quantities import many, size
from tablestore.insight.cards import html
from tablestore.insight.cards.html import CardCell, ink
from tablestore.insight.doctor.bucket_advice import BucketAdvice
from tablestore.insight.doctor.finding import Diagnosis, Finding

_FINDINGS, _LONGEST = 12, 600
_SIGNS = {"risk": ("✕", "err"), "slow": ("▲", "warn"), "waste": ("▲", "warn"), "note": ("○", "ink2")}


def diagnosis_card(found: Diagnosis) -> str:
    """The card of a diagnosis: each finding with its numbers and call; folded, what each rule looked at."""
    at = "without a snapshot" if found.snapshot is None else f"at snapshot {found.snapshot}"
    worst = found.findings[0].severity if found.findings else ""
    state = {"": "sound", "risk": "risk", "note": "plain"}.get(worst, "due")
    sound = [
        [CardCell(one.rule), CardCell(one.text, colour="ink2", wraps=True)]
        for one in found.tried
        if not one.findings
    ]
    more = len(found) - _FINDINGS
    return html.card(
        found.table,
        f"doctor · {at}",
        chip=(state, found.summary),
        body=[
            *map(_finding, found.findings[:_FINDINGS]),
            html.folded("looked at", html.rows([("", False), ("", False)], sound)) if sound else "",
        ],
        note=f"{many(more, 'more finding')}: iterate over it for all" if more > 0 else "",
    )


def _finding(found: Finding) -> str:
    sign, colour = _SIGNS[found.severity]
    kind = f'<b style="font-weight:600;color:{ink(colour)}">{sign} {html.esc(found.severity)}: '
    head = f"{kind}{html.esc(found.kind)}</b> {html.line(found.where)}"
    asks = f"<div>decide: {html.esc(found.asks, longest=_LONGEST)}</div>" if found.asks else ""
    said = f"<div>{html.esc(found.what, longest=_LONGEST)}</div><div>{html.line(found.numbers)}</div>"
    return f"<div>{head}</div>{said}{html.words(found.remedy)}{asks}"


def advice_card(found: BucketAdvice) -> str:
    """The card of an advice on buckets: the alternatives, the proposed one among them, and the call."""
    heads = [(name, True) for name in ("buckets", "mean", "largest", "skew", "empty")]
    lines = [
        [
            CardCell(f"{'→ ' if one.buckets == found.buckets else ''}{one.buckets:,}", True),
            CardCell(size(one.mean_bytes), True),
            CardCell(size(one.largest_bytes), True),
            CardCell(f"{one.skew:.2f}", True),
            CardCell(f"{one.empty:,}", True),
            CardCell(one.verdict, colour="ink2"),
        ]
        for one in found.alternatives
    ]
    notes = "".join(f"<div>{html.line(f'mind: {note}')}</div>" for note in found.notes)
    return html.card(
        many(found.buckets, "bucket"),
        found.reason,
        facts=[html.counted(found.question.rows, "row"), html.counted(found.partitions, "partition")],
        body=[notes, html.rows([*heads, ("", False)], lines)],
        code=found.call,
    )
