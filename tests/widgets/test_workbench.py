"""The cockpit of a table: every kind of table, its head, its parts, its further views, its pages."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pyarrow as pa
import pytest
import traitlets

import tablestore as ts
import widgets
from tests.widgets.foreign import stored_by_another
from widgets.kit import format as fmt
from widgets.kit.page import linked_groups
from widgets.kit.static import SHOWN
from widgets.workbench.figure import head_figure
from widgets.workbench.model import Able, Head, buckets_of, head_of, kind_of, text_of

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
MAIN = ["timeline", "levels", "controls", "amplification"]


def made(tmp_path, name="shop.orders", *, key=("k",), writes=3, **options: object) -> ts.Table:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    table = ts.connect(tmp_path).create_table(name, schema=SCHEMA, primary_key=key, options=given)
    for number in range(writes):
        keys = list(range(number * 5, number * 5 + 10))
        table.write(pa.table({"k": keys, "v": [str(key) for key in keys]}, schema=SCHEMA))
    return table


def test_parts_follow_the_timeline_and_the_opened_bucket(tmp_path):
    bench = widgets.Workbench(made(tmp_path, bucket=2))
    assert list(bench.parts) == MAIN
    bench.timeline.snapshot = 2
    assert {view.snapshot for view in bench.views} == {2}
    assert bench.state().count == 4
    bench.timeline.snapshot = None
    assert {view.snapshot for view in bench.views} == {3}
    assert bench.timeline.spoken[0].startswith("#3 ")
    bench.timeline.snapshot = 2
    other = next(bucket for bucket in bench.head["buckets"] if bucket != bench.opened)
    bench.opened = other
    assert {view.opened for view in bench.views if view.has_trait("opened")} == {other}
    assert bench.head["facts"][1] == ["4", "files"]


def test_many_buckets_are_shown_as_a_table_first(tmp_path):
    table = made(tmp_path, bucket=9, writes=4)
    bench = widgets.Workbench(table)
    assert list(bench.parts) == MAIN
    bench.wait(120)
    health = bench.parts["health"].wait(120)
    assert health.verdict == table.inspect.health().verdict
    assert health.opened == bench.opened
    bench.timeline.snapshot = 2
    assert health.snapshot == 2
    assert health.verdict == table.inspect.health(2).verdict
    health.opened = bench.head["buckets"][3]
    assert bench.opened == bench.levels.opened == health.opened
    bench.timeline.snapshot = None
    assert health.frame["off"] == ""
    assert health.verdict in bench.to_svg()
    assert bench.to_html(tmp_path / "bench.html").stat().st_size > 50_000
    bench.close()
    few = widgets.Workbench(made(tmp_path / "few", bucket=8)).wait(120)
    assert list(few.parts) == MAIN
    workbench = widgets.Workbench(table, bucket=3).wait(120)
    assert list(workbench.parts) == MAIN


def test_a_refresh_after_a_commit_reads_the_edits_of_the_commit_alone(tmp_path, monkeypatch):
    table = made(tmp_path, bucket=2, writes=4)
    bench = widgets.Workbench(table).wait(120)
    asked, levels, drawn = [], type(table.inspect).levels, []
    monkeypatch.setattr(
        type(table.inspect),
        "levels",
        lambda self, *at, **scope: asked.append(scope) or levels(self, *at, **scope),
    )
    table.write(pa.table({"k": [1, 2], "v": ["a", "b"]}, schema=SCHEMA))
    bench.refresh()
    assert {view.snapshot for view in bench.views} == {table.inspect.latest_snapshot_id()}
    assert all(scope.get("bucket") is not None for scope in asked), "of one bucket, never of the table"
    assert bench.levels.data().num_rows == table.inspect.files().num_rows
    names = sorted(bench.levels.data()["file_name"].to_pylist())
    assert names == sorted(levels(table.inspect)["file_name"].to_pylist())
    bench.levels.observe(drawn.append, "frame")
    files = bench.levels.data()
    bench.refresh()
    assert bench.levels.data() is files
    assert not drawn, "nothing was committed: the picture stays"


def test_further_views_are_built_when_they_are_opened_and_then_kept(tmp_path):
    bench = widgets.Workbench(made(tmp_path))
    assert [refused for _, _, refused in bench.tools] == [""] * 8
    for name, _, _ in bench.tools:
        bench.show(name)
        assert bench.trouble == ""
        assert bench.parts[name].snapshot in (None, 3)
    kept = bench.parts["files"]
    assert bench.show("files").parts["files"] is kept
    bench.timeline.snapshot = 2
    assert kept.snapshot == 2
    bench.close()
    assert kept.linked == ()


@pytest.mark.parametrize(
    ("key", "options", "writes", "words"),
    [
        (("k",), {}, 2, "key (k) · deduplicate"),
        (("k",), {"bucket": -1}, 2, "key (k) · deduplicate · dynamic buckets"),
        (("k",), {"bucket": -2}, 1, "key (k) · deduplicate · postponed buckets"),
        (("k",), {"deletion_vectors.enabled": "true"}, 2, "key (k) · deduplicate · deletion vectors"),
        (("k",), {"changelog_producer": "lookup"}, 2, "key (k) · deduplicate · changelog by lookup"),
        ((), {}, 2, "append table, no key: no levels"),
        ((), {"write-mode": "change-log"}, 2, "change-log table, equal rows counted"),
        (("k",), {}, 0, "key (k) · deduplicate"),
        ((), {}, 0, "append table, no key: no levels"),
    ],
    ids="fixed dynamic postponed vectors lookup append change-log empty empty-append".split(),
)  # fmt: skip
def test_every_kind_of_table_has_a_cockpit_a_text_and_a_page(tmp_path, key, options, writes, words):
    table = made(tmp_path, key=key, writes=writes, **options)
    bench = widgets.Workbench(table)
    assert bench.text().startswith(f"shop.orders  {words}\n{len(table.inspect.snapshots())} snapshot")
    assert not any(view.frame.get("error") for view in bench.views)
    for width in (700, 1040):
        assert ET.fromstring(bench.to_svg(width=width)).get("width") == str(width)
    page = bench.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("data-view=") == 2  # the place, and one selector in the script


def test_a_simulation_has_a_cockpit_too():
    from tablestore.insight.simulator import Simulator, Workload

    bench = widgets.Workbench(Simulator(Workload(keys=500), {}).advance(4))
    assert bench.head["kind"] == "simulation"
    assert [refused for _, _, refused in bench.tools].count("") == 1
    assert len(bench.timeline.model) == 4
    bench.show("files")
    assert bench.trouble == "needs a table"


def test_a_bundle_has_a_picture_a_text_and_a_live_form(tmp_path):
    data = widgets.Workbench(made(tmp_path))._repr_mimebundle_()[0]
    assert set(data) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json", SHOWN}
    assert data["text/html"].startswith('<img src="data:image/svg+xml;base64,')


def test_code_opens_the_same_again(tmp_path):
    bench = widgets.Workbench(made(tmp_path, bucket=2), bucket=1)
    assert bench.code == f"Workbench(ts.open({bench.levels.source.location!r}), bucket=1)"


def test_a_view_that_cannot_be_built_says_why_and_the_rest_stays(tmp_path, monkeypatch):
    bench = widgets.Workbench(made(tmp_path))

    def broken(*_given: object) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr("widgets.workbench.tools.FileExplorer", broken)
    bench.show("files")
    assert bench.trouble == "OSError: disk on fire"
    assert list(bench.parts) == MAIN
    bench.show("findings")
    assert bench.trouble == ""


# the head


def test_what_does_not_work_is_reported_with_the_engines_reason(tmp_path):
    table = stored_by_another(made(tmp_path, key=()), {"clustering.columns": "v"})
    head = head_of(table, pa.table({}), snapshots=3)
    assert head.warning == "Not everything works here: no write, delete or compact."
    assert [(able.verb, "clustering.columns" in able.why) for able in head.reasons] == [("write", True)]
    assert "– write" in text_of(head)


def test_another_engines_table_is_reported_as_such(tmp_path):
    class ForeignTable:
        full_name, primary_key, options = "shop.orders", ("k",), {"bucket": "1"}

        def abilities(self) -> tuple[Able, ...]:
            return (Able("read", True), Able("delete", False, "merge-engine first-row does not delete rows"))

    assert head_of(made(tmp_path), pa.table({}), snapshots=3).warning == ""
    head = head_of(ForeignTable(), pa.table({}), snapshots=3)
    assert head.warning == "Not everything works here: no delete."
    ForeignTable.abilities = lambda self: (Able("read", True),)
    head = head_of(ForeignTable(), pa.table({}), snapshots=3)
    assert head.warning.startswith("Another engine's table")


def test_a_plain_object_has_no_kind():
    assert kind_of(object()) == ""
    assert buckets_of(pa.table({})) == ()


HEAD = Head(
    "shop.orders", "key (k)", (("1", "file"),), (Able("read", True), Able("write", False, "x" * 500)), "No."
)


@pytest.mark.parametrize("width", [320, 700, 1040])
def test_no_head_is_wider_than_it_may_be(width):
    for head in (HEAD, replace(HEAD, name="n" * 10_000, kind="k" * 10_000), replace(HEAD, warning="")):
        figure = head_figure(head, width=width)
        xs = [float(node.get("x")) for node in ET.fromstring(f"<g>{figure.body}</g>").iter("text")]
        assert max(xs) <= width
        assert figure.width == width


# pages


def test_linked_views_of_a_page_are_one_group():
    class Linked:
        def __init__(self) -> None:
            self.linked: tuple[Linked, ...] = ()

    first, second, third, alone = (Linked() for _ in range(4))
    first.linked, third.linked = (second,), (first,)
    assert linked_groups([first, second, alone, third]) == [0, 0, 2, 0]


def test_a_page_of_a_table_whose_first_snapshots_expired(tmp_path):
    table = made(tmp_path, writes=8)
    table.tags.create("kept", 2)
    table.expire_snapshots(keep=3)
    bench = widgets.Workbench(table).show("what_if")
    bench.parts["what_if"].wait(60)
    levels = bench.levels.export(widths=(1040,))
    assert list(levels["frames"]["1040"]["kept"]) == ["2"]
    assert levels["limits"] == ""
    assert bench.to_html(tmp_path / "page.html").stat().st_size > 10_000


def test_every_further_view_can_be_shown_at_a_snapshot_that_only_a_tag_keeps(tmp_path):
    table = made(tmp_path, writes=8)
    table.tags.create("kept", 2)
    table.expire_snapshots(keep=3)
    bench = widgets.Workbench(table)
    for name, _, _ in bench.tools:
        bench.show(name)
    bench.timeline.snapshot = 2
    assert {name: view.frame.get("error") for name, view in bench.parts.items()} == dict.fromkeys(bench.parts)
    pruning = bench.parts["pruning"]
    assert pruning.model.whole.files == table.inspect.levels(2).num_rows
    assert pruning.code == "table.at(tag='kept').scan().explain()"


def test_what_if_begins_with_options_that_the_table_can_have(tmp_path):
    table = made(tmp_path, writes=4, changelog_producer="full-compaction")
    view = widgets.Workbench(table).show("what_if").parts["what_if"].wait(60)
    assert view.frame.get("error") is None
    assert view.options == {"tablestore.compaction.strategy": "leveled"}


def test_no_room_and_no_bucket_are_refused_or_mended_in_every_view(tmp_path):
    bench = widgets.Workbench(made(tmp_path, bucket=2))
    for name, _, _ in bench.tools:
        bench.show(name)
    for view in bench.views:
        view.width = 0
        assert view.width == 240
        ET.fromstring(view.to_svg(width=240))
        if view.has_trait("opened"):
            for wrong in ("nope", "/", "p/x", "/99999999999999999999"):
                with pytest.raises(traitlets.TraitError, match="is no bucket"):
                    view.opened = wrong
    assert {view.frame.get("error") for view in bench.views} == {None}


def test_a_cockpit_of_one_bucket_says_what_each_number_is_of(tmp_path):
    table = made(tmp_path, bucket=2)
    bench = widgets.Workbench(table, bucket=1)
    mine = table.inspect.levels(bucket=1)
    name, facts = bench.head["name"], [" ".join(fact).strip() for fact in bench.head["facts"]]
    assert name == "bucket 1 of shop.orders"
    assert facts[0] == f"{len(bench.timeline.model)} snapshots of the table"
    assert facts[1] == fmt.plural(mine.num_rows, "file")
    assert bench.timeline.frame["title"] == "Snapshots of the table"
    whole = widgets.Workbench(table)
    assert (whole.head["name"], whole.timeline.frame["title"]) == ("shop.orders", "Snapshots")
    assert whole.head["facts"][0][1] == "snapshots"
