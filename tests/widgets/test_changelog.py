"""ChangelogView: changes by key and snapshot, filters, and one input through every producer; no browser."""

import json

import pyarrow as pa
import pytest

import tablestore as ts
import widgets
from widgets.changelog.model import KINDS, changelog_model
from widgets.changelog.scratch import through_producers

XSS = "<img src=x onerror=\"document.title='owned'\">"
COLUMNS = {"o_orderkey": ts.INT, "status": ts.STRING, "amount": ts.BIGINT}
WRITES = [
    [{"k": 7, "status": "open", "amount": 10}, {"k": 8, "status": "open", "amount": 5}],
    [{"k": 7, "status": "paid", "amount": 30}],
    [{"k": 7, "status": "paid", "amount": 30, "rowkind": "-D"}],
]


def table_of(folder, producer: str, **options: str) -> ts.Table:
    """Seven snapshots, of them two compactions; keys 7, 12, 31, 40."""
    table = ts.connect(str(folder)).create_table(
        f"shop.{producer.replace('-', '_')}",
        schema=COLUMNS,
        primary_key=["o_orderkey"],
        options={"bucket": "1", "changelog-producer": producer, **options},
    )
    changes = [
        [("+I", 7, "open", 10), ("+I", 40, "paid", 5)],
        [("+I", 12, "open", 3), ("+I", 31, XSS, 8)],
        None,
        [("-U", 7, "open", 10), ("+U", 7, "paid", 30)],
        [("-D", 7, "paid", 30), ("-U", 12, "open", 3), ("+U", 12, "void", 3)],
        None,
        [("-U", 31, XSS, 8), ("+U", 31, "open", 9)],
    ]
    for some in changes:
        if some is None:
            table.compact(full=True)
            continue
        names = ("rowkind", "o_orderkey", "status", "amount")
        rows = [dict(zip(names, row, strict=True)) for row in some]
        table.write(pa.Table.from_pylist(rows), row_kind_column="rowkind")
    return table


def shown(view: widgets.ChangelogView) -> dict[tuple[str, int], list[str]]:
    return {
        (row.key, snapshot): [f"{c.kind} {c.values['status']}" for c in changes]
        for row in view.model.keys
        for snapshot, changes in row.cells.items()
    }


def test_changes_stand_by_key_and_snapshot(tmp_path) -> None:
    view = widgets.ChangelogView(table_of(tmp_path, "input"))
    actual = shown(view)
    assert actual["7", 4] == ["−U open", "+U paid"]
    assert actual["7", 5] == ["−D paid"]
    assert actual["12", 5] == ["−U open", "+U void"]
    assert [row.key for row in view.model.keys] == ["7", "12", "31", "40"]
    assert [(c.id, c.kind) for c in view.model.commits][2] == (3, "COMPACT")
    assert view.model.changes == 11 == view.data().num_rows
    assert view.snapshot == 7


def test_a_table_without_a_producer_is_normalised_or_shown_as_written(tmp_path) -> None:
    view = widgets.ChangelogView(table_of(tmp_path, "none"))
    assert shown(view)["7", 4] == ["−U open", "+U paid"]
    assert "worked out by a stream" in view.frame["subtitle"]
    view.mode = "raw"
    assert "rows as written" in view.frame["subtitle"]
    assert view.code == "table.changes(since=0, until=7)"


def test_the_changes_are_those_of_the_table(tmp_path) -> None:
    table = table_of(tmp_path, "lookup")
    view = widgets.ChangelogView(table)
    assert view.data().drop_columns(["snapshot_id"]).to_pylist() == table.changes(since=0).to_pylist()


def test_since_until_and_a_snapshot_outside_move_the_window(tmp_path) -> None:
    table = table_of(tmp_path, "input")
    view = widgets.ChangelogView(table, since=3, until=5)
    assert [c.id for c in view.model.commits] == [4, 5]
    view.snapshot = 7
    assert 7 in [c.id for c in view.model.commits]
    assert "error" not in view.frame


def test_a_timeline_moves_the_ring(tmp_path) -> None:
    table = table_of(tmp_path, "input")
    view, timeline = widgets.ChangelogView(table), widgets.SnapshotTimeline(table)
    timeline.link(view)
    timeline.index = 1
    assert view.snapshot == 2
    assert view.frame["meta"]["says"] == "#2 APPEND: 2 changes"
    assert "selected #2" in view.frame["svg"]


