"""Three small charts side by side: write, read, space amplification over the same snapshots.

Invariants: the three share x, so one cursor goes through all; heights never depend on the data; without a
`cursor` the page draws it, from `meta`. Pure: model → `Figure`. Called by the widget and by the export.
"""

import numpy as np

from widgets.amplification import chart
from widgets.amplification.chart import FORECAST, HEIGHT, ChartPlot, Line, Panel
from widgets.amplification.model import READ, SPACE, WRITE, AmplificationModel, number
from widgets.kit.svg import Figure, fit, group, hatch, num, rect, text, text_width
from widgets.kit.theme import var

MARGIN, GAP, NOTE = 16.0, 24.0, 22.0
_TITLES = ("Write amplification", "Read amplification", "Space amplification")
_SHORT = ("Write", "Read", "Space")


def columns(width: float) -> tuple[int, float]:
    """(charts a row, width of one)."""
    many = 3 if width >= 600 else 1
    return many, (width - 2 * MARGIN - (many - 1) * GAP) / many


def panels(model: AmplificationModel, wide: float) -> tuple[Panel, Panel, Panel]:
    """What each chart shows where it is `wide` pixels wide."""
    titles = _TITLES if wide >= 340 else _SHORT
    runs = ("sorted runs", "runs") if model.one_bucket else ("runs per key, mean", "runs per key", "runs")
    if model.trigger is not None:
        runs = (f"sorted runs · trigger {model.trigger}", f"runs · trigger {model.trigger}", *runs)
    units = (
        ("written / ingested", "written / in"),
        runs,
        ("live / fully compacted", "live / compacted", "live / copy"),
    )
    first, last = chart.ids(model.ids)
    values = model.after.values
    widest = text_width(
        max(map(model.space_text, range(len(model))), key=len, default=""), size=15, weight=600
    )

    def panel(at: int) -> Panel:
        after = values[at]
        return Panel(
            titles[at],
            units[at],
            (Line(model.series[at]),),
            floor=0.0 if at == READ else 1.0,
            decimals=(0 if model.one_bucket else 1) if at == READ else 2,
            first=first,
            last=last if last != first else "",
            step=at == READ,
            threshold=float(model.trigger) if at == READ and model.trigger is not None else None,
            at_least=float(model.stop or 0) if at == READ else 0.0,
            compacted=model.compacted,
            value=max(chart.VALUE, widest + 6 if at == SPACE else 0.0),
            forecast=after,
            forecast_text="" if after is None else _forecast_text(at, after, model.one_bucket),
        )

    return panel(WRITE), panel(READ), panel(SPACE)


def _forecast_text(series: int, value: float, one_bucket: bool) -> str:
    """`≈ 2.33`; how many runs are left is counted, so it is no guess."""
    shown = number(series, value, one_bucket)
    return shown if series == READ and one_bucket else f"≈ {shown}"


def amplification_figure(
    model: AmplificationModel, *, index: int, width: float, cursor: bool = True, note: bool = True
) -> Figure:
    """The charts with the snapshot at `index` selected. `cursor=False` leaves the selection to the page."""
    if not len(model):
        return _empty(width, note=note)
    many, wide = columns(width)
    body, places = [hatch()], []
    for at, panel in enumerate(panels(model, wide)):
        x, y = _corner(at, many, wide)
        room = FORECAST if wide >= 190 else 44.0
        plot = chart.plot_of(panel, left=x, width=wide, right_room=room)
        parts = [chart.drawn(panel, plot, x=x, width=wide)]
        if cursor:
            parts.append(chart.cursor([plot], [model.value(at, index)], index))
            parts.append(_value(x + wide, model.shown(at, index)))
        body.append(group(*parts, transform=f"translate(0 {num(y)})"))
        places.append(_place(plot, x, y, wide))
    height = _height(many)
    if note:
        body.append(
            text(MARGIN, height + 12, fit(model.exactness(index), width - 2 * MARGIN, size=11), size=11)
        )
    meta: dict[str, object] = {"charts": places, "count": len(model)}
    label = f"Amplification: {model.sentence(index)}"
    return Figure(width, height + (NOTE if note else 0.0), "".join(body), label, meta)


