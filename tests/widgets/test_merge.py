"""MergeView: from the engine's account of a merge to rows, boxes, words and traits; no browser."""

import json
import re

import pyarrow as pa
import pytest

import tablestore as ts
import widgets
from widgets.kit import format as fmt
from widgets.merge.figure import merge_figure, shown_columns
from widgets.merge.model import MAX_RUNS, merge_model, text_form

XSS = "<img src=x onerror=\"document.title='owned'\">"
LATE = [{"k": 45, "g": 17, "a": None, "b": "mango", "total": 4, "free": None}]
MID = [{"k": 45, "g": 21, "a": 7, "b": "kiwi", "total": 6, "free": "x1"}, {"k": 46, "g": 1, "b": XSS}]
OLD = [{"k": 45, "g": 12, "a": 5, "b": "fig", "total": 9, "free": "x0"}]
OPTIONS = {
    "partial-update": {"fields.g.sequence-group": "a,b"},
    "aggregation": {"fields.total.aggregate-function": "sum"},
}


@pytest.fixture
def orders(tmp_path) -> ts.Table:
    """Fifteen keys in L5, three runs above it, one of them a delete."""
    table = ts.connect(str(tmp_path)).create_table(
        "shop.orders",
        schema={"o_orderkey": ts.INT, "status": ts.STRING, "amount": ts.BIGINT},
        primary_key=["o_orderkey"],
        options={"bucket": "1", "write-only": "true"},
    )
    table.write([{"o_orderkey": k, "status": "new", "amount": k} for k in range(40, 55)])
    table.with_options({"write-only": "false"}).compact(full=True)
    table.write([{"o_orderkey": k, "status": "open", "amount": 2 * k} for k in (42, 45, 47)])
    table.write([{"o_orderkey": k, "status": "paid", "amount": 3 * k} for k in (42, 48)])
    table.delete(ts.col("o_orderkey") == 45)
    return table


def fruit(engine: str = "partial-update", **options) -> widgets.MergeView:
    return widgets.MergeView.of([LATE, MID, OLD], engine, primary_key="k", options=OPTIONS, **options)


def test_the_model_has_runs_newest_first_and_a_step_a_key(orders) -> None:
    model = merge_model(orders.inspect.merging())
    assert [run.name for run in model.runs] == ["L0 #5", "L0 #4", "L0 #3", "L5"]
    assert [step.key for step in model.steps] == [str(k) for k in range(40, 50)]
    gone = model.steps[5]
    assert (gone.fate, gone.kind, gone.there) == ("dropped", "−D", False)
    assert [gone.inputs[run].part for run in sorted(gone.inputs)] == ["kept", "superseded", "superseded"]
    assert model.more
    assert model.columns == ("status", "amount")


def test_what_the_picture_says_is_the_engines_sentence(orders) -> None:
    view = widgets.MergeView(orders)
    view.cursor = 5
    why = orders.inspect.merging().outputs["why"][5].as_py()
    assert view.frame["meta"]["says"] == f"key 45: {why}"
    assert "dropped" in view.to_svg()
    assert why in view.text()


def test_stepping_moves_nothing_and_shows_only_what_is_merged(orders) -> None:
    view = widgets.MergeView(orders)
    heights = set()
    for cursor in range(-1, 10):
        view.cursor = cursor
        heights.add(view.figure(width=1040).height)
    assert len(heights) == 1
    view.cursor = -1
    assert "Nothing is merged yet" in view.to_svg()
    assert "dropped" not in view.to_svg()
    view.cursor = 99
    assert view.cursor == 9


def test_the_window_walks_over_all_keys_and_back(orders) -> None:
    view = widgets.MergeView(orders)
    assert view.frame["later"]
    assert not view.frame["earlier"]
    first = [step.key for step in view.model.steps]
    view.later()
    assert [step.key for step in view.model.steps][-1] == "54"
    assert not view.frame["later"]
    view.earlier()
    assert [step.key for step in view.model.steps] == first


def test_linked_levels_choose_keys_by_range_and_by_file(orders) -> None:
    view, levels = widgets.MergeView(orders), widgets.LsmLevels(orders)
    levels.link(view)
    levels.key_range = (0.5, 0.6)
    assert [step.key for step in view.model.steps] == ["47", "48"]
    assert "between=(0.5, 0.6)" in view.code
    levels.key_range = ()
    newest = orders.inspect.levels().to_pylist()[1]
    levels.selected = (newest["file_name"],)
    assert view.model.steps[0].key == "42"
    assert newest["min_key"] == "[42]"


def test_keys_are_chosen_by_a_condition_and_the_bucket_is_reported(orders) -> None:
    view = widgets.MergeView(orders, where="o_orderkey >= 47 AND o_orderkey < 50")
    assert [step.key for step in view.model.steps] == ["47", "48", "49"]
    assert view.opened == "/0"
    table, shown = orders, view.code
    assert shown.startswith("table.inspect.merging(bucket=0, where=ts.where(")
    assert eval(shown, {"table": table, "ts": ts}).output_rows["o_orderkey"].to_pylist() == [47, 48, 49]
    refused = widgets.MergeView(orders, where="status = 'new'")
    assert "no key column" in refused.frame["error"]["text"]


