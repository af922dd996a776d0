"""A playground in a real browser, from a disk, without a network: it plays, and picks as Java Paimon does."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import nbformat
import pytest
from rich.console import Console

from notebooks.cli import docs
from notebooks.cli.playground import PAGES, write_playing
from tests.browsing import needs_browser
from tests.suite import counterparts
from tests.tables import KEYED
from widgets import ShopGame, Workbench

pytestmark = [*needs_browser, pytest.mark.large]
PICKS = Path(__file__).parents[2] / "golden" / "picks" / "universal-picks.jsonl.gz"
CHECK = """lines => {
  python.globals.set("lines", lines);
  return python.runPython(`
from tablestore.lsm.compaction.recorded import check_picks
checked = check_picks(lines.split("\\\\n"))
f"{checked.cases - checked.wrong} of {checked.cases}"`);
}"""
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, without the lessons that are run for it."""
    counterparts.need("Pyodide")
    target = tmp_path_factory.mktemp("playground")
    write_playing(target)
    return target


def test_every_page_plays_from_a_disk(browser, playground: Path) -> None:
    for name in (page.name for page in PAGES):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.set_default_timeout(240_000)
        asked, complaints = [], []
        page.on("request", lambda request: asked.append(request.url))  # noqa: B023 - used within the turn
        page.on("pageerror", lambda error: complaints.append(str(error)))  # noqa: B023 - likewise
        page.goto((playground / f"{name}.html").as_uri())
        page.locator("body[data-ready=true]").wait_for()
        assert page.locator(".lw-pic svg").count() >= 1
        page.locator("#lw-play[data-state=ready], #lw-play[data-state=failed]").wait_for()
        assert page.inner_text("#lw-play") == "Playable: the engine's own rules run in this page."
        assert page.locator(".lw-pic svg").count() >= 1
        assert page.locator(".lw-error:visible").count() == 0
        assert {url.split(":")[0] for url in asked} <= {"file", "blob", "data"}
        assert complaints == []
        context.close()
        weight = sum(
            (playground / part).stat().st_size for part in ("python.js", "engine.js", f"{name}.html")
        )
        assert weight <= 15 * MEGABYTE


def test_a_page_of_a_table_plays_on_from_its_files_without_a_network(browser, tmp_path: Path) -> None:
    counterparts.need("Pyodide")
    table = KEYED.create(tmp_path, {"bucket": 1, "num-sorted-run.compaction-trigger": 3, "write-only": True})
    for i in range(3):
        table.write({"k": range(i, 900, 3 + i), "v": [f"secret {k}" for k in range(i, 900, 3 + i)]})
    bench = Workbench(table.refresh().with_options({"write-only": False}))
    path = bench.to_html(tmp_path / "table.html", play=True)
    assert path.stat().st_size <= 15 * MEGABYTE
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    page.set_default_timeout(240_000)
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    page.locator("#lw-play[data-state=ready], #lw-play[data-state=failed]").wait_for()
    assert page.inner_text("#lw-play") == "Playable: the engine's own rules run in this page."
    played = page.locator(".lw-controls").last
    levels = page.locator(".lw-levels").last
    assert "3 sorted runs" in levels.inner_text()
    played.get_by_role("button", name="Flush").click()
    levels.get_by_text("4 sorted runs").wait_for()
    played.get_by_role("button", name="Step").click()
    levels.get_by_text("1 sorted run ·").wait_for()
    assert page.evaluate("lwBytes(1536)") == "1.50 KiB"  # what plays takes no name of the pictures'
    assert "secret" not in page.content()
    assert page.evaluate("JSON.stringify(lwSpecs)").count("secret") == 0
    assert {url.split(":")[0] for url in asked} <= {"file", "blob", "data"}
    assert complaints == []
    context.close()


def test_picks_of_java_paimon_agree_and_a_game_is_the_kernels(browser, playground: Path) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(240_000)
    page.goto((playground / "game.html").as_uri())
    page.locator("#lw-play[data-state=ready]").wait_for()
    (worker,) = page.workers
    assert worker.evaluate(CHECK, gzip.decompress(PICKS.read_bytes()).decode()) == "3000 of 3000"
    game = ShopGame(1, seed=7)
    for tick in (1, 2, 3):
        page.get_by_role("button", name="Tick", exact=False).first.click()
        page.locator(f".lw-clock:text-is('tick {tick} / 90')").wait_for()
    page.get_by_role("button", name="Flush (f)").click()
    page.locator(".lw-log li").first.wait_for()
    game.advance(3).move("flush")
    log = [[str(at), who, words] for at, who, words in game.now["log"]]
    shown = page.locator(".lw-log li").evaluate_all(
        "rows => rows.map(r => [...r.children].map(c => c.textContent))"
    )
    assert json.dumps(shown) == json.dumps(log)
    assert page.inner_text(".lw-log").count("flushed 3,000 orders: 1 run") == 1
    context.close()


