"""The sidebar Lakes in a real JupyterLab: by keyboard and mouse, with a notebook's kernel and its own."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tablestore as ts
from tests.browsing import needs_browser
from tests.lab.jupyter import Lab, Notebook
from tests.widgets import hostile

if TYPE_CHECKING:
    from playwright import sync_api as playwright

pytestmark = [*needs_browser, pytest.mark.large]

LONG = 120_000  # ms
KERNEL = "lwLab.panel(path).sessionContext.session.kernel"
CLOSE = """() => [...jupyterapp.shell.widgets("main")].filter((w) => w.id.startsWith("tsw-"))
  .forEach((w) => w.dispose())"""


class Sidebar:
    """The sidebar of a page."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.page = lab, lab.page
        self.node = self.page.locator("#tablestore-lakes")
        self.tree = self.node.get_by_role("tree")

    def show(self) -> None:
        """Open it; the keyboard is in its tree then."""
        self.lab.js("() => jupyterapp.commands.execute('tablestore:lakes').then(() => 0)")
        self.page.wait_for_function("document.activeElement.closest('.tsw-tree') !== null", timeout=LONG)

    def entry(self, kind: str) -> playwright.Locator:
        """The entries of this kind."""
        return self.tree.locator(f"[data-kind={kind}]")

    def wait(self, kind: str) -> playwright.Locator:
        """The first entry of this kind, when it is there."""
        self.entry(kind).first.wait_for(timeout=LONG)
        return self.entry(kind).first

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def add(self, path: object) -> None:
        field = self.node.get_by_label("path of a lake or a table")
        field.fill(str(path))
        field.press("Enter")

    def sessions(self) -> list[str]:
        """The paths of the hidden kernels."""
        server = self.lab.server
        with urllib.request.urlopen(f"{server.url}/api/sessions?token={server.token}") as answer:
            return [each["path"] for each in json.load(answer) if each["type"] == "tablestore-lakes"]

    def wait_saved(self) -> None:
        """Until the server has the tabs of the page: a page that is loaded before has none again."""
        server = self.lab.server
        until = time.monotonic() + LONG / 1000
        while True:
            with urllib.request.urlopen(f"{server.url}/lab/api/workspaces?token={server.token}") as answer:
                if b"tsw-" in answer.read():
                    return
            assert time.monotonic() < until, "the page does not save its tabs"
            time.sleep(0.2)


@pytest.fixture
def sidebar(lab: Lab) -> Iterator[Sidebar]:
    """The sidebar; afterwards it is closed, knows no path and has no kernel of its own."""
    lab.complaints.clear()
    lab.strangers.clear()
    created = Sidebar(lab)
    yield created
    for button in ("Forget", "shut down"):
        created.show()
        for entry in created.node.get_by_role("button", name=button).all():
            entry.click()
    lab.js("() => jupyterapp.shell.collapseLeft()")
    lab.js(CLOSE)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    table = ts.connect(folder).create_table(
        "shop.orders", schema={"k": ts.BIGINT}, primary_key=["k"], options={"bucket": 1}
    )
    for number in range(3):
        table.write({"k": list(range(number * 10, number * 10 + 20))})
    table.tags.create("v1", snapshot=1)
    return folder


def sources(notebook: Notebook) -> list[str]:
    return [cell["source"] for cell in notebook.cells()]


def quiet(lab: Lab) -> None:
    assert (lab.complaints, lab.strangers) == ([], [])