def _corner(at: int, many: int, wide: float) -> tuple[float, float]:
    row, column = divmod(at, many)
    return MARGIN + column * (wide + GAP), row * (HEIGHT + 16)


def _height(many: int) -> float:
    rows = 3 // many
    return rows * HEIGHT + (rows - 1) * 16 + 4


def _value(right: float, words: str) -> str:
    return text(right, 17, words, size=15, fill="ink", weight=600, text_anchor="end")


def _place(plot: ChartPlot, x: float, y: float, wide: float) -> dict[str, float]:
    """Where the page finds a chart: its plot, and where its value stands."""
    return {
        "x": round(plot.left, 1),
        "w": round(plot.right - plot.left, 1),
        "top": round(y + chart.TOP, 1),
        "bottom": round(y + chart.BOTTOM, 1),
        "value": round(x + wide, 1),
        "head": round(y + 17, 1),
    }


def series(model: AmplificationModel) -> dict[str, object]:
    """Every snapshot's words and how high its values stand in their plots, 0 … 1: from these the page puts
    dots and words in place by itself. `exact` are sentences, each once, `says` which one a snapshot has."""
    said: dict[str, int] = {}
    says = [said.setdefault(text, len(said)) for text in model.exactnesses()]
    shown = [[model.shown(at, index) for index in range(len(model))] for at in (WRITE, READ, SPACE)]
    return {
        "ids": model.spans,
        "kinds": list(model.kinds),
        "values": shown,
        "heights": [_heights(panel) for panel in panels(model, 400)] if len(model) else [],
        "says": says,
        "exact": list(said),
    }


def _heights(panel: Panel) -> list[float | None]:
    plot = chart.plot_of(panel, left=0, width=400, right_room=FORECAST)
    heights = ((panel.lines[0].values - plot.floor) / (plot.top - plot.floor)).round(4).tolist()
    return [None if share != share else share for share in heights]  # NaN: not known


def _empty(width: float, *, note: bool) -> Figure:
    """The frames and what to do."""
    many, wide = columns(width)
    body = []
    for at in range(3):
        x, y = _corner(at, many, wide)
        blank = Panel(_TITLES[at] if wide >= 340 else _SHORT[at], (), (Line(np.zeros(0)),), 1.0, 2)
        plot = ChartPlot(x + chart.LABELS, x + wide - FORECAST, 1.0, 2.0, 0)
        parts = chart.heading_only(blank, plot, x=x, width=wide)
        body.append(group(parts, transform=f"translate(0 {num(y)})"))
    y = (chart.TOP + chart.BOTTOM) / 2 + 4
    body.append(text(MARGIN + chart.LABELS, y, "Nothing written yet.", fill="ink", weight=600))
    meta: dict[str, object] = {"charts": [], "count": 0}
    height = _height(many) + (NOTE if note else 0.0)
    return Figure(width, height, "".join(body), "Amplification: nothing written yet", meta)


def skeleton(width: float) -> Figure:
    """What stands there while a long history is read: the same frame and height, still."""
    many, wide = columns(width)
    body = []
    for at in range(3):
        x, y = _corner(at, many, wide)
        body.append(rect(x, y + 5, 120, 14, rx=4, fill=var("line")))
        body.append(
            rect(
                x + chart.LABELS,
                y + chart.TOP,
                wide - chart.LABELS - FORECAST,
                56,
                rx=4,
                fill=var("sel-tint"),
            )
        )
    meta: dict[str, object] = {"charts": [], "count": 0}
    return Figure(width, _height(many), "".join(body), "Amplification: reading the history", meta)
