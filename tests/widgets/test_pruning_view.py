"""PruningExplainer: funnel, lanes and explanations are the engine's decisions; what is refused is told."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow.compute as pc
import pytest

import tablestore as ts
import widgets
from tests.widgets.tables import XSS, months
from widgets.kit import format as fmt
from widgets.pruning.model import LETTERS

WHERE = "month = 2 AND id BETWEEN 100 AND 950 AND quantity > 30"


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    return months(tmp_path)


def test_the_funnel_is_what_the_engine_decided(table: ts.Table) -> None:
    view = widgets.PruningExplainer(table, where=WHERE)
    explanation = table.scan(where=ts.where(WHERE)).explain()
    assert view.data().equals(explanation.decisions())
    steps = explanation.steps()
    assert [step.rule for step in view.model.steps] == steps["rule"].to_pylist()
    assert [step.files for step in view.model.steps] == steps["files"].to_pylist() == [5, 4, 4, 3, 3, 3]
    groups = explanation.row_groups()
    assert view.model.groups.total == groups.num_rows
    assert view.model.groups.read == pc.sum(groups["kept"].cast("int64")).as_py() < groups.num_rows
    assert view.code == f"table.scan(where=ts.where({WHERE!r})).explain()"


def test_the_lanes_are_the_runs_of_the_bucket_with_letters(table: ts.Table) -> None:
    view = widgets.PruningExplainer(table, where=WHERE)
    model = view.model
    assert model.opened == "month=2/0"
    assert [(lane.label, lane.note) for lane in model.lanes] == [
        ("L0", "#6"),
        ("", "#5"),
        ("", "#4"),
        ("", "#2"),
    ]
    assert [mark.letter for mark in model.files] == ["K", "", "", ""]
    levels = table.inspect.levels(partition="month=2")
    assert [mark.lo for mark in model.files] == levels["min_key_pos"].to_pylist()
    assert model.asked is not None
    assert model.asked[2] == "id 100 … 950"
    assert 'data-name="' in view.frame["lanes"]
    assert view.frame["lanes"].count(">K</text>") == 1


def test_a_chosen_file_is_explained_with_the_numbers_compared(table: ts.Table) -> None:
    view = widgets.PruningExplainer(table, where=WHERE)
    first, second = (mark.name for mark in view.model.files[:2])
    assert view.selected == (first,)
    assert view.frame["says"].startswith("Skipped by K, key range. min 1000 > 950.")
    view.selected = (second,)
    assert "max 20 ≤ 30, but it is kept" in view.frame["says"]
    assert "one of the" in view.frame["says"] or "a file it overlaps" in view.frame["says"]
    oldest = view.model.files[-1].name
    view.selected = (oldest,)
    groups = table.scan(where=ts.where(WHERE)).explain().row_groups(files=[oldest])
    assert view.frame["panel"].count('class="rg"') == groups.num_rows
    assert view.frame["says"].startswith(f"Read: {pc.sum(groups['kept'].cast('int64')).as_py()} of")


def test_another_bucket_opens_and_explains_its_own_file(table: ts.Table) -> None:
    view = widgets.PruningExplainer(table, where=WHERE)
    view.opened = "month=1/0"
    assert [mark.letter for mark in view.model.files] == [LETTERS["partition"]]
    view.selected = (view.model.files[0].name,)
    assert view.frame["says"].startswith("Skipped by P, partition.")


def test_typing_redraws_and_what_cannot_be_used_is_reported_with_its_place(table: ts.Table) -> None:
    view = widgets.PruningExplainer(table, where=WHERE)
    before = view.frame["rules"]
    view.where = "quantity >> 3"
    assert view.frame["problem"]["start"] == 10
    assert view.frame["problem"]["length"] == 1
    assert "a literal is expected" in view.frame["problem"]["text"]
    assert view.frame["rules"] == before
    assert "error" not in view.frame
    view.where = "quantityy > 3"
    assert "did you mean quantity" in view.frame["problem"]["text"]
    view.where = "id > 'x'"
    assert "column 'id' is BIGINT" in view.frame["problem"]["text"]
    assert view.code == f"table.scan(where=ts.where({WHERE!r})).explain()"
    view.where = "month = 1"
    assert view.frame["problem"] == {}
    assert view.model.read.files == 1
    view.where = ""
    assert view.model.read.files == view.model.whole.files == 5


def test_a_view_may_begin_with_a_condition_that_is_refused(table: ts.Table) -> None:
    view = widgets.PruningExplainer(table, where="nonsense(")
    assert "functions such as nonsense" in view.frame["problem"]["text"]
    view.where = "month = 2"
    assert view.model.read.files == 4


def test_the_past_is_explained_by_its_own_files(table: ts.Table) -> None:
    view = widgets.PruningExplainer(table, where="quantity > 30", snapshot=2)
    assert view.model.whole.files == 2
    assert view.code == "table.at(snapshot=2).scan(where=ts.where('quantity > 30')).explain()"
    view.snapshot = None
    assert view.model.whole.files == 5
    view.snapshot = 99
    assert "no snapshot 99" in str(view.frame["problem"]) + str(view.frame.get("error"))
    assert view.model.whole.files == 5


def test_text_form_names_rules_and_letters(table: ts.Table) -> None:
    text = widgets.PruningExplainer(table, where=WHERE).text().splitlines()
    assert text[0].startswith("shop.items where month = 2 AND id >= 100")
    assert text[0].split(": ")[-1].startswith("reads 3 of 5 files")
    assert text[2].startswith("P partition")
    assert text[-4:][0].split() == ["L0", "#6", "K"]
    assert text[-1].split()[-1] == "█"


def test_indexes_and_merge_engines_show_their_rules(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "quantity", "file-index.in-manifest-threshold": "1 mb"}
    table = ts.connect(str(tmp_path)).create_table(
        "t.bits",
        schema={"k": ts.INT, "quantity": ts.INT},
        primary_key=["k"],
        options=options | {"write-only": "true"},
    )
    table.write({"k": [1, 2, 3], "quantity": [1, 5, 9]})
    table.with_options({"write-only": "false"}).compact(full=True)
    view = widgets.PruningExplainer(table, where="quantity = 7")
    assert [mark.letter for mark in view.model.files] == ["F"]
    assert view.model.groups.total == 0


def test_an_empty_table_and_one_without_keys(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    table = lake.create_table("t.append", schema={"k": ts.INT})
    view = widgets.PruningExplainer(table, where="k > 5")
    assert "Nothing written yet." in view.to_svg()
    assert "nothing written yet" in view.text()
    table.write({"k": list(range(5))})
    view.refresh()
    assert [mark.letter for mark in view.model.files] == ["S"]
    assert "no key" in view.to_svg()


def test_what_is_sent_is_small_and_bounded(table: ts.Table) -> None:
    view = widgets.PruningExplainer(table, where=WHERE)
    state = {k: v for k, v in view.get_state().items() if k != "assets"}
    assert len(json.dumps(state, default=str)) < 20_000


def test_hostile_names_conditions_and_values_stay_text(tmp_path: Path) -> None:
    table = months(tmp_path, column=XSS, value=XSS)
    quoted = '"' + XSS.replace('"', '""') + '"'
    text = "'" + XSS.replace("'", "''") + "'"
    view = widgets.PruningExplainer(table, where=f"{quoted} > {text}", title=XSS)
    view.where = f"{quoted} > {text} AND month = 2"
    assert view.frame["problem"] == {}
    for svg in (view.to_svg(), *(view.frame[part] for part in ("rules", "heading", "lanes", "panel"))):
        assert "<img" not in svg
    ET.fromstring(view.to_svg(theme="dark"))
    view.where = f"{quoted} ~ 1"
    assert view.frame["problem"]["text"]


def test_long_numbers_get_separators_and_years_and_texts_do_not() -> None:
    assert fmt.grouped("max 1488731 < 40000") == "max 1,488,731 < 40,000"
    assert fmt.grouped("l_year = 1995 AND s = '123456' AND f > 12345.5 AND c123456 = 1") == (
        "l_year = 1995 AND s = '123456' AND f > 12345.5 AND c123456 = 1"
    )
    assert fmt.grouped("k is 760193..1488731") == "k is 760,193..1,488,731"
