"""`plot`: any rows as an ordinary chart. Its numbers are those of the rows, and its texts are characters."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tablestore as ts
import widgets
from tests.browsing import Page, needs_browser
from tests.widgets.hostile import VALUES
from widgets.chart.model import (
    BINS,
    MOST_BARS,
    MOST_COLUMNS,
    MOST_PLACES,
    MOST_POINTS,
    ValueBins,
    ValueGroups,
)

HOURS = pa.array(np.datetime64("2026-01-01T00", "us") + np.arange(4) * np.timedelta64(1, "h"))
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "at": HOURS,
        "status": ["new", "paid", "new", None],
        "amount": [10.0, 4.0, 5.0, None],
    }
)


def bars(figure: Any, at: int = 0) -> dict[str, float | None]:
    return dict(zip(figure.data[at].hovertext, figure.data[at].y, strict=True))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("sum", {"new": 15.0, "paid": 4.0, "NULL": None}),
        ("mean", {"new": 7.5, "paid": 4.0, "NULL": None}),
        ("min", {"new": 5.0, "paid": 4.0, "NULL": None}),
        ("max", {"new": 10.0, "paid": 4.0, "NULL": None}),
        ("count", {"new": 2.0, "paid": 1.0, "NULL": 1.0}),
    ],
)
def test_bars_are_what_the_rows_of_each_value_come_to(how: str, expected: dict[str, float | None]) -> None:
    assert bars(widgets.plot(ROWS, x="status", y="amount", how=how)) == expected


def test_the_types_of_the_columns_choose_where_nobody_does() -> None:
    def kinds(**asked: Any) -> list[str]:
        return [trace.type for trace in widgets.plot(ROWS, **asked).data]

    assert kinds() == ["scatter", "scatter"], "numbers over the times"
    assert [t.name for t in widgets.plot(ROWS).data] == ["id", "amount"]
    assert kinds(x="status") == ["bar"]
    assert widgets.plot(ROWS, x="status").layout.title.text == "rows by status"
    histogram = widgets.plot(ROWS, x="id")
    assert (kinds(x="id"), sum(histogram.data[0].y)) == (["bar"], 4)
    assert widgets.plot(ROWS, x="id", y="amount").data[0].mode == "lines"
    assert widgets.plot(ROWS, x="id", y="amount", kind="points").data[0].mode == "markers"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"x": "stattus"}, "did you mean status"),
        ({"x": "status", "y": "at"}, "column 'at' has no numbers"),
        ({"x": "status", "y": "amount", "kind": "lines"}, "use bars"),
        ({"x": "id", "y": "amount", "kind": "histogram"}, "it takes no y"),
        ({"x": "id", "kind": "pie"}, "use one of bars, lines, histogram, points"),
        ({"x": "id", "y": "amount", "how": "median"}, "use one of sum, mean"),
        ({"x": "id", "kind": "histogram", "how": "sum"}, "is for bars and lines"),
        ({"x": "status", "how": "mean"}, "needs y"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_fits(asked: dict[str, Any], said: str) -> None:
    with pytest.raises((ts.InvalidRequest, ts.NotFound), match=said):
        widgets.plot(ROWS, **asked)


def test_rows_that_no_axis_shows_are_refused() -> None:
    with pytest.raises(ts.InvalidRequest, match="an axis shows numbers, times or text"):
        widgets.plot(pa.table({"tags": [["a"]]}))
    with pytest.raises(ts.InvalidRequest, match="not int"):
        widgets.plot(3)


class Coming:
    """Batches that are made when they are asked for, `count` of `size` rows."""

    def __init__(self, seed: int, count: int, size: int) -> None:
        self.seed, self.count, self.size = seed, count, size
        self.schema = pa.schema({"n": pa.int64(), "v": pa.float64(), "name": pa.string()})

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        chance = np.random.default_rng(self.seed)
        for _ in range(self.count):
            n = chance.integers(-(10**6), 10**6, self.size)
            name = pa.array(n // 70).cast(pa.string())
            yield pa.record_batch(
                [pa.array(n), pa.array(chance.normal(size=self.size)), name], schema=self.schema
            )


def test_large_results_are_joined_and_the_words_say_so(seeds: tuple[int, ...]) -> None:
    rows = Coming(seeds[0], 4, 50_000)
    table = pa.Table.from_batches(rows.to_batches())
    n, v = table["n"].to_numpy(), table["v"].to_numpy()
    lines = widgets.plot(rows, x="n", y="v")
    low, high, mean = lines.data
    assert len(mean.x) <= BINS < MOST_PLACES
    assert (np.min(low.y), np.max(high.y)) == (v.min(), v.max())
    assert f"200,000 rows · joined to {len(mean.x):,} places" in lines.layout.title.subtitle.text
    columns = widgets.plot(rows, x="n").data[0]
    assert len(columns.y) <= MOST_COLUMNS
    for start, count in zip(columns.x, columns.y, strict=True):
        assert count == ((n >= start) & (n < start + columns.width)).sum()
    points = widgets.plot(rows, x="n", y="v", kind="points")
    assert len(points.data[0].x) == MOST_POINTS
    pairs = set(zip(n.tolist(), v.tolist(), strict=True))
    assert set(zip(points.data[0].x, points.data[0].y, strict=True)) <= pairs
    assert f"a sample of {MOST_POINTS:,} of them" in points.layout.title.subtitle.text
    names = widgets.plot(rows, x="name")
    most = table.group_by("name").aggregate([("n", "count")]).sort_by([("n_count", "descending")])
    assert list(names.data[0].y) == most["n_count"].to_pylist()[:MOST_BARS]
    assert f"the greatest {MOST_BARS} of" in names.layout.title.subtitle.text


@pytest.mark.sample(1)
@pytest.mark.parametrize("asked", [{"x": "n", "y": "v"}, {"x": "n"}, {"x": "name", "y": "v"}])
def test_memory_does_not_grow_with_the_rows(asked: dict[str, Any], seeds: tuple[int, ...]) -> None:
    def peak(count: int) -> int:
        pool = pa.default_memory_pool()
        tracemalloc.start()
        before = pool.bytes_allocated()
        most = 0
        rows = Coming(seeds[0], count, 20_000)
        batches = rows.to_batches

        def watched() -> Iterator[pa.RecordBatch]:
            nonlocal most
            for batch in batches():
                most = max(most, pool.bytes_allocated() - before)
                yield batch

        rows.to_batches = watched  # type: ignore[method-assign]  # the same rows, weighed as they pass
        widgets.plot(rows, **asked)
        most += tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(2)  # loads what is loaded once
    assert peak(36) < peak(12) * 2


def test_sums_of_values_that_come_too_late_are_in_no_group() -> None:
    groups = ValueGroups(pa.string(), 1, most=2)
    for keys in (["a", "b", "a"], ["c", "a", "d"]):
        groups.add(pa.array(keys), [np.array([1.0, 2.0, 3.0])])
    groups.settle()
    assert groups.sums.select(["key", "rows", "total0"]).to_pylist() == [
        {"key": "a", "rows": 3, "total0": 6.0},
        {"key": "b", "rows": 1, "total0": 2.0},
    ]
    assert groups.beyond.select(["rows", "total0"]).to_pylist() == [{"rows": 2, "total0": 4.0}]


def test_bins_count_every_row_once_however_the_axis_grows(seeds: tuple[int, ...]) -> None:
    chance = np.random.default_rng(seeds[0])
    bins = ValueBins(1)
    parts = [
        chance.normal(chance.normal() * 10.0**power, 10.0**power, 500) for power in chance.integers(-6, 9, 12)
    ]
    for part in parts:
        bins.add(part, [part])
    values = np.sort(np.concatenate(parts))
    edges = bins.start + bins.width * np.arange(1, BINS + 1)
    rounding = 4 * np.spacing(np.abs(edges).max() + bins.width * BINS)  # an edge has moved by so much
    below = np.cumsum(bins.rows)
    assert below[-1] == len(values)
    assert (np.searchsorted(values, edges - rounding, "left") <= below).all()
    assert (below <= np.searchsorted(values, edges + rounding, "right")).all()
    assert (np.nanmin(bins.low), np.nanmax(bins.high)) == (values.min(), values.max())


@pytest.mark.parametrize(
    "values", [[0.0], [5.0, 5.0], [-1e308, 1e308], [float("nan")], [float("inf"), 1.0], []]
)
def test_axes_without_a_width_have_charts_too(values: list[float]) -> None:
    rows = pa.table({"v": pa.array(values, pa.float64())})
    counted = widgets.plot(rows, x="v").data[0].y
    assert sum(counted) == sum(1 for value in values if abs(value) <= 1e300)


def test_a_chosen_backend_of_pandas_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, str, dict[str, Any]]] = []

    class Backend:
        __name__ = "drawn_by_hand"

        @staticmethod
        def plot(data: pd.DataFrame, kind: str, **how: Any) -> str:
            asked.append((data, kind, how))
            return "drawn"

    monkeypatch.setitem(__import__("sys").modules, "drawn_by_hand", Backend())
    with pd.option_context("plotting.backend", "drawn_by_hand"):
        assert widgets.plot(ROWS, x="status", y="amount") == "drawn"
        assert widgets.plot(ROWS, x="status", backend="plotly").data[0].type == "bar"
    assert widgets.plot(ROWS, x="status").data[0].type == "bar"
    ((frame, kind, _),) = asked
    assert kind == "bar"
    assert frame.set_index("status")["amount"].dropna().to_dict() == {"new": 15.0, "paid": 4.0}


@pytest.fixture
def orders(tmp_path: Path) -> ts.Table:
    lake = ts.connect(tmp_path)
    columns = {"id": ts.INT, "status": ts.STRING, "amount": ts.DOUBLE}
    options = {"write-only": True, "num-sorted-run.compaction-trigger": 2}
    orders = lake.create_table("shop.orders", schema=columns, primary_key=["id"], options=options)
    for first in range(0, 60, 10):
        orders.write([{"id": first + i, "status": "ab"[i % 2], "amount": float(i)} for i in range(10)])
        if first == 20:
            orders.compact(full=True)
    return orders


def test_scans_results_and_metadata_are_charts_when_asked(orders: ts.Table, tmp_path: Path) -> None:
    expected = {"a": 120.0, "b": 150.0}
    assert bars(orders.scan().plot(x="status", y="amount")) == expected
    assert bars(orders.scan(where="id < 10").plot(x="status", y="amount")) == {"a": 20.0, "b": 25.0}
    result = ts.connect(tmp_path).sql("SELECT status, sum(amount) AS total FROM shop.orders GROUP BY status")
    assert bars(result.plot()) == expected
    assert len(result.to_arrow()) == 2, "the rows are still there"
    assert sum(orders.inspect.plot("levels", x="run", y="rows").data[0].y) == 60
    with pytest.raises(ts.NotFound, match="did you mean levels"):
        orders.inspect.plot("level")
    with pytest.raises(ts.InvalidRequest, match="this statement gives no rows"):
        ts.connect(tmp_path).sql("CREATE DATABASE other").plot()


VIEWS = (
    "SnapshotTimeline LsmLevels TableHealth CompactionControls CompactionPlay AmplificationChart "
    "FileExplorer MergeView ChangelogView Findings Workbench"
).split()


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_of_a_table_has_a_chart(orders: ts.Table, name: str) -> None:
    figure = getattr(widgets, name)(orders).to_plotly()
    assert any(len(trace.y) for trace in figure.data)


def test_the_chart_of_a_view_shows_its_rows(orders: ts.Table) -> None:
    files = orders.inspect.levels()
    levels = widgets.LsmLevels(orders)
    assert sum(levels.to_plotly().data[0].y) == sum(files["bytes"].to_pylist())
    assert sum(levels.to_plotly(x="level", how="count").data[0].y) == len(files)
    bench = widgets.Workbench(orders)
    assert list(bench.to_plotly().data[0].y) == orders.inspect.commits()["rows_added"].to_pylist()
    assert bench.to_plotly("levels").data[0].y == levels.to_plotly().data[0].y
    with pytest.raises(ts.NotFound, match="did you mean levels"):
        bench.to_plotly("level")


class TestInTheBrowser:
    """A chart of a table whose names and values are markup, formulas and templates of Plotly."""

    pytestmark = needs_browser
    TEXTS = (*VALUES, '<a href="http://x.test">x</a>', "%{x}", "$x^2$", "&lt;b&gt;", "<br>two")

    def test_texts_of_data_are_characters(self, page: Page, tmp_path: Path) -> None:
        name = '<b onclick="window.owned=1">%{x} $y$'
        figure = widgets.plot(pa.table({name: list(self.TEXTS), "<i>n": range(len(self.TEXTS))}))
        figure.update_layout(width=1000, height=700)
        path = tmp_path / "chart.html"
        figure.write_html(path, include_plotlyjs=True, full_html=True)
        page.page.goto(path.as_uri())
        page.page.wait_for_selector(".main-svg .xtick text")
        shown = page.page.locator(".xtick text").all_text_contents()
        assert len(shown) == len(self.TEXTS)
        for text in ('<a href="http://x.test">x</a>', "%{x}", "$x^2$", "&lt;b&gt;", "<br>two"):
            assert text in shown
        assert page.text(".gtitle").startswith("sum of <i>n by <b onclick=")
        assert page.text(".xtitle") == name
        page.page.mouse.move(*middle_of_bar(page))
        page.page.wait_for_selector(".hoverlayer .hovertext")
        assert page.page.locator(".hoverlayer a, .main-svg a, .main-svg img").count() == 0
        assert page.page.evaluate("window.owned === undefined && document.title !== 'owned'")


def middle_of_bar(page: Page) -> tuple[float, float]:
    """Where the longest bar is."""
    boxes = [bar.bounding_box() for bar in page.page.locator(".bars .point path").all()]
    box = max((box for box in boxes if box), key=lambda box: box["height"])
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