LESSON = (
    """from notebooks import course
import widgets
course.begin("A lesson", solve=solve)
""",
    """runs = course.task("runs", "How many **runs**?", answer=3, options=[1, 2, 3],
    hint="Count the *lanes*.", wrong={1: "a run is not a table.", 2: "one is below."}, why="One a write.")
runs
""",
    """runs.then("three runs", "They are:")
""",
    """cells = course.task("null", "Which is **null**?", answer=course.Each(("b",)),
    hint="Look at the signs.", picture=course.Grid(
        ("left", "right"), (("row", (course.Cell("1", "a"), course.Cell("null", "b"))),)
    ),
    why="It has no value.")
cells
""",
    """sizes = {"flushes": 12, "triggers": [3, 5], "ratios": [1], "multipliers": [10]}
trade_off = widgets.TradeOff("zipf", **sizes).wait(240)
trade_off
""",
    """course.progress()
""",
)


def test_a_lesson_is_answered_by_wrong_and_right_clicks_without_a_network(
    browser, playground: Path, tmp_path: Path
) -> None:
    first = nbformat.v4.new_code_cell("solve = False", metadata={"tags": ["parameters"]})
    cells = [nbformat.v4.new_markdown_cell("# A lesson"), first, *map(nbformat.v4.new_code_cell, LESSON)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(notebook, tmp_path / "02_lesson.ipynb")
    screen = Console(file=io.StringIO())
    outcome = docs.write(tmp_path / "02_lesson.ipynb", playground, {"solve": True}, screen, plays=True)
    assert outcome.problem == ""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    page.set_default_timeout(240_000)
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((playground / "02_lesson.html").as_uri())
    page.locator("body[data-ready=true]").wait_for()
    first_task, last_task = page.locator(".lw-task").first, page.locator(".lw-task").last
    veil, score = page.locator(".lw-veil"), page.locator(".lw-score")
    first_task.locator("[data-id='1']").click()  # at once, before Python has started
    first_task.get_by_role("button", name="Ask the engine").click()
    page.locator("#lw-play[data-state=ready], #lw-play[data-state=failed]").wait_for()
    assert page.inner_text("#lw-play") == "Playable: the engine's own rules run in this page."
    result = first_task.locator(".lw-task-result")
    result.get_by_text("1 is too low: a run is not a table. Count the lanes.").wait_for()
    assert "the engine's" not in result.inner_text()
    assert "veiled until task 1, runs, is answered" in veil.inner_text()
    first_task.locator("[data-id='2']").click()
    first_task.get_by_role("button", name="Ask again").click()
    result.get_by_text("One a write.").wait_for()
    assert "one is below." in result.inner_text()
    assert first_task.locator("[data-id='3'].lw-right").count() == 1
    assert first_task.locator("[data-id='2'].lw-wrong").count() == 1
    veil.get_by_text("three runs").wait_for()
    last_task.locator(".spot[data-spot=b]").click()
    last_task.get_by_role("button", name="Ask the engine").click()
    last_task.get_by_text("It has no value.").wait_for()
    assert score.locator(".lw-chip").all_inner_texts() == ["✗ runs", "✓ null"]
    first_task.get_by_role("button", name="Start over").click()
    veil.get_by_text("veiled until").wait_for()
    assert score.locator(".lw-chip").all_inner_texts() == ["○ runs", "✓ null"]
    trade_off = page.locator(".lw-trade_off")
    trade_off.get_by_role("button", name="leveled").click()
    trade_off.locator(".lw-costs b").filter(has_text="leveled, trigger 5, level ×10").wait_for()
    trade_off.get_by_role("button", name="uniform").click()
    trade_off.locator(".lw-sub").filter(has_text="uniform").wait_for()
    assert trade_off.get_attribute("data-n") == "4"
    assert trade_off.locator(".lw-pic svg").count() == 2
    assert trade_off.get_by_role("button", name="Cancel").count() == 0, "a page is deaf while it simulates"
    assert {url.split(":")[0] for url in asked} <= {"file", "blob", "data"}
    assert complaints == []
    parts = ("python.js", "engine.js", "02_lesson.html")
    assert sum((playground / part).stat().st_size for part in parts) <= 15 * MEGABYTE
    context.close()
