"""`docs`: notebooks become pages that refer to nothing outside; one that fails does not stop the rest."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from notebooks.cli import docs, pages

LEVELS = "<img src=\"data:image/svg+xml;base64,PHN2Zy8+\" alt='levels'>"


def notebook(path: Path, *cells: str, title: str = "A title") -> Path:
    """A notebook with a heading, a parameters cell, and more code."""
    first = nbformat.v4.new_code_cell("solve = False\nscale = 1.0", metadata={"tags": ["parameters"]})
    heading = nbformat.v4.new_markdown_cell(f"# {title}\nSee [02](02_two.ipynb).")
    created = nbformat.v4.new_notebook(cells=[heading, first, *map(nbformat.v4.new_code_cell, cells)])
    created.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(created, path)
    return path


def test_notebooks_become_pages_and_a_failing_one_is_named_with_its_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    notebook(
        tmp_path / "01_one.ipynb", "rows = 3\nassert rows == 4, 'rows <b>'", "never = 1", title="One <i>"
    )
    second = f"from IPython.display import HTML\nprint('solved', solve, scale)\nHTML({LEVELS!r})"
    notebook(tmp_path / "02_two.ipynb", second)
    monkeypatch.setattr(docs, "NOTEBOOKS", tmp_path)
    code = docs.main(["--to", str(tmp_path / "out"), "--scale", "0.5"])
    said = capsys.readouterr()
    assert code == 1
    assert said.out.strip() == str(tmp_path / "out" / "index.html")
    assert "1 of 2 notebooks failed" in said.err
    index, first, second = (
        (tmp_path / "out" / f"{n}.html").read_text() for n in ("index", "01_one", "02_two")
    )
    assert "cell 2 of 3, &quot;rows = 3&quot;: AssertionError: rows &lt;b&gt;" in index
    assert "One &lt;i&gt;" in index
    assert "AssertionError" in first
    assert "solved True 0.5" in second
    assert "data:image/svg+xml;base64" in second
    assert 'href="02_two.html"' in first
    assert [pages.references(page) for page in (index, first, second)] == [[], [], []]


def test_the_live_part_of_a_view_is_left_out_and_its_picture_stays():
    data = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/html": LEVELS}
    cell = nbformat.v4.new_code_cell("levels", outputs=[nbformat.v4.new_output("display_data", data=data)])
    page = pages.notebook_page(nbformat.v4.new_notebook(cells=[cell]), title="t")
    assert "widget-view" not in page
    assert "data:image/svg+xml;base64,PHN2Zy8+" in page


@pytest.mark.parametrize(
    "part",
    [
        '<script src="https://cdn.example/x.js"></script>',
        "<img alt=x src=//host.example/a.png>",
        '<link rel="stylesheet" href="http://host.example/a.css">',
        "<style>@import url(https://host.example/a.css);</style>",
        "<p style=\"background: url('https://host.example/a.png')\">",
    ],
)
def test_what_a_page_would_ask_for_by_itself_is_found(part: str):
    assert len(pages.references(f"<html>{part}</html>")) == 1


def test_links_that_a_reader_clicks_are_no_references():
    assert (
        pages.references('<a href="https://paimon.apache.org">x</a> <img src="data:image/png;base64,AA">')
        == []
    )


def test_notebooks_are_chosen_by_how_their_names_begin(tmp_path: Path):
    paths = [tmp_path / name for name in ("00_a.ipynb", "01_b.ipynb", "10_c.ipynb")]
    assert docs.select(paths, []) == paths
    assert docs.select(paths, ["0"]) == paths[:2]
    assert docs.main(["nothing-begins-so"]) == 2
