"""Heartbeats as a log, the newest first: when, what the service said, what the coordinator answered.

Invariants: the words are those of the reports; exchanges that said the same one after another are one row
with their number; errors of single tables and answers that never came are red and have a sign. Pure. Called
by `figure`.
"""

from __future__ import annotations

from typing import Any

from widgets.kit import format as fmt
from widgets.kit.svg import fit, text, text_width
from widgets.tiering.model import Exchange, TieringModel

MARGIN, ROW, MOST, TIME = 16, 20, 8, 104


def heartbeats_section(model: TieringModel, y: float, width: float) -> tuple[str, float, list[list[Any]]]:
    """The section from `y` on, where it ends, its spots."""
    shown = model.exchanges[-MOST:][::-1]
    parts = [_head(model, y, width)]
    sent = MARGIN + TIME
    received = sent + 0.52 * (width - MARGIN - sent)
    top, spots = y + 48, list[list[Any]]()
    parts += [text(sent, y + 44, "request", size=11), text(received, y + 44, "answer", size=11)]
    for exchange in shown:
        base = top + 14
        times = f" ×{exchange.count:,}" if exchange.count > 1 else ""
        parts.append(text(MARGIN, base, f"{fmt.clock(exchange.last.time)}{times}", fill="ink3"))
        parts.append(text(sent, base, fit(exchange.last.sent, received - sent - 16), fill="ink2"))
        words = f"✕ {exchange.last.received}" if exchange.failed else exchange.last.received
        colour = "err" if exchange.failed else "ink" if exchange.last.assigned is not None else "ink2"
        parts.append(text(received, base, fit(words, width - MARGIN - received), fill=colour))
        spots.append([MARGIN - 8, top, width - 2 * MARGIN + 16, ROW, *_card(exchange), None, None])
        top += ROW
    if not shown:
        parts.append(text(MARGIN, top + 14, "No heartbeat yet.", fill="ink3"))
        top += ROW
    return "".join(parts), top + 6, spots


def _head(model: TieringModel, y: float, width: float) -> str:
    """How many there were, and the coordinator's epoch."""
    count = sum(exchange.count for exchange in model.report.heartbeats)
    words = f"{count:,}" if count else "none yet"
    last = model.heartbeat
    if last is not None and last.coordinator_epoch is not None:
        words += f" · coordinator epoch {last.coordinator_epoch}"
    x = MARGIN + text_width("Heartbeats", size=13, weight=600) + 6
    return text(MARGIN, y + 26, "Heartbeats", size=13, fill="ink", weight=600) + text(
        x, y + 26, fit(words, width - MARGIN - x)
    )


def _card(heartbeat: Exchange) -> tuple[str, list[list[str]]]:
    """Heading and facts of an exchange, errors a table."""
    first = heartbeat.first.time if heartbeat.first.since is None else heartbeat.first.since
    heading = (
        fmt.clock(heartbeat.last.time)
        if heartbeat.count == 1
        else f"{fmt.clock(first)} … {fmt.clock(heartbeat.last.time)}"
    )
    facts = [
        ["request", heartbeat.last.sent],
        ["answer", heartbeat.last.received],
        ["took", fmt.seconds_text(heartbeat.last.seconds)],
        *(["error", str(error)] for error in heartbeat.last.errors),
    ]
    return f"{heading} UTC", [[k, fmt.value(v) or ""] for k, v in facts]
