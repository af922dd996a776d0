"""`plot`: rows of any kind as a chart; scans, results of SQL, `inspect` and every view call it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

import tablestore as ts
from widgets.chart.axes import Asked, axes_of
from widgets.chart.figure import figure_of_backend, plotly_figure
from widgets.chart.model import chart_of

_OURS, _UNSET = "plotly", "matplotlib"  # the latter is what pandas says where nobody has chosen


def plot(
    rows: Any,
    *,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
    kind: str | None = None,
    how: str | None = None,
    backend: str | None = None,
) -> Any:
    """A chart of rows: a Plotly figure, or what another plotting `backend` of pandas gives.

    `rows` are Arrow, a scan, a result of SQL, or a frame of pandas or polars. `x` and `y` name columns; `x`
    alone shows how its values are distributed. Without them `x` is the first column of times, text or
    numbers, `y` at most four of numbers. `kind` is "bars", "lines", "histogram" or "points"; without it text
    gives bars, numbers and times lines. `how` says what becomes of rows with the same `x`: "sum" (bars),
    "mean" (lines), "min", "max" or "count".

    Rows pass once and are not kept: bars and histograms are exact, long lines are joined to 1,024 places
    with a band from minimum to maximum, points are a sample; the words below the title say so. `backend`
    None is that of `pandas.options.plotting.backend`, if somebody chose one. Raises NotFound for a column
    that there is not, InvalidRequest for what does not fit.

    >>> widgets.plot(orders.inspect.commits(), x="commit_kind").layout.title.text
    'rows by commit_kind'
    """
    return chart_of_rows(rows, Asked(x, y, kind, how), backend)


def chart_of_rows(rows: Any, asked: Asked, backend: str | None) -> Any:
    """`plot` of what is asked, as one value."""
    schema, batches = _batches(rows)
    chart = chart_of(schema, batches, axes_of(schema, asked))
    is_imported = sys.modules.get("pandas") is not None  # where nobody has imported it, nobody has chosen
    chosen = backend or (import_module("pandas").get_option("plotting.backend") if is_imported else _UNSET)
    if chosen == _OURS or (backend is None and chosen == _UNSET):
        return plotly_figure(chart)
    return figure_of_backend(chart, chosen)


def _batches(rows: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns of rows, and their batches."""
    if hasattr(rows, "to_batches") and hasattr(rows, "schema"):  # a table, a scan, a result
        return rows.schema, iter(rows.to_batches())
    try:
        reader = pa.RecordBatchReader.from_stream(rows)
    except TypeError as e:
        kind = type(rows).__name__
        raise ts.InvalidRequest(f"plot takes Arrow, a scan, a result of SQL or a frame, not {kind}") from e
    return reader.schema, iter(reader)
