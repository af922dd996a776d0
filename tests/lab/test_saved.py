"""Saved notebooks opened again: a picture and how to go live, never an error line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import OPEN_SECONDS, Lab, Notebook

pytestmark = [*needs_browser, pytest.mark.large]

TABLE = "from tests.widgets import frames\nimport widgets\ntable = frames.FakeTable(appends=6)"
CELLS = [TABLE, "levels = widgets.LsmLevels(table)\nlevels"]
BAR, LIVE, PICTURE = ".tsw-saved .tsw-bar", ".tsw-saved .lw-levels", ".tsw-saved img"


NO_KERNEL = """async (path) => {
  const kernelPreference = { shouldStart: false, shouldReuse: false };
  const panel = await jupyterapp.commands.execute("docmanager:open", { path, kernelPreference });
  await panel.sessionContext.ready;
}"""  # "Notebook (no kernel)" of the file browser
IPYWIDGETS = (
    "page error: Cannot read properties of null (reading 'kernel')"  # whatever notebook has no kernel
)


def opened_again(lab: Lab, path: str, how: str = "(path) => lwLab.open(path)") -> Notebook:
    """The notebook at `path`, opened and not run."""
    notebook = Notebook(lab, path)
    lab._opened.append(notebook)
    lab.js(how, path, seconds=OPEN_SECONDS, what=f"opening {path}")
    return notebook


def shows_its_picture(lab: Lab) -> None:
    lab.page.locator(BAR, has_text="Saved picture: run the cell to go live.").wait_for(timeout=120_000)
    assert lab.page.locator(PICTURE).count() == 1
    assert lab.page.locator(LIVE).count() == 0
    assert "not found" not in lab.page.locator(".jp-Notebook").inner_text()
    assert (lab.complaints, lab.strangers) == ([], [])


def test_a_saved_notebook_shows_its_picture_and_goes_live(lab: Lab) -> None:
    notebook = lab.open(CELLS)
    lab.page.locator(LIVE).wait_for()
    assert lab.page.locator(BAR).count() == 0
    notebook.reload()  # the kernel lives on
    lab.page.locator(LIVE).wait_for(timeout=120_000)
    assert lab.page.locator(BAR).count() == 0
    notebook.close()  # saved and trusted, its kernel shut down

    opened_again(lab, notebook.path)
    shows_its_picture(lab)
    lab.page.get_by_role("button", name="Run all above").click()
    lab.page.locator(LIVE).wait_for(timeout=120_000)
    assert lab.page.locator(BAR).count() == 0
    assert notebook.kernel("type(levels).__name__") == "LsmLevels"
    notebook.check()
    notebook.close()

    saved = json.loads((lab.server.root / notebook.path).read_text())
    saved["cells"][0]["source"] += "\n# from somebody else"
    Path(lab.server.root / "not_trusted.ipynb").write_text(json.dumps(saved))
    strange = opened_again(lab, "not_trusted.ipynb")
    shows_its_picture(lab)
    strange.close()

    unserved = opened_again(lab, notebook.path, NO_KERNEL)
    lab.page.locator(BAR).wait_for()
    lab.complaints[:] = [each for each in lab.complaints if each != IPYWIDGETS]
    shows_its_picture(lab)
    lab.page.get_by_role("button", name="Run all above").click()
    lab.page.locator(LIVE).wait_for(timeout=120_000)
    assert unserved.kernel("type(levels).__name__") == "LsmLevels"
    lab.complaints[:] = [each for each in lab.complaints if each != IPYWIDGETS]
    unserved.check()
