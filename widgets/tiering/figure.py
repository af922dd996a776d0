"""A tiering service as SVG: figures, tables by state with their rounds, buckets of one table, heartbeats.

Invariants: figures and sections keep their order and their places; sections grow downwards only. Pure: model
→ `Figure`. Called by the widget and by the static export.
"""

from __future__ import annotations

from widgets.kit import format as fmt
from widgets.kit.panel import ShownNumber, failure, numbers
from widgets.kit.svg import Figure, line
from widgets.tiering.heartbeats import heartbeats_section
from widgets.tiering.lanes import lanes_section
from widgets.tiering.model import TieringModel, state_text
from widgets.tiering.tables import tables_section

RESTART = "Start it again: it goes on behind what the lake has."


def tiering_figure(model: TieringModel, *, width: float) -> Figure:
    """The whole picture without its buttons."""
    figures, y = _figures(model, width)
    body = [line(0, 1, width, 1), figures, line(0, y, width, y)]
    spots = list[list[object]]()
    for section in (tables_section, lanes_section, heartbeats_section):
        if section is not tables_section:
            body.append(line(0, y, width, y))
        drawn, y, section_spots = section(model, y, width)
        body.append(drawn)
        spots += section_spots
    if model.report.reason:
        box, y = failure("The service has ended.", model.report.reason, RESTART, y + 4, width)
        body.append(box)
        y += 8
    return Figure(width, y + 4, "".join(body), _label(model), {"spots": spots})


def _label(model: TieringModel) -> str:
    counts = ", ".join(f"{number} {state}" for state, number in sorted(model.counts.items()))
    said = [counts or "no tables", f"{model.lag_rows:,} rows behind", fmt.plural(len(model.rounds), "round")]
    return f"Tiering {model.title}, {state_text(model).partition(' · heartbeat')[0]}: {'; '.join(said)}"


def _figures(model: TieringModel, width: float) -> tuple[str, float]:
    """Tables, rows behind, the oldest lake, rounds, tiered rows, speed, the coordinator."""
    failed = model.counts["Failed"]
    behind = sum(bool(table.lag_rows) for table in model.tables)
    oldest, beat = model.oldest, model.heartbeat
    late = oldest is not None and model.late(oldest)
    age = "0 s" if oldest is None else fmt.seconds_text(model.age(oldest))
    commits = f"in {fmt.plural(model.outcomes['committed'], 'commit')}"
    silent = beat is not None and beat.coordinator_epoch is None
    said = "no heartbeat yet"
    if beat is not None:
        said = f"{fmt.seconds_text(max(model.until - beat.time, 0.0))} ago" if model.live else "the last one"
        said = "no answer" if silent else f"heartbeat {said}"
    figures = [
        ShownNumber("tables", f"{len(model.tables):,}", _states(model)),
        ShownNumber(
            "rows behind", fmt.short_count(model.lag_rows), f"of {fmt.plural(behind, 'table')}", "ink"
        ),
        ShownNumber(
            "oldest lake",
            f"▲ {age}" if late else age,
            "all are complete" if oldest is None else f"{oldest.table}",
            "warn" if late else "ink",
        ),
        ShownNumber("rounds", f"{len(model.rounds):,}", _outcomes(model)),
        ShownNumber("rows tiered", fmt.short_count(model.tiered_rows), commits),
        ShownNumber("rows/s", fmt.short_count(model.speed), "while a round runs"),
        ShownNumber(
            "failed tables",
            f"✕ {failed:,}" if failed else "0",
            "none" if not failed else "others go on",
            "err" if failed else "ink",
        ),
        ShownNumber(
            "coordinator",
            fmt.ABSENT if beat is None or silent else f"epoch {beat.coordinator_epoch}",
            said,
            "err" if silent else "ink",
        ),
    ]
    return numbers(figures, width, per_row=8 if width >= 980 else 4)


def _states(model: TieringModel) -> str:
    """`2 being tiered`, else how many are complete."""
    if model.counts["Tiering"]:
        return f"{model.counts['Tiering']:,} being tiered"
    return f"{sum(table.lag_rows == 0 for table in model.tables):,} complete"


def _outcomes(model: TieringModel) -> str:
    counts = model.outcomes
    if counts["failed"] or counts["dropped"]:
        return f"{counts['failed'] + counts['dropped']:,} without a commit"
    return f"{counts['empty']:,} found nothing new" if counts["empty"] else "none failed"
