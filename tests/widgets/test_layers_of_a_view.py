"""The parts of a view stay apart: models and figures know no widget, and no figure names a colour."""

import re
from pathlib import Path

import pytest

import widgets

HERE = Path(widgets.__file__).parent
PURE = sorted([*HERE.glob("*/model.py"), *HERE.glob("*/figure.py"), HERE / "levels" / "overview.py"])


@pytest.mark.parametrize("path", PURE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_models_and_figures_import_no_widget_machinery(path):
    source = path.read_text(encoding="utf-8")
    assert not re.search(
        r"^(?:from|import) (?:anywidget|ipywidgets|traitlets|threading|time)\b", source, flags=re.M
    )
    assert "widgets.kit.view" not in source


@pytest.mark.parametrize("path", PURE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_figures_take_colours_from_the_theme(path):
    assert re.findall(r"#[0-9a-fA-F]{6}\b", path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "path", sorted(HERE.rglob("*.js")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_modules_load_nothing_from_elsewhere(path):
    source = path.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"'`\s]+", source)) <= {"http://www.w3.org/2000/svg"}
    source = source.replace("import(URL.createObjectURL(", "")  # what the page itself holds
    assert not re.search(r"^\s*import |\bimport\(|\bfetch\(|XMLHttpRequest|\beval\(", source, flags=re.M)


@pytest.mark.parametrize("path", sorted(HERE.glob("*/view.css")), ids=lambda path: path.parent.name)
def test_the_rules_of_a_view_do_not_style_another_view(path):
    """Each view stands in `.lw-NAME`; a sheet that has that class for a part of its own would size it."""
    views = {
        name: script.parent
        for script in HERE.glob("*/view.js")
        for name in re.findall(r'lwStage\(model, el, "([a-z-]+)"', script.read_text(encoding="utf-8"))
    }
    others = {name for name, folder in views.items() if folder != path.parent}
    starts = re.findall(r"^\.lw-([a-z-]+)(?= [{,.>a-z])", path.read_text(encoding="utf-8"), flags=re.M)
    assert set(starts) & others == set()
