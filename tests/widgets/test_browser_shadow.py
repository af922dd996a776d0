"""A view in a shadow root, as marimo shows it, has its style there, once; the document keeps its own."""

from __future__ import annotations

import pytest

from tests.browsing import needs_browser
from widgets.kit import assets

pytestmark = [*needs_browser, pytest.mark.large]
IN_SHADOW = """
([code, css]) => {
  const lwDress = new Function(code + "; return lwDress;")();
  const root = document.body.appendChild(document.createElement("div")).attachShadow({ mode: "open" });
  const seen = [0, 1].map(() => {
    const el = root.appendChild(document.createElement("div"));
    el.className = "lw";
    lwDress(el, css);
    return getComputedStyle(el).getPropertyValue("--lw-compact").trim();
  });
  lwDress(document.body.appendChild(document.createElement("div")), css);
  return [seen, root.adoptedStyleSheets.length, document.adoptedStyleSheets.length];
}"""


def test_a_shadow_root_is_dressed_once(browser) -> None:
    page = browser.new_page()
    page.set_content("<!doctype html><body></body>")
    seen, inside, outside = page.evaluate(IN_SHADOW, [assets.script("kit/dress.js"), assets.sheet()])
    assert seen == ["#b04e03", "#b04e03"]
    assert (inside, outside) == (1, 0)
    page.close()


def test_every_view_dresses_its_root_before_it_renders() -> None:
    loader = assets.loader("renderLevels")
    assert loader.index("assets.exports.dress(props.el)") < loader.index("assets.exports.renderLevels(props)")
    assert 'lwDress(el, model.get("_css"))' in assets.of_kernel()._esm