def test_the_past_is_a_source_too(orders) -> None:
    assert [run.name for run in widgets.MergeView(orders.at(snapshot=3)).model.runs] == ["L0 #3", "L5"]


def test_a_past_snapshot_is_shown_as_it_was(orders) -> None:
    view = widgets.MergeView(orders)
    view.snapshot = 3
    assert [run.name for run in view.model.runs] == ["L0 #3", "L5"]
    assert "inspect.merging(3" in view.code
    view.snapshot = 99
    assert "99" in view.frame["error"]["text"]
    assert [run.name for run in view.model.runs] == ["L0 #3", "L5"], "the last good picture stays"


def test_other_engines_over_the_same_rows() -> None:
    view = fruit()
    assert view.mode == "columns"
    assert view.model.steps[0].values["b"] == "kiwi"
    view.engine = "deduplicate"
    assert view.mode == "keys"
    assert view.model.steps[0].values["b"] == "mango"
    view.engine = "aggregation"
    assert view.model.steps[0].values["total"] == "19"
    assert "Σ" in view.to_svg()
    view.engine = "first-row"
    assert view.model.steps[0].values["b"] == "fig"
    view.engine = "newest"
    assert view.frame["error"]["what"]
    assert view.model.engine == "first-row"


def test_a_table_is_shown_as_if_it_had_another_engine(orders) -> None:
    view = widgets.MergeView(orders)
    view.engine = "first-row"
    assert "as if first-row" in view.frame["subtitle"]
    assert "'merge-engine': 'first-row'" in view.code
    assert view.model.steps[2].values["status"] == "new"
    assert view.model.steps[5].fate == "refused"
    view.cursor = 5
    assert "refused" in view.to_svg()


def test_groups_stand_together_and_columns_are_chosen() -> None:
    model = fruit().model
    assert shown_columns(model, (), width=1040) == ("g", "a", "b", "total", "free")
    assert shown_columns(model, ("free", "b"), width=1040) == ("b", "free")
    view = fruit()
    view.columns = ("free",)
    assert [name for name, on in view.frame["columns"] if on] == ["free"]
    svg = merge_figure(model, cursor=0, mode="columns", columns=(), width=1040).body
    assert "sequence group g" in svg
    assert "newest g wins a, b" in svg
    narrow = merge_figure(model, cursor=0, mode="columns", columns=(), width=660)
    assert narrow.width == 660


def test_many_runs_and_many_columns_stay_bounded() -> None:
    runs = [[{"k": n, **{f"c{i}": n for i in range(30)}}] for n in range(20)]
    view = widgets.MergeView.of(runs, primary_key="k")
    assert len(view.model.runs) == MAX_RUNS
    assert {s.run for s in view.model.steps if s.run is not None} <= {r.number for r in view.model.runs}
    assert "20 runs · 12 drawn" in view.frame["subtitle"]
    assert len(view.model.steps) == 10
    assert view.model.hidden_runs == 20 - len(view.model.runs)
    assert len(json.dumps(view.frame)) < 60_000


def test_the_state_of_a_window_is_small(orders) -> None:
    assert len(json.dumps(widgets.MergeView(orders).get_state(), default=str)) < 20_000


def test_text_from_data_is_escaped_everywhere(tmp_path) -> None:
    runs = [[{XSS: 1, "v": XSS}], [{XSS: 1, "v": "b"}, {XSS: 2, "v": XSS * 40}]]
    view = widgets.MergeView.of(runs, primary_key=XSS, title=XSS)
    for svg in (view.to_svg(), view.frame["svg"]):
        assert "<img" not in svg
        assert "&lt;img" in svg
    page = view.to_html(tmp_path / "merge.html").read_text()
    assert "<img" not in re.sub(r'<img [^>]*src="data:', "", page).split("<script")[0]
    assert XSS[:4] in view.text()


def test_values_are_one_short_line() -> None:
    assert fmt.value(None) is None
    assert fmt.value(-3) == "−3"
    assert fmt.value(True) == "true"
    assert fmt.value(b"\x01\xff") == "0x01ff"
    assert len(fmt.value("x" * 1000)) == 160
    assert "\n" not in fmt.value("a\nb")


def test_the_text_form_and_the_data_say_the_same(orders) -> None:
    view = widgets.MergeView(orders)
    lines = view.text().splitlines()
    assert lines[0] == "Merge · deduplicate  bucket 0 · status"
    assert lines[1].split()[:3] == ["o_orderkey", "40", "41"]
    assert "dropped" in lines[-2]
    data = view.data()
    assert data["fate"].to_pylist().count("dropped") == 1
    assert data["status"].to_pylist()[2] == "paid"
    assert isinstance(data, pa.Table)


