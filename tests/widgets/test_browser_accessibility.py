"""An audit by axe-core of every view and of a workbench with all further views, in both themes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
import widgets
from tests.browsing import Page, needs_browser
from tests.widgets import hostile

pytestmark = needs_browser
GRAVE = ("serious", "critical")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of all views."""
    folder = tmp_path_factory.mktemp("audited")
    table: ts.Table = hostile.table_at(folder)
    made: dict[str, Any] = hostile.views_of(table)
    bench = widgets.Workbench(table)
    for name, _, refused in bench.tools:
        if not refused:
            bench.show(name)
    for view in made.values():
        if hasattr(view, "wait"):
            view.wait(240)
    page = folder / "all.html"
    page.write_text(widgets.page("Every view", [*made.values(), bench]), encoding="utf-8")
    return page


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(audited: Path, page: Page, theme: str) -> None:
    from axe_playwright_python import base

    page.page.emulate_media(color_scheme=theme)
    page.open(audited)
    page.page.add_script_tag(content=Path(base.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    found = page.page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    grave = [
        (one["id"], node["html"][:200])
        for one in found["violations"]
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ]
    assert grave == []
    assert len(found["passes"]) > 20, "the audit looked at the page"
