"""Names and values that are markup are shown as text everywhere: pictures, pages, notebooks, terminals."""

import base64
import re
import unicodedata
import xml.etree.ElementTree as ET

import pytest

import widgets
from tests.browsing import Page, needs_browser
from tests.widgets import hostile
from tests.widgets.hostile import EVENTS, IMG, OURS, SAFE, HostileTags

KINDS = [
    *("alarms", "health", "lake_health"),
    *("timeline", "levels", "controls", "amplification", "files", "merge", "changelog", "pruning"),
    *(
        "what_if",
        "findings",
        "ingest",
        "broken",
        "buckets",
        "stream",
        "capture",
        "log",
        "maintenance",
        "tiering",
        "play",
    ),
    *("task", "veil", "score", "trade_off", "game", "bench"),
]


def parts_of(view: object) -> list[object]:
    return list(getattr(view, "parts", {"": view}).values())


def test_every_view_is_here(hostile_views):
    named = {type(part).__name__ for view in hostile_views.values() for part in (view, *parts_of(view))}
    shown = {name for name in widgets.__all__ if isinstance(getattr(widgets, name), type)}
    assert shown - {"StepLanes", "Beside"} <= named  # Beside holds views


def test_the_names_are_what_they_should_be(hostile_table):
    assert hostile_table.name == f"{IMG}.{IMG}"
    assert IMG in hostile_table.inspect.tags()["tag_name"].to_pylist()
    assert IMG in hostile_table.inspect.branches()["branch_name"].to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_made_of_our_elements_only(hostile_views, kind):
    for theme in ("light", "dark"):
        root = ET.fromstring(hostile_views[kind].to_svg(theme=theme))
        assert {element.tag.split("}")[1].lower() for element in root.iter()} <= OURS | {"style"}
        attributes = {name.split("}")[-1] for element in root.iter() for name in element.attrib}
        assert not [name for name in attributes if name.startswith("on") or name in ("href", "src")]


@pytest.mark.parametrize("kind", KINDS)
def test_frames_and_bundles_carry_no_foreign_element(hostile_views, kind):
    for part in parts_of(hostile_views[kind]):
        for text in hostile.live_texts(part):
            actual = HostileTags(text)
            assert set(actual.tags) <= OURS
            assert actual.events == []
    html = hostile_views[kind]._repr_mimebundle_()[0]["text/html"]
    assert re.fullmatch(
        r'<img src="data:image/svg\+xml;base64,[A-Za-z0-9+/=]+" alt="[^"<>]*" style="[^"<>]*">', html
    )
    ET.fromstring(base64.b64decode(html.split(",", 1)[1].split('"')[0]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(4)
def test_pages_carry_no_foreign_element(hostile_views, kind, tmp_path):
    page = hostile_views[kind].to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    actual = HostileTags(page)
    frame = {"html", "head", "meta", "link", "title", "style", "body", "script", "noscript", "img"}
    assert set(actual.tags) <= OURS | frame
    assert actual.tags.count("script") == 2
    assert actual.images, "pictures for browsers without scripts"
    assert all(re.fullmatch(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", src) for src in actual.images)
    assert actual.events == []


@pytest.mark.parametrize("kind", KINDS)
def test_terminals_get_lines_of_plain_text(hostile_views, kind):
    text = hostile_views[kind].text()
    assert text
    unsafe = {c for c in text if c not in "\n" and unicodedata.category(c) in ("Cc", "Cs")}
    unsafe |= {
        c for c in text if unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "PDI")
    }
    assert unsafe == set()
    assert max(map(len, text.splitlines())) < 1_000


@pytest.mark.browser
@pytest.mark.parametrize(
    "kind", [pytest.param("bench", marks=needs_browser), pytest.param("all", marks=needs_browser)]
)
@pytest.mark.sample(1)
def test_a_page_in_a_browser_shows_names_as_text(hostile_views, kind, page: Page, tmp_path):
    path = tmp_path / "hostile.html"
    if kind == "bench":
        hostile_views["bench"].to_html(path)
    else:
        path.write_text(widgets.page(IMG, [hostile_views[name] for name in KINDS[:-1]]), encoding="utf-8")
    page.open(path)
    for button in page.page.locator(".lw-tabs button").all():
        button.click()
    title = page.page.title()
    page.page.evaluate("document.querySelectorAll('.lw-quiet').forEach((b) => b.click())")
    for svg in page.page.locator(".lw-pic:visible").all():
        svg.hover(force=True)
    assert set(page.page.evaluate(SAFE)) <= OURS | {"noscript"}
    assert page.page.evaluate(EVENTS) == []
    assert page.page.evaluate(
        "[window.owned === undefined, document.images.length, document.scripts.length]"
    ) == [True, 0, 2]
    assert page.page.title() == title
    assert title != "owned"
    assert IMG in page.text("h1" if kind == "all" else "h2")