def test_the_text_form_of_one_key_has_its_columns() -> None:
    view = fruit()
    view.cursor = 0
    lines = view.text().splitlines()
    assert lines[1].split() == ["k", "45", "g", "a", "b", "total", "free"]
    assert lines[3].split()[:5] == ["L0", "#2", "21*", "7*", "kiwi*"]
    assert lines[-2].split()[:4] == ["out", "21", "#2", "7"]
    view.cursor = -1
    assert "*" not in view.text()
    view.engine = "deduplicate"
    assert "*" not in view.text(), "nothing is told before it is merged"


def test_a_table_without_rows_or_key_says_so(tmp_path) -> None:
    lake = ts.connect(str(tmp_path))
    empty = lake.create_table("t.empty", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"])
    view = widgets.MergeView(empty)
    assert "No keys in this window" in view.to_svg()
    assert text_form(view.model, (), -1).endswith("No keys here.")
    heap = lake.create_table("t.heap", schema={"v": ts.INT})
    assert "without a primary key" in widgets.MergeView(heap).frame["error"]["text"]


def test_the_static_picture_stands_in_a_notebook(orders) -> None:
    bundle, _ = widgets.MergeView(orders)._repr_mimebundle_()
    assert bundle["text/html"].startswith('<img src="data:image/svg+xml;base64,')
    assert bundle["text/plain"].startswith("Merge · deduplicate")


def test_first_row_tables_say_that_readers_pass_over_level_0(tmp_path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "t.first",
        schema={"k": ts.INT, "v": ts.INT},
        primary_key=["k"],
        options={"bucket": "1", "merge-engine": "first-row", "write-only": "true"},
    )
    table.write([{"k": 1, "v": 1}])
    view = widgets.MergeView(table)
    assert "not read yet" in view.to_svg()
    assert "Scans do not see level 0 yet: " in view.text()
    table.compact()
    assert "not read yet" not in view.refresh().to_svg()
    assert "Scans do not see" not in view.text()


def test_a_bucket_without_files_in_a_past_snapshot_is_calm(tmp_path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "t.t",
        schema={"p": ts.INT, "k": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": 1},
    )
    for p in (1, 2):
        table.write([{"p": p, "k": 1}])
    timeline, view = widgets.SnapshotTimeline(table), widgets.MergeView(table, partition="p=2", bucket=0)
    timeline.link(view)
    timeline.snapshot = 1
    assert "error" not in view.frame
    assert "No files in p=2/bucket-0 at #1." in view.to_svg()
    assert view.text().endswith("No files in p=2/bucket-0 at #1.")
    assert view.data().num_rows == 0
    timeline.snapshot = 2
    assert [step.key for step in view.model.steps] == ["1"]
    view.snapshot = 9
    assert "no snapshot 9" in view.frame["error"]["text"]


def test_columns_of_the_partition_are_left_to_the_title(tmp_path):
    schema = {"day": ts.STRING, "id": ts.INT, "v": ts.STRING}
    table = ts.connect(tmp_path).create_table(
        "shop.days", schema=schema, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 1}
    )
    for v in ("old", "new"):
        table.write([{"day": "mon", "id": n, "v": v} for n in (1, 2)])
    model = merge_model(table.inspect.merging(partition="day=mon"))
    assert (model.key_names, [step.key for step in model.steps]) == (("id",), ["1", "2"])
    assert "day=mon" in model.place


def test_events_are_fed_one_by_one_and_each_state_is_shown() -> None:
    sums = {"fields.n.aggregate-function": "sum"}
    events = [{"k": 1, "n": 4}, {"k": 2, "n": 1}, {"k": 1, "n": 6}]
    view = widgets.MergeView.of_events(events, "aggregation", primary_key="k", options={"aggregation": sums})
    assert [step.values["n"] for step in view.model.steps] == ["4", "1", "10"]
    assert "3 events" in view.words(width=1040)["subtitle"]
    view.feed({"k": 1, "n": 4, "rowkind": "-D"})
    assert view.cursor == 3
    assert "4 + 6 − 4 = 6" in view.text()
    assert "event 4 −D" in view.text()
    view.cursor = 2
    assert "Key of the next event: 1." in view.to_svg()
    view.engine = "deduplicate"
    assert (view.cursor, view.model.steps[3].fate) == (2, "dropped")
    assert view.code == "ts.merging_events(events, 'deduplicate', primary_key=['k'])"
    for number in range(20):
        view.feed({"k": 1, "n": number})
    assert len(view.model.steps) == 10
    assert view.model.steps[-1].values["n"] == "19"


def test_an_event_that_does_not_fit_is_not_fed() -> None:
    view = widgets.MergeView.of_events([{"k": 1, "n": 4}], primary_key="k")
    with pytest.raises(ts.TablestoreError):
        view.feed({"k": 1, "n": 5, "rowkind": "??"})
    assert len(view.model.steps) == 1
    assert len(view.feed({"k": 1, "n": 5}).model.steps) == 2
    with pytest.raises(ts.InvalidRequest, match="of_events"):
        fruit().feed({"k": 1})


def test_a_view_that_could_not_be_made_is_closed_without_a_word() -> None:
    view = widgets.MergeView.__new__(widgets.MergeView)  # as where its table could not be read
    view.close()
    assert view.linked == ()
