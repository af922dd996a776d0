"""The cards of results: of a compaction or its dry run, of a what-if, of a check, of a commit, of what the
doctor says. From values in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tablestore.core.env import SYSTEM
from tablestore.core.quantities import many, size
from tablestore.format.snapshot import ANALYZE, BATCH_IDENTIFIER, COMPACT, OVERWRITE, Snapshot
from tablestore.insight.cards import html
from tablestore.insight.cards.html import TextCell, ink
from tablestore.insight.check.findings import Violation
from tablestore.insight.doctor.bucket_advice import BucketAdvice
from tablestore.insight.doctor.finding import Diagnosis, Finding
from tablestore.insight.simulator.what_if import WhatIf
from tablestore.lsm.compaction.compaction_report import Compaction, Pick

_PICKS, _VIOLATIONS = 8, 20


def compaction_card(compaction: Compaction) -> str:
    """What each bucket's compaction did or would do."""
    busy = compaction.busy or compaction.picks[:1]
    heads = [("bucket", False), ("work", False), ("because", False), ("outcome", False)]
    lines = [
        [
            TextCell(p.place),
            _work(p),
            TextCell(p.decision.reason.text, colour="ink2"),
            TextCell(p.outcome or "–", colour="ink2", wraps=True),
        ]
        for p in busy[:_PICKS]
    ]
    more = len(busy) - len(lines)
    share = f"{len(compaction.busy):,} of {many(len(compaction.picks), 'bucket')} with work"
    what = "dry run: nothing is written"
    if compaction.committed is not None:
        snapshot = compaction.committed.snapshot
        what = "nothing to commit" if snapshot is None else f"snapshot {snapshot}"
    return html.card(
        "Compaction",
        what,
        chip=("plain", share),
        body=[html.rows(heads, lines) if lines else "", *map(html.words, compaction.sums)],
        note=many(more, "more bucket") if more > 0 else "",
    )


def _work(pick: Pick) -> TextCell:
    unit = pick.decision.unit
    return TextCell("nothing", colour="ink3") if unit is None else TextCell(unit.text, colour="compact")


def what_if_card(what_if: WhatIf) -> str:
    """The verdict, and each number on both sides."""
    asked = ", ".join(f"{k} = {v}" for k, v in what_if.asked.items())
    heads = [("", False), (what_if.names[0], True), (what_if.names[1], True), ("", True)]
    lines = [
        [
            TextCell(difference.name, colour="ink2"),
            *(TextCell(value, True) for value in difference.values),
            TextCell(difference.change.replace("-", "−"), True, "ink2"),
        ]
        for difference in what_if.differences
    ]
    body = [html.line(what_if.verdict(), "ink"), html.rows(heads, lines), html.words(what_if.trust)]
    return html.card("What if", asked, body=body)


def violations_card(violations: Sequence[Violation]) -> str:
    """The violations, or that there are none."""
    if not violations:
        return html.card("Check", chip=("sound", "sound: every invariant holds"))
    heads = [("invariant", False), ("where", False), ("what", False)]
    lines = [
        [TextCell(v.invariant, colour="err"), TextCell(v.where), TextCell(v.text, wraps=True)]
        for v in violations[:_VIOLATIONS]
    ]
    more = len(violations) - len(lines)
    kinds = ", ".join(sorted({v.invariant for v in violations}))
    return html.card(
        "Check",
        chip=("broken", f"{many(len(violations), 'violation')} of {kinds}"),
        body=[html.rows(heads, lines)],
        note=f"{more:,} more" if more > 0 else "",
    )


_MARKS = {COMPACT: ("◆", "compact"), OVERWRITE: ("■", "overwrite"), ANALYZE: ("○", "analyze")}
_PROPERTIES = 8


