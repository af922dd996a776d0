"""The card of a snapshot: what its commit was, from the snapshot file alone."""

from __future__ import annotations

from tablestore.core.env import SYSTEM
from tablestore.format.snapshot import ANALYZE, BATCH_IDENTIFIER, COMPACT, OVERWRITE, Snapshot
from tablestore.insight.cards import html
from tablestore.insight.cards.html import CardCell

_MARKS = {COMPACT: ("◆", "compact"), OVERWRITE: ("■", "overwrite"), ANALYZE: ("○", "analyze")}
_PROPERTIES = 8


def card(snapshot: Snapshot) -> str:
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
    lines = [[CardCell(k, colour="ink2"), CardCell(str(v))] for k, v in values.items() if v is not None]
    properties = sorted((snapshot.properties or {}).items())
    lines += [[CardCell(k, colour="ink2"), CardCell(v)] for k, v in properties[:_PROPERTIES]]
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