def test_filters_by_kind_and_key(tmp_path) -> None:
    view = widgets.ChangelogView(table_of(tmp_path, "input"))
    view.kinds = ("−D",)
    assert view.frame["svg"].count('class="chip"') == 1
    assert "keys 1–1 of 1" in view.frame["shown"]
    view.kinds, view.key = KINDS, "3"
    assert "keys 1–1 of 1" in view.frame["shown"]
    assert "+I" in view.frame["svg"]
    assert "paid" not in view.frame["svg"]
    view.key = "nothing"
    assert "No key has such a change." in view.frame["svg"]


def test_stepping_keeps_rows_and_height(tmp_path) -> None:
    view = widgets.ChangelogView(table_of(tmp_path, "input"))
    heights = set()
    for snapshot in range(1, 8):
        view.snapshot = snapshot
        heights.add(view.figure(width=660).height)
    assert len(heights) == 1


def test_many_keys_come_in_pages_and_are_counted(tmp_path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "t.many",
        schema=COLUMNS,
        primary_key=["o_orderkey"],
        options={"bucket": "1", "changelog-producer": "input"},
    )
    table.write([{"o_orderkey": k, "status": "new", "amount": k} for k in range(1000)])
    view = widgets.ChangelogView(table)
    assert view.model.all_keys == 1000
    assert len(view.model.keys) == 200
    assert view.frame["shown"] == "keys 1–8 of 200, the last changed of 1,000"
    view.page = 3
    assert view.frame["shown"] == "keys 25–32 of 200, the last changed of 1,000"
    table.write([{"o_orderkey": k, "status": "paid", "amount": k} for k in range(700, 900)])
    newest = view.refresh().model
    assert [row.key for row in newest.keys[:2]] == ["700", "701"], "the newest snapshot shows changes"
    assert all(max(row.cells) == 2 for row in newest.keys)
    assert len(json.dumps(view.get_state(), default=str)) < 20_000


def test_a_large_commit_is_cut_and_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("widgets.changelog.widget.MAX_ROWS", 10)
    monkeypatch.setattr("widgets.changelog.widget.MAX_ROWS_BEFORE", 5)
    table = ts.connect(str(tmp_path)).create_table(
        "t.large", schema=COLUMNS, primary_key=["o_orderkey"], options={"bucket": "1"}
    )
    for first in range(3):
        table.write([{"o_orderkey": k, "status": "new", "amount": k} for k in range(first, 30)])
    view = widgets.ChangelogView(table)
    assert view.mode == "changes", "the window begins with the first snapshot"
    assert "first 10 changes of #1" in view.frame["subtitle"]
    assert view.data().num_rows < 30
    later = widgets.ChangelogView(table, since=2)
    assert later.mode == "raw", "30 rows would be read first"
    assert "rows as written" in later.frame["subtitle"]