def snapshot_card(snapshot: Snapshot) -> str:
    """The card."""
    mark, colour = _MARKS.get(snapshot.commit_kind, ("●", "append"))
    facts = [
        (_signed(snapshot.delta_record_count), "rows"),
        (_plain(snapshot.total_record_count), "rows stored"),
    ]
    if snapshot.changelog_record_count:
        facts.append((_plain(snapshot.changelog_record_count), "changes"))
    values = {
        "schema": snapshot.schema_id,
        "committed by": snapshot.commit_user,
        "identifier": None if snapshot.commit_identifier == BATCH_IDENTIFIER else snapshot.commit_identifier,
        "base": snapshot.base_manifest_list,
        "delta": snapshot.delta_manifest_list,
        "changelog": snapshot.changelog_manifest_list,
        "index": snapshot.index_manifest,
        "statistics": snapshot.statistics,
        "watermark": snapshot.watermark,
        "operation": snapshot.operation,
    }
    lines = [[TextCell(k, colour="ink2"), TextCell(str(v))] for k, v in values.items() if v is not None]
    properties = sorted((snapshot.properties or {}).items())
    lines += [[TextCell(k, colour="ink2"), TextCell(v)] for k, v in properties[:_PROPERTIES]]
    style = f"color:{html.ink(colour)};font-weight:600"
    kind = f'<span style="{style}">{mark} {html.esc(snapshot.commit_kind)}</span>'
    return html.card(
        f"Snapshot {snapshot.id}",
        html.moment(SYSTEM, snapshot.time_millis),
        facts=facts,
        body=[kind, html.rows([("", False), ("", False)], lines)],
        note=f"{len(properties) - _PROPERTIES:,} more properties" if len(properties) > _PROPERTIES else "",
    )


def _plain(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def _signed(count: int | None) -> str:
    return "–" if count is None else f"{count:+,}".replace("-", "−")


_FINDINGS, _LONGEST = 12, 600
_SIGNS = {"risk": ("✕", "err"), "slow": ("▲", "warn"), "waste": ("▲", "warn"), "note": ("○", "ink2")}


def diagnosis_card(diagnosis: Diagnosis) -> str:
    """The card of a diagnosis: each finding with its numbers and call; folded, what each rule looked at."""
    at = "without a snapshot" if diagnosis.snapshot is None else f"at snapshot {diagnosis.snapshot}"
    worst = diagnosis.findings[0].severity if diagnosis.findings else ""
    state = {"": "sound", "risk": "risk", "note": "plain"}.get(worst, "due")
    sound = [
        [TextCell(outcome.rule), TextCell(outcome.text, colour="ink2", wraps=True)]
        for outcome in diagnosis.tried
        if not outcome.findings
    ]
    more = len(diagnosis) - _FINDINGS
    return html.card(
        diagnosis.table,
        f"{'readers' if diagnosis.readers else 'doctor'} · {at}",
        chip=(state, diagnosis.summary),
        body=[
            *map(_finding, diagnosis.findings[:_FINDINGS]),
            html.folded("looked at", html.rows([("", False), ("", False)], sound)) if sound else "",
        ],
        note=f"{many(more, 'more finding')}: iterate over it for all" if more > 0 else "",
    )


def _finding(finding: Finding) -> str:
    sign, colour = _SIGNS[finding.severity]
    kind = f'<b style="font-weight:600;color:{ink(colour)}">{sign} {html.esc(finding.severity)}: '
    head = f"{kind}{html.esc(finding.kind)}</b> {html.line(finding.where)}"
    asks = f"<div>decide: {html.esc(finding.asks, longest=_LONGEST)}</div>" if finding.asks else ""
    said = f"<div>{html.esc(finding.what, longest=_LONGEST)}</div><div>{html.line(finding.numbers)}</div>"
    return f"<div>{head}</div>{said}{html.words(finding.remedy)}{asks}"


def advice_card(advice: BucketAdvice) -> str:
    """The card of an advice on buckets: the alternatives, the proposed one among them, and the call."""
    heads = [(name, True) for name in ("buckets", "mean", "largest", "skew", "empty")]
    lines = [
        [
            TextCell(f"{'→ ' if alternative.buckets == advice.buckets else ''}{alternative.buckets:,}", True),
            TextCell(size(alternative.mean_bytes), True),
            TextCell(size(alternative.largest_bytes), True),
            TextCell(f"{alternative.skew:.2f}", True),
            TextCell(f"{alternative.empty:,}", True),
            TextCell(alternative.verdict, colour="ink2"),
        ]
        for alternative in advice.alternatives
    ]
    notes = "".join(f"<div>{html.line(f'mind: {note}')}</div>" for note in advice.notes)
    return html.card(
        many(advice.buckets, "bucket"),
        advice.reason,
        facts=[html.counted(advice.question.rows, "row"), html.counted(advice.partitions, "partition")],
        body=[notes, html.rows([*heads, ("", False)], lines)],
        code=advice.call,
    )
