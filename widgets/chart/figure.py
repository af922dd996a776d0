"""A chart as a figure of Plotly, or of another plotting backend of pandas.

Invariants: text of data stands in a figure as characters, never as the markup, links, formulas or templates
that Plotly reads in text; colours are tokens of `kit/theme.py`. The figure takes the template that the user
has set in `plotly.io.templates.default`; without one it is light and opaque, as static pictures are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
from plotly.graph_objects import Figure

import tablestore as ts
from widgets.chart.model import Chart, Series
from widgets.kit.svg import plain
from widgets.kit.theme import LIGHT, UI_FONT

__all__ = ["Figure", "figure_of_backend", "literal", "plotly_figure"]

_READ_BY_PLOTLY = {ord(sign): f"&#{ord(sign)};" for sign in "&<>$%{}\"'"}
_COLOURS = tuple(LIGHT[name] for name in ("l4", "compact", "ins", "overwrite"))
_DASHES = ("solid", "dash", "dot", "dashdot")
_PATTERNS = ("", "/", ".", "x")
_SYMBOLS = ("circle", "diamond", "square", "cross")
_BAND = 0.18  # opacity of a band


def literal(text: object, longest: int = 80) -> str:
    """Text of data that Plotly shows as it is, cut to a line."""
    shown = plain(str(text)[: longest + 1])
    return (shown if len(shown) <= longest else f"{shown[: longest - 1]}…").translate(_READ_BY_PLOTLY)


def plotly_figure(chart: Chart) -> Figure:
    """The figure: it zooms, names values on hover, and saves itself as a picture."""
    figure = Figure()
    for at, series in enumerate(chart.series):
        if chart.axes.kind == "lines" and series.low is not None and series.high is not None:
            figure.add_traces(_band(chart, series, at))
        figure.add_trace(_trace(chart, series, at))
    head = {"text": literal(chart.title), "subtitle": {"text": literal(chart.words, 200)}}
    several = len(chart.series) > 1
    figure.update_layout(title=head, showlegend=several, hovermode="x unified" if several else "closest")
    value = "value" if several else literal(chart.series[0].name)
    figure.update_xaxes(title=literal(chart.axes.x), autotypenumbers="strict")
    figure.update_yaxes(title=value, autotypenumbers="strict")
    if chart.axes.kind == "bars":
        ticks = [literal(label) for label in chart.labels]
        figure.update_xaxes(type="linear", tickmode="array", tickvals=list(range(len(ticks))), ticktext=ticks)
        figure.update_layout(barmode="group")
    if chart.axes.kind == "histogram":
        figure.update_layout(bargap=0.02)
    if pio.templates.default == "plotly":
        _dressed(figure)
    return figure


def _dressed(figure: Figure) -> None:
    """Grey page, coloured data."""
    grid = {"gridcolor": LIGHT["line"], "zerolinecolor": LIGHT["line2"], "linecolor": LIGHT["line2"]}
    figure.update_layout(
        template="none",
        font={"family": UI_FONT, "size": 12, "color": LIGHT["ink2"]},
        title_font={"size": 15, "color": LIGHT["ink"]},
        paper_bgcolor=LIGHT["bg"],
        plot_bgcolor=LIGHT["bg"],
        margin={"l": 72, "r": 24, "t": 72, "b": 64},
    )
    figure.update_xaxes(automargin=True, **grid)
    figure.update_yaxes(automargin=True, **grid)


def _trace(chart: Chart, series: Series, at: int) -> go.Bar | go.Scatter:
    colour, name = _COLOURS[at % len(_COLOURS)], literal(series.name)
    values = [None if np.isnan(value) else float(value) for value in series.values]
    kind = chart.axes.kind
    if kind == "bars":
        return go.Bar(
            x=list(range(len(values))),
            y=values,
            name=name,
            marker={"color": colour, "pattern": {"shape": _PATTERNS[at % 4]}},
            hovertext=[literal(label) for label in chart.labels],
            hovertemplate="%{hovertext}: %{y:,}",
        )
    if kind == "histogram":
        return go.Bar(
            x=chart.places,
            y=values,
            width=chart.width / 1000 if _is_time(chart) else chart.width,
            offset=0,
            name=name,
            marker={"color": colour},
            hovertemplate="from %{x}: %{y:,} rows<extra></extra>",
        )
    points = {
        "mode": "markers",
        "marker": {"color": colour, "size": 6, "opacity": 0.6, "symbol": _SYMBOLS[at % 4]},
    }
    line = {"mode": "lines", "line": {"color": colour, "width": 1.75, "dash": _DASHES[at % 4]}}
    if len(values) == 1:
        line = points  # a line has two ends
    return go.Scatter(
        x=chart.places,
        y=values,
        name=name,
        hovertemplate="%{x}: %{y:,}",
        **(line if kind == "lines" else points),
    )


def _is_time(chart: Chart) -> bool:
    return chart.places is not None and chart.places.dtype.kind == "M"


def _band(chart: Chart, series: Series, at: int) -> list[go.Scatter]:
    """From minimum to maximum, behind the line."""
    edge = {
        "mode": "lines",
        "line": {"width": 0},
        "showlegend": False,
        "hoverinfo": "skip",
        "x": chart.places,
    }
    red, green, blue = (int(_COLOURS[at % len(_COLOURS)][n : n + 2], 16) for n in (1, 3, 5))
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},{_BAND})"}
    return [go.Scatter(y=series.low, **edge), go.Scatter(y=series.high, **edge, **fill)]


_KINDS = {"bars": "bar", "histogram": "bar", "lines": "line", "points": "scatter"}


def figure_of_backend(chart: Chart, backend: str) -> Any:
    """What `DataFrame.plot` of that backend gives for the values of the chart: a column for its `x`, one for
    each series. Raises NotFound for a backend that pandas does not find, Unsupported without its package."""
    import pandas as pd  # slow to load, and few draw with another backend

    kind, places = _KINDS[chart.axes.kind], chart.labels if chart.labels else chart.places
    frame = pd.DataFrame({chart.axes.x: places})
    for series in chart.series:
        frame[series.name if series.name != chart.axes.x else f"{series.name} "] = series.values
    x, *y = frame.columns
    y = y[0] if kind == "scatter" else y
    try:
        with pd.option_context("plotting.backend", backend):  # which looks for it
            pass
    except (ValueError, ImportError):
        raise ts.NotFound(
            f"pandas has no plotting backend {backend[:80]!r}; is its package installed?"
        ) from None
    try:
        return frame.plot(kind=kind, x=x, y=y, title=chart.title, backend=backend)
    except ImportError as e:
        raise ts.Unsupported("a chart by this plotting backend", str(e)) from None
