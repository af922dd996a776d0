"""An audit by axe-core of a live workbench and of each further view, in JupyterLab, in both themes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import DARK, LIGHT, Lab
from widgets.workbench.tools import TOOLS

pytestmark = [*needs_browser, pytest.mark.large]
CELL = """
import tempfile
from pathlib import Path
import widgets
from tests.widgets.tables import months
table = months(Path(tempfile.mkdtemp())).with_options({"write-only": "false"})
bench = widgets.Workbench(table).wait()
bench.show("pruning")
bench
"""
GRAVE = """async () => {
  const found = await axe.run(".jp-OutputArea .lw", { resultTypes: ["violations"] });
  const grave = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  const named = grave.flatMap((one) => one.nodes.map((node) => [one.id, node.html.slice(0, 200)]));
  return [found.passes.length, named];
}"""


def test_axe_finds_nothing_serious_in_a_live_workbench(lab: Lab) -> None:
    from axe_playwright_python import base

    notebook = lab.open([CELL])
    page = lab.page
    page.locator(".lw-pruning .lw-bar:not(:disabled)").first.wait_for()
    page.add_script_tag(content=Path(base.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    for theme in (DARK, LIGHT):
        lab.theme(theme)
        for tool in TOOLS:
            notebook.kernel(f"bench.show({tool.name!r}) and 1")
            page.locator(f".lw-bench[data-tool={tool.name}]").wait_for()
            passes, grave = page.evaluate(GRAVE)
            assert grave == [], (theme, tool.name)
            assert passes > 10, "the audit looked at the views"
    notebook.check()
