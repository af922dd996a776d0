"""The cards of results: of a compaction or its dry run, of a what-if, of a check. From values in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tablestore.core.quantities import many
from tablestore.insight.cards import html
from tablestore.insight.cards.html import CardCell
from tablestore.insight.check.findings import Violation
from tablestore.insight.simulator.what_if import WhatIf
from tablestore.lsm.compaction.bucket_pick import Pick
from tablestore.lsm.compaction.compaction_report import Compaction

_PICKS, _VIOLATIONS = 8, 20


def compaction_card(found: Compaction) -> str:
    """What each bucket's compaction did or would do."""
    busy = found.busy or found.picks[:1]
    heads = [("bucket", False), ("work", False), ("because", False), ("outcome", False)]
    lines = [
        [
            CardCell(p.place),
            _work(p),
            CardCell(p.decision.reason.text, colour="ink2"),
            CardCell(p.outcome or "–", colour="ink2", wraps=True),
        ]
        for p in busy[:_PICKS]
    ]
    more = len(busy) - len(lines)
    share = f"{len(found.busy):,} of {many(len(found.picks), 'bucket')} with work"
    what = "dry run: nothing is written"
    if found.committed is not None:
        made = found.committed.snapshot
        what = "nothing to commit" if made is None else f"snapshot {made}"
    return html.card(
        "Compaction",
        what,
        chip=("plain", share),
        body=[html.rows(heads, lines) if lines else "", *map(html.words, found.sums)],
        note=many(more, "more bucket") if more > 0 else "",
    )


def _work(pick: Pick) -> CardCell:
    unit = pick.decision.unit
    return CardCell("nothing", colour="ink3") if unit is None else CardCell(unit.text, colour="compact")


def what_if_card(found: WhatIf) -> str:
    """The verdict, and each number on both sides."""
    asked = ", ".join(f"{k} = {v}" for k, v in found.asked.items())
    heads = [("", False), (found.names[0], True), (found.names[1], True), ("", True)]
    lines = [
        [
            CardCell(one.name, colour="ink2"),
            *(CardCell(value, True) for value in one.values),
            CardCell(one.change.replace("-", "−"), True, "ink2"),
        ]
        for one in found.differences
    ]
    body = [html.line(found.verdict(), "ink"), html.rows(heads, lines), html.words(found.trust)]
    return html.card("What if", asked, body=body)


def violations_card(found: Sequence[Violation]) -> str:
    """The violations, or that there are none."""
    if not found:
        return html.card("Check", chip=("sound", "sound: every invariant holds"))
    heads = [("invariant", False), ("where", False), ("what", False)]
    lines = [
        [CardCell(v.invariant, colour="err"), CardCell(v.where), CardCell(v.text, wraps=True)]
        for v in found[:_VIOLATIONS]
    ]
    more = len(found) - len(lines)
    kinds = ", ".join(sorted({v.invariant for v in found}))
    return html.card(
        "Check",
        chip=("broken", f"{many(len(found), 'violation')} of {kinds}"),
        body=[html.rows(heads, lines)],
        note=f"{more:,} more" if more > 0 else "",
    )