def test_by_keyboard_to_a_cockpit_and_a_cell_with_the_notebooks_kernel(
    lab: Lab, sidebar: Sidebar, lake: Path
) -> None:
    notebook = lab.open([f"import time\nimport tablestore as ts\nlake = ts.connect({str(lake)!r})"])
    before = notebook.kernel("sorted(get_ipython().user_ns)")
    sidebar.show()
    sidebar.wait("variable")
    assert "asks the kernel of test_" in sidebar.node.inner_text()
    sidebar.press("ArrowRight")
    sidebar.wait("database")
    sidebar.press("ArrowRight", "ArrowRight")
    sidebar.wait("table")
    sidebar.press("ArrowRight", "ArrowRight")
    sidebar.wait("snapshots")
    sidebar.press("ArrowRight", "ArrowRight")
    sidebar.wait("snapshot")
    sidebar.press("ArrowDown", "ArrowDown")
    assert sidebar.tree.locator("[aria-selected=true]").inner_text().split()[1] == "#2"
    sidebar.press("Enter")
    lab.page.locator(".tsw-cockpit .lw-levels h3", has_text="Levels at #2").wait_for(timeout=LONG)
    timeline = lab.page.locator(".tsw-cockpit .lw-timeline [role=slider]").first
    timeline.focus()
    lab.page.keyboard.press("ArrowLeft")
    lab.page.locator(".tsw-cockpit .lw-levels h3", has_text="Levels at #1").wait_for()
    assert notebook.kernel("sorted(get_ipython().user_ns)") == before  # no name of ours is left there

    lab.js("() => jupyterapp.shell.currentWidget.dispose()")
    notebook.expect("list(__import__('widgets.lakes', fromlist=['x'])._shown)", [])
    sidebar.show()
    sidebar.press("Shift+Enter")
    code = "import widgets\n\nbench = widgets.Workbench(lake.table('shop.orders'))\n"
    lab.page.wait_for_function("(path) => lwLab.cells(path).length === 2", arg=notebook.path)
    assert sources(notebook)[1] == code + "bench.timeline.snapshot = 2\nbench"

    start, end = sidebar.wait("table").bounding_box(), lab.page.locator(".jp-Cell").first.bounding_box()
    lab.page.mouse.move(start["x"] + 60, start["y"] + 10)
    lab.page.mouse.down()
    for step in range(4):
        lab.page.mouse.move(start["x"] + 60 + 6 * step, start["y"] + 12)
    lab.page.mouse.move(end["x"] + 200, end["y"] + end["height"] / 2, steps=10)
    lab.page.wait_for_timeout(200)
    lab.page.mouse.up()
    lab.page.wait_for_function("(path) => lwLab.cells(path).length === 3", arg=notebook.path)
    assert "import widgets\n\nwidgets.Workbench(lake.table('shop.orders'))" in sources(notebook)

    lab.page.evaluate(
        f"(path) => {{ {KERNEL}.requestExecute({{ code: 'time.sleep(4)' }}); }}",
        notebook.path,
    )
    lab.page.wait_for_function(f"(path) => {KERNEL}.status === 'busy'", arg=notebook.path)
    sidebar.node.get_by_role("button", name="read again").click()
    sidebar.node.get_by_text("kernel busy").wait_for()
    assert sidebar.entry("table").count() == 1  # what was read before stays
    sidebar.node.get_by_text("asks the kernel of").wait_for(timeout=LONG)
    quiet(lab)


def test_a_hidden_kernel_serves_names_that_are_markup_and_outlives_a_reload(
    lab: Lab, sidebar: Sidebar, tmp_path: Path
) -> None:
    place = hostile.table_at(tmp_path).location
    sidebar.show()
    assert "No notebook with a kernel is in front" in sidebar.node.inner_text()
    assert sidebar.sessions() == []
    sidebar.add(place)
    sidebar.wait("branches")
    assert "asks a hidden kernel of its own" in sidebar.node.inner_text()
    for kind in ("tags", "branches"):
        sidebar.entry(kind).click()
    sidebar.wait("branch")
    assert hostile.IMG in sidebar.wait("tag").inner_text()
    sidebar.entry("path").last.dblclick()
    lab.page.locator(".tsw-cockpit .lw-bench h2", has_text=hostile.IMG).wait_for(timeout=LONG)
    assert lab.page.locator("#tablestore-lakes img, .tsw-cockpit img, .lm-TabBar img").count() == 0
    assert lab.page.evaluate("window.owned === undefined && document.title !== 'owned'")
    (running,) = sidebar.sessions()
    sidebar.wait_saved()

    lab.page.goto(f"{lab.server.url}/lab?token={lab.server.token}")
    lab._restored()
    lab.page.locator(".tsw-cockpit .lw-bench h2", has_text=hostile.IMG).wait_for(timeout=LONG)
    sidebar.show()
    sidebar.wait("path")
    assert sidebar.sessions() == [running]
    sidebar.add("/nowhere")
    sidebar.node.get_by_text("there is nothing at /nowhere").wait_for(timeout=LONG)
    sidebar.node.get_by_role("button", name="shut down").click()
    sidebar.node.get_by_text("The hidden kernel is shut down").wait_for(timeout=LONG)
    assert sidebar.sessions() == []
    lab.page.locator(".tsw-cockpit .lw-lost-notice", has_text="The kernel was shut down.").wait_for()
    lab.page.locator(".tsw-cockpit").get_by_text("Open again", exact=True).click()
    lab.page.locator(".tsw-cockpit .lw-bench:not(.lw-lost) h2", has_text=hostile.IMG).wait_for(timeout=LONG)
    assert len(sidebar.sessions()) == 1
    lab.js("() => jupyterapp.commands.execute('launcher:create').then(() => 0)")
    tile = lab.page.locator(".jp-LauncherCard:visible").first  # before those of the kernels
    tile.wait_for(timeout=LONG)
    assert tile.get_attribute("title") == "Lakes"
    assert tile.locator("img").evaluate("one => one.naturalWidth > 0")
    quiet(lab)
