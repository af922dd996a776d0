"""BarChart: the bars are the rows of the query, in picture, page and text, and follow them as they change."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablestore as ts
import widgets
from widgets.bars.figure import bars_figure
from widgets.bars.model import MOST, bars_model

ROWS = pa.table(
    {
        "year": [1995, 1995, 1996, 1996],
        "nation": ["FRANCE", "PERU", "PERU", None],
        "total": [2.5, 40.0, 900.0, -100.0],
    }
)


def chart(rows: object = ROWS, **more: object) -> widgets.BarChart:
    return widgets.BarChart(rows, label="nation", value="total", group="year", title="Totals", **more)


def test_each_group_has_its_bars_the_greatest_first_on_one_axis() -> None:
    model = chart().model
    assert model.groups == ("1995", "1996")
    assert [[(b.label, b.value, b.shown) for b in some] for some in model.bars] == [
        [("PERU", 40.0, "40"), ("FRANCE", 2.5, "2.5")],
        [("PERU", 900.0, "900"), (None, -100.0, "−100")],
    ]
    assert (model.low, model.high) == (-100.0, 900.0)
    long = [float(part.split('width="')[1].split('"')[0]) for part in picture(model, 0).split("<rect")[1:]]
    longer = [float(part.split('width="')[1].split('"')[0]) for part in picture(model, 1).split("<rect")[1:]]
    assert long[0] / longer[0] == pytest.approx(40 / 900, abs=0.01)


def picture(model: object, index: int) -> str:
    return bars_figure(model, index=index, width=1040).body  # type: ignore[arg-type]  # of bars_model


def test_the_text_form_has_the_same_bars() -> None:
    assert chart(index=1).text().splitlines() == [
        "Totals · total · year 1996",
        f"PERU {'█' * 40} 900",
        f"NULL {'█' * 4} −100",
    ]


def test_it_reads_again_and_stays_with_its_group() -> None:
    rows = [ROWS]
    view = chart(lambda: rows[-1], index=1)
    assert view.model.group_text(view.index) == "year 1996"
    more = pa.table({"year": [1994], "nation": ["CHINA"], "total": [7.0]})
    rows.append(pa.concat_tables([more, ROWS]))
    view.refresh()
    assert view.model.groups == ("1994", "1995", "1996")
    assert view.model.group_text(view.index) == "year 1996"
    assert view.frame["groups"] == ["1994", "1995", "1996"]
    drawn = view.frame
    view.refresh()
    assert view.frame is drawn, "nothing has changed: nothing is drawn"


def test_a_query_that_fails_leaves_the_last_picture() -> None:
    fails = False

    def rows() -> pa.Table:
        if fails:
            raise ts.InvalidRequest("the job has ended")
        return ROWS

    view = chart(rows)
    fails = True
    view.refresh()
    assert "the job has ended" in view.frame["error"]["text"]
    assert "PERU" in view.frame["svg"]
    fails = False
    view.refresh()
    assert "error" not in view.frame


def test_a_page_has_every_group() -> None:
    spec = chart().export(widths=(1040, 660))
    assert {n: "FRANCE" in frame["svg"] for n, frame in spec["frames"]["660"].items()} == {
        "0": True,
        "1": False,
    }
    assert (spec["first"], spec["last"], spec["limits"]) == (0, 1, "")


def test_no_rows_and_many_rows_are_shown_for_what_they_are() -> None:
    empty = chart(ROWS.slice(0, 0))
    assert "no rows" in empty.text()
    assert "no rows yet" in empty.frame["svg"]
    many = pa.table({"n": list(range(MOST + 7)), "v": list(range(MOST + 7))})
    model = bars_model(many, label="n", value="v")
    assert (len(model.bars[0]), model.hidden[0]) == (MOST, 7)
    assert "… 7 more" in picture(model, 0)


def test_what_it_refuses() -> None:
    with pytest.raises(ts.InvalidRequest, match="rows or a function"):
        widgets.BarChart("orders", label="a", value="b")
    view = widgets.BarChart(ROWS, label="nation", value="nation")
    assert "has no numbers" in view.frame["error"]["text"]
    view = widgets.BarChart(ROWS, label="nations", value="total")
    assert "did you mean nation" in view.frame["error"]["text"]