def test_of_very_many_files_the_first_are_read_as_written(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("widgets.changelog.widget.MAX_FILES", 6)
    table = ts.connect(str(tmp_path)).create_table(
        "t.many",
        schema={**COLUMNS, "day": ts.INT},
        primary_key=["o_orderkey", "day"],
        partition_by=["day"],
        options={"bucket": "1", "write-only": True},
    )
    for first in (0, 10):
        rows = range(first, first + 10)
        table.write([{"o_orderkey": k, "status": "new", "amount": k, "day": k} for k in rows])
    view = widgets.ChangelogView(table)
    assert view.mode == "raw", "20 files would be read to tell before and after"
    assert [commit.changes for commit in view.model.commits] == [3, 3]
    assert "first 3 changes of #1 · first 3 changes of #2" in view.frame["subtitle"]
    view.mode = "changes"
    assert view.model.changes == 20
    assert "first" not in view.frame["subtitle"]


def test_every_kind_is_written_and_has_its_own_outline(tmp_path) -> None:
    svg = widgets.ChangelogView(table_of(tmp_path, "input")).frame["svg"]
    for sign in KINDS:
        assert f">{sign}</text>" in svg
    assert "line-through" in svg
    assert "url(#lw-ghost)" in svg


def test_engines_whose_rows_are_no_states_are_shown_as_written(tmp_path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "t.partial",
        schema=COLUMNS,
        primary_key=["o_orderkey"],
        options={"bucket": "1", "merge-engine": "partial-update"},
    )
    table.write([{"o_orderkey": 1, "status": "a", "amount": None}])
    view = widgets.ChangelogView(table)
    assert "as written" in view.frame["subtitle"]
    assert view.model.changes == 1


def test_producers_show_the_same_input_each_in_its_own_form() -> None:
    view = widgets.ChangelogView.producers(WRITES, primary_key="k")
    by = {p.name: p for p in view.model.producers}
    said = {name: [c.kind for c in p.of_key("7")] for name, p in by.items()}
    assert said["none"] == said["input"] == ["+I", "+I", "−D"]
    assert said["lookup"] == ["+I", "−U", "+U", "−D"]
    assert said["full-compaction"] == ["+I"]
    assert {name: p.total.state for name, p in by.items()} == {
        "none": "wrong", "input": "wrong", "lookup": "right", "full-compaction": "late",
    }  # fmt: skip
    assert by["none"].files == 0
    assert by["lookup"].files == 3
    assert by["full-compaction"].bytes < by["input"].bytes
    assert view.key == "7"
    view.key = "8"
    assert view.frame["title"] == "Key 8 through the four producers"


def test_an_input_with_retractions_makes_every_timely_sum_right() -> None:
    full = [WRITES[0], [{**WRITES[0][0], "rowkind": "-U"}, {**WRITES[1][0], "rowkind": "+U"}], WRITES[2]]
    states = {p.name: p.total.state for p in through_producers(full, primary_key="k").producers}
    assert states["input"] == states["lookup"] == "right"
    assert states["full-compaction"] == "late"


def test_what_an_engine_refuses_is_reported_in_its_column() -> None:
    view = widgets.ChangelogView.producers(WRITES[:1], primary_key="k", options={"merge-engine": "first-row"})
    refused = [p.name for p in view.model.producers if p.error]
    assert refused == ["input", "full-compaction"]
    assert "✕ refused" in view.to_svg()
    assert "refused" in view.text()


def test_nothing_is_left_behind_and_too_much_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    through_producers(WRITES, primary_key="k")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ts.InvalidRequest, match="at least one batch"):
        through_producers([], primary_key="k")
    big = pa.table({"k": range(20_001)})
    with pytest.raises(ts.InvalidRequest, match="20,000 rows"):
        through_producers([big], primary_key="k")


def test_text_from_data_is_escaped(tmp_path) -> None:
    view = widgets.ChangelogView(table_of(tmp_path, "input"))
    assert "<img" not in view.to_svg()
    assert "&lt;img" in view.frame["svg"]
    odd = [[{XSS: XSS, "v": 1}], [{XSS: XSS, "v": 2}]]
    both = widgets.ChangelogView.producers(odd, primary_key=XSS)
    assert "<img" not in both.to_svg()


def test_a_table_that_cannot_be_read_says_what_to_do(tmp_path) -> None:
    table = table_of(tmp_path, "input")
    table.expire_snapshots(keep=2)
    view = widgets.ChangelogView(table, since=1)
    assert "expired" in view.frame["error"]["text"]
    assert view.frame["error"]["next"]


def test_tables_without_a_key_show_their_rows(tmp_path) -> None:
    table = ts.connect(str(tmp_path)).create_table("t.heap", schema={"v": ts.INT})
    assert "No snapshots here" in widgets.ChangelogView(table).to_svg()
    table.write([{"v": 2}, {"v": 1}])
    view = widgets.ChangelogView(table)
    assert [row.key for row in view.model.keys] == ["1", "2"]


def test_rows_of_a_model_are_bounded() -> None:
    rows = pa.table({"snapshot_id": [1] * 50, "rowkind": ["+I"] * 50, "k": [1] * 50, "v": range(50)})
    model = changelog_model(rows, [(1, "APPEND")], primary_key=["k"])
    assert len(model.keys[0].cells[1]) == 12
    assert model.changes == 50
