"""In the browser: any moment is drawn from the history's edits, as the static figure draws it."""

import random
from pathlib import Path

import pytest

import tablestore as ts
import widgets
from tablestore.insight.simulator import Simulator, Workload
from tests.browsing import Page, needs_browser
from widgets.kit import format as fmt
from widgets.workbench.model import facts_of

pytestmark = needs_browser
BOXES = """(files) => files.map((g) => {
  const box = g.querySelector(".box"), size = g.querySelector("text");
  const [x, y, wide] = ["x", "y", "width"].map((name) => Number(box.getAttribute(name)));
  return [g.dataset.name, x, y, wide, size ? size.textContent : "", g.getAttribute("aria-label")];
})"""


def table_of(folder: Path) -> ts.Table:
    options = {"bucket": 2, "num-sorted-run.compaction-trigger": 3, "num-levels": 4}
    schema = {"k": ts.BIGINT, "v": ts.STRING}
    table = ts.connect(folder).create_table("shop.orders", schema=schema, primary_key=["k"], options=options)
    for n in range(14):
        keys = [(n * 37 + k * (1 + n % 3)) % 900 for k in range(120 + 10 * n)]
        table.write({"k": sorted(set(keys)), "v": [f"x{n}"] * len(set(keys))})
        if n % 4 == 3:
            table.delete(f"k < {n * 20}")
    table.expire_snapshots(keep=16)
    return table


@pytest.fixture(scope="module", params=["table", "simulator"])
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, Path]:
    folder = tmp_path_factory.mktemp("history")
    if request.param == "table":
        source: object = table_of(folder)
    else:
        source = Simulator(Workload(rows=300, keys=3_000), {"num-sorted-run.compaction-trigger": 3}, keep=30)
        for _ in range(45):
            source.step()
    return source, widgets.Workbench(source).to_html(folder / "bench.html")


@pytest.mark.large
def test_the_boxes_of_any_moment_are_those_of_the_static_figure(
    page: Page, shown: tuple[object, Path]
) -> None:
    source, file = shown
    page.open(file)
    page.page.locator(".lw-levels[data-history*='-']").wait_for(state="attached")
    ids = source.inspect.commits()["snapshot_id"].to_pylist()
    bucket = page.page.get_by_label("bucket", exact=True)
    if bucket.is_visible():
        bucket.select_option("/0")
    line = page.page.locator(".lw-timeline").get_by_role("slider")
    asked = random.Random(3)
    for snapshot in asked.sample(ids[:-1], 9):
        jump = page.page.get_by_label("jump to snapshot id, tag or time")
        jump.fill(str(snapshot))
        jump.press("Enter")
        page.page.locator(f".lw-levels[data-snapshot='{snapshot}'][data-drawn=page]").wait_for()
        for mode in ("keys", "bytes"):
            page.page.get_by_label("x axis").get_by_text(mode).click()
            actual = page.page.locator(".lw-levels .lw-pic .file").evaluate_all(BOXES)
            width = page.page.locator(".lw-levels .lw-pic svg").evaluate("(svg) => svg.viewBox.baseVal.width")
            levels = widgets.LsmLevels(source, snapshot=snapshot, opened="/0", mode=mode).read_history()
            levels.width = round(width) + (32 if "overview" in levels.frame else 0)
            page.page.evaluate(
                "(svg) => { window.told = document.createElement('div'); told.innerHTML = svg; }",
                levels.frame["svg"],
            )
            wanted = page.page.evaluate(f"({BOXES})([...told.querySelectorAll('.file')])")
            assert actual == wanted, (snapshot, mode)
            assert page.text(".lw-levels h3") == levels.frame["title"]
            assert page.text(".lw-levels .lw-sub") == levels.frame["subtitle"]
            assert page.text(".lw-fact").split(" · ")[1:] == facts_at(source, snapshot)
            if "overview" in levels.frame:
                assert page.text(".lw-opened") == levels.frame["opened"]
    assert line.get_attribute("aria-valuenow") is not None


def facts_at(source: object, snapshot: int) -> list[str]:
    facts = facts_of(source.inspect.levels(snapshot=snapshot), 0)[1:]
    return [f"{number} {noun}".strip() for number, noun in facts]


def test_numbers_read_as_in_python(page: Page, shown: tuple[object, Path]) -> None:
    page.open(shown[1])
    asked = random.Random(5)
    numbers = [
        0,
        1023,
        1024,
        1152,
        10_235,
        1_047_552,
        10_188,
        *(asked.randrange(1 << 43) for _ in range(200)),
    ]
    parts = [(asked.randrange(1000), asked.randrange(1, 1000)) for _ in range(200)] + [
        (1, 8),
        (3, 8),
        (5, 200),
    ]
    keys = ["[7]", "[12345]", "[-1234567]", "[abc, 1]", "1234", "[999999999999999999]", None]
    names = [f"data-{asked.randrange(1 << 60):x}-{n}.parquet" for n in range(5)] + ["a.orc", "n" * 40]
    code = """([n, p, k, f]) => [
      n.map(lwBytes), n.map(lwCount), p.map((x) => lwPercent(...x)), k.map(lwKey),
      f.map((x) => lwFileName(x)), n.map(lwShort)]"""
    measured = page.page.evaluate(code, [numbers, parts, keys, names])
    assert measured == [
        [fmt.bytes_text(n) for n in numbers],
        [fmt.count(n) for n in numbers],
        [fmt.percent(*p) for p in parts],
        [fmt.key(k) for k in keys],
        [fmt.file_name(n) for n in names],
        [fmt.short_count(n) for n in numbers],
    ]


def test_worst_first_follows_the_moment(page: Page, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    """At every commit of the past the chips of a page are those of the kernel's view at that commit."""
    for seed in seeds[:1]:  # a page opens one file
        chance = random.Random(seed)
        table = ts.connect(tmp_path / str(seed)).create_table(
            "shop.orders",
            schema={"k": ts.BIGINT, "p": ts.INT},
            primary_key=["k", "p"],
            partition_by=["p"],
            options={"bucket": 2, "write-only": True},
        )
        for _ in range(7):
            part, rows = chance.randrange(4), chance.randrange(1, 60)
            table.write({"k": [chance.randrange(1_000) for _ in range(rows)], "p": [part] * rows})
        page.page.set_viewport_size({"width": 1060, "height": 900})
        page.open(widgets.Workbench(table).to_html(tmp_path / f"{seed}.html"))
        page.page.locator(".lw-levels[data-history*='-']").wait_for(state="attached")
        for snapshot in chance.sample(range(3, 8), 5):
            jump = page.page.get_by_label("jump to snapshot id, tag or time")
            jump.fill(str(snapshot))
            jump.press("Enter")
            page.page.locator(f".lw-levels[data-snapshot='{snapshot}']").wait_for()
            levels = widgets.LsmLevels(table, snapshot=snapshot)
            levels.width = 716
            wanted = [f"{words} {runs}" for _, words, runs in levels.frame.get("worst", [])]
            chips = page.page.locator(".lw-worst .lw-chip").all_inner_texts()
            if wanted:
                assert [" ".join(chip.split()).replace(" /", "/") for chip in chips] == wanted, (
                    seed,
                    snapshot,
                )
