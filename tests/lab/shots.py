"""Screenshots of what cells show, in JupyterLab light and dark and at several widths; not a test.

    .venv/bin/python -m tests.lab.shots cells.py /tmp/shots          one cell per `# %%` of cells.py
    .venv/bin/python -m tests.lab.shots page.html /tmp/shots         a page without a kernel, from file://

Makes `<name>-<light|dark>-<width>.png` of the last output (or of the page) and prints their paths. With
`--click SELECTOR` what matches is clicked first, with `--press KEYS` keys are pressed after that.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests import browsing
from tests.lab.jupyter import DARK, LIGHT, Lab, LabServer

if TYPE_CHECKING:
    from playwright import sync_api as playwright

WIDTHS = (1080, 960, 700)
OUTPUT = ".jp-Notebook .jp-Cell:last-child .jp-OutputArea-output:last-child"
Act = Callable[["playwright.Page"], None]


def shoot_cells(
    cells: list[str], folder: Path, *, name: str, widths: tuple[int, ...] = WIDTHS, act: Act | None = None
) -> list[Path]:
    """Run `cells` in a JupyterLab of its own and picture the last output."""
    with tempfile.TemporaryDirectory() as work:
        server = LabServer(Path(work))
        try:
            lab = Lab(server, browsing.browser())
            browsing.before_close(lab.close)
            notebook = lab.open(cells)
            if failures := notebook.failures():
                raise RuntimeError("\n".join(failures))
            created = [path for width in widths for path in _cell_at(lab, folder, name, width, act)]
            for complaint in (*lab.complaints, *lab.strangers):
                print(complaint)
            return created
        finally:
            browsing.close()
            server.stop()


def _cell_at(lab: Lab, folder: Path, name: str, width: int, act: Act | None) -> list[Path]:
    collected = []
    output = lab.page.locator(OUTPUT).last
    now = output.bounding_box()
    lab.page.set_viewport_size({"width": round(1500 + width - now["width"]) if now else 1500, "height": 1700})
    now = output.bounding_box()
    if now and round(now["width"]) != width:
        at = lab.page.viewport_size["width"] + width - round(now["width"])
        lab.page.set_viewport_size({"width": at, "height": 1700})
    for theme, word in ((LIGHT, "light"), (DARK, "dark")):
        lab.theme(theme)
        if act:
            act(lab.page)
        lab.page.wait_for_timeout(700)
        collected.append(folder / f"{name}-{word}-{width}.png")
        output.screenshot(path=collected[-1])
    return collected


def shoot_page(
    path: Path, folder: Path, *, widths: tuple[int, ...] = WIDTHS, act: Act | None = None
) -> list[Path]:
    """Picture a page of ours from file://."""
    collected = []
    try:
        for width in widths:
            for scheme in ("light", "dark"):
                context = browsing.browser().new_context(
                    viewport={"width": width, "height": 900}, color_scheme=scheme
                )
                page = browsing.Page(context.new_page()).open(path)
                if act:
                    act(page.page)
                page.page.wait_for_timeout(300)
                collected.append(folder / f"{path.stem}-{scheme}-{width}.png")
                page.page.screenshot(path=collected[-1], full_page=True)
                for complaint in page.complaints:
                    print(complaint)
                context.close()
    finally:
        browsing.close()
    return collected


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--click", default="", metavar="SELECTOR")
    parser.add_argument("--press", default="", metavar="KEYS", help="separated by spaces")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    widths = tuple(int(width) for width in asked.widths.split(","))

    def act(page: playwright.Page) -> None:
        if asked.click:
            page.locator(asked.click).first.click()
        for key in asked.press.split():
            page.keyboard.press(key)

    if asked.source.suffix == ".html":
        created = shoot_page(asked.source.resolve(), asked.folder, widths=widths, act=act)
    else:
        cells = [cell for cell in asked.source.read_text().split("# %%") if cell.strip()]
        created = shoot_cells(cells, asked.folder, name=asked.source.stem, widths=widths, act=act)
    print("\n".join(map(str, created)))


if __name__ == "__main__":
    main()
