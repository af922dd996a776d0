"""FileExplorer: what the tree, the table, the figures and the row groups say, without a browser."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tablestore as ts
import widgets
from tests.widgets.tables import XSS, months
from widgets.explorer.model import PAGE, FileRow, files_listing


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    return months(tmp_path)


def names(explorer: widgets.FileExplorer) -> list[str]:
    return [row.name if isinstance(row, FileRow) else row.cells[0] for row in explorer.model.listing.rows]


def test_a_snapshot_opens_down_to_the_chunks_of_a_file(table: ts.Table) -> None:
    explorer = widgets.FileExplorer(table)
    paths = [node.path for node in explorer.model.nodes]
    delta = next(path for path in paths if path.startswith("delta/"))
    assert paths[:2] == ["", "base"]
    assert {"delta", "files", "schema", "facts"} <= set(paths)
    explorer.path = delta
    assert names(explorer) == table.inspect.entries(delta.split("/")[1])["file_name"].to_pylist()
    explorer.selected = (names(explorer)[0],)
    detail = explorer.model.detail
    assert detail is not None
    (row,) = [r for r in table.inspect.files().to_pylist() if r["file_path"].endswith(explorer.selected[0])]
    footer = pq.read_metadata(row["file_path"])
    assert len(detail.groups) == footer.num_row_groups
    assert [g[1] for g in detail.groups] == [
        footer.row_group(g).num_rows for g in range(footer.num_row_groups)
    ]
    assert [chunk.column for chunk in detail.chunks] == list(footer.schema.names)
    assert explorer.code == f"table.inspect.entries({delta.split('/')[1]!r})"
    explorer.path = ""
    assert explorer.code == f"table.inspect.state(6)\ntable.inspect.row_groups({explorer.selected[0]!r}, 6)"


def test_only_what_is_opened_is_read(table: ts.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for name in ("list_manifests", "entries", "row_groups"):
        plain = getattr(type(table.inspect), name)
        monkeypatch.setattr(
            type(table.inspect),
            name,
            lambda self, *a, plain=plain, name=name: (seen.append(name), plain(self, *a))[1],
        )
    explorer = widgets.FileExplorer(table, expanded=())
    assert seen == []
    explorer.expanded = ("delta",)
    assert seen == ["list_manifests"]
    explorer.path = next(node.path for node in explorer.model.nodes if node.path.startswith("delta/"))
    assert seen == ["list_manifests", "entries"]
    explorer.selected = (names(explorer)[0],)
    assert seen == ["list_manifests", "entries", "row_groups"]


def test_a_difference_has_figures_that_add_up(table: ts.Table) -> None:
    explorer = widgets.FileExplorer(table, snapshot=3, against=2)
    figures = {f.name: (f.value, f.note) for f in explorer.model.figures}
    assert figures["files"] == ("2", "1 moved, 1 kept")
    assert figures["rows in files"][1] == "no row of the table changed"
    assert figures["sorted runs"] == ("2", "L0 → L5")
    assert figures["bytes"][1] == "unchanged"
    assert [row.sign for row in explorer.model.listing.rows] == ["↓"]
    assert explorer.model.listing.unchanged[0] == 1
    explorer.mode = "all"
    assert explorer.model.listing.unchanged == (0, 0)
    assert len(explorer.model.listing.rows) == explorer.data().num_rows


def test_what_each_node_lists(table: ts.Table) -> None:
    explorer = widgets.FileExplorer(table)
    assert explorer.model.listing.total == table.inspect.files().num_rows
    explorer.path = "files/month=2/0"
    assert explorer.opened == "month=2/0"
    assert set(names(explorer)) == set(table.inspect.levels(partition="month=2")["file_name"].to_pylist())
    explorer.path = "base"
    lists = table.inspect.manifest_lists().to_pylist()
    assert names(explorer) == table.inspect.list_manifests(lists[0]["file_name"])["file_name"].to_pylist()
    explorer.path = "schema"
    assert names(explorer) == ["month", "id", "quantity", "note"]
    assert explorer.model.listing.rows[0].cells[3] == "partition, key"
    explorer.path = "facts"
    assert ("commit kind", "APPEND") in [row.cells for row in explorer.model.listing.rows]


def test_deletion_vectors_are_shown_as_masked_rows(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "t.dv", schema={"k": ts.INT}, options={"deletion-vectors.enabled": "true"}
    )
    table.write({"k": list(range(100))})
    table.delete(ts.where("k < 7"))
    explorer = widgets.FileExplorer(table, against=1)
    (row,) = explorer.model.listing.rows
    assert (row.sign, row.masked) == ("~", "0 → 7")
    assert {f.name: f.value for f in explorer.model.figures}["marked deleted"] == "0 → 7"
    explorer.path = "index"
    assert explorer.model.listing.rows[0].cells[-1] == "1 vector, 7 rows masked"


def many(count: int) -> pa.Table:
    """A state of many files, as `inspect.state` has it."""
    at = list(range(count))
    columns = {
        "change": ["kept"] * count,
        "partition": [""] * count,
        "bucket": pa.array([0] * count, pa.int32()),
        "level_before": pa.array([0] * count, pa.int32()),
        "level": pa.array([0] * count, pa.int32()),
        "file_name": [f"data-{n:05}-0.parquet" for n in at],
        "rows": [n % 97 for n in at],
        "deletes": [0] * count,
        "bytes": [n * 31 % 1009 for n in at],
        "min_key": [f"[{n}]" for n in at],
        "max_key": [f"[{n + 5}]" for n in at],
        "min_key_pos": [n / count for n in at],
        "max_key_pos": [(n + 1) / count for n in at],
        "masked_before": [0] * count,
        "masked": [0] * count,
    }
    return pa.table(columns)


def test_search_sort_and_pages_of_many_files() -> None:
    state = many(10_000)
    listing = files_listing(state, sort="-size", first=24)
    sizes = sorted(state["bytes"].to_pylist(), reverse=True)
    assert [row.bytes for row in listing.rows] == sizes[24 : 24 + PAGE]
    actual = files_listing(state, search="DATA-0012")
    assert (actual.found, actual.total, actual.rows[0].name) == (10, 10_000, "data-00120-0.parquet")
    assert files_listing(state, first=999_999).first == 9_996
    assert files_listing(state, search="nothing").rows == ()
    assert listing.ends == ("0", "10,004")


def test_ten_files_send_less_than_twenty_kilobytes(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "t.t", schema={"k": ts.INT, "v": ts.STRING}, primary_key=["k"], options={"write-only": "true"}
    )
    for n in range(10):
        table.write({"k": [n * 50, n * 50 + 70], "v": ["a", "b"]})
    explorer = widgets.FileExplorer(table)
    assert len(explorer.model.listing.rows) == 10
    assert (
        len(json.dumps({k: v for k, v in explorer.get_state().items() if k != "assets"}, default=str))
        < 20_000
    )


def test_linked_views_share_snapshot_and_file(table: ts.Table) -> None:
    explorer, timeline = widgets.FileExplorer(table), widgets.SnapshotTimeline(table)
    timeline.link(explorer)
    timeline.snapshot = 2
    assert explorer.snapshot == 2
    assert explorer.model.snapshot == 2
    assert explorer.data().num_rows == 2
    explorer.selected = (2,)
    assert explorer.model.detail is None


def test_errors_stay_in_the_view_with_the_last_picture(table: ts.Table) -> None:
    explorer = widgets.FileExplorer(table)
    explorer.snapshot = 99
    assert "no snapshot 99" in explorer.frame["error"]["text"]
    assert explorer.frame["table"].startswith("<svg")
    explorer.snapshot = 1
    assert "error" not in explorer.frame
    explorer.selected = ("data-none.parquet",)
    assert explorer.model.detail is None


def test_an_empty_table_and_an_append_table(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    empty = lake.create_table("t.empty", schema={"k": ts.INT})
    explorer = widgets.FileExplorer(empty)
    assert explorer.text() == "t.empty: nothing written yet."
    assert "Nothing written yet." in explorer.to_svg()
    empty.write({"k": list(range(40))})
    explorer.refresh()
    assert explorer.model.listing.rows[0].lo is None
    assert "no key" in explorer.to_svg()


def test_other_formats_show_what_they_can(tmp_path: Path) -> None:
    for form in ("orc", "avro"):
        table = months(tmp_path / form, file__format=form)
        explorer = widgets.FileExplorer(table)
        explorer.selected = (names(explorer)[0],)
        assert explorer.model.detail is not None
        assert explorer.model.detail.summary.startswith("1 " + {"orc": "stripe", "avro": "block"}[form])


def test_names_and_values_are_text_everywhere(tmp_path: Path) -> None:
    table = months(tmp_path, column=XSS, value=XSS)
    explorer = widgets.FileExplorer(table, title=XSS, against=2)
    explorer.selected = (names(explorer)[0],)
    for path in ("", "schema", "facts"):
        explorer.path = path
        svg = explorer.to_svg()
        assert "<img" not in svg
        ET.fromstring(svg)
        for part in ("figures", "tree", "table", "detail"):
            assert "<img" not in explorer.frame[part]
    assert XSS in explorer.text()


def test_the_text_form_follows_the_picture(table: ts.Table) -> None:
    text = widgets.FileExplorer(table, against=5).text()
    assert text.splitlines()[0] == "shop.items #6 APPEND against #5"
    assert "+ L0 data-" in text
    assert pc.sum(widgets.FileExplorer(table).data()["rows"]).as_py() == 3500
